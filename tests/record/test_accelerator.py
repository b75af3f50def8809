"""The accelerator and the Python that is its specification do the same, step by step, with the same calls."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import textwrap
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from random_calls import AROUND, FAST, ONE, PURE, TWO, WORDS, Run, told

import lazynb
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.lazy_trace import thread_trace
from lazynb.recording.replay import native_replay, python_replay as pure
from lazynb.recording.replay.replay_edge import ReplayEdge
from lazynb.recording.trace_registry import trie

fast = native_replay._fast
built = pytest.mark.skipif(fast is None, reason=native_replay.describe())

# ---- random programs ---------------------------------------------------------------------------------------

steps = st.tuples(
    st.sampled_from(TWO + ONE + ["where", "concatenate", "split", "expand_dims", "full_like"]),
    st.lists(st.integers(0, 40), min_size=1, max_size=3),
    st.sampled_from(WORDS),
    st.sampled_from(AROUND),
)


def edges(state, path=()):
    """The remembered calls of a trie, by the path to the state at which they are made and their keys."""
    found = {}
    for key, edge in state.edges.items():
        if isinstance(edge, ReplayEdge):
            end = edge.end.depth if edge.end is not None else None
            results = [(slot, str(aval)) for slot, aval in edge.results]
            found[path, repr(key)] = (end, results, edge.container, edge.argument)
    for key, child in state.children.items():
        found.update(edges(child, (*path, repr(key))))
    return found


def outcome(program, calls):
    """What is seen of a program that runs once with each of ``calls``, from nothing."""
    lazynb.sync()
    lazynb.clear_cache()
    seen = []
    for one in calls:
        run = Run()
        with lazynb.lazy():
            for step in program:
                run.step(one, step)
            left = [np.asarray(value).tolist() for value in run.results if not value.is_deleted()]
        seen.append((run.seen, left))
        del run
    learned = {}
    for root in trie.roots.values():
        learned.update(edges(root))
    return repr(seen), learned


def same(one, other):
    """Whether two outcomes are the same; edges go with their ends, which are freed at one time or another."""
    (seen, learned), (again, relearned) = one, other
    return seen == again and all(learned[key] == relearned[key] for key in learned.keys() & relearned.keys())


@built
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.generate),
)
@given(st.lists(steps, min_size=1, max_size=12))
def test_c_and_python_record_the_same_programs(program):
    expected = outcome(program, [PURE, PURE, PURE])
    for calls in ([FAST, FAST, FAST], [PURE, FAST, PURE], [FAST, PURE, FAST]):
        found = outcome(program, calls)
        assert same(found, expected), (found, expected)


operands = st.lists(
    st.sampled_from(["result", "input", "array", "given", "again", "deleted", "other", "committed", "number"])
)


def taken(take, kinds):
    """What ``take_slots`` finds of operands of ``kinds``, and what it adds to the trace."""
    known = [jnp.ones(3), jnp.arange(2), jnp.ones(3) * 2]
    with lazynb.lazy():
        settled = known[0] + 1
        float(settled[0])
        for array in known:
            _ = array + 1  # the types of inputs are known from here on
        lazynb.sync()
        result = known[0] * 2
        deleted = jnp.ones(3) * 4
        float(deleted[0])
        deleted.delete()
        by_kind = {
            "result": result,
            "input": known[0],
            "array": known[2],
            "given": settled,
            "again": known[1],
            "deleted": deleted,
            "other": object(),
            "committed": jax.device_put(known[2], jax.devices()[0]),
            "number": 2.0,
        }
        pending, slots = thread_trace().pending, []
        take(pending, [by_kind[kind] for kind in kinds], slots)
        state = pending.state
        noted = (slots, state.depth, state.slots, len(pending.inputs), sorted(pending.slots_of.values()))
        made = native_replay.LazyTrace.new_tensors(pending, state.avals, state.first)
        return noted, [told(one) for one in made]


@built
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(operands)
def test_c_and_python_take_the_same_slots(kinds):
    assert taken(fast.take_slots, kinds) == taken(pure.take_slots, kinds)


@built
def test_c_and_python_make_the_same_tensors():
    with lazynb.lazy():
        _ = jnp.ones(3) + 1
        pending, avals = thread_trace().pending, (jnp.ones(2).aval, jnp.ones(3).aval)
        made = [[told(one) for one in form.new_tensors(pending, avals, 5)] for form in (pure, fast)]
        assert made[0] == made[1] and len(made[0]) == 2
        with pytest.raises(TypeError):
            fast.new_tensors(pending, list(avals), 5)
        with pytest.raises(TypeError):
            fast.take_slots(pending, (), [])


# ---- what it must not do -----------------------------------------------------------------------------------


def chain(x, y, steps=30):
    for _ in range(steps):
        y = jnp.sin(y + x * 2.0).sum(0, keepdims=True) - y
    return y


@built
@pytest.mark.parametrize("ends", ["run", "forgotten"])
def test_recalled_calls_leak_no_references(clean, ends):
    """References that a recalled call takes are given back: those of what lives on do not grow."""
    x, y = jnp.ones((2, 2)), jnp.zeros((2, 2))

    def once():
        with lazynb.lazy():
            out = chain(x, y)
            if ends == "run":
                out.block_until_ready()

    for _ in range(100):  # also what waits for a number of runs
        once()
    state = next(iter(trie.roots.values()))
    path = []
    while state.children:
        state = next(iter(state.children.values()))
        path.append(state)
    kept = [x, y, thread_trace(), *path, *path[-1].avals, chain.__code__, jnp.sin]
    kept += [edge for one in path for edge in one.edges.values()]
    if ends == "forgotten":
        kept.append(None)  # each run is noted, with some
    counts = []
    for _ in range(4):  # what waits for a number of runs makes the first ones differ
        for _ in range(50):
            once()
        lazynb.sync()
        gc.collect()
        counts.append([sys.getrefcount(one) for one in kept])
    grown = [(one, was, now) for one, was, now in zip(kept, *counts[-2:], strict=True) if now - was > 40]
    assert grown == []


def test_wrong_arguments_reach_the_method_of_jax():
    with lazynb.lazy():
        with pytest.raises(TypeError):
            LazyTensor.__add__()
        with pytest.raises(TypeError):
            LazyTensor.__add__(jnp.ones(2), 1, 2)
        with pytest.raises(TypeError):
            LazyTensor.sum(jnp.ones(2) + 1, nothing=3)


def test_methods_keep_their_names_docstrings_and_binding():
    x = jnp.ones((2, 2))
    with lazynb.lazy():
        y = x + 1
        assert y.sum.__name__ == "sum" and LazyTensor.__add__.__name__ == "__add__"
        assert LazyTensor.sum.__qualname__ == "Array.sum" and LazyTensor.sum.__doc__
        bound = y.sum
        assert float(bound(axis=0)[0]) == 4.0
        assert pickle.loads(pickle.dumps(jnp.sin)) == jnp.sin
        with pytest.raises(TypeError):
            _ = y < object()
        assert (y == object()) is False or not np.asarray(y == object()).any()


@built
def test_another_thread_seals_the_trace_while_calls_are_recalled(clean):
    x, y = jnp.ones((2, 2)), jnp.zeros((2, 2))
    expected = np.asarray(chain(x, y))
    trace, over = [], threading.Event()

    def seal():
        while not over.is_set():
            over.wait(0.002)
            if trace:
                with trace[0].lock:
                    trace[0].seal()

    thread = threading.Thread(target=seal)
    thread.start()
    try:
        with lazynb.lazy():
            trace.append(thread_trace())
            results = [chain(x, y) for _ in range(20)]
            for result in results:
                np.testing.assert_array_equal(np.asarray(result), expected)
    finally:
        over.set()
        thread.join()


# ---- what others do during a call -----------------------------------------------------------------------------


def listed(depth):
    """A list in a list in a list, ``depth`` times; one in itself for 0."""
    inside: list = []
    outer = inside
    for _ in range(depth):
        outer = [outer]
    inside.extend([] if depth else [inside])
    return outer


@pytest.mark.parametrize("calls", [pytest.param(FAST, marks=built), PURE], ids=["fast", "pure"])
@pytest.mark.parametrize("depth", [0, 900, 100_000])
def test_a_list_in_itself_or_too_deep_has_jax_s_own_error(calls, depth):
    value, x = listed(depth), jnp.ones(3)
    with pytest.raises((TypeError, RecursionError)) as eager:
        x.reshape(value)
    with lazynb.lazy():
        t = x + 1
        for _ in range(2):
            with pytest.raises(eager.type) as lazily:
                calls["reshape"](t, value)
            assert str(lazily.value)[:60] == str(eager.value)[:60]
        assert calls["__add__"](t, 1.0).tolist() == [3.0] * 3


class MovesTensor:
    """A finalizer that gives a tensor another slot, as dividing the trace does, in the midst of a call."""

    def __init__(self, tensor, slot):
        self.itself, self.tensor, self.slot = self, tensor, slot

    def __del__(self):
        self.tensor._slot = self.slot


@built
def test_a_tensor_moves_while_its_call_is_looked_up():
    with lazynb.lazy():
        t = jnp.ones(3) + 1
        FAST["__mul__"](t, 2.0)
        slot, before = t._slot, gc.get_threshold()
        for number in range(20):
            t._slot = 10**6 + number  # an int that nothing else holds
            kept = [
                (1, 2, object()) for _ in range(3000)
            ]  # so that a tuple is new memory, and a collection due
            gc.disable()
            MovesTensor(t, slot)
            gc.set_threshold(1)
            gc.enable()
            try:
                FAST["__mul__"](t, 2.0)
            except IndexError:
                pass  # there is no such slot
            finally:
                gc.set_threshold(*before)
            del kept
        t._slot = slot
        assert (t * 2.0).tolist() == [4.0] * 3


@built
def test_a_tensor_without_a_slot_raises_an_attribute_error():
    with lazynb.lazy():
        t = jnp.ones(3) + 1
        FAST["__mul__"](t, 2.0)
        slot = t._slot
        del t._slot
        with pytest.raises(AttributeError):
            FAST["__mul__"](t, 2.0)
        t._slot = slot


@built
def test_calls_of_calls_are_freed():
    call = print
    for _ in range(200_000):
        call = fast.Call("deep", call, True)
    del call


def printed(code):
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert run.returncode == 0 and "Exception" not in run.stderr, run.stderr
    return run.stdout


@pytest.mark.parametrize("pure", ["", "1"])
def test_a_call_that_no_python_code_makes(monkeypatch, pure):
    """What is registered with atexit is called without a frame, of which the line could be noted."""
    monkeypatch.setenv("LAZYNB_PURE", pure)
    assert "4 records" in printed(
        """
        import atexit, jax.numpy as jnp, lazynb
        block = lazynb.lazy()
        block.__enter__()
        x, records = jnp.ones(3), []
        def first(): return x + 1
        for _ in range(3):
            y = first()
            z = y + 2.0
            w = z.sum(axis=0)
            w.block_until_ready()
        y = first()
        atexit.register(lambda: print(len(records), "records"))
        atexit.register(lambda: records.extend(y._pending.records))
        atexit.register(y.sum, axis=0)
        atexit.register(y.__add__, 2.0)
        atexit.register(y.__add__, 3.0)
        """
    )


@built
def test_a_subinterpreter_cannot_load_the_accelerator():
    assert "main interpreter alone" in printed(
        f"""
        import importlib, importlib.util, textwrap
        names = ("_interpreters", "_xxsubinterpreters")
        found = [importlib.import_module(name) for name in names if importlib.util.find_spec(name)][0]
        inside = '''
        import importlib.util as util
        spec = util.spec_from_file_location("lazynb.recording._fast", {fast.__file__!r})
        try:
            spec.loader.exec_module(util.module_from_spec(spec))
        except ImportError as error:
            print("main interpreter alone" if "interpreter" in str(error) else error, flush=True)
        '''

        found.run_string(found.create(), textwrap.dedent(inside))
        """
    )


# ---- whether it is there -----------------------------------------------------------------------------------


def described(**environment):
    code = "from lazynb.recording.replay.native_replay import describe; print(describe())"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def test_lazynb_pure_turns_the_accelerator_off():
    assert described(LAZYNB_PURE="1") == "not accelerated: LAZYNB_PURE is set"


@built
def test_the_accelerator_is_used_when_built():
    assert described(LAZYNB_PURE="") == "accelerated"
    assert type(LazyTensor.__add__) is fast.Call and type(LazyTensor.sum) is fast.Call


@built
def test_an_accelerator_built_from_another_source_is_not_used(monkeypatch, tmp_path):
    other = tmp_path / "_fast.c"
    other.write_text("/* another */")
    monkeypatch.setattr(native_replay, "SOURCE", other)
    found, why_not = native_replay._loaded()
    assert found is None and "built from another _fast.c" in why_not


@built
def test_a_class_without_the_slots_is_reported_and_not_used(monkeypatch):
    parts = native_replay._configuration()
    monkeypatch.setattr(native_replay, "_configuration", lambda: {**parts, "LazyTensor": object})
    found, why_not = native_replay._loaded()
    assert found is None and "LazyTensor._trace is no slot" in why_not
    assert float((lambda x: x + 1)(jnp.float32(1))) == 2.0, "what was configured stays"
