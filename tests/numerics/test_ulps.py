"""Distances in ULPs, against NumPy's own spacing and neighbours."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from lazynb.compare.numerics.float_arrays import distance, nonfinite_origins, to_widest, ulp


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_an_ulp_is_numpys_spacing(dtype):
    about = np.finfo(dtype)
    for number in (1, 1.5, 2, 3, 1000.5, float(about.tiny), float(about.tiny) / 4, 0, float(about.max) / 2):
        number = float(dtype(number))  # of subnormal ones too
        assert ulp(number, dtype) == np.spacing(dtype(number)), number


def test_an_ulp_of_bfloat16_is_its_spacing():
    assert ulp(1.0, jnp.bfloat16) == 2.0**-7 and ulp(300.0, jnp.bfloat16) == 2.0


@pytest.mark.parametrize("dtype", [np.float16, np.float32, jnp.bfloat16])
def test_neighbours_are_one_ulp_apart(dtype):
    one = np.array([1.25, -3.0, 1e-3], np.float32).astype(dtype)
    other = (to_widest(one) + ulp(abs(to_widest(one)), dtype)).astype(dtype)
    apart = distance(one, other, dtype)
    assert apart.ulps == 1 and apart.differing == 3


def test_equal_nonfinite_values_are_no_distance_apart_and_others_infinite():
    nan, inf = np.float32(np.nan), np.float32(np.inf)
    equal = distance(np.array([nan, inf, -inf], np.float32), np.array([nan, inf, -inf]), np.float32)
    assert (equal.ulps, equal.relative, equal.differing, equal.index) == (0, 0, 0, None)
    for first, second in ((nan, 1), (inf, 1), (inf, -inf), (inf, nan), (1, inf)):
        apart = distance(np.array([0, first], np.float32), np.array([0, second], np.float32), np.float32)
        assert (apart.ulps, apart.relative, apart.index) == (np.inf, np.inf, (1,))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.complex64])
def test_zeros_of_different_signs_differ_by_no_ulp(dtype):
    zero = distance(np.array([1, 0.0], dtype), np.array([1, -0.0], dtype), dtype)
    assert (zero.ulps, zero.relative, zero.differing, zero.index) == (0, 0, 1, (1,))


def test_complex_numbers_are_equal_if_both_parts_are():
    nan, one = np.nan, np.array([complex(np.inf, 1)], np.complex64)
    assert distance(one, one, np.complex64).differing == 0
    assert distance(one, np.array([complex(np.inf, 2)], np.complex64), np.complex64).ulps == np.inf
    for other, differing in [(complex(nan, 1), 0), (complex(nan, 2), 1), (complex(1, nan), 1)]:
        parts = np.array([complex(nan, 1)], np.complex64), np.array([other], np.complex64)
        assert distance(*parts, np.complex64).differing == differing


def test_integers_have_no_ulps_and_empty_arrays_no_distance():
    apart = distance(np.array([1, 5]), np.array([1, 2]), np.int32)
    assert (apart.ulps, apart.relative, apart.differing, apart.index) == (None, 3, 1, (1,))
    assert distance(np.zeros(0), np.zeros(0), np.float32).ulps == 0


def test_complex_numbers_have_a_distance_in_ulps():
    one = np.array([1 + 1j], np.complex64)
    assert distance(one, one * np.float32(1 + 2.0**-22), np.complex64).ulps > 1


def kinds(name, operands, result):
    return [(one.kind, one.count, one.index) for one in nonfinite_origins(name, operands, [np.array(result)])]


def test_new_nan_and_inf_are_found_at_the_operation_that_makes_them():
    inf, nan = np.inf, np.nan
    x = np.array([1.0, 0.0, inf])
    assert kinds("div", [np.ones(3), x], [1.0, inf, 0.0]) == [("Inf", 1, (1,))]
    assert kinds("sub", [x, x], [0.0, 0.0, nan]) == [("NaN", 1, (2,))]  # of an infinity
    assert kinds("mul", [x, np.array(2.0)], [2.0, 0.0, inf]) == []
    assert kinds("add", [np.array([1.0, 1.0, nan]), x], [2.0, 1.0, nan]) == []
    assert kinds("rev", [x], [inf, 0.0, 1.0]) == []  # elements move: asked as a whole
    assert kinds("reduce_sum", [np.full(3, 1e38)], inf) == [("Inf", 1, ())]
    assert kinds("gt", [x, x], [True, False, True]) == []
