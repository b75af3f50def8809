"""Replay of repeated PyTorch calls: one pass over the arguments, and one look-up in the trie of calls."""

from __future__ import annotations

import collections
import contextlib
import functools
from collections.abc import Callable, Hashable, Iterator
from types import FrameType
from typing import Any

import torch

from lazynb.frontends.torch.dispatch import replay_context, view_steps
from lazynb.frontends.torch.dispatch.deferred_integers import known_bounds
from lazynb.frontends.torch.dispatch.tensor_layout import Layout, OpResults, layout_of, results_of
from lazynb.frontends.torch.dispatch.tensor_storage import Storage
from lazynb.frontends.torch.torch_tensor import Tensor, wrap

# ---- Keys and operands of calls ----------------------------------------------------------------------------

NUMBERS = (float, int)
HASHABLE_TYPES = frozenset(
    (int, bool, type(None), str, torch.dtype, torch.device, torch.layout, torch.memory_format)
)


def argument_key(x: Any, values_matter: bool) -> Any:
    """The hashable key of an argument.

    Arguments:
      values_matter: whether the key includes the value of a float.
    """
    kind = x.__class__
    if kind is Tensor:
        return x._layout
    if kind is float:
        return (float, x or repr(x)) if values_matter else float  # 0.0 == -0.0
    if kind is complex:
        return (complex, repr(x))
    if kind in HASHABLE_TYPES:
        return kind, x
    if isinstance(x, torch.Tensor):
        return layout_of(x), x.device
    if isinstance(x, (list, tuple)):
        return tuple([argument_key(item, values_matter) for item in x])
    if isinstance(x, dict):
        return tuple([(name, argument_key(item, values_matter)) for name, item in x.items()])
    return x


@functools.cache
def argument_names(func: Any) -> tuple[str, ...]:
    """The names of an operation's arguments, in order."""
    return tuple([argument.name for argument in func._schema.arguments])


def arguments_by_name(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The given arguments by name."""
    return dict(zip(argument_names(func), args, strict=False)) | kwargs


def key_and_operands(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], numbers: bool
) -> tuple[tuple[Any, ...], list[Any] | None]:
    """The key of a call, and its operands: its tensors, and with ``numbers`` also its numbers.

    Numbers that are operands enter the key with their type only. The operands are None if a tensor is on
    another device. The key has the operation's ``id``, because its hash is a Python function.
    """
    key: list[Any] = [id(func)]
    row: list[Any] | None = []
    for x in (*args, *kwargs.values()) if kwargs else args:
        kind = x.__class__
        if kind is Tensor:  # the common types avoid a function call
            key.append(x._layout)
            if row is not None:
                row.append(x)
        elif kind is float and numbers:
            key.append(float)
            if row is not None:
                row.append(x)
        elif kind in HASHABLE_TYPES:
            key.append((kind, x))
            if numbers and kind is int and row is not None:
                row.append(x)
        else:
            key.append(argument_key(x, not numbers))
            if row is not None:
                row = _append_operands(row, x, numbers)
    if kwargs:
        key.append(tuple(kwargs))
    return tuple(key), row


def _append_operands(row: list[Any], x: Any, numbers: bool) -> list[Any] | None:
    """Appends the operands in ``x`` to ``row``; returns None if a tensor is on another device."""
    if x.__class__ is Tensor or (numbers and x.__class__ in NUMBERS):
        row.append(x)
    elif isinstance(x, torch.Tensor):
        return None
    elif isinstance(x, (list, tuple)):
        for item in x:
            if _append_operands(row, item, numbers) is None:
                return None
    return row


# Operations whose calls may be replayed, by id (hashing an operation is a Python call): whether their numbers
# are operands, whether they check values, and whether the host may run them.
recallable: dict[int, tuple[bool, bool, bool]] = {}


def allow_copy_replay(func: Any, key: Any, tree: Layout) -> None:
    """Allows replay for the calls with ``key``, which copy their first argument.

    Arguments:
      tree: layout of the copy.
    """
    found = results_of.get(key)
    if found is None:
        found = results_of[key] = OpResults(func, tree, None)
    found.copies = True
    recallable.setdefault(id(func), (False, False, True))


def allow_replay(func: Any, key: Any, tree: Any, name: object, has_before: bool = False) -> OpResults:
    """Allows replay for the calls with ``key``, for an operation with a special handler.

    Arguments:
      tree, name: see :class:`OpResults`.
      has_before: whether the host may run such a call.
    """
    found = results_of.get(key)
    if found is None or not found.is_replayed:
        found = results_of[key] = OpResults(func, tree, name)
        found.is_replayed = True
        recallable[id(func)] = False, False, has_before
    return found


def is_host_call(func: Any, row: list[Any]) -> bool:
    """Whether the host may run a call (:mod:`.host_operations`): its tensors are known, or its result
    grows."""
    is_known = True
    for x in row:
        if x.__class__ is Tensor:
            host = x._storage.host
            if host is None:
                is_known = is_known and x._storage.value is None
            elif host.plain is None or func is torch.ops.aten.cat.default:
                return True
    return is_known


def replay(found: OpResults, row: list[Any], numbers: bool, has_before: bool, frame: FrameType) -> Any:
    """The results of an earlier recorded call as tensors; None if there is none or it cannot be replayed.

    Arguments:
      row: the operands.
      numbers: whether numbers are operands, see :func:`key_and_operands`.
      has_before: whether the host may run the call.
      frame: a frame in or below the user's.
    """
    values: list[Any] = []
    is_open = has_before  # no tensor unknown to the host found yet
    for x in row:  # inlined: a function call costs a tenth of the time
        if x.__class__ is Tensor:
            memory = x._storage
            value = memory.value
            if value is None or memory.host is not None:
                if has_before and is_host_call(found.func, row):
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
    results = replay_context.replay_call(found.name, values, numbers, frame)
    if results is None:
        return None
    tree = found.tree
    if tree.__class__ is Layout:
        return with_bounds(Tensor.__new__(Tensor, Storage(results, tree), tree), found)
    return wrap_results(results, tree)


def with_bounds(result: Any, found: OpResults) -> Any:
    """``result``, with the known bounds of its numbers attached."""
    if found.bounds is not None and result.__class__ is Tensor:
        result._storage.bounds = found.bounds
    return result


def replay_copy(source: Tensor, found: OpResults) -> Tensor | None:
    """A copy of ``source`` that shares its immutable array; None if the host must handle it."""
    memory = source._storage
    if memory.value is None or memory.host is not None:
        return None
    new = wrap(source._elem, found.tree)
    if memory.bounds is not None:
        new._storage.bounds = known_bounds(source)
    return new


def wrap_results(values: Any, wanted: Any) -> Any:
    """New tensors for arrays; entries of ``wanted`` that are not layouts are returned unchanged."""
    if wanted.__class__ is Layout:
        return wrap(values, wanted)
    if wanted.__class__ is not list:
        return wanted
    given = iter(values)
    return tuple(
        [
            wrap_results(next(given), layout) if layout.__class__ in (Layout, list) else layout
            for layout in wanted
        ]
    )


def make_views(source: Tensor, found: OpResults) -> Any:
    """The views of ``source`` that an operation returns; they share its memory."""
    with inference_mode_of(source):
        steps = found.steps or []
        if found.tree.__class__ is Layout:
            return make_view(source, found.tree, steps[0])
        return [make_view(source, layout, step) for layout, step in zip(found.tree, steps, strict=True)]


def make_view(source: Tensor, layout: Layout, step: view_steps.ViewStep) -> Tensor:
    """A view of ``source`` with ``layout``, one ``step`` further."""
    steps = source._steps
    taken = steps if step is view_steps.IDENTITY else (*steps, step)
    return Tensor.__new__(Tensor, source._storage, layout, taken)


def inference_mode_of(source: Tensor) -> contextlib.AbstractContextManager[Any]:
    """Context manager for making a view: the view is an inference tensor only if ``source`` is one."""
    if torch.is_inference_mode_enabled() and not source.is_inference():
        return torch.inference_mode(False)
    return _HERE


_HERE = contextlib.nullcontext()


# ---- Replay names and operands -----------------------------------------------------------------------------
# An operation that consists of several JAX operations is replayed as one call (:mod:`.replay_context`) on its
# row of operands. Calls that differ only in the row have one name. A number is in the row if the operation is
# elementwise and does the same for any number (``x * 0.1``). Otherwise it is part of the name.

aten = torch.ops.aten
_MOST = 4  # names of calls that differ only in a number; beyond it, calls are recorded anew
_KEPT = 50_000  # names; beyond it, all are dropped
_SPECIALIZED_ON_VALUE = {aten.pow.Tensor_Scalar}  # its lowering treats 2 and 0.5 specially
_DETERMINISTIC = {aten.scaled_dot_product_attention.default}  # without dropout when it gets here


def has_numeric_operands(func: Any) -> bool:
    """Whether the numbers of a call are operands."""
    return torch.Tag.pointwise in func.tags and func not in _SPECIALIZED_ON_VALUE


def fill_operands(args: Any, values: Iterator[Any], numbers: bool) -> list[Any]:
    """``args`` with its operands, see :func:`key_and_operands`, replaced by ``values``."""

    def put(x: Any) -> Any:
        if isinstance(x, Tensor) or (numbers and x.__class__ in NUMBERS):
            return next(values)
        return fill_operands(x, values, numbers) if isinstance(x, (list, tuple)) else x

    return [put(x) for x in args]


class ReplayNames:
    """The replay names of calls.

    Arguments:
      key_of: the key of an argument, given whether the value of a float matters.
    """

    def __init__(self, key_of: Callable[[Any, bool], Any]):
        self._key_of = key_of
        self._names: dict[Hashable, object] = {}
        self._counts: collections.Counter[Hashable] = collections.Counter()

    def name(self, func: Any, args: Any, kwargs: dict[str, Any]) -> object | None:
        """The name of a call; None if it cannot be replayed: it draws random numbers, or its numbers vary."""
        if torch.Tag.nondeterministic_seeded in func.tags and func not in _DETERMINISTIC:
            return None
        if len(self._names) > _KEPT:
            self._names.clear()
            self._counts.clear()
        kind = (func, self._without_numbers(args), self._without_numbers(kwargs))
        if has_numeric_operands(func):
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
