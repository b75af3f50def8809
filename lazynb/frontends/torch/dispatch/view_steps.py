"""Views as steps from the array of a storage (:mod:`.tensor_storage`): slice, transpose, reshape, ...

A storage holds one array. A tensor is a storage and the steps from its array to the tensor's values. A write
to a tensor makes a new array for the storage, so every view sees the new values. A view recomputes its values
when it is read after a write. LazyTensor (Suhan et al. 2021) and PyTorch's functionalization work in the same
way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from lazynb.frontends.torch.dispatch import complex32
from lazynb.frontends.torch.dispatch.complex32 import ViewStep as ViewStep, jax_dtype

aten = torch.ops.aten
lax = jax.lax

# ---- Reinterpreting views: ``view(dtype)``, complex, conjugate ---------------------------------------------

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


# ---- Steps of view operations ------------------------------------------------------------------------------


class NotAView(Exception):
    """A view operation of PyTorch returned values that are not elements of its argument."""


def _reshaped(shape: tuple[int, ...]) -> ViewStep:
    return ViewStep(lambda x: x.reshape(shape), lambda x, new: new.reshape(x.shape))


def permuted(order: tuple[int, ...]) -> ViewStep:
    back = tuple(int(at) for at in np.argsort(order))
    return ViewStep(lambda x: jax.lax.transpose(x, order), lambda x, new: jax.lax.transpose(new, back))


def sliced(index: tuple[slice, ...]) -> ViewStep:
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
    inner = sliced((*[slice(None)] * dim, slice(at, at + 1)))

    def read(x: Any) -> Any:
        return inner.read(x).reshape((*x.shape[:dim], *x.shape[dim + 1 :]))

    return ViewStep(
        read, lambda x, new: inner.write(x, new.reshape((*x.shape[:dim], 1, *x.shape[dim + 1 :])))
    )


def gathered(index: np.ndarray) -> ViewStep:
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
    return sliced((*[slice(None)] * _axis(dim, len(shape)), part))


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
    return permuted(tuple(order))


def _t_step(shape: tuple[int, ...]) -> ViewStep:
    return permuted(tuple(reversed(range(len(shape)))))


def _permute_step(shape: tuple[int, ...], dims: list[int]) -> ViewStep:
    return permuted(tuple(_axis(dim, len(shape)) for dim in dims))


def _pieces(dim: int, sizes: list[int], rank: int) -> list[ViewStep]:
    ends = np.cumsum(sizes).tolist()
    lead = [slice(None)] * _axis(dim, rank)
    return [sliced((*lead, slice(end - size, end))) for size, end in zip(sizes, ends, strict=True)]


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
    return [gathered(piece.numpy()) for piece in pieces]
