"""The arrays in the arguments of a call, and a call that NumPy itself has to make."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from lazynb import _jax as jc


class Numpy(Exception):
    """JAX cannot give what NumPy gives: a trace break.

    Attributes:
      kind: a kind of :data:`lazynb.reasons.REASONS`.
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


def unplaced(tree: Any) -> Any:
    """``tree`` with arrays that are committed to no device: NumPy's results are committed to none.

    Raises:
      Numpy: an array is on another device than the default one.
    """
    if any(leaf.committed for leaf in arrays_in(tree)):
        return map_leaves(_unplaced, tree)
    return tree


def _unplaced(leaf: Any) -> Any:
    if not isinstance(leaf, jax.Array) or not leaf.committed:
        return leaf
    device = jc.default_device()
    if leaf.devices() != {device} or leaf.sharding.memory_kind != jc.uncommitted_sharding(device).memory_kind:
        raise Numpy("numpy_function", "an array that is committed to another device")
    return jc.numpy_array_p.bind(leaf)


_HELD = frozenset(
    """bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64
    complex128""".split()
)


def is_wide() -> bool:
    """Whether JAX is in 64-bit mode."""
    config: Any = jax.config
    return bool(config.jax_enable_x64)


def reports_errors() -> bool:
    """Whether NumPy is set to report floating-point errors by more than a warning (``np.errstate``)."""
    return any(setting in ("raise", "call", "print", "log") for setting in np.geterr().values())


def holds(dtype: Any) -> bool:
    """Whether an array of JAX's can have ``dtype``, in 64-bit mode at least, and NumPy means the same by
    it."""
    return dtype.name in _HELD and dtype.isnative


def strong(array: Any) -> Any:
    """``array`` without JAX's weak type: to NumPy each array's dtype counts."""
    if not array.weak_type:
        return array
    with jax.enable_x64(True):  # or a 64-bit type would not stay
        return array.astype(array.dtype)


def shrunken(shapes: list[tuple[int, ...]]) -> dict[tuple[int, ...], tuple[int, ...]]:
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
