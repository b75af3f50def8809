"""The arrays in the arguments of a call, and a call that NumPy itself has to make."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from lazynb import jax_compat as jc


class NumpyFallback(Exception):
    """JAX cannot give what NumPy gives: a trace break.

    Attributes:
      kind: a kind of :data:`lazynb.recording.break_reasons.REASONS`.
      detail: the function, and what of it.
    """

    def __init__(self, kind: str, detail: str):
        super().__init__(detail)
        self.kind = kind
        self.detail = detail


def map_leaves(change: Callable[[Any], Any], tree: Any) -> Any:
    """``tree`` (of lists, tuples and dictionaries, however nested) with each leaf changed."""
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
    """The arrays of JAX's in ``tree``, lazy tensors among them."""
    return (leaf for leaf in leaves(tree) if isinstance(leaf, jax.Array))


def uncommitted(tree: Any) -> Any:
    """``tree`` with arrays that are committed to no device: NumPy's results are committed to none.

    Raises:
      Numpy: an array is on another device than the default one.
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
    """Whether NumPy is set to report floating-point errors by more than a warning (``np.errstate``)."""
    return any(setting in ("raise", "call", "print", "log") for setting in np.geterr().values())


def is_jax_dtype(dtype: Any) -> bool:
    """Whether an array of JAX's can have ``dtype``, in 64-bit mode at least, and NumPy means the same by
    it."""
    return dtype.name in _JAX_DTYPES and dtype.isnative


def without_weak_type(array: Any) -> Any:
    """``array`` without JAX's weak type: to NumPy each array's dtype counts."""
    if not array.weak_type:
        return array
    with jax.enable_x64(True):  # or a 64-bit type would not stay
        return array.astype(array.dtype)


def small_shapes(shapes: list[tuple[int, ...]]) -> dict[tuple[int, ...], tuple[int, ...]]:
    """A shape of the same rank with small sizes, by shape.

    Equal sizes stay equal and different ones different. Sizes up to 4 stay as they are.
    """
    sizes: set[int] = set()
    for shape in shapes:
        sizes.update(shape)
    smallest = itertools.count(5)
    small = {}
    for size in sorted(sizes):
        small[size] = size if size <= 4 else next(smallest)
    return {shape: tuple([small[size] for size in shape]) for shape in shapes}


# ---- NumPy's 64-bit types in JAX's 32-bit mode: what has such types is recorded in 64-bit mode ------------
# JAX's own functions and operators would make 32 bits of such values outside of that mode. So results are
# arrays with NumPy's operators (:mod:`lazynb.frontends.numpy.mutable_array`), and become 32-bit ones where
# JAX takes them.

_TO_32_BIT = {
    np.dtype(np.int64): np.dtype(np.int32),
    np.dtype(np.uint64): np.dtype(np.uint32),
    np.dtype(np.float64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.complex64),
}
_PLAIN = contextlib.nullcontext()


def needs_x64(dtype: Any) -> bool:
    """Whether ``dtype`` is a 64-bit type, and JAX is in 32-bit mode."""
    return dtype in _TO_32_BIT and not is_x64()


def has_x64_arrays(tree: Any) -> bool:
    """Whether an array of such a type is in ``tree``, or a stand-in for one."""
    return any(needs_x64(getattr(leaf, "dtype", None)) for leaf in leaves(tree))


def x64_context(is_needed: bool = True) -> Any:
    """64-bit mode in a ``with`` block, if it ``is_needed``."""
    return jax.enable_x64(True) if is_needed else _PLAIN


def x64_for_dtype(dtype: Any) -> Any:
    """The mode in a ``with`` block in which ``dtype`` stays."""
    return x64_context(needs_x64(dtype))


def to_32_bit(array: Any) -> Any:
    """``array`` as JAX takes NumPy's arrays in the present mode."""
    return array.astype(_TO_32_BIT[array.dtype]) if needs_x64(array.dtype) else array
