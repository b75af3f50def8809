"""Views by strides, as slices, a transpose and a reshape of the storage's array where these suffice."""

from __future__ import annotations

import functools
from typing import Any

import torch

from lazynb.frontends.torch.dispatch.complex32 import ViewStep
from lazynb.frontends.torch.dispatch.tensor_layout import Layout, layout as layout_with
from lazynb.frontends.torch.dispatch.view_steps import gathered, permuted, reinterpret_step, sliced


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


def _strided(base: Any, wanted: Any) -> ViewStep:
    simple = _as_slices(base, wanted)
    if simple is not None:
        return simple
    memory = torch.zeros(max(base.end, wanted.end), dtype=torch.int64)
    numbers = torch.arange(base.count).reshape(base.shape)
    memory.as_strided(base.shape, base.stride, base.offset).copy_(numbers)
    return gathered(memory.as_strided(wanted.shape, wanted.stride, wanted.offset).numpy())


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
    slices, permutation = sliced(index), permuted(order)

    def read(x: Any) -> Any:
        return permutation.read(slices.read(x)).reshape(shape)

    def write(x: Any, new: Any) -> Any:
        inside = slices.read(x)
        permuted_shape = [inside.shape[axis] for axis in order]
        return slices.write(x, permutation.write(inside, new.reshape(permuted_shape)))

    return ViewStep(read, write)
