"""After an error or an interrupt the pending graph is as it was, and the next operation works."""

from __future__ import annotations

import re
import signal
import threading
import time
import traceback

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from lazynb.execute import executable as executable_module

ERRORS = {
    "shape": lambda x: x + jnp.ones(7),
    "matmul": lambda x: x @ x,
    "dtype": lambda x: jnp.bitwise_and(x, x),
    "axis": lambda x: jnp.sum(x, axis=5),
    "attribute": lambda x: x.no_such_attribute,
    "argument": lambda x: jnp.add(x, "text"),
    "multi-element bool": lambda x: bool(x),
    "setitem": lambda x: x.__setitem__(0, 1.0),
    "hash": lambda x: hash(x),
    "index": lambda x: [1, 2, 3][x],
}


def without_class(message):
    """The text without the name of the array's class, which is the one thing that has to differ."""
    return re.sub(r"[\w.]*(LazyTensor|ArrayImpl)", "Array", message)


def raised_by(call, x):
    try:
        call(x)
    except Exception as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == __file__]
        return type(error), str(error), frames[-1].lineno
    raise AssertionError("no error")


@pytest.mark.parametrize("name", ERRORS)
def test_same_error_on_the_users_line_and_nothing_lost(name, clean):
    call = ERRORS[name]
    kind, message, line = raised_by(call, jnp.ones((2, 3)))
    with lazynb.lazy():
        x = jnp.ones((2, 3)) * 1.0
        pending = len(lazynb.graph(x))
        lazy_kind, lazy_message, lazy_line = raised_by(call, x)
        assert (lazy_kind, lazy_line) == (kind, line)
        assert without_class(lazy_message) == without_class(message)
        assert x.is_pending and len(lazynb.graph(x)) == pending
        assert float(x.sum()) == 6.0


def test_error_at_compile_time_leaves_the_graph(clean, monkeypatch):
    with lazynb.lazy():
        y = jnp.ones(3) * 2

        def fail(*_args):
            raise RuntimeError("out of registers")

        with monkeypatch.context() as patch:
            patch.setattr(executable_module, "_compile", fail)
            with pytest.raises(RuntimeError, match="out of registers"):
                float(y.sum())
        assert y.is_pending
        assert float(y.sum()) == 6.0


def test_failing_callback_leaves_the_graph(clean):
    broken = [True]

    def host(x):
        if broken[0]:
            raise ValueError("disk full")
        return np.asarray(x) + 1

    with lazynb.lazy():
        y = jax.pure_callback(host, jax.ShapeDtypeStruct((3,), np.float32), jnp.ones(3)) * 2
        with pytest.raises(Exception, match="disk full"):
            np.asarray(y)
        assert y.is_pending
        broken[0] = False
        np.testing.assert_array_equal(y, [4, 4, 4])


def interrupt_after(seconds):
    timer = threading.Timer(seconds, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT))
    timer.start()
    return timer


def test_interrupt_while_compiling(clean, monkeypatch):
    compile_really = executable_module._compile

    def slowly(*args):
        time.sleep(6)
        return compile_really(*args)

    with lazynb.lazy():
        y = jnp.ones(3) * 2
        with monkeypatch.context() as patch:
            patch.setattr(executable_module, "_compile", slowly)
            interrupt_after(0.3)
            start = time.perf_counter()
            with pytest.raises(KeyboardInterrupt):
                float(y.sum())
            assert time.perf_counter() - start < 5  # did not wait for the compiler
        assert y.is_pending
        assert float(y.sum()) == 6.0


def test_interrupt_while_running(clean):
    with lazynb.lazy():
        y = jax.lax.fori_loop(0, 100_000_000, lambda i, c: jnp.sin(c) + i, jnp.float32(1.0))
        lazynb.compile(y)
        with pytest.raises(KeyboardInterrupt):
            interrupt_after(0.3)
            float(y)
        z = jnp.arange(3) + 1
        np.testing.assert_array_equal(z, [1, 2, 3])  # the next operation works
        assert np.isfinite(float(y))  # and so does the value, when it is there


def test_unreachable_results_of_a_failed_statement_do_not_matter(clean):
    def step(x, fail):
        y = jnp.tanh(x) + 1
        if fail:
            raise ValueError("user error")
        return float(y.sum())

    x = jnp.ones(3)
    with lazynb.lazy():
        step(x, False)
        misses = lazynb.cache_info().misses
        with pytest.raises(ValueError):
            step(x, True)
        step(x, False)
    assert lazynb.cache_info().misses == misses


def test_what_only_a_traceback_reached_is_not_compiled(clean):
    """An error holds its frames in a cycle, and they hold tensors: the collector lets them go, when a program is looked for."""
    x = jnp.ones(3)

    def fail():
        held = x + 1  # noqa: F841
        try:
            raise ValueError
        except ValueError as error:
            cycle = [error]
            cycle.append(cycle)

    with lazynb.lazy():
        fail()
        assert lazynb.cache_info().misses == 0
        lazynb.sync()
        assert lazynb.cache_info().misses == 0, "nobody can reach the sum"
        fail()
        assert lazynb.compile().clusters.to_dicts() == []
