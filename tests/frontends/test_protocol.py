"""NumPy's protocols: ufunc methods, operators on both sides, what happens outside lazy mode, errors and
reasons."""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import numpy.lib.recfunctions  # a module whose functions NumPy hands over, too
import pytest

import lazynb
from tests.frontends.compare import difference

F = np.arange(12, dtype=np.float32).reshape(3, 4) - 3
I = np.arange(1, 13, dtype=np.int32).reshape(3, 4)  # noqa: E741

METHODS = [
    ("np.add.reduce(F)", True),
    ("np.add.reduce(F, axis=None)", True),
    ("np.add.reduce(F, axis=1, keepdims=True)", True),
    ("np.maximum.reduce(F, axis=0)", True),
    ("np.multiply.reduce(F)", True),
    ("np.add.accumulate(F, axis=1)", True),
    ("np.maximum.accumulate(F)", True),
    ("np.logical_and.reduce(F)", True),
    ("np.multiply.outer(F, F)", True),
    ("np.subtract.outer(F, 2)", False),
    ("np.add.reduceat(F, [0, 2], axis=1)", True),
    ("np.add.reduce(I, dtype=np.int32)", True),
    ("np.bitwise_or.reduce(I)", True),
    ("np.add.reduce(I)", True),
    ("np.add.reduce(F, initial=3)", False),
    ("np.add.reduce(F, where=F > 0)", False),
    ("np.power.reduce(I)", False),
    ("np.sin(F, dtype=np.float32)", True),
    ("np.add(F, 1, where=True)", True),
    ("np.sin(I, dtype=np.float32)", True),
    ("np.sum([F, F])", False),
    ("np.lib.stride_tricks.sliding_window_view(F, (2, 3))", True),
    ("np.lib.stride_tricks.sliding_window_view(F, 3, axis=-1)", True),
    ("np.lib.stride_tricks.sliding_window_view(F, (2, 2), axis=(1, 1))", True),
    ("np.linalg.norm(x=F, ord=2)", True),
    ("np.poly([F[0, 0], F[0, 1]])", False),
    ("np.poly(seq_of_zeros=F[0])", False),
    ("np.emath.sqrt(F)", False),
    ("np.lib.scimath.log2(I)", False),
    ("np.array(np.lib.recfunctions.unstructured_to_structured(F).tolist())", False),
]


@pytest.mark.parametrize(("text", "lazy"), METHODS)
def test_ufunc_methods_give_what_numpy_gives(text, lazy, clean):
    own = eval(text, {"np": np, "F": jnp.asarray(F), "I": jnp.asarray(I)})
    with lazynb.lazy():
        found = eval(text, {"np": np, "F": jnp.asarray(F) * 1, "I": jnp.asarray(I) * 1})
    assert bool(lazynb.breaks()) is not lazy
    assert difference(own, found) is None


ERRORS = [
    "np.lib.stride_tricks.sliding_window_view(F, 9, axis=0)",
    "np.lib.stride_tricks.sliding_window_view(F, 2)",
    "np.add(F, np.ones(3))",
    "np.sin.reduce(F)",
    "np.add.reduce(F, axis=2)",
    "np.add(F, 1, dtype=np.int32)",
    "np.subtract(B, B)",
    "np.add(F)",
    "np.sum(F, axis='x')",
    "np.concatenate([F, F], axis=2)",
    "np.power(I, -1)",
    "np.left_shift(F, 1)",
    "np.add(F, 1, nonsense=2)",
    "np.linalg.det(F)",
    "np.add(F, object(), dtype=float)",
]


@pytest.mark.parametrize("text", ERRORS)
def test_errors_are_numpy_s_and_run_nothing(text, clean):
    names = {"F": F, "I": I, "B": F > 0}
    with pytest.raises(Exception) as expected:
        eval(text, {"np": np, **{name: jnp.asarray(value) for name, value in names.items()}})
    with lazynb.lazy():
        lazy = {
            name: jnp.asarray(value) ^ False if name == "B" else jnp.asarray(value) * 1
            for name, value in names.items()
        }
        with pytest.raises(type(expected.value)) as found:
            eval(text, {"np": np, **lazy})
    assert str(found.value) == str(expected.value)
    assert not lazynb.breaks() or "object" in text


OPERATORS = [
    "A + F",
    "A @ F.T",
    "F + A",
    "A < F",
    "A ** F",
    "A // F",
    "np.float64(2) * F",
    "np.float32(2) - F",
    "A == F",
]


@pytest.mark.parametrize("text", OPERATORS)
def test_operators_mean_what_they_mean_to_jax(text, clean):
    """On either side: a float64 array of NumPy's on the left does not make a break of ``A + x``."""
    A = F.astype(np.float64) + 4
    eager = eval(text, {"np": np, "A": A, "F": jnp.asarray(F)})
    with lazynb.lazy():
        lazy = eval(text, {"np": np, "A": A, "F": jnp.asarray(F) * 1})
    assert not lazynb.breaks()
    for one, other in zip(jax.tree.leaves(eager), jax.tree.leaves(lazy)):
        assert isinstance(other, jax.Array) and (one.dtype, one.weak_type) == (other.dtype, other.weak_type)
        np.testing.assert_allclose(np.asarray(other), np.asarray(one), rtol=1e-5)


def test_in_place_on_numpy_s_array_is_what_it_is_to_jax(clean):
    found = []
    for mode in (lazynb.eager, lazynb.lazy):
        with mode():
            a = F.copy()
            a += jnp.asarray(F)
            found.append(a)
    assert all(isinstance(one, jax.Array) for one in found)
    np.testing.assert_array_equal(*map(np.asarray, found))


def test_outside_lazy_mode_numpy_takes_the_values(clean):
    with lazynb.lazy():
        x = jnp.asarray(F) * 1
    assert type(np.sin(x)) is np.ndarray and type(np.concatenate([x, x])) is np.ndarray
    assert isinstance(np.sum(x), jax.Array) and isinstance(
        np.sum(jnp.asarray(F)), jax.Array
    )  # NumPy calls the method
    assert {row.kind for row in lazynb.breaks()} == {"asarray"}


def test_a_loop_stays_lazy_after_a_value_was_read(clean):
    with lazynb.lazy():
        x = jnp.asarray(F) * 1
        float(x.sum())
        y = np.sin(x)
        for _ in range(3):
            y = np.add(y, np.cos(x))
    assert y.is_pending and [row.kind for row in lazynb.breaks()] == ["float"]


def test_errstate_with_raise_is_respected(clean):
    with lazynb.lazy(), np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        np.divide(jnp.ones(3) * 1, np.zeros(3, np.float32))


def test_under_grad_numpy_refuses_as_it_does_of_jax(clean):
    with pytest.raises(jax.errors.TracerArrayConversionError):
        jax.grad(lambda x: np.sin(x))(1.0)
    with lazynb.lazy(), pytest.raises(jax.errors.TracerArrayConversionError):
        y = jnp.ones(()) * 2
        jax.grad(lambda x: np.add(y, x))(1.0)
    assert not lazynb.breaks()


def test_a_truth_value_times_nan_is_nan(clean):
    """XLA makes a choice of it; NumPy multiplies."""
    with lazynb.lazy():
        found = np.multiply(jnp.array([False, True]), jnp.array([np.nan, 2.0], np.float32))
    np.testing.assert_array_equal(np.asarray(found), np.array([np.nan, 2], np.float32))


def test_a_weakly_typed_jax_number_promotes_as_an_array_in_numpy(clean):
    with lazynb.lazy():
        weak = jnp.asarray(2.0) * 1
        found = np.add(weak, jnp.ones(2, np.float16))
    assert weak.weak_type and found.dtype == np.float32


def test_the_break_detail_names_the_numpy_function(clean):
    with lazynb.lazy():
        np.unique(jnp.ones(3) * 2)
        np.sin(jnp.arange(3) * 2).astype(object)
    details = {row.code: row.detail for row in lazynb.breaks()}
    assert details == {
        "LNB312": "np.unique gives a shape that depends on the values",
        "LNB311": "astype to object",
    }


def test_shape_rules_are_checked_without_computing_large_arrays(clean):
    with lazynb.lazy():
        x = jnp.ones((1000, 2000), np.float32) * 1
        found = np.concatenate([np.sum(x, axis=0), np.mean(x, axis=1)])
        with pytest.raises(
            ValueError, match="must match exactly, but along dimension 1, the array at index 0 has size 2000"
        ):
            np.concatenate([x, x[:, 1:]])
        np.split(x, 4)
        with pytest.raises(ValueError, match="equal division"):
            np.split(x, 3)
        np.take(x, [999], axis=0)
        with pytest.raises(IndexError, match="out of bounds"):
            np.take(x, [1000], axis=0)
    assert found.shape == (3000,) and not lazynb.breaks()


def test_shares_memory_of_pending_arrays_is_answered_without_a_run(clean):
    with lazynb.lazy():
        x, host = jnp.ones(3) * 2, np.ones(3)
        y, empty = x + 1, jnp.ones((0, 2)) * 2
        for shares in (np.shares_memory, np.may_share_memory):
            assert shares(x, x) is True and shares(x, y) is False
            assert shares(x, host) is False and shares(host, x) is False and shares(empty, empty) is False
        assert x.is_pending and not lazynb.breaks()
        lazynb.sync()
        assert np.shares_memory(x, x) and not np.shares_memory(x, y)


def test_only_lazy_tensors_make_numpy_functions_lazy(clean):
    outside = jnp.arange(3.0)
    with lazynb.lazy():
        assert type(np.sin(outside)) is np.ndarray  # JAX's own array has no protocol for NumPy
        together = np.add(outside, jnp.ones(3) * 1)
        alone = np.sin(jnp.asarray(outside) * 1)
        made = np.sin(jnp.asarray(np.arange(3, dtype=np.float32)))
        assert together.is_pending and alone.is_pending and made.is_pending and not lazynb.breaks()


def test_an_array_for_a_dtype_is_warned_of_as_eagerly(clean):
    """``np.zeros(2, dtype=x)`` takes the array's dtype; NumPy 2.4 asks by a protocol, and JAX's arrays warn."""

    def warnings_of(x):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            dtypes = np.dtype(x), np.zeros(2, dtype=x).dtype
        return dtypes, [(one.category, str(one.message), one.filename) for one in caught]

    eager = warnings_of(jnp.arange(4))
    with lazynb.lazy():
        x = jnp.arange(4)
        assert warnings_of(x) == eager
        assert x.is_pending
