"""Operands that are not what they seem: numbers that raise, objects that lie about their class, arrays of another
byte order or layout. Results and errors are those of eager JAX."""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from lazynb.recording.lazy_tensor import LazyTensor


class RaisingFloat(float):
    def __float__(self):
        raise RuntimeError("no float")


class RaisingHash(float):
    def __hash__(self):
        raise RuntimeError("no hash")


class RaisingEqual(float):
    __hash__ = float.__hash__

    def __eq__(self, other):
        raise RuntimeError("no comparison")


class RaisingIndex:
    def __index__(self):
        raise RuntimeError("no index")


class SaysInt(float):
    __class__ = property(lambda self: int)


class SaysFloat:
    __class__ = property(lambda self: float)


class SaysArray:
    __class__ = property(lambda self: type(jnp.ones(1)))


class SaysTensor:
    __class__ = property(lambda self: LazyTensor)


class RaisingClass:
    @property
    def __class__(self):
        raise RuntimeError("no class")


OPERANDS = {
    "raising float": RaisingFloat(2.5),
    "raising hash": RaisingHash(2.5),
    "raising equal": RaisingEqual(2.5),
    "raising index": RaisingIndex(),
    "says int": SaysInt(2.5),
    "says float": SaysFloat(),
    "says array": SaysArray(),
    "says tensor": SaysTensor(),
    "raising class": RaisingClass(),
    "big-endian float": np.arange(3, dtype=">f4"),
    "big-endian int": np.arange(3, dtype=">i4"),
    "big-endian zero-dimensional": np.array(2, dtype=">i2"),
    "every other": np.arange(6.0)[::2],
    "reversed": np.arange(3.0)[::-1],
    "read-only": np.broadcast_to(np.float32(1), (3,)),
    "unaligned": np.frombuffer(b"\0" * 13, dtype="<f4", offset=1, count=3),
    "huge": 2**70,
    "objects": np.array([1, None, 2], object),
}
OPERATIONS = {
    "x + o": lambda x, o: x + o,
    "o * x": lambda x, o: o * x,
    "x ** o": lambda x, o: x**o,
    "x[o]": lambda x, o: x[o],
    "x == o": lambda x, o: x == o,
    "jnp.maximum": lambda x, o: jnp.maximum(x, o),
    "jnp.where": lambda x, o: jnp.where(x > 1, x, o),
    "lax.add": lambda x, o: jax.lax.add(x, o),
    "at set": lambda x, o: x.at[0].set(o),
    "shift": lambda x, o: x.astype(int) << o,
    "jit": lambda x, o: jax.jit(lambda a, b: a * b)(x, o),
    "reshape": lambda x, o: x.reshape(o),
    "full": lambda x, o: jnp.full((3,), o),
}


def outcome(operation, operand):
    """The type of the error, or dtype and values."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = operation(jnp.arange(3.0) * 1, operand)
            return str(result.dtype), np.asarray(result).tolist()
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("name", OPERATIONS)
def test_each_operand_gives_eagers_result_or_error(name):
    operation, wrong = OPERATIONS[name], []
    jax.clear_caches()  # a compiled call reads a float's own value: eager JAX raises only before that
    for kind, operand in OPERANDS.items():
        eager = outcome(operation, operand)
        with lazynb.lazy():
            lazily = [outcome(operation, operand) for _ in range(3)]
        if any(repr(one) != repr(eager) for one in lazily):
            wrong.append((kind, eager, lazily))
    assert not wrong
