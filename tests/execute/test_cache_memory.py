"""An executable that is forgotten is freed, and what it held goes back to the operating system."""

from __future__ import annotations

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from lazynb.config import config
from lazynb.running.process_heap import heap_bytes
from lazynb.user_code.text_format import size

counted = pytest.mark.skipif(heap_bytes() is None, reason="nobody counts the heap here")


def program(number: int) -> float:
    """A program unlike those of other numbers."""
    with lazynb.lazy():
        x = jnp.ones((4, 3))
        for bit in range(10):
            x = jnp.sin(x) * (bit + 2) if number >> bit & 1 else jnp.tanh(x @ jnp.ones((3, 3)))
        return float(x.sum())


_MANY = """
import os
import lazynb, jax
from tests.execute.test_cache_memory import program

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

lazynb.config.max_executables = 8
for number in range(12):
    program(number)
begin = resident()
for number in range(12, 52):
    program(number)
grown, held = resident() - begin, lazynb.cache_info().held / 2**20
full = resident()
lazynb.clear_cache()
print(grown, held, full - resident())
"""


@pytest.mark.full
@counted
def test_memory_stays_bounded_over_many_programs_and_clear_cache_frees_it():
    done = subprocess.run(
        [sys.executable, "-c", _MANY],
        capture_output=True,
        text=True,
        timeout=300,
        env={"LAZYNB_PERSISTENT_CACHE": "0", "JAX_PLATFORMS": "cpu", "PYTHONPATH": ":".join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    grown, held, freed = map(float, done.stdout.split())
    assert grown < 30, "40 programs of about a megabyte came and went"
    assert 2 < held < 40
    assert freed > 4, "clear_cache() gives back what the executables held: without malloc_trim, 1 MiB of 14"


@counted
def test_cache_info_measures_the_memory_held_by_executables(clean):
    program(1023)
    info = lazynb.cache_info()
    assert (
        0 < info.held <= heap_bytes()
    )  # other threads give back meanwhile; the test above has a process of its own
    assert size(info.held) in repr(info)
    lazynb.clear_cache()
    assert lazynb.cache_info().held == 0 and "MiB" not in repr(lazynb.cache_info())


def test_forgetting_leaves_the_users_jitted_functions_compiled(clean, monkeypatch):
    monkeypatch.setattr(config, "max_executables", 1)
    traced = []

    @jax.jit
    def own(x):
        traced.append(x)
        return jnp.where(x > 0, x, 0.1 * x)

    own(np.ones(3, np.float32))
    for number in range(20):
        program(number)
    lazynb.clear_cache()
    own(np.ones(3, np.float32))
    assert len(traced) == 1 and own._cache_size() == 1


def test_clearing_an_empty_cache_does_not_walk_through_the_heap(clean, monkeypatch):
    walks = []
    monkeypatch.setattr("lazynb.running.executable_cache.trim_heap", lambda: walks.append(1))
    lazynb.clear_cache()
    assert walks == []
    program(1)
    lazynb.clear_cache()
    assert walks == [1]
