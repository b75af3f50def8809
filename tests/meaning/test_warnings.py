"""A warning of JAX or NumPy names the line that it names eagerly."""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb

zeros, astype = jnp.zeros, jnp.astype  # held from before a thread was lazy

CALLS = {
    "by name": lambda x: jnp.astype(x * 1j, jnp.float32),
    "held": lambda x: astype(x * 1j, jnp.float32),
    "of a constant": lambda x: jnp.zeros(3, "float64") + x,
    "held, of a constant": lambda x: zeros(3, "float64") + x,
    "of a method": lambda x: x.astype(np.int64),
    "of an update": lambda x: x.at[0].set(1j),
    "in a jitted function": lambda x: jax.jit(lambda v: astype(v * 1j, jnp.float32))(x),
    "of the numpy function": lambda x: np.log(np.float32(-1)) + x,
}


def warned(call):
    """File, line and text of the warnings of two calls from one line."""
    x = jnp.ones(3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            np.asarray(call(x))
    return [(one.filename, one.lineno, str(one.message)) for one in caught]


@pytest.mark.parametrize("name", CALLS)
def test_a_warning_names_the_line_that_it_names_eagerly(name):
    jax.clear_caches()
    eager = warned(CALLS[name])
    assert eager
    jax.clear_caches()
    with lazynb.lazy():
        lazily = warned(CALLS[name])
    assert lazily == eager
