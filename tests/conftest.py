"""What all tests share: two CPU devices, no executables from earlier runs, and a clean slate for each
test."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys

# A shell starts what it runs in the background with interrupts ignored, and its children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# An executable left on disk by an older lazynb would be what is tested.
os.environ.setdefault("LAZYNB_PERSISTENT_CACHE", "0")

import jax

jax.config.update("jax_num_cpu_devices", 2)

import pytest  # noqa: E402
import tiers  # noqa: E402

import lazynb  # noqa: E402
from lazynb.running import executable_cache  # noqa: E402

# Nearly each test clears the cache. To return the pages of a worker's heap takes a second each time.
executable_cache.trim_heap = lambda: None

with contextlib.suppress(ImportError):
    import hypothesis

    # The same examples each time, so that a red run can be repeated. LAZYNB_RANDOM=1 looks for new ones.
    hypothesis.settings.register_profile("lazynb", derandomize=not os.environ.get("LAZYNB_RANDOM"))
    hypothesis.settings.load_profile("lazynb")


def pytest_xdist_make_scheduler(config, log):
    """The tests of a file run in one process, which makes once what they share: fixtures, compiled programs."""
    from xdist.scheduler import LoadGroupScheduling

    class ByFile(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            group = super()._split_scope(nodeid)
            return nodeid.partition("::")[0] if group == nodeid else group

    return ByFile(config, log) if config.getvalue("dist") == "loadgroup" else None


@pytest.hookimpl(tryfirst=True)  # the cases of a corpus are counted before `-k` leaves some out
def pytest_collection_modifyitems(config, items):
    tiers.mark(items)
    for item in items:
        # A loaded machine makes a page or a clock late: once more, and the run says so.
        if ("ui" in item.path.parts or item.path.name == "test_speed.py") and config.pluginmanager.hasplugin(
            "rerunfailures"
        ):
            item.add_marker(pytest.mark.flaky(reruns=2))
    had: dict[bool, list[pytest.Item]] = {True: [], False: []}
    for item in items:
        had[tiers.taken(item)].append(item)
    config.hook.pytest_deselected(items=had[False])
    items[:] = had[True]


def pytest_collection_finish():
    """What importing made stays: a collection in a test looks at what the tests make, not at JAX's million objects."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def nothing_pending():
    """Runs what tests of another file left pending, which would be part of the first program of this one. What fails
    then was theirs."""
    with contextlib.suppress(Exception):
        lazynb.sync()


@pytest.fixture
def clean():
    """No executables, events or breaks from other tests; nothing pending."""
    lazynb.sync()
    lazynb.clear_cache()
    yield
    lazynb.clear_cache()


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Where the modules of a program are written; they are forgotten afterwards."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def no_other_loop():
    """A browser's test in the same process leaves playwright's event loop running in this thread."""
    running = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    yield
    asyncio._set_running_loop(running)
