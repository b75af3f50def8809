"""``np.linalg`` stays lazy where NumPy's error depends on the values; the flush raises it with the user's line.
So do the comparisons that give one truth value."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from lazynb.frontends.numpy import function_rules, linalg_checks
from lazynb.frontends.numpy.mutable_array import mutable
from lazynb.recording.lazy_trace import thread_trace
from tests.frontends.compare import difference

_S = np.random.default_rng(0).normal(size=(3, 3)).astype(np.float32)
ARRAYS = {
    "S": _S,
    "P": _S @ _S.T + np.eye(3, dtype=np.float32),
    "F": np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32),
    "V": np.array([1, 2, 3], np.float32),
    "T": np.random.default_rng(2).normal(size=(2, 3, 3)).astype(np.float32),
    "C": (_S + 1j * _S.T).astype(np.complex64),
    "Z": np.zeros((3, 3), np.float32),
    "N": np.full((3, 3), np.nan, np.float32),
    "R": np.arange(1, 10, dtype=np.float32).reshape(3, 3),
    "D": np.array([[1, 2], [2, np.float32(4.000001)]], np.float32),
}

LAZY = [
    *["inv(S)", "inv(T)", "inv(C)", "inv(D)", "inv(a=S)", "solve(S, V)", "solve(S, F)", "solve(T, T)"],
    *["cholesky(P)", "cholesky(P, upper=True)", "cholesky(N)", "eigh(P)[0]", "eigvalsh(P)", "eigvalsh(S)"],
    *["eigvalsh(S, 'U')", "svd(F)[1]", "svd(F, compute_uv=False)", "svdvals(F)", "svd(F, False)[1]"],
    *["pinv(F)", "pinv(T)", "pinv(F, rcond=0.5)", "pinv(F, rtol=None)", "pinv(Z)", "matrix_rank(F)"],
    *["matrix_rank(R)", "matrix_rank(T)", "matrix_rank(Z)", "cond(S)", "cond(S, -2)", "cond(Z)"],
    *["norm(S, 2)", "norm(S, 'nuc')", "norm(S, -2)", "matrix_norm(S, ord=2)", "matrix_power(S, -2)"],
    *["det(S)", "slogdet(S)", "qr(S)[1]", "matrix_power(S, 3)", "norm(S)"],
]
LEFT = ["lstsq(S, V)[0]", "cond(S, 1)", "matrix_rank(V)", "matrix_rank(F, 0.5)", "svd(P, hermitian=True)[1]"]
REFUSED_AT_ONCE = ["inv(F)", "inv(V)", "solve(S, F.T)", "inv(S.astype('f2'))", "cholesky(F)", "eigh(S, 'X')"]
REFUSED_AT_THE_FLUSH = ["inv(Z)", "inv(R)", "solve(Z, V)", "cholesky(S)", "cholesky(-P)", "svd(N)", "pinv(N)"]
REFUSED_AT_THE_FLUSH += ["norm(N, 2)", "matrix_power(Z, -1)", "svdvals(N)", "matrix_rank(N)"]
TRUTHS = [
    *["np.allclose(S, S)", "np.allclose(S, P)", "np.allclose(N, N, equal_nan=True)", "np.allclose(S, 1.0)"],
    *["np.array_equal(S, S)", "np.array_equal(N, N)", "np.array_equal(N, N, equal_nan=True)"],
    *["np.array_equiv(S, V)", "np.array_equiv(V, V)", "np.isclose(S, P)"],
]


def _lazy(make=lambda value: value):
    return {name: make(jax.lax.optimization_barrier(jnp.asarray(value))) for name, value in ARRAYS.items()}


def _eval(text, arrays):
    return eval(text if text.startswith("np.") else f"np.linalg.{text}", {"np": np, **arrays})


@pytest.mark.parametrize("make", [lambda value: value, mutable], ids=["tensor", "mutable"])
@pytest.mark.parametrize("text", LAZY + TRUTHS)
def test_checked_linalg_calls_stay_lazy_and_give_what_numpy_gives(text, make, clean):
    own = _eval(text, ARRAYS)
    with lazynb.lazy():
        found = _eval(text, _lazy(make))
        assert not lazynb.breaks()
    if isinstance(own, bool):
        assert found.dtype == bool and bool(found) is own
    else:
        assert difference(own, found) is None


@pytest.mark.parametrize("text", ["inv(S)", "svd(F)[1]", "matrix_rank(R)"])
def test_checked_linalg_calls_stay_lazy_in_64_bit_mode(text, clean):
    with jax.enable_x64(True):
        test_checked_linalg_calls_stay_lazy_and_give_what_numpy_gives(text, lambda value: value, None)


@pytest.mark.parametrize("text", LEFT)
def test_other_linalg_calls_break_and_give_what_numpy_gives(text, clean):
    with lazynb.lazy():
        found = _eval(text, _lazy())
        assert lazynb.breaks()
    assert difference(_eval(text, ARRAYS), found) is None


@pytest.mark.parametrize(
    "text", ["matrix_power(S, n - 2)", "cond(S, n)", "svd(F, n > 1)[1]", "matrix_rank(F, n)"]
)
def test_an_option_that_is_pending_breaks(text, clean):
    with lazynb.lazy():
        found = eval(f"np.linalg.{text}", {"np": np, **_lazy(), "n": np.argmax(np.copy(jnp.arange(2) * 1))})
        assert lazynb.breaks()
    expected = eval(f"np.linalg.{text}", {"np": np, **ARRAYS, "n": np.int64(1)})
    assert difference(expected, found) is None


@pytest.mark.parametrize("text", REFUSED_AT_ONCE)
def test_types_and_shapes_are_refused_at_the_call(text, clean):
    with pytest.raises(Exception) as own:
        _eval(text, ARRAYS)
    with lazynb.lazy(), pytest.raises(type(own.value)) as found:
        _eval(text, _lazy())
    assert str(found.value).splitlines()[0] == str(own.value).splitlines()[0]


@pytest.mark.parametrize("text", REFUSED_AT_THE_FLUSH)
def test_values_are_refused_at_the_flush(text, clean):
    with pytest.raises(np.linalg.LinAlgError) as own:
        _eval(text, ARRAYS)
    with lazynb.lazy():
        arrays = _lazy()
        found = _eval(text, arrays)
        other = arrays["S"] * 2
        assert not lazynb.breaks()
        with pytest.raises(np.linalg.LinAlgError) as raised:
            lazynb.sync()
        assert str(raised.value).splitlines()[0] == str(own.value)
        np.testing.assert_array_equal(np.asarray(other), ARRAYS["S"] * 2)  # what does not depend on it
        with pytest.raises(np.linalg.LinAlgError):
            np.asarray(found[0] if isinstance(found, tuple) else found)


def test_the_error_names_the_line_of_the_call(clean):
    with lazynb.lazy():
        singular = jnp.zeros((2, 2)) * 1
        inverse = np.linalg.inv(singular)  # this line
        with pytest.raises(np.linalg.LinAlgError) as raised:
            print(inverse)
    assert any("np.linalg.inv(singular)  # this line" in note for note in raised.value.__notes__)


def test_an_unused_failing_call_raises_once_and_leaves_nothing_pending(clean):
    with lazynb.lazy():
        np.linalg.inv(jnp.zeros((2, 2)) * 1)
        with pytest.raises(np.linalg.LinAlgError) as raised:  # eager NumPy raises too, without a use
            lazynb.sync()
        assert raised.tb is not None and not thread_trace().all_pending()
        lazynb.sync()


def test_a_truth_value_breaks_where_it_is_asked_for(clean):
    with lazynb.lazy():
        x = jnp.arange(3.0) * 1
        is_close = np.allclose(x, x + 1e-9)
        assert not lazynb.breaks()
        assert is_close and not np.array_equal(x, x + 1)
        assert {one.kind for one in lazynb.breaks()} == {"bool"}
        assert np.array_equal(x, x[:2]) is False


def test_errstate_with_raise_makes_linalg_break(clean):
    with lazynb.lazy(), np.errstate(all="raise"):
        np.linalg.inv(jnp.eye(2) * 2)
        assert [one.code for one in lazynb.breaks()] == ["LNB312"]


def test_every_checked_linalg_function_has_a_lazy_implementation():
    assert set(function_rules.CHECKED_LINALG) == set(linalg_checks.CHECKED_FORMS)
