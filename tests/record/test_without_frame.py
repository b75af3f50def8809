"""Calls from C without any frame of Python: a thread that runs a function of C, and ``atexit``."""

from __future__ import annotations

import _thread
import operator
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb

SCALAR = {
    "float": float,
    "int": int,
    "bool": bool,
    "complex": complex,
    "range": range,
    "str": str,
    "percent": "%s".__mod__,
    "format": "{}".format,
    "index": operator.index,
    "chr": chr,
    "item of a list": [1, 2, 3, 4].__getitem__,
    "numpy scalar": np.float32,
    "negative": operator.neg,
}
ARRAY = {
    "list": list,
    "tuple": tuple,
    "bytes": bytes,
    "memoryview": memoryview,
    "sum": sum,
    "sorted": sorted,
    "numpy ufunc": np.negative,
    "numpy predicate": np.isfinite,
    "numpy array": np.asarray,
    "jitted": jax.jit(jnp.sin),
    "jax function": jnp.sin,
    "tolist": operator.methodcaller("tolist"),
    "add": operator.methodcaller("__add__", 1),
    "numpy add": operator.methodcaller("__radd__", np.ones(3, np.float32)),
    "indexed": operator.itemgetter(0),
    "sharding": operator.attrgetter("sharding"),
}
CALLS = {name: (call, lambda: jnp.arange(3).sum()) for name, call in SCALAR.items()}
CALLS |= {name: (call, lambda: jnp.arange(3.0) * 2) for name, call in ARRAY.items()}


def comparable(value):
    if isinstance(value, memoryview):
        return bytes(value)
    return np.asarray(value).tolist() if hasattr(value, "dtype") else value


@pytest.mark.parametrize("name", CALLS)
def test_a_thread_without_a_frame_gets_eagers_value(name):
    call, make = CALLS[name]
    expected = comparable(call(make()))
    results = []
    with lazynb.lazy():
        pending = make()
        _thread.start_new_thread(results.extend, (map(call, [pending]),))
        end = time.monotonic() + 20
        while not results and time.monotonic() < end:
            time.sleep(0.01)
    assert results, "the call raised an error"
    assert comparable(results[0]) == expected


def test_functions_of_c_run_when_python_exits():
    """The thread that is lazy makes these calls, so they may record too."""
    source = """
import atexit, operator, sys
import jax, jax.numpy as jnp, numpy as np, lazynb
block = lazynb.lazy()
block.__enter__()
step = jax.jit(jnp.sin)
for call in float, int, bool, range, repr, operator.neg, np.negative, jnp.sin, step, "%s".__mod__:
    atexit.register(call, jnp.arange(3).sum())
atexit.register(print, jnp.arange(3).sum() + 4, end="!")
atexit.register(np.add, jnp.arange(3.0) * 2, 1)
atexit.register((jnp.arange(3.0) * 2).__add__, 1)
"""
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "7!", "")
