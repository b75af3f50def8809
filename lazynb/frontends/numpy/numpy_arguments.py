"""Helpers for the arguments of NumPy calls: tree traversal, dtypes, 64-bit mode, fallback to NumPy."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from lazynb import jax_compat as jc


class NumpyFallback(Exception):
    """Raised where JAX cannot give NumPy's result, so that NumPy must run: a trace break.

    Attributes:
      kind: a kind of :data:`lazynb.recording.break_reasons.REASONS`.
      detail: the function and the unsupported argument or result.
    """

    def __init__(self, kind: str, detail: str):
        super().__init__(detail)
        self.kind = kind
        self.detail = detail


def map_leaves(change: Callable[[Any], Any], tree: Any) -> Any:
    """Applies ``change`` to each leaf of ``tree`` (nested lists, tuples and dictionaries)."""
    kind = type(tree)
    if kind is dict:
        return {key: map_leaves(change, value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        values = [map_leaves(change, value) for value in tree]
        if kind is list:
            return values
        return kind(*values) if hasattr(tree, "_fields") else tuple(values)
    return change(tree)


def leaves(tree: Any) -> Iterator[Any]:
    """The leaves of ``tree``, from left to right."""
    if isinstance(tree, dict):
        for value in tree.values():
            yield from leaves(value)
    elif isinstance(tree, list | tuple):
        for value in tree:
            yield from leaves(value)
    else:
        yield tree


def arrays_in(tree: Any) -> Iterator[jax.Array]:
    """The JAX arrays in ``tree``, including lazy tensors."""
    return (leaf for leaf in leaves(tree) if isinstance(leaf, jax.Array))


def uncommitted(tree: Any) -> Any:
    """``tree`` with all arrays uncommitted, because results of NumPy are committed to no device.

    Raises:
      NumpyFallback: an array is committed to another device than the default one.
    """
    if any(leaf.committed for leaf in arrays_in(tree)):
        return map_leaves(_uncommitted_array, tree)
    return tree


def _uncommitted_array(leaf: Any) -> Any:
    if not isinstance(leaf, jax.Array) or not leaf.committed:
        return leaf
    device = jc.default_device()
    if leaf.devices() != {device} or leaf.sharding.memory_kind != jc.uncommitted_sharding(device).memory_kind:
        raise NumpyFallback("numpy_function", "an array that is committed to another device")
    return jc.numpy_array_p.bind(leaf)


_JAX_DTYPES = frozenset(
    """bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64
    complex128""".split()
)


def is_x64() -> bool:
    """Whether JAX is in 64-bit mode."""
    config: Any = jax.config
    return bool(config.jax_enable_x64)


def errstate_raises() -> bool:
    """Whether ``np.errstate`` reports floating-point errors by more than a warning."""
    return any(setting in ("raise", "call", "print", "log") for setting in np.geterr().values())


def is_jax_dtype(dtype: Any) -> bool:
    """Whether a JAX array can have ``dtype`` (at least in 64-bit mode), with the same meaning as in NumPy."""
    return dtype.name in _JAX_DTYPES and dtype.isnative


def without_weak_type(array: Any) -> Any:
    """``array`` without JAX's weak type: in NumPy the dtype of each array counts in promotion."""
    if not array.weak_type:
        return array
    with jax.enable_x64(True):  # otherwise a 64-bit dtype would become 32-bit
        return array.astype(array.dtype)


def small_shapes(shapes: list[tuple[int, ...]]) -> dict[tuple[int, ...], tuple[int, ...]]:
    """Maps each shape to a shape of the same rank with small sizes.

    Equal sizes stay equal and different sizes stay different. Sizes up to 4 are kept.
    """
    sizes: set[int] = set()
    for shape in shapes:
        sizes.update(shape)
    smallest = itertools.count(5)
    small = {}
    for size in sorted(sizes):
        small[size] = size if size <= 4 else next(smallest)
    return {shape: tuple([small[size] for size in shape]) for shape in shapes}


# ---- 64-bit dtypes in JAX's 32-bit mode --------------------------------------------------------------------
# Operations on NumPy's 64-bit dtypes are recorded in 64-bit mode. In 32-bit mode, JAX's functions and
# operators would truncate such values. So the results are :class:`MutableArray`, which has NumPy's operators,
# and are cast to 32 bits where JAX takes them.

_TO_32_BIT = {
    np.dtype(np.int64): np.dtype(np.int32),
    np.dtype(np.uint64): np.dtype(np.uint32),
    np.dtype(np.float64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.complex64),
}
_PLAIN = contextlib.nullcontext()


def needs_x64(dtype: Any) -> bool:
    """Whether ``dtype`` is a 64-bit dtype while JAX is in 32-bit mode."""
    return dtype in _TO_32_BIT and not is_x64()


def has_x64_arrays(tree: Any) -> bool:
    """Whether ``tree`` has an array (or stand-in) with a dtype that :func:`needs_x64`."""
    return any(needs_x64(getattr(leaf, "dtype", None)) for leaf in leaves(tree))


def x64_context(is_needed: bool = True) -> Any:
    """Context manager for 64-bit mode, or a null context if not ``is_needed``."""
    return jax.enable_x64(True) if is_needed else _PLAIN


def x64_for_dtype(dtype: Any) -> Any:
    """Context manager for the mode that keeps ``dtype``."""
    return x64_context(needs_x64(dtype))


def to_32_bit(array: Any) -> Any:
    """``array``, cast to 32 bits if JAX is in 32-bit mode."""
    return array.astype(_TO_32_BIT[array.dtype]) if needs_x64(array.dtype) else array
