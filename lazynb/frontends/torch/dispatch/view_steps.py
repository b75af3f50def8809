"""PyTorch's mutable memory on immutable arrays: storages, and views as steps from the storage's array.

A storage holds one array. A tensor is a storage and the steps from its array to the tensor's values (slice,
transpose, reshape, ...). A write to a tensor makes a new array for the storage, so every view sees the new
values. A view recomputes its values when it is read after a write. LazyTensor (Suhan et al. 2021) and
PyTorch's functionalization work in the same way.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from lazynb.frontends.torch.dispatch import complex32
from lazynb.frontends.torch.dispatch.complex32 import ViewStep as ViewStep, jax_dtype
from lazynb.frontends.torch.dispatch.tensor_layout import Layout, layout as layout_with

# ---- Reinterpreting views: ``view(dtype)``, complex, conjugate ---------------------------------------------

aten = torch.ops.aten
lax = jax.lax

CONJUGATE = ViewStep(lambda x: jnp.conj(x), lambda x, new: jnp.conj(new))
NEGATIVE = ViewStep(lambda x: -x, lambda x, new: -new)


def reinterpret_step(shape: tuple[int, ...], dtype: torch.dtype) -> ViewStep:
    """The step that reinterprets the bytes as an array of ``shape`` and ``dtype``."""
    wanted = jax_dtype(dtype)
    return ViewStep(
        lambda x: _reinterpret(x, shape, wanted), lambda x, new: _reinterpret(new, x.shape, x.dtype)
    )


def _reinterpret(x: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """The bytes of ``x`` in C order, as an array of ``shape`` and ``dtype``."""
    parts, part = _flat_components(x), _component_dtype(dtype)
    ratio = part.itemsize // parts.dtype.itemsize
    if ratio > 1:
        parts = parts.reshape((-1, ratio))
    parts = lax.bitcast_convert_type(parts, part).reshape(-1)
    if dtype.kind == "b":
        return (parts != 0).reshape(shape)
    if dtype.kind == "c":
        return lax.complex(parts[0::2], parts[1::2]).reshape(shape)
    return parts.reshape(shape)


def _flat_components(x: Any) -> Any:
    """The components of ``x`` as a flat array of a dtype that JAX can bitcast."""
    flat = x.reshape(-1)
    if x.dtype.kind == "b":
        return flat.astype(np.uint8)
    if x.dtype.kind == "c":
        return jnp.stack([jnp.real(flat), jnp.imag(flat)], axis=-1).reshape(-1)
    return flat


def _component_dtype(dtype: Any) -> Any:
    """The dtype of the components of a number of ``dtype``."""
    if dtype.kind == "b":
        return np.dtype(np.uint8)
    if dtype.kind == "c":
        return np.dtype(f"float{4 * dtype.itemsize}")
    return dtype


def reinterpreted_layout(whole: Layout, dtype: torch.dtype) -> Layout | None:
    """The layout of a storage reinterpreted as ``dtype``; None for a wider ``dtype``, whose bytes may be
    apart."""
    ratio, rest = divmod(whole.dtype.itemsize, dtype.itemsize)
    if rest or not ratio:
        return None
    if ratio == 1:
        return layout_with(whole.shape, whole.stride, whole.offset, dtype)
    stride = tuple([step * ratio for step in whole.stride])
    return layout_with((*whole.shape, ratio), (*stride, 1), whole.offset * ratio, dtype)


class Storage:
    """A replaceable array: the memory of tensors.

    Attributes:
      value: the array; None if nothing was written yet (``torch.empty``) or ``host`` has the values.
      host: small integers on the host (:mod:`.known_integers`, :mod:`.deferred_integers`), or None.
      version: the number of writes.
      layout: layout of the tensor for which the storage was made; ``value`` has this layout in memory.
      bounds: the least and largest possible number of a pending ``value``; None if unknown.
      address: a number that stands for the memory address; 0 until :func:`address` is called.
    """

    __slots__ = ("__weakref__", "address", "bounds", "host", "layout", "value", "version")

    def __init__(self, value: Any, layout: Any) -> None:
        self.value = value
        self.host: Any = None
        self.version = 0
        self.layout = layout
        self.bounds: tuple[int, int] | None = None
        self.address = 0

    def read(self) -> Any:
        """The array; zeros if nothing was written yet."""
        if self.value is None:
            self.value = self.layout.zeros() if self.host is None else self.host.array()
        return self.value

    def write(self, value: Any) -> None:
        """Replaces the array."""
        self.value, self.host = value, None
        self.version += 1
        self.bounds = None

    def copied(self) -> Storage:
        """A new storage that shares the immutable array."""
        new = Storage(self.value, self.layout)
        new.host, new.bounds = self.host, self.bounds
        return new

    def set_host_values(self, host: Any) -> None:
        """Replaces the array by values that the host has or will compute."""
        self.write(None)
        self.host = host


class NotAView(Exception):
    """A view operation of PyTorch returned values that are not elements of its argument."""


def _reshaped(shape: tuple[int, ...]) -> ViewStep:
    return ViewStep(lambda x: x.reshape(shape), lambda x, new: new.reshape(x.shape))


def _permuted(order: tuple[int, ...]) -> ViewStep:
    back = tuple(int(at) for at in np.argsort(order))
    return ViewStep(lambda x: jax.lax.transpose(x, order), lambda x, new: jax.lax.transpose(new, back))


def _slices(index: tuple[slice, ...]) -> ViewStep:
    """The slices ``index`` of the first axes."""

    def write(x: Any, new: Any) -> Any:
        if new.shape == x.shape:
            return new
        bounds = _bounds(index, x.shape)
        if all(step == 1 for _, _, step in bounds):
            return jax.lax.dynamic_update_slice(x, new, [np.int32(start) for start, _, _ in bounds])
        return x.at[index].set(new)

    def read(x: Any) -> Any:
        bounds = _bounds(index, x.shape)
        starts = [start for start, _, _ in bounds]
        ends = [max(start, end) for start, end, _ in bounds]
        return jax.lax.slice(x, starts, ends, [step for _, _, step in bounds])

    return ViewStep(read, write)


def _bounds(index: tuple[slice, ...], shape: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """The start, end and step along each axis. Axes beyond ``index`` are taken whole."""
    bounds = [part.indices(size) for part, size in zip(index, shape, strict=False)]
    return bounds + [(0, size, 1) for size in shape[len(bounds) :]]


def _selected(dim: int, at: int) -> ViewStep:
    """Element ``at`` (from 0) of axis ``dim``."""
    inner = _slices((*[slice(None)] * dim, slice(at, at + 1)))

    def read(x: Any) -> Any:
        return inner.read(x).reshape((*x.shape[:dim], *x.shape[dim + 1 :]))

    return ViewStep(
        read, lambda x, new: inner.write(x, new.reshape((*x.shape[:dim], 1, *x.shape[dim + 1 :])))
    )


def _gathered(index: np.ndarray) -> ViewStep:
    """Elements by flat index, for views without a simpler description."""
    overlaps = np.unique(index).size < index.size

    def read(x: Any) -> Any:
        return x.reshape(-1)[jnp.asarray(index)]

    def write(x: Any, new: Any) -> Any:
        at = jnp.asarray(index)
        if overlaps:  # of duplicates, only those that a further view changed count
            at = jnp.where(_is_same(new, read(x)), x.size, at)
        return x.reshape(-1).at[at].set(new, mode="drop").reshape(x.shape)

    return ViewStep(read, write)


def _is_same(a: Any, b: Any) -> Any:
    """Where two arrays are equal, or both NaN."""
    return (a == b) | ((a != a) & (b != b))


def _expanded(shape: tuple[int, ...]) -> ViewStep:
    def write(x: Any, new: Any) -> Any:
        """PyTorch forbids writes to overlapping elements, but a further view may select one of them."""
        if new.size == x.size:
            return new.reshape(x.shape)
        added = len(shape) - x.ndim
        wide = [axis for axis, size in enumerate(shape) if axis < added or size != x.shape[axis - added]]
        order = [axis for axis in range(len(shape)) if axis not in wide] + wide
        each = jax.lax.transpose(new, order).reshape((x.size, -1))
        before = jax.lax.transpose(jnp.broadcast_to(x, shape), order).reshape((x.size, -1))
        place = jnp.argmax(~_is_same(each, before), axis=1)
        return jnp.take_along_axis(each, place[:, None], axis=1).reshape(x.shape)

    return ViewStep(lambda x: jnp.broadcast_to(x, shape), write)


IDENTITY = ViewStep(lambda x: x, lambda x, new: new)


def _axis(dim: int, rank: int) -> int:
    return dim + rank if dim < 0 else dim


def slice_step(
    shape: tuple[int, ...], dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> ViewStep:
    """The step for ``x[start:end:step]`` along ``dim``."""
    part = slice(_plain(start), _plain(end), step)
    return _slices((*[slice(None)] * _axis(dim, len(shape)), part))


def _plain(bound: Any) -> int | None:
    return None if bound is None else int(bound)


def select_step(shape: tuple[int, ...], dim: int, index: int) -> ViewStep:
    """The step for ``x.select(dim, index)``."""
    dim = _axis(dim, len(shape))
    return _selected(dim, index + shape[dim] if index < 0 else index)


def _transpose_step(shape: tuple[int, ...], dim0: int, dim1: int) -> ViewStep:
    order = list(range(len(shape)))
    if not order:
        return IDENTITY
    dim0, dim1 = _axis(dim0, len(order)), _axis(dim1, len(order))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return _permuted(tuple(order))


def _t_step(shape: tuple[int, ...]) -> ViewStep:
    return _permuted(tuple(reversed(range(len(shape)))))


def _permute_step(shape: tuple[int, ...], dims: list[int]) -> ViewStep:
    return _permuted(tuple(_axis(dim, len(shape)) for dim in dims))


def _pieces(dim: int, sizes: list[int], rank: int) -> list[ViewStep]:
    ends = np.cumsum(sizes).tolist()
    lead = [slice(None)] * _axis(dim, rank)
    return [_slices((*lead, slice(end - size, end))) for size, end in zip(sizes, ends, strict=True)]


def _split_step(shape: tuple[int, ...], size: int, dim: int = 0) -> list[ViewStep]:
    rank = len(shape)
    if size == 0:
        return _pieces(dim, [0], rank)
    whole = shape[_axis(dim, rank)]
    count = max(1, -(-whole // size))
    return _pieces(dim, [min(size, whole - at * size) for at in range(count)], rank)


def _split_sizes_step(shape: tuple[int, ...], sizes: list[int], dim: int = 0) -> list[ViewStep]:
    return _pieces(dim, list(sizes), len(shape))


def _unbind_step(shape: tuple[int, ...], dim: int = 0) -> list[ViewStep]:
    dim = _axis(dim, len(shape))
    return [_selected(dim, at) for at in range(shape[dim])]


# Functions of the shape of a view's first argument and its other arguments. Each returns the view's step, or
# a list with one step per result.
_STEPS: dict[Any, Callable[..., Any]] = {
    aten.slice.Tensor: slice_step,
    aten.select.int: select_step,
    aten.transpose.int: _transpose_step,
    aten.t.default: _t_step,
    aten.permute.default: _permute_step,
    aten.split.Tensor: _split_step,
    aten.split_with_sizes.default: _split_sizes_step,
    aten.unbind.int: _unbind_step,
}
# These keep the order of elements, so the shape of the result determines the step.
_RESHAPES = {
    aten.view.default,
    aten._unsafe_view.default,
    aten._reshape_alias.default,
    aten.unsqueeze.default,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.flatten.using_ints,
    aten.unflatten.int,
}
_REINTERPRETS = {aten.view.dtype, aten.view_as_real.default, aten.view_as_complex.default}
_NUMBERS = {aten._conj.default: CONJUGATE, aten._neg_view.default: NEGATIVE}
_OF_HALVES = {aten._conj.default: complex32.CONJUGATE, aten._neg_view.default: complex32.NEGATIVE}
_IDENTITIES = {aten.alias.default, aten.detach.default, aten.lift_fresh.default, aten.view_as.default}


def view_steps(
    func: Any, source: Any, results: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[ViewStep]:
    """The view step of each result.

    Arguments:
      func: the PyTorch view operation.
      source: layout of its first argument.
      results: layout of each result.
      args, kwargs: the other arguments.
    """
    if func in _RESHAPES:
        return [_reshaped(results[0].shape)]
    if func in _IDENTITIES:
        return [IDENTITY]
    if func in _REINTERPRETS:
        return [reinterpret_step(results[0].shape, results[0].dtype)]
    if func in _NUMBERS:
        return [(_OF_HALVES if source.dtype is complex32.COMPLEX32 else _NUMBERS)[func]]
    if func is aten.expand.default:
        return [_expanded(results[0].shape)]
    if (make := _STEPS.get(func)) is not None:
        step = make(source.shape, *args, **kwargs)
        return step if isinstance(step, list) else [step]
    return _steps_by_position(func, source, args, kwargs)


def _steps_by_position(
    func: Any, source: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[ViewStep]:
    """The steps of any view: applies PyTorch's operation to a tensor of element numbers."""
    numbers = torch.arange(source.count).reshape(source.shape)
    result = func(numbers, *args, **kwargs)
    pieces = result if isinstance(result, (tuple, list)) else [result]
    if any(piece.dtype != torch.int64 for piece in pieces):
        raise NotAView(str(func))
    return [_gathered(piece.numpy()) for piece in pieces]


@functools.lru_cache(1024)  # equal views must share their steps, because replay compares them
def strided_steps(base: Any, wanted: Any) -> tuple[ViewStep, ...] | None:
    """The steps of ``as_strided``, from a storage array of layout ``base`` to a view of layout ``wanted``.

    Returns None if the elements of ``wanted`` are wider than those of the storage.
    """
    if base.dtype == wanted.dtype:
        return (_strided(base, wanted),)
    recast = reinterpreted_layout(base, wanted.dtype)
    if recast is None:
        return None
    return reinterpret_step(recast.shape, recast.dtype), _strided(recast, wanted)


def _strided(base: Any, wanted: Any) -> ViewStep:
    simple = _as_slices(base, wanted)
    if simple is not None:
        return simple
    memory = torch.zeros(max(base.end, wanted.end), dtype=torch.int64)
    numbers = torch.arange(base.count).reshape(base.shape)
    memory.as_strided(base.shape, base.stride, base.offset).copy_(numbers)
    return _gathered(memory.as_strided(wanted.shape, wanted.stride, wanted.offset).numpy())


def _as_slices(base: Any, wanted: Any) -> ViewStep | None:
    """The step as slices, a transpose and a reshape, or None if these do not suffice."""
    found = strided_box(base, wanted)
    if found is None:
        return None
    index, axes = found
    order = [axis for axis in axes if axis is not None]
    order += [axis for axis in range(len(base.shape)) if axis not in order]
    return _slice_permute_reshape(tuple(index), tuple(order), wanted.shape)


def strided_box(base: Any, wanted: Any) -> tuple[list[slice], list[int | None]] | None:
    """Describes ``wanted`` as a box of slices of ``base``.

    Returns:
      The slices, and for each axis of ``wanted`` the axis of ``base`` (None for length 1); None if ``wanted``
      is no such box.
    """
    if base.offset or 0 in base.shape or 0 in wanted.shape:
        return None
    axes = _long_axes(base)
    starts = _start_indices(base, wanted.offset, axes)
    if starts is None:
        return None
    index = [slice(start, start + 1, 1) for start in starts]
    along: list[int | None] = []
    for size, stride in zip(wanted.shape, wanted.stride, strict=True):
        axis = None if size == 1 else _axis_along(base, axes, starts, size, stride)
        along.append(axis)
        if axis is not None:
            axes.remove(axis)
            step = stride // base.stride[axis]
            index[axis] = slice(starts[axis], starts[axis] + (size - 1) * step + 1, step)
        elif size > 1:
            return None
    return index, along


def _long_axes(base: Any) -> list[int]:
    """The axes with more than one element, by decreasing stride."""
    axes = [axis for axis, size in enumerate(base.shape) if size > 1]
    return sorted(axes, key=lambda axis: -base.stride[axis])


def _start_indices(base: Any, offset: int, axes: list[int]) -> list[int] | None:
    """The index of the element at ``offset``, or None if no element is there.

    Arguments:
      axes: the long axes of ``base``.
    """
    starts = [0] * len(base.shape)
    for axis in axes:
        starts[axis], offset = divmod(offset, base.stride[axis])
    is_inside = all(start < size for start, size in zip(starts, base.shape, strict=True))
    return starts if is_inside and offset == 0 else None


def _axis_along(base: Any, axes: list[int], starts: list[int], size: int, stride: int) -> int | None:
    """The axis with ``size`` elements at distance ``stride`` from its start index, or None."""
    for axis in axes:
        step, rest = divmod(stride, base.stride[axis])
        if step >= 1 and rest == 0 and starts[axis] + (size - 1) * step < base.shape[axis]:
            return axis
    return None


def _slice_permute_reshape(
    index: tuple[slice, ...], order: tuple[int, ...], shape: tuple[int, ...]
) -> ViewStep:
    """A step of slices, then a transpose, then a reshape."""
    sliced, permuted = _slices(index), _permuted(order)

    def read(x: Any) -> Any:
        return permuted.read(sliced.read(x)).reshape(shape)

    def write(x: Any, new: Any) -> Any:
        inside = sliced.read(x)
        permuted_shape = [inside.shape[axis] for axis in order]
        return sliced.write(x, permuted.write(inside, new.reshape(permuted_shape)))

    return ViewStep(read, write)


# ---- Addresses and storage handles -------------------------------------------------------------------------
# Code that saves tensors reads addresses and sizes of memory, but a JAX array has no readable address. The
# numbers here only serve comparisons: they are equal for tensors that start at the same element, and differ
# by the distance in bytes for tensors that share memory.

_bases = itertools.count(1)
_ADDRESS_GAP = 1 << 44  # bytes between two storages, larger than any storage


def address(storage: Storage) -> int:
    """A number for the address of ``storage``, unique in the process."""
    if not storage.address:
        storage.address = next(_bases) * _ADDRESS_GAP
    return storage.address


class StorageHandle:
    """The result of ``tensor.untyped_storage()``. Equal for tensors that share memory; it cannot be read."""

    device = torch.device("privateuseone:0")

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def data_ptr(self) -> int:
        """The number that stands for the address."""
        return address(self._storage)

    _cdata = property(data_ptr)

    def nbytes(self) -> int:
        """The size in bytes."""
        layout = self._storage.layout
        return 0 if 0 in layout.shape else layout.end * layout.dtype.itemsize

    size = __len__ = nbytes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageHandle) and other._storage is self._storage

    def __hash__(self) -> int:
        return hash(id(self._storage))

    def __repr__(self) -> str:
        return f"memory of {self.nbytes():,} bytes on device jax"


def has_same_storage_size(func: Any, args: Any, kwargs: Any) -> bool:
    """``_has_same_storage_numel``, called by forward-mode differentiation: whether two storages have one
    size."""
    one, other = [x.untyped_storage().nbytes() // x.element_size() for x in args]
    return bool(one == other)
