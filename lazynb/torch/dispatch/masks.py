"""Masks among indices (``x[mask]``, ``x[mask] = y``): places stand for them, where the values are known.

How many elements a mask picks is told by its values, and so is the shape of the result. Places have a
shape, so what is done with them is recorded. A mask that is pending is asked for, a trace break: the mask
alone, as the elements are picked in the graph.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from lazynb.torch.dispatch import dispatch as d
from lazynb.torch.dispatch.demands import known_values
from lazynb.torch.dispatch.on_host import up
from lazynb.torch.tensor import Tensor, to_cpu

aten = torch.ops.aten
_MASKS = torch.bool, torch.uint8


def _is_mask(index: Any) -> bool:
    return isinstance(index, torch.Tensor) and index.dtype in _MASKS and index.dim() > 0


def _values(func: Any, mask: torch.Tensor) -> np.ndarray:
    """The values of a mask; a trace break if it is pending."""
    known = known_values(mask)
    if known is None:
        assert isinstance(mask, Tensor)
        known = to_cpu(mask, "unrecordable", str(func)).numpy()
    return known


def _places(func: Any, shape: tuple[int, ...], indices: Any) -> list[Any] | None:
    """The indices of a tensor of ``shape`` without masks; None where a mask has another shape."""
    found: list[Any] = []
    for index in indices:
        at = len(found)
        if not _is_mask(index):
            found.append(index)
            if index is not None and not index.dim() and index.dtype in _MASKS:
                return None  # a truth value adds a dimension
            continue
        if tuple(index.shape) != shape[at : at + index.dim()]:
            return None
        found += up([torch.from_numpy(place) for place in np.nonzero(_values(func, index))])
    return found


def _picked(func: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    x, indices, *others = args
    if not any(map(_is_mask, indices)):
        return args
    places = _places(func, tuple(x.shape), indices)
    return args if places is None else (x, places, *others)


def _stored(func: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same. What is written everywhere alike is written where the mask is true, whatever its values."""
    x, indices, values, *_ = args
    masks = [index for index in indices if index is not None]
    if len(masks) == 1 and _is_mask(masks[0]):
        behind = x.dim() - (len(indices) - 1 + masks[0].dim())
        if values.dim() <= behind or values.shape[-behind - 1] == 1:
            return args
    return _picked(func, args)


def _masked_select(x: torch.Tensor, mask: torch.Tensor) -> Any:
    if mask.dtype != torch.bool:
        return NotImplemented
    shape = torch.broadcast_tensors(d.dummy_of(mask, False), d.dummy_of(x, False))[0].shape
    source, picked = x.expand(shape), mask.expand(shape)
    if not picked.dim():
        source, picked = source.reshape(1), picked.reshape(1)
    return source[picked]


d.parts[aten.masked_select.default] = _masked_select
d.rewrites |= {
    aten.index.Tensor: _picked,
    aten._unsafe_index.Tensor: _picked,
    aten.index_put.default: _stored,
    aten._unsafe_index_put.default: _stored,
    aten.index_put_.default: _stored,
    aten._index_put_impl_.default: _stored,
}
