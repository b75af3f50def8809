"""Memory as PyTorch has it, on arrays that nobody can write to: tensors share a storage, views look into it.

A storage holds one array. A tensor is a storage and the steps from its array to the tensor's values (slice,
transpose, reshape, ...). Writing to a tensor makes a new array for the storage, so every view of it sees what
was written; a view's values are worked out again when somebody asks and the storage was written to since.
LazyTensor (Suhan et al. 2021) and PyTorch's functionalization do it in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import torch

aten = torch.ops.aten


class Storage:
    """An array that may be replaced.

    Attributes:
      value: the array; None where nothing was written yet, as after ``torch.empty``.
      version: grows with each write.
      layout: of the tensor that the storage was made for: how ``value`` would lie in memory.
    """

    __slots__ = ("__weakref__", "layout", "value", "version")

    def __init__(self, value: Any, layout: Any) -> None:
        self.value = value
        self.version = 0
        self.layout = layout

    def read(self) -> Any:
        """The array; zeros where nothing was written yet."""
        if self.value is None:
            self.value = self.layout.zeros()
        return self.value

    def write(self, value: Any) -> None:
        """Replaces the array."""
        self.value = value
        self.version += 1


class NotView(Exception):
    """An operation that PyTorch calls a view does not give elements of what it looks into."""


class Step(NamedTuple):
    """One step from an array to a view of it.

    Attributes:
      read: the view's values, given the array.
      write: the array with new values where the view is, given the array and them.
    """

    read: Callable[[Any], Any]
    write: Callable[[Any, Any], Any]


def _reshaped(shape: tuple[int, ...]) -> Step:
    return Step(lambda x: x.reshape(shape), lambda x, new: new.reshape(x.shape))


def _permuted(order: tuple[int, ...]) -> Step:
    back = tuple(int(at) for at in np.argsort(order))
    return Step(lambda x: jax.lax.transpose(x, order), lambda x, new: jax.lax.transpose(new, back))


def _slices(index: tuple[slice, ...]) -> Step:
    def write(x: Any, new: Any) -> Any:
        bounds = [one.indices(size) for one, size in zip(index, x.shape, strict=False)]
        if new.shape == x.shape:
            return new
        if all(step == 1 for _, _, step in bounds):
            starts = [start for start, _, _ in bounds] + [0] * (x.ndim - len(bounds))
            return jax.lax.dynamic_update_slice(x, new, [np.int32(start) for start in starts])
        return x.at[index].set(new)

    def read(x: Any) -> Any:
        bounds = [one.indices(size) for one, size in zip(index, x.shape, strict=False)]
        bounds += [(0, size, 1) for size in x.shape[len(bounds) :]]
        return jax.lax.slice(
            x, [b[0] for b in bounds], [max(b[0], b[1]) for b in bounds], [b[2] for b in bounds]
        )

    return Step(read, write)


def _selected(dim: int, at: int) -> Step:
    """Element ``at`` (from 0) of axis ``dim``."""
    inner = _slices((*[slice(None)] * dim, slice(at, at + 1)))

    def read(x: Any) -> Any:
        return inner.read(x).reshape((*x.shape[:dim], *x.shape[dim + 1 :]))

    return Step(read, lambda x, new: inner.write(x, new.reshape((*x.shape[:dim], 1, *x.shape[dim + 1 :]))))


def _gathered(index: np.ndarray) -> Step:
    """Elements by their numbers in the flat array: for the views that nothing simpler describes."""
    return Step(
        lambda x: x.reshape(-1)[jnp.asarray(index)],
        lambda x, new: x.reshape(-1).at[jnp.asarray(index)].set(new).reshape(x.shape),
    )


def _expanded(shape: tuple[int, ...]) -> Step:
    def write(x: Any, new: Any) -> Any:  # PyTorch lets none be written to where elements coincide
        return new.reshape(x.shape)

    return Step(lambda x: jnp.broadcast_to(x, shape), write)


_SAME = Step(lambda x: x, lambda x, new: new)


def _axis(dim: int, rank: int) -> int:
    return dim + rank if dim < 0 else dim


def slice_step(
    shape: tuple[int, ...], dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Step:
    """The step of ``x[start:end:step]`` along ``dim``."""
    start, end = (None if start is None else int(start)), (None if end is None else int(end))
    return _slices((*[slice(None)] * _axis(dim, len(shape)), slice(start, end, step)))


def select_step(shape: tuple[int, ...], dim: int, index: int) -> Step:
    """The step of ``x.select(dim, index)``."""
    dim = _axis(dim, len(shape))
    return _selected(dim, index + shape[dim] if index < 0 else index)


def _transpose_step(shape: tuple[int, ...], dim0: int, dim1: int) -> Step:
    order = list(range(len(shape)))
    if not order:
        return _SAME
    dim0, dim1 = _axis(dim0, len(order)), _axis(dim1, len(order))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return _permuted(tuple(order))


def _t_step(shape: tuple[int, ...]) -> Step:
    return _permuted(tuple(reversed(range(len(shape)))))


def _permute_step(shape: tuple[int, ...], dims: list[int]) -> Step:
    return _permuted(tuple(_axis(dim, len(shape)) for dim in dims))


def _pieces(dim: int, sizes: list[int], rank: int) -> list[Step]:
    ends = np.cumsum(sizes).tolist()
    lead = [slice(None)] * _axis(dim, rank)
    return [_slices((*lead, slice(end - size, end))) for size, end in zip(sizes, ends, strict=True)]


def _split_step(shape: tuple[int, ...], size: int, dim: int = 0) -> list[Step]:
    whole = shape[_axis(dim, len(shape))]
    count = max(1, -(-whole // size)) if size else 1
    return _pieces(dim, [min(size, whole - at * size) for at in range(count)] if size else [0], len(shape))


def _split_sizes_step(shape: tuple[int, ...], sizes: list[int], dim: int = 0) -> list[Step]:
    return _pieces(dim, list(sizes), len(shape))


def _unbind_step(shape: tuple[int, ...], dim: int = 0) -> list[Step]:
    dim = _axis(dim, len(shape))
    return [_selected(dim, at) for at in range(shape[dim])]


# From the shape of what is looked into, and the arguments of the view: its step, or one for each of several
# results.
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
# These keep the order of elements: the shape that PyTorch gives the result says all.
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
_SAMES = {aten.alias.default, aten.detach.default, aten.lift_fresh.default, aten.view_as.default}


def steps(
    func: Any, source: Any, results: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[Step]:
    """The step of each of a view's results.

    Arguments:
      func: the view, an operation of PyTorch's.
      source: layout of what is looked into.
      results: layout of each result.
      args, kwargs: the other arguments.
    """
    if func in _RESHAPES:
        return [_reshaped(results[0].shape)]
    if func in _SAMES:
        return [_SAME]
    if func is aten.expand.default:
        return [_expanded(results[0].shape)]
    if (make := _STEPS.get(func)) is not None:
        made = make(source.shape, *args, **kwargs)
        return made if isinstance(made, list) else [made]
    # Any other: PyTorch's own, on the numbers of the elements.
    numbers = torch.arange(source.count).reshape(source.shape)
    found = func(numbers, *args, **kwargs)
    pieces = found if isinstance(found, (tuple, list)) else [found]
    if any(one.dtype != torch.int64 for one in pieces):
        raise NotView(str(func))
    return [_gathered(one.numpy()) for one in pieces]


def strided(base: Any, wanted: Any) -> Step:
    """The step of ``as_strided``: from the array of a storage with layout ``base`` to a tensor of layout
    ``wanted``."""
    simple = _as_slices(base, wanted)
    if simple is not None:
        return simple
    ends = [
        at.offset + sum((n - 1) * s for n, s in zip(at.shape, at.stride, strict=True)) + 1
        for at in (base, wanted)
    ]
    memory = torch.zeros(max(ends), dtype=torch.int64)
    memory.as_strided(base.shape, base.stride, base.offset).copy_(
        torch.arange(base.count).reshape(base.shape)
    )
    return _gathered(memory.as_strided(wanted.shape, wanted.stride, wanted.offset).numpy())


def _as_slices(base: Any, wanted: Any) -> Step | None:
    """Slices, then a transpose and a reshape, where that is all that ``wanted`` is."""
    if base.offset or 0 in base.shape or 0 in wanted.shape:
        return None
    axes = sorted(
        (at for at in range(len(base.shape)) if base.shape[at] > 1), key=lambda at: -base.stride[at]
    )
    rest, start = wanted.offset, dict.fromkeys(range(len(base.shape)), 0)
    for at in axes:
        start[at], rest = divmod(rest, base.stride[at])
    if rest or any(start[at] >= base.shape[at] for at in start):
        return None
    index = {at: slice(start[at], start[at] + 1) for at in start}
    order: list[int] = []
    for size, stride in zip(wanted.shape, wanted.stride, strict=True):
        if size == 1:
            continue
        found = next(
            (
                at
                for at in axes
                if at not in order
                and stride >= base.stride[at]
                and stride % base.stride[at] == 0
                and start[at] + (size - 1) * (stride // base.stride[at]) < base.shape[at]
            ),
            None,
        )
        if found is None:
            return None
        step = stride // base.stride[found]
        index[found] = slice(start[found], start[found] + (size - 1) * step + 1, step)
        order.append(found)
    cut = _slices(tuple(index[at] for at in range(len(base.shape))))
    others = [at for at in range(len(base.shape)) if at not in order]
    turned = _permuted((*order, *others))

    def read(x: Any) -> Any:
        return turned.read(cut.read(x)).reshape(wanted.shape)

    def write(x: Any, new: Any) -> Any:
        inside = cut.read(x)
        return cut.write(x, turned.write(inside, new.reshape([inside.shape[at] for at in (*order, *others)])))

    return Step(read, write)
