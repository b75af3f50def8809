"""NumPy's 64-bit types in 32-bit mode: what has them stays lazy, and so does what is done with it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from lazynb.frontends.numpy import numpy_arguments
from lazynb.frontends.numpy.mutable_array import MutableArray, mutable
from tests.frontends.compare import difference

ARRAYS = {
    "F": np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32),
    "U": np.random.default_rng(1).normal(size=6).astype(np.float32),
    "W": np.sort(np.random.default_rng(2).normal(size=5).astype(np.float32)),
    "I": np.random.default_rng(3).integers(-(2**30), 2**30, size=(3, 4)).astype(np.int32),
    "B": np.random.default_rng(4).normal(size=(3, 4)) > 0,
}
A = "np.searchsorted(np.sort(U), F[:, 0])"
S = "np.argsort(np.copy(F))"

LAZY = [
    *["np.argmax(F)", "np.argmin(F, 0)", A, S, "np.argsort(U)", "np.argpartition(U, 2)[2]"],
    *["np.searchsorted(W, U)", "np.digitize(U, np.array([-1, 0, 1], 'f4'))"],
    *["np.count_nonzero(B)", "np.count_nonzero(B, axis=1)", f"np.count_nonzero({A})"],
    *["np.sum(B)", "np.sum(I)", "np.sum(I, axis=1)", "np.cumsum(I)", "np.trace(I)", f"np.sum({A} == 2)"],
    *[f"{A} + 1", f"{A}[:, None] == np.arange(4)", f"{A} * 2**40", f"{A} - np.argmin(F, 1)", f"{A} // 2"],
    *[f"{A} % 2", f"-{A}", f"abs({A} - 3)", f"{A} < 2", f"np.maximum({A}, 1)", f"{A} & 1", f"~{A}"],
    *[f"{S}[:, ::-1]", f"{S}.T", f"{S}.reshape(-1)", f"{S}[0, 1]", f"{S}.sum()", f"{S}.cumsum(0)"],
    *[f"np.where({S} > 1, {S}, 7)", f"np.concatenate([{S}, {S}])", f"np.stack([{A}, {A}])", f"np.diff({S})"],
    *[f"np.sort({S})", f"np.flip({S})", f"np.roll({S}, 1)", f"np.tile({A}, 2)", f"np.argsort({S})"],
    *[f"np.zeros_like({A})", f"np.full_like({A}, 7)", f"{A}.astype(np.float32)", f"{A}.astype(np.int32)"],
    *[f"np.diag({A})", f"np.diagonal({S})", f"np.append({A}, 3)", f"np.repeat({A}, 2)", f"np.any({S})"],
    *[f"{A} + np.array([1, 2**33, -(2**50)])", f"{A} - -(2**62)", f"{A}.astype('i4').astype('i8')"],
    *[
        f"{A} / 2",
        f"np.mean({A})",
        "np.power(np.abs(np.copy(I)), np.uint32(2))",
        f"np.linalg.norm({A})",
        f"np.max({S})",
    ],
    *[
        "np.sin(np.copy(I))",
        "np.copy(F) * np.full(4, 1 / 3)",
        "np.copy(F).astype('f8') / 3",
        "np.cos(F).sum(dtype='f8')",
    ],
    *[
        "np.copy(F).astype('c16') * 1j",
        "np.cov(np.copy(F).astype('f8'))",
        "np.sqrt(np.arange(4) * np.copy(I))",
    ],
    *[
        "np.copy(I).astype('u8') * np.uint64(2**63)",
        "np.exp(np.copy(F).astype('f8')).mean(0)",
        "np.std(np.copy(I))",
    ],
    *[
        "np.linspace(F[0, 0], 1, 5)",
        "np.interp(U, W, np.cos(W))",
        "np.cumsum(np.copy(F), dtype='f8')",
        "np.average(I)",
    ],
]
LEFT = [f"np.bincount({A}, minlength=4)", f"np.unique({A})", f"np.eye(4)[{A}]", "np.copy(F).astype(object)"]


def _run(text):
    arrays = {name: jnp.asarray(value) for name, value in ARRAYS.items()}
    own = eval(text, {"np": np, **arrays})
    with lazynb.lazy():
        lazy = {name: jax.lax.optimization_barrier(jnp.asarray(value)) for name, value in arrays.items()}
        found = eval(text, {"np": np, **lazy})
        broken = bool(lazynb.breaks())
    assert difference(own, found) is None
    return broken


@pytest.mark.parametrize("text", LAZY)
def test_results_of_64_bits_stay_lazy_with_the_type_of_numpy(text, clean):
    assert not _run(text)


@pytest.mark.parametrize("text", LEFT)
def test_other_uses_of_64_bit_types_break_and_give_what_numpy_gives(text, clean):
    assert _run(text)


def test_float64_is_computed_in_64_bits(clean):
    with lazynb.lazy():
        x = np.copy(jnp.arange(1.0, 4.0) * 1).astype(np.float64)
        found = (x / 3 + 1e-12) * np.pi
        assert not lazynb.breaks()
    np.testing.assert_allclose(found, (np.arange(1.0, 4.0) / 3 + 1e-12) * np.pi, rtol=1e-15)


@pytest.mark.parametrize(
    "call", [jnp.asarray, jax.jit(lambda x: x), lambda x: jnp.sin(x) * x, lambda x: x + jnp.ones(3)]
)
def test_jax_takes_64_bit_values_as_eagerly(call, clean):
    eager = call(np.arange(3.0))
    with lazynb.lazy():
        found = call(np.copy(jnp.arange(3.0) * 1).astype(np.float64))
        assert not lazynb.breaks()
    assert found.dtype == eager.dtype == np.float32
    np.testing.assert_allclose(found, eager, rtol=1e-6)


def test_64_bit_index_arrays_can_be_written_to_and_read(clean):
    with lazynb.lazy():
        places = np.argsort(np.copy(jnp.arange(4.0) * -1))
        places[0] = 2**40
        places += 1
        assert not lazynb.breaks()
        assert isinstance(places, MutableArray)
        assert places.tolist() == [2**40 + 1, 3, 2, 1]
    assert np.asarray(places).dtype == np.int64


def test_jax_functions_accept_64_bit_indices_without_a_break(clean):
    with lazynb.lazy():
        x = jnp.arange(4.0) * 2
        place = np.argmax(np.copy(x))
        results = [x[place], jax.nn.one_hot(place, 4), jax.jit(lambda i: i + 1)(place), jnp.take(x, place)]
        assert not lazynb.breaks()
    assert [str(one.dtype) for one in results] == ["float32", "float32", "int32", "float32"]
    assert float(results[0]) == 6 and int(results[2]) == 4


def test_an_argmax_result_works_as_a_key_and_as_a_list_index(clean):
    with lazynb.lazy():
        place = np.argmax(np.copy(jnp.array([1.0, 3.0, 2.0]) * 1))
        assert ["a", "b", "c"][place] == "b"
        assert {1: "one"}[place] == "one"
        assert f"{place}" == "1" and place == 1


NUMBERS = [
    *["np.broadcast_to(U, (np.argmax(np.copy(U)) + 1, 6))", "np.expand_dims(F, np.argmin(np.copy(U)) * 0)"],
    *[
        "np.diag(np.copy(U), np.argmax(np.copy(U)))",
        "np.diag(k=np.argmax(np.copy(U)), v=np.copy(U))",
        "np.rot90(F, np.argmax(np.copy(U)))",
    ],
    *[
        "round(np.argmax(np.copy(U)))",
        "round(np.argmax(np.copy(U)) + 12, -1)",
        "np.tile(U, np.argmax(np.copy(U)) + 1)",
    ],
    *[
        "np.linalg.matrix_power(F[:, :3], np.count_nonzero(np.copy(U) > 9) - 1)",
        "list(range(np.argmax(np.copy(U))))",
    ],
    *[
        "np.linalg.cond(F[:, :3], np.count_nonzero(np.copy(U) > 9) + 1)",
        "np.zeros(np.argmax(np.copy(U)), 'f4')",
    ],
]


@pytest.mark.parametrize("text", NUMBERS)
def test_an_argmax_result_behaves_as_a_numpy_number(text, clean):
    _run(text)


@pytest.mark.parametrize("operator", "+ - * / // % ** == != < <= > >=".split())
@pytest.mark.parametrize("text", ["np.argmax(np.copy(x))", "np.argsort(np.copy(x))"])
def test_operators_between_64_bit_indices_and_tensors_equal_jax(operator, text, clean):
    x = jnp.array([3.0, 1.0, 2.0])
    names = {"np": np, "i": jnp.arange(3) + 1}
    whole = f"[{text} {operator} x, x {operator} {text}, {text} {operator} i]"
    eager = eval(whole, {"x": x, **names})
    with lazynb.lazy():
        lazy = eval(whole, {"x": x * 1, **names, "i": names["i"] * 1})
        assert not lazynb.breaks() or operator == "**"  # JAX looks at an exponent
    for one, other in zip(eager, lazy, strict=True):
        assert isinstance(other, lazynb.LazyTensor) and other.dtype == one.dtype
        np.testing.assert_allclose(np.asarray(other), one, rtol=1e-6)


def test_round_of_an_array_is_refused(clean):
    with lazynb.lazy(), pytest.raises(TypeError, match="__round__"):
        round(np.argsort(np.copy(jnp.arange(3.0) * 1)))


def test_five_iterations_of_k_means_are_one_run(clean):
    def centres(x, c):
        for _ in range(5):
            labels = np.argmin(np.sum((x[:, None] - c[None]) ** 2, axis=-1), axis=1)
            chosen = (labels[:, None] == np.arange(3)).astype(np.float32)
            c = (chosen.T @ x) / np.maximum(np.sum(chosen, axis=0), 1)[:, None]
        return c

    x = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
    with lazynb.lazy():
        found = centres(jnp.asarray(x) * 1, jnp.asarray(x[:3]) * 1)
        assert not lazynb.breaks()
    np.testing.assert_allclose(np.asarray(found), centres(x, x[:3]), rtol=1e-5)


def test_masks_of_computed_indices_run_no_program(clean):
    with lazynb.lazy():
        x = jnp.arange(6.0) * 1
        labels = np.argsort(x) % 3
        x[labels == 0]  # a break: its shape depends on the values
        runs = lazynb.cache_info()
        for label in range(3):
            x[labels == label]
        after = lazynb.cache_info()
    assert (after.hits, after.misses) == (runs.hits, runs.misses)


def test_no_type_is_beyond_64_bit_mode(clean):
    with jax.enable_x64(True), lazynb.lazy():
        assert np.sin(jnp.arange(3) * 1).dtype == np.float64
        assert not numpy_arguments.needs_x64(np.dtype(np.int64))


def test_steps_of_runge_kutta_on_arrays_that_can_be_written_to_are_one_run(clean):
    def lorenz(state):
        x, y, z = state
        return np.array([10 * (y - x), x * (28 - z) - y, x * y - np.float32(8 / 3) * z])

    def steps(state):
        for _ in range(10):
            a = lorenz(state)
            b = lorenz(state + np.float32(0.01) * a)
            state = state + np.float32(0.005) * (a + b)
        return state

    start = np.ones(3, np.float32)
    with lazynb.lazy():
        found = steps(mutable(jnp.asarray(start) * 1))
        assert not lazynb.breaks()
    np.testing.assert_allclose(np.asarray(found), steps(start), rtol=1e-4)


N = "np.argsort(np.copy(U))"
EXTREMES = [
    *[f"np.argmax({N})", f"np.argmin({S}, 1)", "np.argmax(np.sum(np.copy(I), 0))"],
    *[f"np.argmax({S} * 2**33, 0, keepdims=True)", f"np.argmin({S} * -(2**33))"],
    *[f"np.argmax({N} * 0 + np.array([5, -(2**63), 2**63 - 1, 2**63 - 1, 0, 1]))"],
    *[f"np.argmin({N} * 0 + np.array([5, 2**63 - 1, -(2**63), -(2**63), 0, 1]))"],
]


@pytest.mark.parametrize("text", EXTREMES)
def test_argmax_and_argmin_of_64_bit_integers_stay_lazy(text, clean):
    assert not _run(text)
