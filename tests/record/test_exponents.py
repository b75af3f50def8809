"""Powers: an exponent that is an array is an operand, and so is a Python number that varies."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import assert_same

import lazynb
from lazynb.recording.python_numbers import integer_pow

STEPS = {
    "a pending counter": lambda base, i: base ** (i + 0),
    "a given counter": lambda base, i: base**i,
    "jnp.power": lambda base, i: jnp.power(base, i),
    "an array of exponents": lambda base, i: base ** (i + jnp.arange(3)),
    "a number to a counter": lambda base, i: 0.9 ** (i * 1),
    "a bias correction": lambda base, i: base / (1 - jnp.float32(0.9) ** (i + 1)),
    "under grad": lambda base, i: jax.grad(lambda b: (b**i).sum())(base),
    "under vmap": lambda base, i: jax.vmap(lambda b: b**i)(base),
    "in a jitted function": lambda base, i: jax.jit(lambda b: b**i)(base),
    "whole numbers": lambda base, i: (base.astype(int) + 2) ** (i + 0),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_step_counter_as_exponent_is_no_break_and_compiles_once(step, clean):
    base = np.array([0.5, 0.9, 1.5], np.float32)
    expected = [np.asarray(STEPS[step](jnp.asarray(base), jnp.int32(i))) for i in (1, 2, 3)]
    i = jnp.int32(1)
    for want in expected:
        with lazynb.lazy():
            before = len(lazynb.breaks())
            found = STEPS[step](jnp.asarray(base), i)
            assert len(lazynb.breaks()) == before
            i = i + 1
            lazynb.sync()
        np.testing.assert_allclose(found, want, rtol=1e-6)
    assert lazynb.cache_info().misses <= 2  # the first counter is no lazy tensor


@pytest.mark.parametrize("base", [np.array([0.5, -1.5, 3], np.float32), np.array([2, 3, -1], np.int32)])
def test_a_python_exponent_that_varies_compiles_twice_and_gives_eager_bits(base, clean):
    for exponent in range(1, 9):
        expected = jnp.asarray(base) ** exponent
        with lazynb.lazy():
            found = jnp.asarray(base) ** exponent
            lazynb.sync()
        np.testing.assert_array_equal(found, expected)
    assert lazynb.cache_info().misses == 2


def test_exponents_of_every_kind_give_eager_values():
    floats, whole = jnp.array([0.5, -1.5, 3.0]), jnp.array([2, 3, -1])
    for exponent in (0, 1, 2, 5, 31, -1, -3):
        np.testing.assert_allclose(integer_pow(floats, np.int32(exponent)), floats**exponent, rtol=2e-6)
        if exponent >= 0:
            np.testing.assert_array_equal(integer_pow(whole, np.int32(exponent)), whole**exponent)
    assert np.isnan(integer_pow(jnp.float32("nan"), np.int32(3)))
    assert integer_pow(jnp.float32("nan"), np.int32(0)) == 1
    assert_same(lambda x: [x**2, x**3, x**-1], np.array([0.5, 2], np.float32))
    assert_same(lambda x: x**-1, np.array([1, 2]), raises=True)


def test_exponents_at_different_places_stay_numbers(clean):
    with lazynb.lazy():
        x = jnp.arange(4.0)
        out = x**2 + x**3 + x**4
        assert "while" not in lazynb.graph(out).to_json()
        lazynb.sync()
    with lazynb.lazy():
        x = jnp.arange(4.0)
        jax.block_until_ready(x**2 + x**3 + x**4)
    assert lazynb.cache_info().misses == 1


def test_the_value_is_asked_for_where_nothing_is_recorded():
    with lazynb.lazy():
        i = jnp.int32(2) * 1
        with lazynb.eager():
            squared = jnp.arange(3.0) ** i
    assert not getattr(squared, "is_pending", False)
    np.testing.assert_array_equal(jnp.arange(3.0) ** i, [0, 1, 4])
