"""The accelerator and the Python that is its specification do the same, step by step, with the same calls."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

import lazynb
from lazynb.record.fast import accelerator, operators, remembered as pure
from lazynb.record.fast.recall import Edge
from lazynb.record.tensor import LazyTensor
from lazynb.record.trace import thread_trace, trie
from lazynb.record.trie import State
from lazynb.source import Origin

fast = accelerator._fast
built = pytest.mark.skipif(fast is None, reason=accelerator.describe())

FUNCTIONS = {
    "sin": (jnp.sin, False),
    "add": (jnp.add, True),
    "maximum": (jnp.maximum, True),
    "where": (jnp.where, False),
    "sum": (jnp.sum, False),
    "concatenate": (jnp.concatenate, False),
    "split": (jnp.split, False),
    "expand_dims": (jnp.expand_dims, False),
    "full_like": (jnp.full_like, False),
    "asarray": (jnp.asarray, False),
}


def forms(make, binary):
    """The remembered operators, methods and functions, by name."""
    made = {}
    for name, (plain, alike) in operators._table().items():
        made[name] = binary(name, plain) if alike else make(name, plain, False)
    for name, (function, alike) in FUNCTIONS.items():
        plain = getattr(function, "__wrapped__", function)
        made[name] = make(f"{plain.__module__}.{name}", plain, alike)
    return made


PURE = forms(pure.remembered, pure.binary)
FAST = forms(accelerator.remembered, accelerator.binary) if fast is not None else {}

# ---- random programs ---------------------------------------------------------------------------------------

NUMBERS = [1, 2.0, 0.1, -3, True, 1j, 2**70, np.float32(3), np.int64(2), 0, -0.0, float("nan")]
OTHERS = [
    None,
    "axis",
    (0, 1),
    [1],
    slice(0, 1),
    slice(None),
    ...,
    jnp.float32,
    np.dtype("int32"),
    object(),
    {},
]
TWO = [
    "__add__",
    "__rsub__",
    "__mul__",
    "__truediv__",
    "__lt__",
    "__eq__",
    "__and__",
    "__matmul__",
    "__pow__",
]
TWO += ["__getitem__", "add", "maximum", "astype", "reshape", "sum", "__radd__"]
ONE = ["__neg__", "__abs__", "sin", "sum", "mean", "max", "transpose", "ravel", "asarray", "nonzero"]
WORDS = [
    {},
    {},
    {},
    {"axis": 0},
    {"axis": (0,)},
    {"axis": 0, "keepdims": True},
    {"dtype": jnp.float32},
    {"x": 1},
]
AROUND = ["", "", "", "", "scope", "precision", "x64", "grad", "read", "delete", "eager", "forget"]

steps = st.tuples(
    st.sampled_from(TWO + ONE + ["where", "concatenate", "split", "expand_dims", "full_like"]),
    st.lists(st.integers(0, 40), min_size=1, max_size=3),
    st.sampled_from(WORDS),
    st.sampled_from(AROUND),
)


class Run:
    """One run of a program with the calls of one form, and what was seen after each step."""

    def __init__(self):
        self.pool = [jnp.arange(4.0).reshape(2, 2), jnp.ones((2, 2)), jnp.arange(2), jnp.float32(2.5)]
        self.pool += [*NUMBERS, *OTHERS]
        self.results = []
        self.seen = []

    def step(self, calls, step):
        name, picks, words, around = step
        # What was computed last is taken most often; the first operand is mostly a tensor.
        values = self.results[::-1] + self.pool
        args = [
            values[pick % (len(self.results) + 4 if at == 0 else len(values))]
            for at, pick in enumerate(picks)
        ]
        if name == "concatenate":
            args = [args]
        if name.startswith("__") and not isinstance(args[0], LazyTensor):
            return
        with contextlib.ExitStack() as stack:
            if around == "scope":
                stack.enter_context(jax.named_scope("block"))
            elif around == "precision":
                stack.enter_context(jax.default_matmul_precision("highest"))
            elif around == "x64":
                stack.enter_context(jax.enable_x64(True))
            elif around == "eager":
                stack.enter_context(lazynb.eager())
            try:
                result = self._call(calls[name], args, words, around == "grad")
            except Exception as error:
                text = "" if " argument" in str(error) else str(error).partition("0x")[0][:200]
                self.seen.append((type(error), text))
                return
        self._keep(result)
        if around == "read":
            self.seen.append(np.asarray(self.results[-1]).tolist() if self.results else None)
        elif around == "delete" and self.results and self.results[-1].ndim:
            self.results[-1].delete()
        elif around == "forget":
            self.results.clear()
        self._note(result)

    def _call(self, call, args, words, differentiated):
        if not differentiated:
            return call(*args, **words)
        return jax.grad(lambda x: call(x, *args[1:], **words).sum())(args[0])

    def _keep(self, result):
        for one in result if isinstance(result, tuple | list) else [result]:
            if isinstance(one, jax.Array):
                self.results.append(one)

    def _note(self, result):
        pending = thread_trace().pending
        noted = [type(result)]
        for one in result if isinstance(result, tuple | list) else [result]:
            noted.append(told(one))
        if pending is not None:
            state = pending.state
            noted.append(
                (state.depth, state.slots, len(pending.inputs), len(pending.records), pending.sealed)
            )
            noted.append([told(record) for record in pending.records[-2:]])
        self.seen.append(noted)


def told(value):
    """What is to be the same of a result."""
    if not isinstance(value, LazyTensor):
        return (type(value), getattr(value, "shape", None), getattr(value, "dtype", None))
    edge, code = value._edge, value._code
    line = None
    if isinstance(code, Origin):
        line = (code.code.co_name, code.lasti, code.callee, str(code.context.name_stack))
    elif code is not None:
        line = (code.co_name, value._lasti, str(value._scope.name_stack))
    where = None
    if edge is not None:
        end = edge if isinstance(edge, State) else edge.end
        where = (type(edge), end.depth, str(end.operation))
    return (str(value.aval), value.aval.weak_type, value._slot, value._pending is None, where, line)


def edges(state, path=()):
    """The remembered calls of a trie, by the path to the state at which they are made and their keys."""
    found = {}
    for key, edge in state.edges.items():
        if isinstance(edge, Edge):
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
def test_both_do_the_same(program):
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
        made = accelerator.LazyTrace.new_tensors(pending, state.avals, state.first)
        return noted, [told(one) for one in made]


@built
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(operands)
def test_both_take_the_same_slots(kinds):
    assert taken(fast.take_slots, kinds) == taken(pure.take_slots, kinds)


@built
def test_both_make_the_same_tensors():
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
def test_nothing_is_kept(clean, ends):
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


def test_what_is_no_tensor_goes_to_jax_s_own_method():
    with lazynb.lazy():
        with pytest.raises(TypeError):
            LazyTensor.__add__()
        with pytest.raises(TypeError):
            LazyTensor.__add__(jnp.ones(2), 1, 2)
        with pytest.raises(TypeError):
            LazyTensor.sum(jnp.ones(2) + 1, nothing=3)


def test_methods_are_as_before():
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


# ---- whether it is there -----------------------------------------------------------------------------------


def described(**environment):
    code = "from lazynb.record.fast.accelerator import describe; print(describe())"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def test_it_can_be_turned_off():
    assert described(LAZYNB_PURE="1") == "not accelerated: LAZYNB_PURE is set"


@built
def test_it_is_used():
    assert described(LAZYNB_PURE="") == "accelerated"
    assert type(LazyTensor.__add__) is fast.Call and type(LazyTensor.sum) is fast.Call


@built
def test_one_of_another_source_is_not_used(monkeypatch, tmp_path):
    other = tmp_path / "_fast.c"
    other.write_text("/* another */")
    monkeypatch.setattr(accelerator, "SOURCE", other)
    found, why_not = accelerator._loaded()
    assert found is None and "built from another _fast.c" in why_not


@built
def test_a_class_without_the_slots_is_told(monkeypatch):
    parts = accelerator._parts()
    monkeypatch.setattr(accelerator, "_parts", lambda: {**parts, "LazyTensor": object})
    found, why_not = accelerator._loaded()
    assert found is None and "LazyTensor._trace is no slot" in why_not
    assert float((lambda x: x + 1)(jnp.float32(1))) == 2.0, "what was configured stays"
