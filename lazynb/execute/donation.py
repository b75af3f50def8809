"""Donation: an input that the user can no longer reach gives its memory to a result of the same type.

So a training loop holds one copy of its state, as with ``jax.jit(step, donate_argnums=...)`` written by hand.
An input is offered if only the pending trace refers to it and no other array shares its memory. (A NumPy or
DLPack view does no harm, because XLA then copies.) Small arrays are offered only if the user donated them,
because each set of offered inputs is an executable of its own. An array on several devices gives the memory
of all of its parts, to a result of its type: XLA takes a part if that result lies on the devices as the
array does. An array that spans processes is kept, because what another process holds is not known, and all
must run one program.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import getrefcount
from typing import Any

from lazynb import _jax as jc
from lazynb.config import config
from lazynb.execute.request import Request
from lazynb.execute.sharing import unshared
from lazynb.record.outside import references
from lazynb.record.owned import owned
from lazynb.record.pending import Pending
from lazynb.record.tensor import LazyTensor
from lazynb.record.trie import State


def offers(request: Request) -> tuple[int, ...]:
    """Numbers of the inputs whose memory the results may take. May wait for inputs that run."""
    pending, state, wanted, values = request.pending, request.state, request.wanted, request.values
    large = state.large.get(wanted)
    if large is None:
        large = state.large[wanted] = _large(state, wanted)
    candidates = _candidates(pending, values, wanted, large)
    if not candidates:
        return ()
    free = [number for number in candidates if _is_unreachable(pending, values, number)]
    sure = [number for number in free if _is_sure(pending, values, number)]
    unsure = [number for number in free if number not in sure]
    return _taken(pending, wanted, values, sure + unshared(values, unsure, pending.guards))


def foreseen(request: Request) -> tuple[int, ...] | None:
    """The answer of :func:`offers`; returns None if only waiting could tell. Changes nothing.

    The value of an input that is still pending is None.
    """
    pending, wanted, values = request.pending, request.wanted, request.values
    large = pending.state.large.get(wanted)
    if large is None:
        large = _large(pending.state, wanted)
    candidates = _candidates(pending, values, wanted, large)
    if any(values[number] is None for number in candidates):
        return None
    free = [number for number in candidates if _is_unreachable(pending, values, number)]
    if not all(_is_sure(pending, values, number) for number in free):
        return None
    return _taken(pending, wanted, values, free)


def _is_sure(pending: Pending, values: Sequence[Any], number: int) -> bool:
    """Whether an unreachable input is known to share its memory with no other array."""
    return values[number] in owned or _is_donated(pending, values[number])


def _is_donated(pending: Pending, value: Any) -> bool:
    """Whether the user donated an array."""
    return any(array is value for array in pending.doomed)


def _candidates(
    pending: Pending, values: Sequence[Any], wanted: tuple[int, ...], large: tuple[int, ...]
) -> tuple[int, ...]:
    """The inputs of the type of a result that are ``large`` or that the user donated."""
    if not pending.doomed:
        return large
    fitting = _fitting(pending.state, wanted)
    return tuple([number for number in fitting if number in large or _is_donated(pending, values[number])])


def _taken(
    pending: Pending, wanted: tuple[int, ...], values: Sequence[Any], free: Sequence[int]
) -> tuple[int, ...]:
    """The inputs among ``free`` whose memory fits a result."""
    if not free:
        return ()
    left = _kinds(pending.state, wanted)
    taken = []
    for number in sorted(free):
        kind = kind_of(values[number])
        if kind in left:
            left.remove(kind)
            taken.append(number)
    return tuple(taken)


def is_large(aval: Any) -> bool:
    """Whether memory of an array like ``aval`` is worth using again."""
    return not jc.is_key(aval) and aval.size * aval.dtype.itemsize >= config.min_donated


def _large(state: State, wanted: tuple[int, ...]) -> tuple[int, ...]:
    """Numbers of the inputs worth offering: large, and of the type of a result."""
    return tuple([number for number, aval in _fitting(state, wanted).items() if is_large(aval)])


def _fitting(state: State, wanted: tuple[int, ...]) -> dict[int, Any]:
    """The types of the inputs that have the type of a result, by number; none if the inputs are needed
    again."""
    inputs = []
    avals: list[Any] = []  # by slot
    for step in state.path():
        avals.extend(step.avals)
        if step.operation is None:
            inputs.append(step.avals[0])
        elif step.operation.may_fail:
            return {}
    kinds = {kind_of(avals[slot]) for slot in wanted}
    found = {number: aval for number, aval in enumerate(inputs) if kind_of(aval) in kinds}
    return {number: aval for number, aval in found.items() if not jc.is_key(aval)}


def kind_of(value: Any) -> tuple[Any, Any]:
    """What the memory of a value must have in common with that of a result: shape and dtype."""
    return value.shape, value.dtype


def _kinds(state: State | None, wanted: tuple[int, ...]) -> list[tuple[Any, Any]]:
    """The kinds of the results ``wanted`` of a trace that ends at ``state``."""
    kinds = []
    for slot in sorted(wanted, reverse=True):
        while slot < state.first:  # type: ignore[union-attr]
            state = state.parent  # type: ignore[union-attr]
        kinds.append(kind_of(state.avals[slot - state.first]))  # type: ignore[union-attr]
    return kinds


def _is_unreachable(pending: Pending, values: Sequence[Any], number: int) -> bool:
    """Whether only the pending trace refers to an input. A local variable for the value would count here."""
    guard = pending.guards.get(id(values[number]))
    if not pending.doomed and _references(values, number) > _HELD_ONCE + 1 + _most_by(guard):
        return False  # the usual case, at once
    if type(values[number]) is not jc.ArrayImpl or jc.has_deleted_part(values[number]):
        return False
    if _is_donated(pending, values[number]):
        return True
    if not values[number].is_fully_addressable:
        return False
    if pending.inputs[number].__class__ is LazyTensor and _references(pending.inputs, number) > _HELD_ONCE:
        return False
    return _references(values, number) == _HELD_ONCE + 1 + references(values[number], guard)


def _most_by(guard: Any) -> int:
    """How many references to an array its guard has, at most."""
    if guard is None:
        return 0
    return 1 if guard.__class__ is memoryview else 2


def _references(items: Sequence[Any], number: int) -> int:
    return getrefcount(items[number])


_HELD_ONCE = _references([object()], 0)
"""The result of ``_references`` for an object that only the list holds; it depends on the interpreter."""
