"""A call under ``jax.jit``, lazily and eagerly, and how far apart their bits are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from oracle import Call, _arguments, _by_name

import lazynb


class NoProgram(Exception):
    """``jax.jit`` cannot compile the call; JAX's error is the cause."""


def lazily(call: Call) -> list[np.ndarray]:
    """The arrays that the call gives, computed as one lazy program."""
    args, kwargs = _arguments(call)
    with lazynb.lazy():
        result = _by_name(call.fn)(*args, **kwargs)
        lazynb.sync(result)
        return _arrays(result)


def eagerly(call: Call) -> list[np.ndarray]:
    """The same, one operation at a time."""
    args, kwargs = _arguments(call)
    return _arrays(_by_name(call.fn)(*args, **kwargs))


def under_jit(call: Call, is_argument: Callable[[Any], bool]) -> list[np.ndarray]:
    """The same, as one program of ``jax.jit``'s.

    Arguments:
      is_argument: whether a leaf of the call's arguments is one of the program's; the others are constants.

    Raises:
      NoProgram: it cannot be compiled.
    """
    leaves, structure = jax.tree.flatten(_arguments(call))
    places = [number for number, leaf in enumerate(leaves) if is_argument(leaf)]

    def program(values: list[Any]) -> list[Any]:
        filled = list(leaves)
        for number, value in zip(places, values, strict=True):
            filled[number] = value
        args, kwargs = jax.tree.unflatten(structure, filled)
        found = jax.tree.leaves(_by_name(call.fn)(*args, **kwargs))
        return [leaf for leaf in found if isinstance(leaf, jax.Array)]

    try:
        return _arrays(jax.jit(program)([leaves[number] for number in places]))
    except Exception as error:
        raise NoProgram() from error


def is_array(leaf: Any) -> bool:
    """Whether a leaf of a call's arguments is an array."""
    return isinstance(leaf, jax.Array)


def is_number(leaf: Any) -> bool:
    """Whether it is an array or a number of Python's, which is an input of a lazy program too."""
    return isinstance(leaf, jax.Array | float | complex) or type(leaf) is int


def _arrays(tree: Any) -> list[np.ndarray]:
    arrays = [leaf for leaf in jax.tree.leaves(tree) if isinstance(leaf, jax.Array)]
    keyless = [jax.random.key_data(a) if jnp.issubdtype(a.dtype, jax.dtypes.extended) else a for a in arrays]
    return [np.asarray(array) for array in keyless]


def same_bits(first: list[np.ndarray], second: list[np.ndarray]) -> bool:
    """Whether the arrays are equal bit for bit; one NaN is as good as another."""
    return len(first) == len(second) and all(map(_same, first, second))


def _same(first: np.ndarray, second: np.ndarray) -> bool:
    if first.dtype != second.dtype or first.shape != second.shape:
        return False
    if not jnp.issubdtype(first.dtype, np.inexact):
        return first.tobytes() == second.tobytes()
    parts = zip(_real(first), _real(second), strict=True)
    return all(_same_floats(one, other) for one, other in parts)


def _same_floats(first: np.ndarray, second: np.ndarray) -> bool:
    is_nan = np.isnan(first.astype(np.float64))
    if not np.array_equal(is_nan, np.isnan(second.astype(np.float64))):
        return False
    return first[~is_nan].tobytes() == second[~is_nan].tobytes()


def _real(array: np.ndarray) -> list[np.ndarray]:
    """The array, of a complex one its two parts."""
    if jnp.issubdtype(array.dtype, np.complexfloating):
        return [array.real, array.imag]
    return [array]


def ulps(first: np.ndarray, second: np.ndarray) -> float:
    """The largest distance of two results, in units in the last place of the largest finite number in the first.
    Infinite where one is finite and the other is not."""
    if not jnp.issubdtype(first.dtype, np.inexact):
        return 0.0 if first.tobytes() == second.tobytes() else float("inf")
    most = 0.0
    largest = max((_largest(part) for part in _real(first)), default=0.0)
    for one, other in zip(_real(first), _real(second), strict=True):
        unit = float(jnp.finfo(one.dtype).eps) * max(largest, float(jnp.finfo(one.dtype).tiny))
        one, other = one.astype(np.float64), other.astype(np.float64)
        finite = np.isfinite(one)
        if not np.array_equal(finite, np.isfinite(other)):
            return float("inf")
        if not np.array_equal(one[~finite], other[~finite], equal_nan=True):
            return float("inf")
        if finite.any():
            most = max(most, float(np.max(np.abs(one[finite] - other[finite]))) / unit)
    return most


def _largest(part: np.ndarray) -> float:
    wide = part.astype(np.float64)
    return float(np.max(np.abs(np.where(np.isfinite(wide), wide, 0.0)), initial=0.0))
