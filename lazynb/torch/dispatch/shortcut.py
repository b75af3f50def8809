"""The short way of a call that was made before: one pass over its arguments, and one look-up in the trie."""

from __future__ import annotations

import contextlib
from types import FrameType
from typing import Any

import torch

from lazynb.torch.dispatch import around, storage
from lazynb.torch.dispatch.later import noted_bounds
from lazynb.torch.dispatch.layout import Layout, Results
from lazynb.torch.tensor import Tensor, wrap


def is_for_host(func: Any, row: list[Any]) -> bool:
    """Whether a call may be for the host (:mod:`.on_host`): its tensors are known, or what it gives grows."""
    is_known = True
    for x in row:
        if x.__class__ is Tensor:
            host = x._storage.host
            if host is None:
                is_known = is_known and x._storage.value is None
            elif host.plain is None or func is torch.ops.aten.cat.default:
                return True
    return is_known


def again(found: Results, row: list[Any], numbers: bool, has_before: bool, frame: FrameType) -> Any:
    """The results of a call that was recorded before, as tensors; None if it was not, or is not recalled.

    Arguments:
      row: the call's tensors and numbers.
      numbers: whether its numbers make no difference, see :mod:`.calls`.
      has_before: whether it may be for the host.
      frame: a frame in or below the user's.
    """
    values: list[Any] = []
    is_open = has_before  # until there is a tensor that the host does not know
    for x in row:  # a function less is a tenth of the time
        if x.__class__ is Tensor:
            memory = x._storage
            value = memory.value
            if value is None or memory.host is not None:
                if has_before and is_for_host(found.func, row):
                    return None
                value = x._elem
            elif x._steps:
                value = x._elem
            is_open = False
            values.append(value)
        else:
            values.append(x)
    if is_open:
        return None
    results = around.again(found.name, values, numbers, frame)
    if results is None:
        return None
    tree = found.tree
    if tree.__class__ is Layout:
        return bounded(Tensor.__new__(Tensor, storage.Storage(results, tree), tree), found)
    return wrapped(results, tree)


def bounded(result: Any, found: Results) -> Any:
    """``result``, with what is known of its numbers."""
    if found.bounds is not None and result.__class__ is Tensor:
        result._storage.bounds = found.bounds
    return result


def copied(source: Tensor, found: Results) -> Tensor | None:
    """A copy of ``source``, whose array nobody writes to; None if it is for the host."""
    memory = source._storage
    if memory.value is None or memory.host is not None:
        return None
    new = wrap(source._elem, found.tree)
    if memory.bounds is not None:
        new._storage.bounds = noted_bounds(source)
    return new


def wrapped(values: Any, wanted: Any) -> Any:
    """New tensors for arrays; what is no tensor in ``wanted`` is as it is there."""
    if wanted.__class__ is Layout:
        return wrap(values, wanted)
    if wanted.__class__ is not list:
        return wanted
    given = iter(values)
    return tuple(
        [wrapped(next(given), layout) if layout.__class__ in (Layout, list) else layout for layout in wanted]
    )


def views(source: Tensor, found: Results) -> Any:
    """The views of ``source`` that an operation gives: tensors that share its memory."""
    with looking_into(source):
        steps = found.steps or []
        if found.tree.__class__ is Layout:
            return view(source, found.tree, steps[0])
        return [view(source, layout, step) for layout, step in zip(found.tree, steps, strict=True)]


def view(source: Tensor, layout: Layout, step: storage.ViewStep) -> Tensor:
    """The view of ``layout`` that ``step`` takes of ``source``."""
    steps = source._steps
    taken = steps if step is storage.SAME else (*steps, step)
    return Tensor.__new__(Tensor, source._storage, layout, taken)


def looking_into(source: Tensor) -> contextlib.AbstractContextManager[Any]:
    """A context in which a view of ``source`` is made: it belongs to inference mode if that does."""
    if torch.is_inference_mode_enabled() and not source.is_inference():
        return torch.inference_mode(False)
    return _HERE


_HERE = contextlib.nullcontext()
