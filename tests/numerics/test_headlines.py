"""Headlines about NaN, infinities and zeros: the truth is NumPy's reading of ``f(x)`` and ``jax.jit(f)(x)``."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from lazynb.report.numerics_report import headline, to_html

pytestmark = pytest.mark.usefixtures("clean")
GREEN, NAN, INF = "#009E73", np.nan, np.inf


def ratio(d):
    return d / d


def excess(x):
    """In bfloat16 eagerly 1.0; XLA keeps more precision, in which the difference is 0, and so NaN."""
    return ratio((x + 256) - 256 - x)


PROGRAMS = {
    "fma": (lambda x: ratio(x * x - jnp.float32(0.1) * jnp.float32(0.1)), [0.1, 0.3], np.float32),
    "excess": (excess, [1.0, 3.0], jnp.bfloat16),
    "divisions": (lambda x: (x / x) / x, [1e-30, 1.0], np.float32),
    "product": (lambda x: jnp.exp(x) * jnp.exp(-x), [100.0, 1.0], np.float32),
    "log": (jnp.log, [-1.0, 2.0], np.float32),
    "passed": (lambda x: x * 2 + 1, [NAN, NAN, NAN], np.float32),
    "one passed": (lambda x: jnp.maximum(x, 1.0), [NAN, 2.0], np.float32),
    "difference": (lambda x: x - x, [INF, 1.0], np.float32),
    "infinite": (lambda x: x * 2, [INF, -INF], np.float32),
    "negative zero": (lambda x: x + 0.0, [-0.0, 1.0], np.float32),
    "zeros": (lambda x: x * -1.0, [0.0, 1.0], np.float32),
    "complex": (lambda x: x / x, [0j, 1 + 1j], np.complex64),
    "complex infinite": (lambda x: x * x, [complex(INF, 1), 1 + 1j], np.complex64),
    "integers": (lambda x: x // 0, [1, 2], np.int32),
    "half": (lambda x: x * x / x, [300.0, 1.0], np.float16),
    "rounding": (lambda x: jnp.tanh(x) * jnp.exp(x) * 3 + x, np.linspace(-1, 1, 65), np.float32),
    "rounding and NaN": (lambda x: jnp.sqrt(x) * x + 0.1, [*np.linspace(0.1, 1, 65), -1.0], np.float32),
    "compared": (lambda x: x > 0, [NAN, 1.0], np.float32),
    "empty": (lambda x: x * 2, [], np.float32),
}


def bits(array):
    return np.asarray(array).tobytes()


def nans(array):
    array = np.asarray(array)
    return np.isnan(array.astype(np.complex128)) if array.dtype.kind != "b" else np.zeros(array.shape, bool)


@pytest.mark.parametrize("name", PROGRAMS)
def test_headlines_are_true_of_the_results(name):
    function, values, dtype = PROGRAMS[name]
    x = jnp.asarray(values, dtype)
    eager, compiled = function(x), jax.jit(function)(x)
    found = lazynb.numerics(function, x)
    said, is_green = headline(found), GREEN in to_html(found)
    one, other = nans(eager), nans(compiled)
    assert "∞" not in said
    if (one | other).any():
        assert not is_green and "NaN" in said
    if (one != other).any() or (np.isinf(eager) != np.isinf(compiled)).any():
        assert "part at" in said and found.first is not None and not is_green
    both = one & other
    assert found.nan_results == (both.sum(), one.size)
    if (one == other).all() and bits(np.where(both, 0, eager)) == bits(np.where(both, 0, compiled)):
        assert "differ by" not in said and "part" not in said and "are" in said
        assert ("equal to the bit" in said) == (not both.all() or not one.size)
    else:
        assert "results are" not in said and "values are" not in said


def test_zeros_of_different_signs_are_not_equal_to_the_bit():
    found = lazynb.numerics(lambda x: x + 0.0, jnp.array([-0.0, 1.0]))
    if bits(found.operations[-1].compiled) == bits(-0.0):  # XLA leaves out the sum
        assert "differ in the sign of zeros alone" in headline(found)
        assert found.operations[-1].verdict == "sign" and found.operations[-1].index == (0,)
        assert found.first is None and found.operations[-1].ulps == 0


def test_nan_in_both_is_told_beside_the_verdict():
    found = lazynb.numerics(lambda x: jnp.log(x) * 2, jnp.array([-1.0, 1.0, -3.0]))
    assert [one.nans for one in found.operations if one.name in ("log", "mul")] == [2, 2]
    assert "equal, 2 NaN in both" in repr(found)
    assert (
        headline(found)
        .partition(" · ")[0]
        .endswith("NaN in the same 2 of 3 elements, and equal to the bit in the others")
    )
