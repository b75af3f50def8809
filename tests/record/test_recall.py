"""Calls that were recorded before are appended again without JAX, and mean the same."""

import functools
import itertools
import pickle
import random
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import assert_same

import lazynb
from lazynb.recording.replay import call_replay as recall_module, replay_edge
from lazynb.recording.trace_registry import trie
from lazynb.recording.trie import MAX_EDGES


@pytest.fixture
def learned(monkeypatch):
    """The names of the calls that went through JAX."""
    names = []
    learn = recall_module._record_edge

    def noting(pending, tip, key, *rest):
        names.append(key[0])
        return learn(pending, tip, key, *rest)

    monkeypatch.setattr(recall_module, "_record_edge", noting)
    return names


def twice(function, *args):
    """Results of the function, lazily, the first and the second time."""
    results = []
    for _ in range(2):
        with lazynb.lazy():
            results.append(jax.tree.map(np.asarray, function(*args)))
    return results


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + x,
        lambda x: x * 2.0 - 1,
        lambda x: 3 - x,
        lambda x: -x,
        lambda x: x @ x,
        lambda x: x[0],
        lambda x: x[1:, None],
        lambda x: x.sum(axis=0),
        lambda x: x.astype(jnp.int32),
        lambda x: jnp.sin(x),
        lambda x: jnp.where(x > 0, x, 0.0),
        lambda x: jnp.concatenate([x, x]),
        lambda x: jnp.add(x, 1),
        lambda x: jax.nn.gelu(x),
        lambda x: jax.lax.rsqrt(x),
        lambda x: jnp.zeros((3,)) + 1,
        lambda x: jnp.linalg.norm(x),
        lambda x: jnp.stack([x, x], axis=1),
        lambda x: x**2,
        lambda x: jnp.split(x * 1, 2)[0],
    ],
)
def test_a_repeated_call_is_recorded_without_jax(function, learned):
    x = jnp.arange(4.0).reshape(2, 2) + 0.5
    first, second = twice(function, x)
    assert learned
    learned.clear()
    with lazynb.lazy():
        again = np.asarray(function(x))
    assert not learned
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, again)


def test_another_number_is_recalled_with_its_own_value(learned):
    x = jnp.arange(3.0)
    with lazynb.lazy():
        np.asarray(x * 2.0 + 1)
        learned.clear()
        misses = lazynb.cache_info().misses
        found = [np.asarray(x * factor + 7).tolist() for factor in (5.0, jnp.inf)]
    assert found[0] == [7.0, 12.0, 17.0] and found[1][1] == np.inf
    assert not learned and lazynb.cache_info().misses == misses


def test_arguments_that_were_equal_once_are_recalled_separately():
    def span(x, low, high):
        return jnp.where(x > 1, low, high)

    x = jnp.arange(3.0)
    for low, high in [(0.5, 0.5), (0.5, 0.5), (1.0, 2.0), (3.0, 4.0)]:
        with lazynb.lazy():
            assert np.asarray(span(x, low, high)).tolist() == [high, high, low]


def test_exponents_and_indices_are_recalled_separately():
    x = jnp.arange(1.0, 4.0)
    for exponent in (2, 3, 2, -1, 0.5):
        with lazynb.lazy():
            np.testing.assert_allclose(np.asarray(x**exponent), np.asarray(x) ** exponent, rtol=1e-6)
    for index in (0, 1, 2, -1, 0):
        with lazynb.lazy():
            assert float(x[index]) == float(np.asarray(x)[index])


@pytest.mark.parametrize("number", [0.0, -0.0, float("nan"), 1, True, 2**31 - 1, 1e30])
def test_numbers_give_eager_results_for_each_kind_and_operator(number):
    for fn in (
        lambda x: x + number,
        lambda x: number * x,
        lambda x: jnp.maximum(x, number),
        lambda x: x == number,
    ):
        for x in (
            np.arange(3.0, dtype=np.float32),
            np.arange(3),
            np.arange(3, dtype=np.int8),
            np.ones(3, np.float16),
        ):
            try:
                fn(jnp.asarray(x))
            except OverflowError:
                continue
            assert_same(fn, x)


def test_numbers_too_large_for_the_array_type_equal_eager():
    for number in (1, 300, -129, 2**40, 10**30):
        for x in (np.arange(3, dtype=np.int8), np.arange(3), np.ones(3, np.float16)):
            assert_same(lambda x: x + number, x)
            assert_same(lambda x: jnp.multiply(x, number), x)


def test_configuration_changes_are_noticed():
    x = jnp.ones((4, 4))
    with lazynb.lazy():
        for precision in ("default", "highest", "default", "highest"):
            with jax.default_matmul_precision(precision):
                text = lazynb.graph(x @ x).to_stablehlo()
            assert ("HIGHEST" in text) == (precision == "highest")
        for mode in ("standard", "strict", "standard"):
            with jax.numpy_dtype_promotion(mode):
                if mode == "strict":
                    with pytest.raises(
                        jax.dtypes.TypePromotionError
                        if hasattr(jax.dtypes, "TypePromotionError")
                        else Exception
                    ):
                        x + jnp.ones((4, 4), jnp.int32)
                else:
                    x + jnp.ones((4, 4), jnp.int32)


def test_nan_checks_are_noticed():
    x = jnp.zeros(3)
    with lazynb.lazy():
        (x / x).block_until_ready()
        y = x + 1
        with jax.debug_nans(True), pytest.raises(FloatingPointError):
            (y - 1) / (y - 1)
        assert np.isnan(np.asarray(x / x)).all()


def test_the_mesh_is_noticed():
    x = jnp.ones(4)
    mesh = jax.make_mesh((1,), ("x",))
    with lazynb.lazy():
        (x + x).block_until_ready()
        with jax.set_mesh(mesh):
            inside = x + x
        outside = x + x
        assert np.asarray(inside).tolist() == np.asarray(outside).tolist()


def test_switching_off_restores_every_name():
    def names():
        modules = (
            jnp,
            jnp.linalg,
            jax.nn,
            jax.lax,
            jax.random,
            type(jnp.ones(1)),
            jax._src.config.StateContextManager,
        )
        return [dict(vars(module)) for module in modules]

    before = names()
    with lazynb.lazy():
        assert names() != before
        with pytest.raises(ZeroDivisionError), lazynb.lazy():
            1 / 0
    assert [{k: v for k, v in now.items() if old[k] is not v} for now, old in zip(names(), before)] == [
        {}
    ] * len(before)


def test_a_name_that_the_user_changes_stays_changed(monkeypatch):
    mine = lambda x: x
    monkeypatch.setattr(jnp, "sin", jnp.sin)  # puts JAX's own back at the end
    with lazynb.lazy():
        jnp.sin = mine
    assert jnp.sin is mine


def test_a_name_that_the_user_changed_before_stays_changed(monkeypatch):
    mine = lambda x: "mine"
    monkeypatch.setattr(jnp, "cos", mine)
    with lazynb.lazy():
        assert jnp.cos is mine and jnp.cos(1.0) == "mine"
    assert jnp.cos is mine


def test_recalled_functions_work_from_threads_that_start_and_end():
    plain = jnp.sin

    def work():
        for _ in range(30):
            with lazynb.lazy():
                assert float(jnp.sin(jnp.zeros(()))) == 0.0

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert jnp.sin is plain


def test_functions_can_be_pickled():
    with lazynb.lazy():
        text = pickle.dumps([jnp.sin, jnp.where, jax.nn.gelu, jax.lax.rsqrt])
        assert pickle.loads(text)[0] is jnp.sin
    assert pickle.loads(text) == [jnp.sin, jnp.where, jax.nn.gelu, jax.lax.rsqrt]


def test_substituted_functions_have_the_attributes_of_jax():
    with lazynb.lazy():
        assert jnp.sin.__name__ == "sin" and jnp.sin.__doc__ and isinstance(jnp.add, jnp.ufunc)
        assert jnp.add.reduce(jnp.ones(3)) == 3.0
        assert jax.jit(jnp.sin)(jnp.zeros(1))[0] == 0.0
        assert jnp.sin.lower(jnp.ones(3)).as_text()


def test_a_transformation_sees_jax_s_own_functions():
    x = jnp.arange(1.0, 4.0)
    for fn in (lambda x: jnp.sin(x).sum(), lambda x: (x * 2 + x**3).sum()):
        assert_same(jax.grad(fn), x)
        assert_same(jax.vmap(jax.grad(fn)), jnp.stack([x, x]))
        assert_same(jax.jit(fn), x)


def test_lines_of_recalled_calls_are_the_user_s():
    x = jnp.ones(3)

    def program():
        y = x * 2.0
        z = jnp.sin(y)
        return y + z

    lines = []
    for _ in range(2):
        with lazynb.lazy():
            lines.append(
                [(node.name, node.place.text) for node in lazynb.graph(program()).nodes if node.kind == "op"]
            )
    assert lines[0] == lines[1]
    assert [text for _, text in lines[1]] == ["y = x * 2.0", "z = jnp.sin(y)", "return y + z"]


def test_lines_of_calls_in_a_library_are_the_user_s():
    import optax

    params, grads = {"w": jnp.ones(3)}, {"w": jnp.ones(3)}
    tx = optax.sgd(0.1)
    state = tx.init(params)
    for _ in range(2):
        with lazynb.lazy():
            updates, _ = tx.update(grads, state, params)
            assert {node.place.text for node in lazynb.graph(updates["w"]).nodes if node.kind == "op"} == {
                "updates, _ = tx.update(grads, state, params)"
            }


def test_deleted_and_foreign_operands_go_through_jax():
    x = jnp.ones(3)
    with lazynb.lazy():
        y = x + 1
        (y * 2).block_until_ready()
        y.delete()
        with pytest.raises(RuntimeError, match="deleted"):
            y * 2
        pending = jnp.ones(3) * 3
        found = []

        def other():
            with lazynb.lazy():
                for _ in range(2):
                    found.append(float((pending + 1)[0]))

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert found == [4.0, 4.0]


def test_another_thread_may_run_the_trace_that_is_being_recorded():
    x = jnp.ones((4, 4))
    stop, wrong = threading.Event(), []
    shared = {}

    def reader():
        while not stop.is_set():
            value = shared.get("y")
            if value is not None and not np.all(np.asarray(value[0]) == value[1]):
                wrong.append(value)

    thread = threading.Thread(target=reader)
    thread.start()
    with lazynb.lazy():
        y, count = x * 1.0, 1
        for _ in range(4000):
            y, count = y + x, count + 1
            shared["y"] = y, count
            if count == 50:
                y, count = x * 1.0, 1
    stop.set()
    thread.join()
    assert not wrong


LEARNING = [
    function.__code__
    for function in (recall_module._record_edge, replay_edge.edge_between, replay_edge._are_inputs)
]


def preempted(body, number, other, lock):
    """Runs ``body``; before instruction ``number`` of what learns a call ``other`` has its turn in a thread of its own: all of
    it, unless ``body`` holds the ``lock``. Whether there is such an instruction."""
    count = 0
    threads = []

    def tracer(frame, event, _):
        nonlocal count
        if frame.f_code not in LEARNING:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            count += 1
            if count == number:
                threads.append(threading.Thread(target=other))
                threads[0].start()
                threads[0].join(0 if lock._is_owned() else 10)
        return tracer

    sys._getframe().f_trace_opcodes = True  # 3.12 looks for it when tracing begins
    sys.settrace(tracer)
    try:
        body()
    finally:
        sys.settrace(None)
        for thread in threads:
            thread.join()
    return bool(threads)


@pytest.mark.full
@pytest.mark.parametrize(
    "call", [lambda y: y + 3.5, lambda y: y**3], ids=["a number as input", "a number by its value"]
)
def test_another_thread_may_run_the_trace_while_a_call_is_learned(call):
    x = jnp.arange(4.0)
    right = np.asarray(call(x * 2.0))
    for number in itertools.count(random.randrange(1, 10), 9):
        trie.roots.clear()
        with lazynb.lazy():
            y = x * 2.0
            results = []
            reached = preempted(lambda: results.append(call(y)), number, lambda: np.asarray(y), y._trace.lock)
            again = call(x * 2.0)
        np.testing.assert_array_equal(results[0], right)
        np.testing.assert_array_equal(again, right)
        with lazynb.lazy():
            recalled = call(x * 2.0)
        np.testing.assert_array_equal(recalled, right)
        if not reached:
            break
    assert number > 50


def test_a_finalizer_that_records_during_a_call_gives_the_right_values():
    import gc

    class Records:
        def __init__(self, x):
            self.x, self.me = x, self

        def __del__(self):
            self.x + 1

    x = jnp.ones(3)
    threshold = gc.get_threshold()
    try:
        gc.set_threshold(3)
        with lazynb.lazy():
            for _ in range(3):
                y = x * 1.0
                for _ in range(300):
                    Records(x)
                    y = y + x
                assert np.asarray(y).tolist() == [301.0] * 3
    finally:
        gc.set_threshold(*threshold)


def test_an_edge_table_stays_small():
    x = jnp.ones(3)
    with lazynb.lazy():
        y = x + x
        for exponent in range(2, 2 + MAX_EDGES * 2):
            x ** (exponent + 0.5)
        assert y._pending is not None
        tables = [len(state.edges) for state in y._pending.state.path()]
    assert max(tables) <= MAX_EDGES


def test_functions_that_are_compared_keep_their_identity():
    """As values they mean something to JAX and Optax: which reducer, which default."""
    taken = {name: getattr(jnp, name) for name in ("mean", "sum", "max", "min")}
    monoids = {name: getattr(jax.lax, name) for name in ("add", "mul", "max", "min")}
    with lazynb.lazy():
        assert all(getattr(jnp, name) is plain for name, plain in taken.items())
        assert all(getattr(jax.lax, name) is plain for name, plain in monoids.items())

    def pool(x):
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (2, 2), (2, 2), "VALID").sum()

    assert_same(lambda x: jax.grad(pool)(x), np.arange(16, dtype=np.float32).reshape(4, 4))
    product = lambda x: jax.lax.reduce(x, np.float32(1), jax.lax.mul, (0,)).sum()
    assert_same(lambda x: jax.grad(product)(x), np.ones((2, 3), np.float32))


def test_functions_say_the_module_that_they_are_found_in():
    modules = (jnp, jnp.linalg, jax.nn, jax.lax, jax.random)
    found = {
        (module.__name__, name): one.__module__
        for module in modules
        for name, one in vars(module).items()
        if callable(one) and not name.startswith("_") and hasattr(one, "__module__")
    }
    public = {key: where for key, where in found.items() if where.startswith("jax.") and "._src" not in where}
    assert public["jax.numpy", "add"] == "jax.numpy"
    with lazynb.lazy():
        changed = {
            key: one.__module__
            for key in public
            for module in modules
            if module.__name__ == key[0]
            for one in [getattr(module, key[1])]
            if one.__module__ != public[key]
        }
    assert not changed


def test_a_wrapped_jax_function_lowers_itself():
    """A jitted function lowers itself, and not the function of JAX's that it is made of."""

    def texts():
        made = (jax.grad(jnp.sin), jax.vmap(jnp.sin), functools.wraps(jnp.sin)(lambda x: x * 2))
        return [jax.jit(one).lower(jnp.ones(3)[:, None] if one is made[1] else 1.0).as_text() for one in made]

    expected = texts()
    with lazynb.lazy():
        assert texts() == expected
        assert jnp.sin.lower(1.0).as_text() == jax.jit(jnp.sin).lower(1.0).as_text() and hasattr(
            jnp.sin, "trace"
        )
        assert not hasattr(jnp.sin, "no_such_name") and not hasattr(jnp.stack, "no_such_name")
