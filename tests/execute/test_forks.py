"""A forked process reads what was pending, although threads that it does not have held lazynb's locks."""

from __future__ import annotations

import subprocess
import sys

import pytest

FORKING = """
import os, signal, sys, threading, time, warnings
warnings.simplefilter("ignore")
import jax, jax.numpy as jnp
import lazynb
from lazynb.jax_compat import fork_locks, xla_executables
from lazynb.recording.lazy_blocks import blocks
from lazynb.recording.lazy_trace import thread_trace
from lazynb.running.disk_cache import disk_cache

lazynb.lazy().__enter__()

def made(number):
    return jnp.ones(3) * number + 1

def read(x):
    return float((x + 1).sum())

def make(number):
    global y
    lazynb.lazy().__enter__()
    y = made(number)

for number in 1.0, 2.0, 3.0, 4.0:  # XLA often cannot compile in a forked process, so nothing is compiled there
    read(made(number))
lazynb.sync()
held, go = threading.Event(), threading.Event()

def busy():
    {busy}

thread = threading.Thread(target=busy, daemon=True)
{before}
thread.start()
held.wait(30)
x = made({number})
child = os.fork()
if child == 0:
    signal.alarm(30)
    {child}
    value = read(x)
    os._exit(0 if value == 3 * ({number} + 2) else 3)
end = time.monotonic() + 40
while True:
    done, status = os.waitpid(child, os.WNOHANG)
    if done or time.monotonic() > end:
        break
    time.sleep(0.02)
go.set()
print(os.waitstatus_to_exitcode(status) if done else "hung", read(x) == 3 * ({number} + 2))
os._exit(0)
"""
HOLDING = "with {lock}:\n        held.set()\n        go.wait(60)"
CASES = {
    "the lock of JAX's cache": (HOLDING.format(lock="xla_executables.no_cache()"), "", ""),
    "the lock of the cache on disk": (HOLDING.format(lock="disk_cache._lock"), "", ""),
    "the lock of the blocks": (
        HOLDING.format(lock="blocks._switching"),
        "",
        "lazynb.lazy().__enter__(); read(made(6.0))",
    ),
    "every lock": (
        "for each in list(fork_locks._locks): each.acquire(timeout=1)\n    held.set()\n    go.wait(60)",
        "",
        "",
    ),
    "the trace of another thread, and its value is read": (
        "make(7.0)\n    with thread_trace().lock:\n        held.set()\n        go.wait(60)",
        "for number in 1.0, 2.0, 3.0:\n    first = threading.Thread(target=make, args=(number,))\n"
        "    first.start()\n    first.join()\n    read(y)",
        "assert read(y) == 27",
    ),
    "a compilation": (
        "with lazynb.lazy():\n        z = jnp.ones((5, 7))\n        for _ in range(400): z = jnp.sin(z) * 1.1\n"
        "        held.set()\n        float(z.sum())",
        "",
        "",
    ),
}


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="forks")
@pytest.mark.parametrize("name", CASES)
def test_a_forked_process_reads_what_was_pending(name):
    busy, before, child = CASES[name]
    source = FORKING.format(busy=busy, before=before, child=child, number=5.0)
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=150)
    assert done.stdout.split() == ["0", "True"], done.stderr
