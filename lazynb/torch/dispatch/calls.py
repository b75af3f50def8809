"""The arguments of an operation's call as one row of arrays and numbers, and back; and the name of the call.

An operation that comes to several of JAX's is recalled as one call (:mod:`.recalled`), which takes this row.
Calls have one name if they differ in nothing else. A number stands in the row if the operation does the same
to each element whatever the number is, as ``x * 0.1`` does. Otherwise it is a part of the name.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import torch

from lazynb.torch.dispatch.keys import NUMBERS
from lazynb.torch.tensor import Tensor

aten = torch.ops.aten
_MOST = 4  # names of calls that differ in a number alone; with further numbers they are recorded anew
_KEPT = 50_000  # names; beyond it, all are forgotten
_BY_VALUE = {aten.pow.Tensor_Scalar}  # its lowering does another thing with 2 and with 0.5
_DRAWS_NOTHING = {aten.scaled_dot_product_attention.default}  # it comes here without dropout alone


def takes_numbers(func: Any) -> bool:
    """Whether the numbers of a call are in its row."""
    return torch.Tag.pointwise in func.tags and func not in _BY_VALUE


def filled(args: Any, values: Iterator[Any], numbers: bool) -> list[Any]:
    """``args`` with ``values`` in place of what :func:`.keys.key_and_row` takes of them."""

    def put(x: Any) -> Any:
        if isinstance(x, Tensor) or (numbers and x.__class__ in NUMBERS):
            return next(values)
        return filled(x, values, numbers) if isinstance(x, (list, tuple)) else x

    return [put(x) for x in args]


class Names:
    """The names of calls.

    Arguments:
      key_of: what identifies an argument, given whether the value of a float matters.
    """

    def __init__(self, key_of: Callable[[Any, bool], Any]):
        self._key_of = key_of
        self._names: dict[Hashable, object] = {}
        self._counts: collections.Counter[Hashable] = collections.Counter()

    def name(self, func: Any, args: Any, kwargs: dict[str, Any]) -> object | None:
        """The name of a call; None if it is not recalled: it draws numbers, or its numbers vary."""
        if torch.Tag.nondeterministic_seeded in func.tags and func not in _DRAWS_NOTHING:
            return None
        if len(self._names) > _KEPT:
            self._names.clear()
            self._counts.clear()
        kind = (func, self._without_numbers(args), self._without_numbers(kwargs))
        if takes_numbers(func):
            return self._names.setdefault(kind, object())
        key = (func, self._key_of(args, True), self._key_of(kwargs, True))
        if key not in self._names:
            self._counts[kind] += 1
            if self._counts[kind] > _MOST and _has_numbers((args, kwargs)):
                return None
            self._names[key] = object()
        return self._names[key]

    def _without_numbers(self, x: Any) -> Hashable:
        if x.__class__ in NUMBERS:
            return str(x.__class__)
        if isinstance(x, (list, tuple)):
            return tuple([self._without_numbers(item) for item in x])
        if isinstance(x, dict):
            return tuple([(name, self._without_numbers(item)) for name, item in x.items()])
        key: Hashable = self._key_of(x, True)
        return key


def _has_numbers(x: Any) -> bool:
    if isinstance(x, dict):
        return any(map(_has_numbers, x.values()))
    return any(map(_has_numbers, x)) if isinstance(x, (list, tuple)) else x.__class__ is float
