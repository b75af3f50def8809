"""Calls of the user's own jitted functions are recorded again without JAX's Python, and mean the same."""

from __future__ import annotations

import collections
import functools
import gc
import inspect
import pickle
import sys
import threading
import traceback
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from interrupts import everywhere
from oracle import Make, assert_same

import lazynb
from lazynb import jax_compat as jc
from lazynb.recording.lazy_trace import thread_trace
from lazynb.recording.operation_step import operations
from lazynb.recording.replay import jit_call_cache

State = collections.namedtuple("State", "count mean")


def step(state, x, rate=0.1):
    weights, (count, mean) = state["w"], state["s"]
    weights = [w - rate * x.sum() * w for w in weights]
    return {"w": weights, "s": State(count + 1, mean * 0.5), "none": None}, x.mean()


def start(leaves=3):
    weights = [jnp.full((2, n + 1), n + 0.5, jnp.float32) for n in range(leaves)]
    return {"w": weights, "s": State(jnp.int32(0), jnp.ones(3)), "none": None}


def entered(call):
    """The functions of JAX's ``pjit.py`` and ``core.py`` that ``call()`` enters, and how many frames."""
    names = []

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.endswith(("jax/_src/pjit.py", "jax/_src/core.py")):
            names.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return names


@pytest.fixture
def made(monkeypatch):
    """The calls that were recorded from memory."""
    seen = []

    class Noted(jit_call_cache.ReplayedProgram):
        def __init__(self, program, result):
            super().__init__(program, result)
            seen.append(program.params["name"])

    monkeypatch.setattr(jit_call_cache, "ReplayedProgram", Noted)
    return seen


def run(function, *args, times=3, **kwargs):
    """Results of several calls, each in a lazy block of its own, computed."""
    results = []
    for _ in range(times):
        with lazynb.lazy():
            out = function(*args, **kwargs)
            results.append(jax.tree.map(np.asarray, out))
    return results


# ---- what it saves -----------------------------------------------------------------------------------------


def frames_of_a_call(leaves):
    jitted, state, x = jax.jit(step), start(leaves), np.ones((4, 4), np.float32)
    with lazynb.lazy():
        for _ in range(2):
            state, mean = jitted(state, x)
            float(mean)
        return entered(lambda: jitted(state, x))


def test_the_second_call_makes_no_pass_through_jax_s_python():
    few, many = frames_of_a_call(2), frames_of_a_call(40)
    assert "_infer_params" not in many and "bind" not in many and "typeof" in many  # of the NumPy array
    assert {name for name in many if name.startswith("_") and "pjit" in name or name == "cache_miss"} == {
        "cache_miss"
    }
    assert len(few) == len(many)


def test_repeated_calls_of_a_jitted_function_are_recalled(made):
    jitted = jax.jit(step)
    state = start()
    for _ in range(4):
        with lazynb.lazy():
            state, mean = jitted(state, jnp.ones((4, 4)))
            float(mean)
    assert made == ["step"] * 3


def test_a_recalled_call_records_the_same_trace(made):
    jitted = jax.jit(step)
    state, seen = start(), []
    for _ in range(3):
        with lazynb.lazy():
            out = jitted(state, jnp.ones((4, 4)), rate=0.5)
            pending = thread_trace().pending
            origins = [
                one and (one.code, one.lasti, one.callee, one.scope, one.inside is not None)
                for one in pending.origins()
            ]
            drawn = lazynb.graph(*jax.tree.leaves(out)).to_json()
            del drawn["outlook"]  # the second time it is compiled
            seen.append((pending.state, origins, drawn))
            lazynb.sync(out)
            del out, pending
    assert made == ["step"] * 2
    assert seen[0][0] is seen[1][0] is seen[2][0]
    assert seen[0][1:] == seen[1][1:] == seen[2][1:]


# ---- what it means -----------------------------------------------------------------------------------------


def _static(x, n, *, mode="a"):
    return x * n if mode == "a" else x[:n]


def _closing(constant):
    return jax.jit(lambda x: x @ constant + np.arange(3.0))


CASES = {
    "tree": lambda: (jax.jit(step), (start(), np.ones((2, 2), np.float32)), {}),
    "keyword": lambda: (jax.jit(step), (start(), np.ones((2, 2))), {"rate": 0.25}),
    "number": lambda: (jax.jit(lambda x, y: x * y), (jnp.ones(3), 2), {}),
    "complex": lambda: (jax.jit(lambda x, y: x * y), (jnp.ones(3), 2j), {}),
    "flag": lambda: (jax.jit(lambda x, y: jnp.where(y, x, 0)), (jnp.ones(3), True), {}),
    "large number": lambda: (jax.jit(lambda x, y: x * y), (jnp.ones(3), 2**40), {}),
    "float64 of NumPy's": lambda: (jax.jit(lambda x: x + 1), (np.ones(3),), {}),
    "scalar of NumPy's": lambda: (jax.jit(lambda x, y: x + y), (jnp.ones(3), np.float32(2)), {}),
    "bfloat16": lambda: (jax.jit(lambda x: x + 1), (jnp.ones(3, jnp.bfloat16),), {}),
    "weak": lambda: (jax.jit(lambda x: x + 1), (Make(lambda: jnp.asarray(1.0) * 1),), {}),
    "static": lambda: (jax.jit(_static, static_argnums=1), (jnp.arange(4.0), 2), {}),
    "static name": lambda: (jax.jit(_static, static_argnames=("n", "mode")), (jnp.ones(4), 3), {"mode": "b"}),
    "unhashable": lambda: (jax.jit(_static, static_argnums=1), (jnp.ones(4), [2]), {}),
    "wrong type": lambda: (jax.jit(lambda x, y: x), (jnp.ones(4), "text"), {}),
    "too few": lambda: (jax.jit(_static, static_argnums=1), (jnp.ones(4),), {}),
    "donated": lambda: (jax.jit(step, donate_argnums=0), (Make(lambda: start()), jnp.ones(3)), {}),
    "donated twice": lambda: (
        jax.jit(lambda a, b: a + b, donate_argnums=(0, 1)),
        (Make(lambda: jnp.ones(3)),) * 2,
        {},
    ),
    "unused": lambda: (jax.jit(lambda a, b: a + 1, keep_unused=True), (jnp.ones(3), jnp.ones(2)), {}),
    "constants": lambda: (_closing(jnp.ones((3, 3))), (jnp.ones((2, 3)),), {}),
    "unchanged": lambda: (jax.jit(lambda a, b: (b, a, 3, None)), (jnp.ones(3), jnp.ones(2)), {}),
    "nothing": lambda: (jax.jit(lambda a: None), (jnp.ones(3),), {}),
    "no argument": lambda: (jax.jit(lambda: jnp.ones(3)), (), {}),
    "key": lambda: (jax.jit(jax.random.uniform), (Make(lambda: jax.random.key(1)),), {}),
    "layers": lambda: (jax.jit(lambda a: jax.jit(jnp.tanh)(a) + 1), (jnp.ones(3),), {}),
    "inline": lambda: (jax.jit(lambda a: a + 1, inline=True), (jnp.ones(3),), {}),
    "sharding": lambda: (
        jax.jit(lambda a: a + 1, out_shardings=jax.sharding.SingleDeviceSharding(jax.devices()[0])),
        (jnp.ones(3),),
        {},
    ),
    "partial": lambda: (jax.jit(functools.partial(_static, n=2)), (jnp.ones(3),), {}),
    "callback": lambda: (
        jax.jit(lambda a: jax.pure_callback(lambda b: np.asarray(b) + 1, a, a)),
        (jnp.ones(3),),
        {},
    ),
    "method": lambda: (jax.jit(jnp.ones(3).__add__), (jnp.ones(3),), {}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_call_gives_what_eager_jax_gives(case):
    function, args, kwargs = CASES[case]()
    for _ in range(2):  # the oracle makes each call twice; from the second on it is remembered
        assert_same(function, *args, **kwargs)


@pytest.mark.parametrize("case", ["tree", "static", "donated", "constants", "unchanged", "number", "key"])
def test_each_kind_of_argument_is_recalled(case, made):
    function, args, kwargs = CASES[case]()
    for _ in range(3):
        with lazynb.lazy():
            given = jax.tree.map(lambda x: x.make() if isinstance(x, Make) else x, args)
            lazynb.sync(*jax.tree.leaves(function(*given, **kwargs)))
    assert len(made) == 2


leaf = st.sampled_from(
    [
        Make(lambda: jnp.arange(4.0)),
        Make(lambda: jnp.arange(4)),
        Make(lambda: jnp.ones((2, 2), jnp.bfloat16)),
        Make(lambda: jnp.asarray(1.5) * 1),
        Make(lambda: jnp.float32(2)),
        Make(lambda: jax.device_put(jnp.ones(3), jax.devices()[0])),
        Make(lambda: np.arange(3, dtype=np.int16)),
        Make(lambda: np.ones(2)),
        2,
        2.5,
        True,
        1j,
        None,
    ]
)
trees = st.recursive(
    leaf,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=8,
)
statics = st.sampled_from([0, 1, 1.0, True, "a", (1, 2), None])


def _mixed(static, tree, other, *, word=None):
    total = sum((jnp.sum(x).astype(jnp.float32) for x in jax.tree.leaves(jax.tree.map(jnp.real, tree))), 0.0)
    return jax.tree.map(lambda x: x * 2 if static else x + 1, tree), total, other, word


MIXED = {donated: jax.jit(_mixed, static_argnums=0, donate_argnums=donated) for donated in ((), (1,), (1, 2))}


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(statics, trees, trees, st.none() | leaf, st.sampled_from(list(MIXED)))
def test_random_calls_give_what_eager_jax_gives(static, tree, other, word, donated):
    assert_same(MIXED[donated], static, tree, other, word=word)


# ---- JAX's rules -------------------------------------------------------------------------------------------


def test_a_function_is_traced_as_often_as_by_jax():
    traced = []

    @jax.jit
    def function(x):
        traced.append(x.dtype)
        return x + 1

    with lazynb.lazy():
        for dtype in ("float32", "float32", "int32", "float32", "int32"):
            function(jnp.ones(3, dtype) * 1)
    assert len(traced) == 2


@pytest.mark.parametrize("lazily", [True, False])
@pytest.mark.parametrize("forget", ["all", "one", "other"])
def test_a_function_is_traced_again_after_jax_clears_its_cache(forget, lazily):
    number = [1.0]
    function, other = jax.jit(lambda x: x + number[0]), jax.jit(lambda x: x)
    assert [out[0] for out in run(function, jnp.zeros(1))] == [1, 1, 1]
    number[0] = 2.0
    assert [out[0] for out in run(function, jnp.zeros(1))] == [1, 1, 1]
    clear = {"all": jax.clear_caches, "one": function.clear_cache, "other": other.clear_cache}[forget]
    with lazynb.lazy() if lazily else lazynb.eager():
        clear()
        eager = {"all": 2, "one": 2, "other": 1}[forget]  # JAX still has the jaxpr of the others
    assert [out[0] for out in run(function, jnp.zeros(1))] == [eager] * 3


def test_a_held_frame_does_not_keep_a_cleared_recording():
    """Tracebacks hold frames, and frames what was in their variables."""
    number = [1.0]
    function = jax.jit(lambda x: x + number[0])
    assert [out[0] for out in run(function, jnp.zeros(1))] == [1, 1, 1]
    held = jit_call_cache._current_memory()
    number[0] = 2.0
    function.clear_cache()
    assert not held.functions
    assert [out[0] for out in run(function, jnp.zeros(1))] == [2, 2, 2]


def test_a_deleted_jitted_function_is_freed():
    weights = jnp.ones((3, 3))

    def make():
        own = weights + 1
        function = lambda x: x @ own  # noqa: E731
        return function, jax.jit(function)

    function, jitted = make()
    run(jitted, jnp.ones(3))
    gone = weakref.ref(function)
    del function, jitted
    lazynb.clear_cache()
    gc.collect()
    assert gone() is None


def test_the_memory_of_functions_is_bounded(monkeypatch):
    monkeypatch.setattr(jit_call_cache, "MAX_FUNCTIONS", 3)
    monkeypatch.setattr(jit_call_cache, "MAX_PROGRAMS", 2)
    functions = [jax.jit(lambda x, n=n: x + n) for n in range(6)]
    with lazynb.lazy():
        for function in functions:
            for size in (1, 2, 3, 1):
                assert function(jnp.zeros(size)).shape == (size,)
    known = jit_call_cache._memory.functions
    assert len(known) <= 3 and all(len(one.programs) <= 2 for one in known.values())


def test_a_closure_over_a_pending_tensor_gives_the_right_value():
    results = []
    for _ in range(3):
        with lazynb.lazy():
            weight = jnp.arange(3.0) * 2
            function = jax.jit(lambda x, weight=weight: x + weight)  # a static default
            inner = jax.jit(lambda x, held=[weight]: x * held[0])
            results.append([np.asarray(function(jnp.ones(3)) + inner(jnp.ones(3))) for _ in range(3)])
    assert np.array_equal(results, np.full((3, 3, 3), [1.0, 5.0, 9.0]))


def test_a_closure_keeps_the_value_that_was_traced():
    weight = [jnp.ones(2)]
    function = jax.jit(lambda x: x + weight[0])
    run(function, jnp.ones(2))
    weight[0] = jnp.zeros(2)
    assert all(np.array_equal(out, [2, 2]) for out in run(function, jnp.ones(2)))


@pytest.mark.parametrize(
    "around",
    [
        lambda f: jax.grad(lambda x: f(x).sum()),
        lambda f: jax.vmap(f),
        lambda f: jax.jit(lambda x: f(f(x))),
        lambda f: lambda x: jax.lax.scan(lambda c, _: (f(c), c), x, None, length=3),
        lambda f: lambda x: jax.jvp(f, (x,), (x,)),
        lambda f: lambda x: jax.checkpoint(f)(x),
        lambda f: lambda x: jax.eval_shape(f, x).shape[0] * x,
    ],
)
def test_transformations_around_a_recalled_call_equal_eager(around):
    function = jax.jit(lambda x: jnp.sin(x) * x)
    run(function, jnp.arange(3.0))
    for _ in range(2):
        assert_same(around(function), jnp.arange(3.0))


def test_a_tracer_of_another_trace_is_refused_as_by_jax():
    leaked = []
    jax.jit(lambda x: leaked.append(x))(1.0)
    function = jax.jit(lambda x, y: x + y)
    run(function, jnp.ones(()), jnp.ones(()))
    assert_same(lambda x: function(x, leaked[0]), jnp.ones(()))


@pytest.mark.parametrize(
    "setting",
    [
        lambda: jax.enable_x64(True),
        lambda: jax.default_matmul_precision("highest"),
        lambda: jax.numpy_dtype_promotion("strict"),
        lambda: jax.disable_jit(),
        lambda: jax.debug_nans(True),
        lambda: jax.transfer_guard("allow"),
        lambda: jax.named_scope("block"),
    ],
)
def test_settings_around_a_recalled_call_equal_eager(setting):
    function = jax.jit(lambda x, y: (x @ y, x / (y - 1), x * 2))
    x = np.ones((2, 2), np.float32)
    run(function, x, x)

    def call():
        with setting():
            return function(x, x)

    for _ in range(2):
        assert_same(call)
    assert_same(function, x, x)


def test_a_donated_array_is_gone_as_in_jax(made):
    def once():
        x = jnp.arange(4.0)
        y = function(x)
        with pytest.raises(RuntimeError, match="deleted"):
            x + 1
        with pytest.raises((RuntimeError, ValueError), match="deleted|donated"):
            function(x)
        return np.asarray(y)

    function = jax.jit(lambda x: x * 2, donate_argnums=0)
    expected = once()
    for _ in range(3):
        with lazynb.lazy():
            assert np.array_equal(once(), expected)
    assert made


def test_a_pending_argument_donated_by_a_recalled_call_is_deleted():
    function = jax.jit(lambda x: x * 2, donate_argnums=0)
    for _ in range(3):
        with lazynb.lazy():
            x = jnp.arange(4.0) + 1
            kept = x * 3
            y = function(x)
            assert x.is_deleted()
            assert np.array_equal(kept, [3, 6, 9, 12]) and np.array_equal(y, [2, 4, 6, 8])


def test_a_recalled_call_keeps_the_values_of_deleted_or_overwritten_inputs():
    function, host = jax.jit(lambda x, y: x + y), np.ones(64, np.float32)
    for number in range(3):
        host[:] = number
        x = jnp.ones(64)
        with lazynb.lazy():
            out = function(x, host)
            host[:] = 100
            x.delete()
            assert float(out[0]) == number + 1


def test_a_recalled_call_accepts_a_tensor_of_another_thread():
    function, results = jax.jit(lambda x: x + 1), []
    run(function, jnp.ones(2))
    for _ in range(2):
        with lazynb.lazy():
            x = jnp.ones(2) * 3
            thread = threading.Thread(target=lambda: results.extend(run(lambda: function(x))))
            thread.start()
            thread.join()
    assert len(results) == 6 and all(np.array_equal(out, [4, 4]) for out in results)


@pytest.mark.parametrize(
    ("within", "pace"),
    [("jit_call_cache.py", 1), ("lazy_trace.py", 3), ("open_traces.py", 3), ("argument_donation.py", 3)],
)
def test_no_interrupt_of_a_recalled_call_loses_a_value(within, pace):
    function = jax.jit(lambda x, y: (x * 2 + y, y), donate_argnums=1)
    with lazynb.lazy():
        for _ in range(3):
            x, host = jnp.arange(4.0) + 1, np.ones(4, np.float32)
            float(function(x, host)[0][0])
        for at in everywhere(lambda: lambda: function(x, host), within, pace):
            assert np.array_equal(x, [1, 2, 3, 4]), at
            assert jc.current_trace() is thread_trace(), at
            assert np.array_equal(function(x, host)[0], [3, 5, 7, 9]), at


# ---- the object ----------------------------------------------------------------------------------------------


@jax.jit
def documented(x: jax.Array, y: int = 2) -> jax.Array:
    """Adds."""
    return x + y


def test_a_jitted_function_has_the_attributes_it_has_without_lazynb():
    def pickled():
        try:
            return pickle.loads(pickle.dumps(documented)) is documented
        except pickle.PicklingError as error:  # of what the name does not lead to
            return str(error)

    def facts():
        return (
            type(documented),
            isinstance(documented, jax.stages.Wrapped),
            str(inspect.signature(documented)),
            documented.__doc__,
            documented.__name__,
            documented.__wrapped__.__code__,
            functools.wraps(documented)(lambda: None).__wrapped__ is documented,
            pickled(),
            documented.lower(jnp.ones(3)).as_text(),
            documented.trace(jnp.ones(3)).jaxpr.pretty_print(),
            documented.eval_shape(jnp.ones(3)),
            documented.lower(jnp.ones(3)).compile()(jnp.ones(3)).tolist(),
        )

    before = facts()
    with lazynb.lazy():
        for _ in range(3):
            x = documented(jnp.ones(3) * 1)
            assert facts() == before
        lowered = documented.lower(x)  # asks for the program, and records nothing
        assert "stablehlo.add" in lowered.as_text()
    assert facts() == before


def test_a_call_works_without_substitution_of_names(monkeypatch):
    from lazynb.config import config

    monkeypatch.setattr(config, "substitute_names", False)
    function = jax.jit(lambda x: x + 1)
    with lazynb.lazy():
        assert vars(jc.pjit_module)[jc.INFER_PARAMS].__module__ == "jax._src.pjit"
        assert function(jnp.ones(2) * 1).tolist() == [2, 2]


def test_a_cleared_cache_leaves_no_second_operation_for_the_same_call():
    """Else the next program's miss would be told as another configuration's, and each call would be JAX's."""
    function, runs = jax.jit(lambda x: x * 2 + 1), []

    def record():
        kept = function(jnp.ones(3) + 1)
        operation = thread_trace().pending.state.operation
        found = operations.find(operation.primitive, operation.params, thread_trace().context_token())
        runs.append((found is operation, operation.canonical is operation))
        np.asarray(kept)

    with lazynb.lazy():
        for _ in range(3):
            record()
        lazynb.clear_cache()
        for _ in range(3):
            record()
    assert runs == [(True, True)] * 6


def test_an_error_of_the_function_has_the_users_lines_alone():
    """As without lazynb: JAX leaves its own frames out."""

    def fails(x):
        raise ValueError("no")

    function = jax.jit(lambda x: fails(x))
    seen = []
    for block in (lazynb.eager, lazynb.lazy):
        with block(), pytest.raises(ValueError, match="no") as raised:
            function(jnp.ones(3) * 2)
        frames = raised.value.__traceback__
        kept = [frame for frame, _ in traceback.walk_tb(frames) if "__tracebackhide__" not in frame.f_locals]
        seen.append([frame.f_code.co_name for frame in kept])
    assert seen[0] == seen[1]
