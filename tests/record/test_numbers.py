"""Python's numbers as inputs: what eager JAX makes of them, and no more is said of it."""

import operator
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import assert_same

import lazynb
from lazynb.recording.python_numbers import converter

LARGE = [1e300, -1e300, float("inf"), float("nan"), 1e5, 3.4028236e38]


@pytest.mark.parametrize("dtype", ["float16", "float32", "bfloat16", "complex64"])
@pytest.mark.parametrize(
    "call", [operator.mul, operator.gt, jnp.maximum, lambda x, y: x + y * 2, lambda x, y: y - x]
)
def test_numbers_too_large_for_a_float_type_equal_eager(call, dtype):
    if dtype == "complex64" and call in (operator.gt, jnp.maximum):
        return
    x = np.ones(3).astype(jnp.dtype(dtype))
    for number in LARGE:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert_same(call, x, number)
        with warnings.catch_warnings(), lazynb.lazy():
            warnings.simplefilter("error")
            lazynb.sync(call(jnp.asarray(x), number))


def test_all_float_values_share_one_program(clean):
    with warnings.catch_warnings(), lazynb.lazy():
        warnings.simplefilter("error")
        x = jnp.ones(3)
        lazynb.sync(x)
        found = [float((x * number)[0]) for number in (2.0, 1e300, 3.0, -1e300)]
    assert found == [2.0, float("inf"), 3.0, float("-inf")] and lazynb.cache_info().misses == 2


@pytest.mark.parametrize(
    "kind", [np.float16, np.float32, np.float64, np.complex64, np.int8, np.int32, np.bool_]
)
def test_converters_give_the_same_bytes_as_their_types(kind):
    assert converter(kind) is converter(kind)
    for number in (0, 1, True, -1.5, 1e-50):
        made = converter(kind)(number)
        assert type(made) is kind and made.tobytes() == kind(number).tobytes()
    if issubclass(kind, np.signedinteger):
        with pytest.raises(OverflowError):
            converter(kind)(1 << 40)


def test_numbers_too_large_for_an_integer_type_equal_eager():
    for number in (1 << 40, 10**30):
        assert_same(lambda x, number=number: x + number, np.arange(3, dtype=np.int32))
    assert jax.config.jax_enable_x64 is False
