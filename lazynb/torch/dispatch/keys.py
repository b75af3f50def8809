"""The arguments of a call: what identifies them as far as the layouts of its results go; their tensors."""

from __future__ import annotations

import functools
from typing import Any

import torch

from lazynb.torch.dispatch.layout import layout_of
from lazynb.torch.tensor import Tensor

NUMBERS = (float, int)
PLAIN = frozenset((int, bool, type(None), str, torch.dtype, torch.device, torch.layout, torch.memory_format))


def key_of(x: Any, values_matter: bool) -> Any:
    """What identifies an argument.

    Arguments:
      values_matter: whether the value of a float makes a difference.
    """
    kind = x.__class__
    if kind is Tensor:
        return x._layout
    if kind is float:
        return (float, x or repr(x)) if values_matter else float  # 0.0 == -0.0
    if kind is complex:
        return (complex, repr(x))
    if kind in PLAIN:
        return kind, x
    if isinstance(x, torch.Tensor):
        return layout_of(x), x.device
    if isinstance(x, (list, tuple)):
        return tuple([key_of(item, values_matter) for item in x])
    if isinstance(x, dict):
        return tuple([(name, key_of(item, values_matter)) for name, item in x.items()])
    return x


@functools.cache
def names_of(func: Any) -> tuple[str, ...]:
    """The names of an operation's arguments."""
    return tuple([argument.name for argument in func._schema.arguments])


def by_name(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments that a call gives, by their names."""
    return dict(zip(names_of(func), args, strict=False)) | kwargs


def key_and_row(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], numbers: bool
) -> tuple[tuple[Any, ...], list[Any] | None]:
    """What identifies a call, and its tensors; with ``numbers`` also its numbers, whose values then make no
    difference. There is no row if a tensor is of another device. An operation's ``id`` stands for it, as its
    hash is a function in Python."""
    key: list[Any] = [id(func)]
    row: list[Any] | None = []
    for x in (*args, *kwargs.values()) if kwargs else args:
        kind = x.__class__
        if kind is Tensor:  # the most common types cost no call here
            key.append(x._layout)
            if row is not None:
                row.append(x)
        elif kind is float and numbers:
            key.append(float)
            if row is not None:
                row.append(x)
        elif kind in PLAIN:
            key.append((kind, x))
            if numbers and kind is int and row is not None:
                row.append(x)
        else:
            key.append(key_of(x, not numbers))
            if row is not None:
                row = _extended(row, x, numbers)
    if kwargs:
        key.append(tuple(kwargs))
    return tuple(key), row


def _extended(row: list[Any], x: Any, numbers: bool) -> list[Any] | None:
    """``row`` with what is in ``x``; None if there is a tensor of another device."""
    if x.__class__ is Tensor or (numbers and x.__class__ in NUMBERS):
        row.append(x)
    elif isinstance(x, torch.Tensor):
        return None
    elif isinstance(x, (list, tuple)):
        for item in x:
            if _extended(row, item, numbers) is None:
                return None
    return row
