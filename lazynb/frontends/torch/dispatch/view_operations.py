"""Operations whose results share memory with their argument, and changes of the memory behind a tensor."""

from __future__ import annotations

from typing import Any

import torch

from lazynb.frontends.torch.dispatch import strided_views, tensor_layout as layouts, torch_replay, view_steps
from lazynb.frontends.torch.dispatch.op_execution import compute
from lazynb.frontends.torch.dispatch.op_rules import special
from lazynb.frontends.torch.dispatch.result_layouts import expected_results
from lazynb.frontends.torch.dispatch.tensor_layout import Layout
from lazynb.frontends.torch.dispatch.tensor_storage import Storage
from lazynb.frontends.torch.torch_tensor import Tensor, wrap

aten = torch.ops.aten


def execute_view(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Executes an operation that may return views of its first argument."""
    source = args[0]
    if not isinstance(source, Tensor):  # a list of tensors
        return compute(func, args, kwargs)
    known = expected_results(func, args, kwargs)
    if known.steps is None:
        known.steps = _steps(func, source._layout, known.tree, args[1:], kwargs)
    return torch_replay.make_views(source, known) if known.steps else compute(func, args, kwargs)


def _steps(
    func: Any, source: Layout, tree: Any, args: Any, kwargs: dict[str, Any]
) -> list[view_steps.ViewStep]:
    """The view step of each result; an empty list if the operation is not a view."""
    wanted = tree if isinstance(tree, list) else [tree]
    if not all(isinstance(layout, Layout) for layout in wanted):
        return []
    try:
        return view_steps.view_steps(func, source, wanted, args, kwargs)
    except view_steps.NotAView:
        return []


def _as_strided(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    source, size, stride, *rest = args
    offset = rest[0] if rest else kwargs.get("storage_offset")
    if offset is None:
        offset = source._layout.offset
    wanted = layouts.layout(tuple(size), tuple(stride), offset, source.dtype)
    layouts.check_storage_bounds(source._storage.layout, wanted)
    steps = steps_from_memory(source._storage, wanted)
    if steps is None:
        return compute(func, args, kwargs)
    with torch_replay.inference_mode_of(source):
        return Tensor(source._storage, wanted, steps)


def steps_from_memory(memory: Storage, wanted: Layout) -> tuple[view_steps.ViewStep, ...] | None:
    """The steps from the array of a storage to a view of layout ``wanted``, or None if they are not known."""
    if tuple(memory.read().shape) != memory.layout.shape:
        return None
    return strided_views.strided_steps(memory.layout, wanted)


def resize_in_place(target: Tensor, shape: tuple[int, ...]) -> bool:
    """Changes the shape of a tensor in place.

    Returns:
      Whether the memory was large enough to be kept. Otherwise the tensor gets new memory and its values are
      lost.
    """
    dense = layouts.contiguous(tuple(shape), target.dtype)
    wanted = layouts.layout(dense.shape, dense.stride, target._layout.offset, target.dtype)
    whole = target._storage.layout
    fits = 0 in wanted.shape or (0 not in whole.shape and wanted.end <= whole.end)
    steps = None
    if fits and whole.dtype == target.dtype:
        steps = steps_from_memory(target._storage, wanted)
    if steps is not None:
        set_storage(target, Tensor(target._storage, wanted, steps))
        return True
    set_storage(target, wrap(None, dense))
    return False


def set_storage(target: Tensor, new: Tensor) -> None:
    """Makes ``target`` a view of the memory of ``new``, with its shape."""
    with torch.no_grad():
        _set_data(target, new)  # the shape and strides stored in C++
    target._storage, target._layout, target._steps, target._value_version = (
        new._storage,
        new._layout,
        new._steps,
        -1,
    )


_set_data = torch.Tensor.data.__set__  # type: ignore[attr-defined]

special[aten.as_strided.default] = _as_strided
# A conjugate or negative view shares memory, too. PyTorch marks it in C++, which our tensors cannot do, so
# ``is_conj()`` and ``is_neg()`` are false.
for _overload in (
    aten._conj.default,
    aten._neg_view.default,
    aten.view_as_real.default,
    aten.view_as_complex.default,
    aten.view.dtype,
    aten._unsafe_view.default,  # PyTorch's schema declares no alias, but its own code writes through it
):
    special[_overload] = execute_view
