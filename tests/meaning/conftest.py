"""Makes `import oracle` work however pytest was started, and keeps the memory of a worker small."""

import gc
import itertools
import os
import sys
from pathlib import Path

# An executable left on disk by an older lazynb would be what is tested.
os.environ.setdefault("LAZYNB_PERSISTENT_CACHE", "0")

TESTS = str(Path(__file__).parent.parent)
if TESTS not in sys.path:
    sys.path.insert(0, TESTS)

import jax  # noqa: E402
import pytest  # noqa: E402

import lazynb  # noqa: E402

_run = itertools.count(1)


@pytest.fixture(autouse=True)
def few_executables():
    """Drops the executables of the last tests now and then: nearly each test has its own, and 100 of them
    take a gigabyte."""
    yield
    if next(_run) % 50 == 0:
        jax.clear_caches()
        lazynb.clear_cache()
        gc.collect()
