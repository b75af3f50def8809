"""What all tests share: two CPU devices, no executables from earlier runs, and a clean slate for each test."""

from __future__ import annotations

import os

# An executable left on disk by an older lazynb would be what is tested.
os.environ.setdefault("LAZYNB_PERSISTENT_CACHE", "0")

import jax

jax.config.update("jax_num_cpu_devices", 2)

import pytest  # noqa: E402

import lazynb  # noqa: E402


@pytest.fixture
def clean():
    """No executables, events or breaks from other tests; nothing pending."""
    lazynb.sync()
    lazynb.clear_cache()
    yield
    lazynb.clear_cache()
