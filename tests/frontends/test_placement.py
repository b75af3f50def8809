"""NumPy's arrays are on no device of JAX's: what is recorded for a committed array is committed where eager JAX's result is."""

from __future__ import annotations

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from lazynb.frontends.numpy import function_names, function_rules
from lazynb.recording.lazy_tensor import LazyTensor

LEFT_OUT = (
    function_rules.IN_PLACE_FUNCTIONS
    | function_rules.TEXT_FUNCTIONS
    | {"np.empty_like", "np.imag", "np.isreal", "np.trim_zeros", "np.unstack"}
)
"""The imaginary part of real numbers is JAX's own zeros; NumPy takes the others apart by indices, in Python."""


def _arguments(x):
    return [
        (x,),
        (x, x),
        (x, (3, 2)),
        (x, 0),
        (x, 0, 1),
        (x, 0, 0),
        ([x, x],),
        (x > 1, x, x),
        (x[0], 1),
        (x[:, :2],),
    ]


def _results(function, number, x):
    try:
        return jax.tree.leaves(function(*_arguments(x)[number]))
    except Exception:
        return []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "function",
    [f for f, (name, _, _) in function_names.NAMES.items() if name not in LEFT_OUT],
    ids=lambda function: function_names.NAMES[function][0],
)
def test_function_results_are_committed_as_in_eager_jax(function):
    x = jax.device_put(jnp.arange(6.0).reshape(2, 3) + 1, jax.devices()[0])
    lazynb.sync(x)
    for number in range(len(_arguments(x))):
        expected = _results(function, number, x)
        with lazynb.lazy():
            found = _results(function, number, x)
            for one, other in zip(found, expected, strict=False):
                if isinstance(one, LazyTensor) and one._pending is not None:
                    assert one.committed == (isinstance(other, jax.Array) and other.committed), number
                if isinstance(other, np.ndarray | jax.Array) and np.issubdtype(other.dtype, np.number):
                    np.testing.assert_allclose(
                        np.asarray(one), np.asarray(other), rtol=1e-5, atol=1e-6, err_msg=str(number)
                    )
            del found
            with contextlib.suppress(np.linalg.LinAlgError):  # of a matrix that eager NumPy refuses too
                lazynb.sync()


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.add(x, 1),
        lambda x: np.add.reduce(x),
        lambda x: np.modf(x)[0],
        lambda x: np.multiply.outer(x, x),
        lambda x: np.matmul(x, x),
        lambda x: np.add(1.0, x * 2),
    ],
)
def test_ufunc_results_are_uncommitted_as_in_eager_jax(call):
    with lazynb.lazy():
        x = jax.device_put(jnp.arange(3.0), jax.devices()[0])
        y = jnp.asarray(call(x)) + 1.0
        assert y._pending is not None
        assert (x + 1.0).committed and not y.committed
        both = y + jax.device_put(np.float32(1), jax.devices()[0])
        assert both.committed
    lazynb.sync(y, both)
    assert not y.committed and both.committed
    with lazynb.eager():
        assert y.tolist() == (jnp.asarray(call(x)) + 1.0).tolist()
