"""A forked process has no lock that another thread held, and JAX's own cache. Nothing runs in it here: XLA's threads
are not there either, so a compilation of plain JAX often ends or hangs in it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

FORKING = """
import os, signal, threading, time, warnings
warnings.simplefilter("ignore")
import jax, jax.numpy as jnp
from jax._src import compilation_cache
import lazynb
from lazynb.jax_compat import fork_locks, xla_executables
from lazynb.recording.lazy_blocks import blocks
from lazynb.running.disk_cache import disk_cache

held = threading.Event()

def make(number):
    with lazynb.lazy():
        return jnp.ones(3) * number + 1

def hold(lock):
    global y
    y = make(2.0)
    with lock():
        held.set()
        time.sleep(60)

with lazynb.lazy():
    x = jnp.ones(3) * 2
    own = compilation_cache._cache_used
    threading.Thread(target=hold, args=(lambda: {lock},), daemon=True).start()
    assert held.wait(30)
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        z = x + 1
        with lazynb.lazy():
            z = z * 3
        with {again}:
            pass
        os._exit(0 if compilation_cache._cache_used == own and "pending" in repr(z) else 3)
    status = os.waitpid(child, 0)[1]
print(os.waitstatus_to_exitcode(status), flush=True)
os._exit(0)
"""
LOCKS = {
    "of JAX's cache": ("xla_executables.no_cache()", "xla_executables.no_cache()"),
    "of the cache on disk": ("disk_cache._lock", "disk_cache._lock"),
    "of the blocks": ("blocks._switching", "blocks._switching"),
    "of the trace of another thread": ("y._trace.lock", "y._trace.lock"),
}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("name", LOCKS)
def test_a_forked_process_has_no_lock_that_another_thread_held(name):
    lock, again = LOCKS[name]
    source = FORKING.format(lock=lock, again=again)
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["0"], done.stderr
