"""The C module with malformed edges and arguments, without memory, and with user code that looks at its objects."""

from __future__ import annotations

import collections
import contextlib
import gc
import importlib.util
import subprocess
import sys
import textwrap
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_calls import FAST

import lazynb
from lazynb.recording.lazy_trace import thread_trace
from lazynb.recording.replay import native_replay
from lazynb.recording.replay.replay_edge import ReplayEdge
from lazynb.running import trace_launch
from lazynb.running.run_delivery import InFlightRun
from lazynb.user_code.call_stack import cache_call_stack, cached_call_stacks

fast = native_replay._fast
pytestmark = pytest.mark.skipif(fast is None, reason=native_replay.describe())

X = jnp.arange(4.0).reshape(2, 2)


def incomplete_tuples():
    """The tuples that the garbage collector shows and that have items that are not set."""
    tuples = [one for one in gc.get_objects() if type(one) is tuple]
    return [type(one) for one in tuples if len(gc.get_referents(one)) < len(one)]


def printed(code):
    """What a program prints that could crash."""
    run = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(code)],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return run.stdout


# ---- user code during a call -------------------------------------------------------------------------------


class Name:
    """A name of a call that looks at the collector's objects when it is hashed."""

    def __init__(self):
        self.seen = []

    def __hash__(self):
        self.seen += incomplete_tuples()
        return 1


def test_a_hash_function_sees_no_incomplete_key():
    name = Name()
    with lazynb.lazy():
        t = FAST["sin"](X)
        assert fast.again(thread_trace().pending, name, [t, 2.0], True, None) is None
    assert name.seen == []


def test_a_look_up_in_python_sees_no_incomplete_key():
    parts, seen = native_replay._configuration(), []

    def spy(pending, tensor):
        seen.append(incomplete_tuples())
        return parts["waiting_elsewhere"](pending, tensor)

    fast.configure({**parts, "waiting_elsewhere": spy})
    try:
        with lazynb.lazy():
            first = FAST["sin"](X)
            thread_trace().seal()
            t = FAST["sin"](X)
            fast.again(thread_trace().pending, "nothing", [[t, first, t]], True, None)
    finally:
        fast.configure(parts)
    assert seen == [[]]


class Unequal:
    def __eq__(self, other):
        raise ZeroDivisionError


LIBRARY = """
def run(call, t, meanwhile):
    frame = sys._getframe()
    cache_call_stack(frame, frame.f_back, (), 0)
    try:
        step(call, t)
        meanwhile(cached_call_stacks[id(frame)])
        return step(call, t)
    finally:
        del cached_call_stacks[id(frame)]

def step(call, t):
    return call(t)
"""


def test_an_error_while_an_origin_is_compared_is_raised(clean):
    library = {"sys": sys, "cache_call_stack": cache_call_stack, "cached_call_stacks": cached_call_stacks}
    exec(compile(LIBRARY, Path(np.__file__).with_name("made_up.py"), "exec"), library)

    def break_origin(mark):
        object.__setattr__(mark.origin, "call_id", Unequal())

    for _ in range(2):
        with lazynb.lazy():
            made = library["run"](FAST["sin"], FAST["sin"](X), lambda mark: None)
            jax.block_until_ready(made)  # the path of what has run stays
    with lazynb.lazy():
        t = FAST["sin"](X)
        with pytest.raises(ZeroDivisionError):
            library["run"](FAST["sin"], t, break_origin)


# ---- malformed edges and arguments --------------------------------------------------------------------------


@contextlib.contextmanager
def edge_with(call, **fields):
    """Changes the edge of a ``call`` that was recorded, for the time of the block."""
    for _ in range(2):
        with lazynb.lazy():
            t = FAST["sin"](X)
            state = thread_trace().pending.open_state
            jax.block_until_ready(call(t))  # the path of what has run stays
    (edge,) = [one for one in state.edges.values() if isinstance(one, ReplayEdge)]
    before = {name: getattr(edge, name) for name in fields}
    with lazynb.lazy():
        t = FAST["sin"](X)
        assert thread_trace().pending.open_state is state
        for name, value in fields.items():
            setattr(edge, name, value)
        try:
            yield t
        finally:
            for name, value in before.items():
                setattr(edge, name, value)


@pytest.mark.parametrize("results", [[], (), [()], [1]], ids=str)
def test_an_edge_without_results_is_an_error(clean, results):
    def split(t):
        return FAST["split"](t, 2)

    with edge_with(split, results=results) as t, pytest.raises(TypeError, match="of an edge"):
        split(t)


@pytest.mark.parametrize("argument", [10**6, -3, 2**70], ids=str)
def test_an_edge_that_returns_no_argument_is_an_error(clean, argument):
    def same(t):
        return FAST["asarray"](t)

    with edge_with(same, argument=argument) as t, pytest.raises((IndexError, OverflowError)):
        same(t)


def test_wrong_slots_are_errors():
    with lazynb.lazy():
        t = FAST["sin"](X)
        pending, avals = thread_trace().pending, (t.aval, t.aval)
        with pytest.raises(OverflowError):
            fast.new_tensors(pending, avals, 2**100)
        for first in (-1, sys.maxsize):
            with pytest.raises(ValueError, match="no slot"):
                fast.new_tensors(pending, avals, first)
        slot = t._slot
        del t._slot
        with pytest.raises(AttributeError):
            fast.take_slots(pending, [t], [])
        with pytest.raises(AttributeError):
            lazynb.sync(t)
        t._slot = slot
        np.testing.assert_allclose(t, np.sin(X), rtol=1e-6)


def test_a_run_with_other_fields_is_refused():
    good = {"InFlightRun": InFlightRun, "Run": trace_launch.Run, "for_all": trace_launch.process_observers}
    good |= {"perf_counter": trace_launch.time.perf_counter, "key": trace_launch.binding_key}
    good |= {"use": trace_launch.executables._use, "note": trace_launch.count_run}
    good |= {"not_started": trace_launch._resume_after_error}
    for run in (collections.namedtuple("Run", "binding miss"), list, tuple, 1):
        with pytest.raises((TypeError, AttributeError)):
            fast.configure_hand_over({**good, "Run": run})
    with pytest.raises(TypeError):
        fast.configure_hand_over(None)
    with pytest.raises(TypeError):
        fast.configure([])
    fast.configure_hand_over(good)


def test_slices_in_slices_have_jax_s_own_error():
    assert "2. 2. 2." in printed(
        """
        import jax.numpy as jnp, lazynb
        from random_calls import FAST
        nested = None
        for _ in range(100_000):
            nested = slice(None, nested)
        with lazynb.lazy():
            t = FAST["__add__"](FAST["sin"](jnp.zeros(3)), 1.0)
            try:
                FAST["__getitem__"](t, nested)
            except (TypeError, RecursionError):
                print(FAST["__add__"](t, 1.0))
        """
    )


def test_nothing_works_before_it_is_configured():
    assert "configure was not called" in printed(
        f"""
        import importlib.util as util
        spec = util.spec_from_file_location("lazynb.recording._fast", {fast.__file__!r})
        module = util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name, args in [("here", (1,)), ("Call", ("a", print, True))]:
            try:
                getattr(module, name)(*args)
            except RuntimeError as error:
                print(error)
        """
    )


# ---- without memory -----------------------------------------------------------------------------------------


@pytest.mark.skipif(importlib.util.find_spec("_testcapi") is None, reason="this Python has no _testcapi")
def test_a_call_without_memory_raises_and_the_next_one_is_right():
    """Each allocation fails once in calls that run no Python code, in which CPython itself may crash then."""
    assert "True" in printed(
        """
        import _testcapi, jax.numpy as jnp, numpy as np, lazynb
        from lazynb.recording.lazy_trace import thread_trace
        from lazynb.recording.replay import native_replay
        from random_calls import FAST

        X, fast, parts = jnp.arange(4.0).reshape(2, 2), native_replay._fast, native_replay._configuration()
        fail, restore, refused = _testcapi.set_nomemory, _testcapi.remove_mem_hooks, 0
        add, mul, concatenate = FAST["__add__"], FAST["__mul__"], FAST["concatenate"]
        calls = [
            lambda t: add(t, X), lambda t: add(t, t), lambda t: mul(t, 2.0), lambda t: concatenate([t, X, t]),
            lambda t: fast.take_slots(thread_trace().pending, [t, X], []),
            lambda t: fast.new_tensors(thread_trace().pending, (t.aval, t.aval), 7),
            lambda t: fast.again(thread_trace().pending, "unknown", [t, X, 1.0, "a"], True, None),
            lambda t: fast.configure(parts),
        ]
        for call in calls:
            with lazynb.lazy():
                for _ in range(3):
                    t = FAST["sin"](X)
                    expected = call(t)
                    if hasattr(expected, "shape"):
                        expected = np.asarray(expected).tolist()
                for failing in range(1, 40):
                    t = FAST["sin"](X)
                    fail(failing, failing + 1)
                    try:
                        call(t)
                    except MemoryError:
                        refused += 1
                    finally:
                        restore()
                    found = call(t)
                    if hasattr(found, "shape"):
                        assert np.asarray(found).tolist() == expected
        print(refused > 20)
        """
    )
