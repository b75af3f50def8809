"""NumPy's 64-bit integers in JAX's 32-bit mode: places and counts (``np.argmax``, ``np.count_nonzero``).

An array of JAX's can have this type in 32-bit mode, where it is asked for by name. Its operators would go
back to 32 bits, so results are arrays with NumPy's own operators (:mod:`lazynb.frontends.mutable`). What is
done with them is recorded for the functions that are listed here, which were tried with such arrays. JAX
makes 32 bits of constants, so they are put together of their halves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lazynb import _jax as jc
from lazynb.frontends.leaves import is_wide, leaves, map_leaves

INTEGERS = np.dtype(np.int64)

UFUNCS = frozenset(
    """add subtract multiply floor_divide remainder negative positive absolute square equal not_equal less
    less_equal greater greater_equal maximum minimum bitwise_and bitwise_or bitwise_xor invert logical_and
    logical_or logical_not logical_xor""".split()
)
"""Ufuncs that JAX computes in 64 bits where their operands have them."""

PLACES_OR_COUNTS = frozenset(
    f"np.{name}"
    for name in """argmax argmin argsort argpartition searchsorted digitize count_nonzero""".split()
)
"""Functions whose results JAX computes in 32 bits, into which they fit."""

FUNCTIONS = PLACES_OR_COUNTS | frozenset(
    f"np.{name}"
    for name in """sum cumsum cumulative_sum trace diff where take reshape ravel transpose squeeze expand_dims
    broadcast_to concatenate concat stack vstack hstack dstack column_stack append copy astype flip roll tile
    repeat sort all any zeros_like ones_like full_like moveaxis swapaxes rollaxis split array_split
    atleast_1d atleast_2d atleast_3d diag diagonal tril triu take_along_axis""".split()
)
"""Functions that JAX computes in 64 bits, or whose results fit into 32."""


def is_beyond(dtype: Any) -> bool:
    """Whether ``dtype`` is that of such integers, and JAX is in 32-bit mode."""
    return dtype == INTEGERS and not is_wide()


def has_beyond(tree: Any) -> bool:
    """Whether an array of such integers is in ``tree``, or a stand-in for one."""
    return any(is_beyond(getattr(leaf, "dtype", None)) for leaf in leaves(tree))


def allowed(is_needed: bool = True) -> Any:
    """JAX makes arrays of such integers in a ``with`` block, if it ``is_needed``."""
    return jc.explicit_64_bits() if is_needed else contextlib.nullcontext()


def widened(value: Any) -> Any:
    """``value`` as an array of such integers, within a block of :func:`allowed`.

    Raises:
      OverflowError: as NumPy says it.
    """
    if isinstance(value, jax.Array):
        return value.astype(INTEGERS)
    whole: Any = INTEGERS.type(value) if value.__class__ is int else np.asarray(value).astype(INTEGERS)
    low = whole.astype(np.int32)
    if np.array_equal(low, whole):
        return jnp.asarray(low).astype(INTEGERS)
    high = jnp.asarray((whole >> 32).astype(np.int32)).astype(INTEGERS)
    rest = jnp.asarray((whole & 0xFFFFFFFF).astype(np.uint32)).astype(INTEGERS)
    factor = jnp.asarray(np.int32(1 << 16)).astype(INTEGERS)
    return high * factor * factor + rest


def of_places(form: Callable[..., Any]) -> Callable[..., Any]:
    """``form`` with such integers for its places or counts."""

    def wide(*args: Any, **kwargs: Any) -> Any:
        return map_leaves(lambda leaf: leaf.astype(INTEGERS), form(*args, **kwargs))

    return wide


def place_of_most(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """``np.argmax`` of such integers by their halves: JAX's own compares with a constant of 32 bits."""
    high = jax.lax.shift_right_arithmetic(a, jnp.broadcast_to(widened(32), a.shape)).astype(np.int32)
    is_most = high == jnp.max(high, axis, keepdims=True)
    low = jnp.where(is_most, a.astype(np.uint32), np.uint32(0))
    is_most &= low == jnp.max(low, axis, keepdims=True)
    return jnp.argmax(is_most, axis, keepdims=keepdims)


def place_of_least(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """``np.argmin`` of such integers."""
    return place_of_most(~a, axis, keepdims=keepdims)


FORMS: dict[str, Callable[..., Any]] = {"np.argmax": place_of_most, "np.argmin": place_of_least}
"""What is called in place of JAX's function where the first argument has such integers."""


def narrowed(array: Any) -> Any:
    """``array`` as JAX takes NumPy's arrays in 32-bit mode."""
    return array.astype(np.int32) if is_beyond(array.dtype) else array
