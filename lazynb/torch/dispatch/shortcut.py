"""The short way of a call that was made before: one pass over its arguments, and one look-up in the trie."""

from __future__ import annotations

from types import FrameType
from typing import Any

import torch

from lazynb.torch.dispatch import around, storage
from lazynb.torch.dispatch.keys import key_and_row
from lazynb.torch.dispatch.layout import Layout, Results, known
from lazynb.torch.tensor import Tensor, wrap


def find(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], numbers: bool
) -> tuple[Results | None, list[Any] | None]:
    """What is known of the results of a call, if anything is, and the row of its tensors and numbers.

    Arguments:
      numbers: whether the numbers of a call make no difference, see :mod:`.calls`.
    """
    try:
        key, row = key_and_row(func, args, kwargs, numbers)
        return known.get(key), row
    except TypeError:  # something that cannot be a key
        return None, None


def is_for_host(func: Any, row: list[Any] | None) -> bool:
    """Whether a call may be for the host (:mod:`.on_host`): its tensors are known, or what it gives grows."""
    is_known = True
    for x in row or ():
        if x.__class__ is Tensor:
            host = x._storage.host
            if host is None:
                is_known = is_known and x._storage.value is None
            elif host.plain is None or func is torch.ops.aten.cat.default:
                return True
    return is_known


def again(found: Results, row: list[Any] | None, numbers: bool, frame: FrameType) -> Any:
    """The results of a call that was recorded before, as tensors; None if it was not, or is not recalled.

    Arguments:
      row: the call's tensors and numbers.
      frame: a frame in or below the user's.
    """
    if row is None:
        return None
    values = [x._elem if x.__class__ is Tensor else x for x in row]
    results = around.again(found.name, values, numbers, frame)
    if results is None:
        return None
    return wrapped(results, found.tree)


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
    assert found.steps is not None
    steps = source._steps
    if found.tree.__class__ is Layout:
        (step,) = found.steps
        return Tensor(source._storage, found.tree, steps if step is storage.SAME else (*steps, step))
    return [
        Tensor(source._storage, layout, steps if step is storage.SAME else (*steps, step))
        for layout, step in zip(found.tree, found.steps, strict=True)
    ]
