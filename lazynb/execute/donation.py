"""Which inputs of a run nobody can reach any more: their memory is given to results of the same type.

So a training loop holds one copy of its state, as with ``jax.jit(step, donate_argnums=...)`` written by hand.
An input is offered when only the pending trace refers to it and no other array shares its memory. (A NumPy or
DLPack view does no harm: XLA then copies.) Small arrays are left alone, as each set of offered inputs is an
executable of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import getrefcount
from typing import Any

import jax

from lazynb import _jax as jc
from lazynb.config import config
from lazynb.execute.request import Request
from lazynb.record.outside import references
from lazynb.record.owned import owned
from lazynb.record.pending import Pending
from lazynb.record.tensor import LazyTensor
from lazynb.record.trie import State


def offers(request: Request) -> tuple[int, ...]:
    """Numbers of the inputs whose memory the results may take."""
    pending, state, wanted, values = request.pending, request.state, request.wanted, request.values
    large = state.large.get(wanted)
    if large is None:
        large = state.large[wanted] = _large(state, wanted)
    if not large:
        return ()
    free = [number for number in large if _is_unreachable(pending, values, number)]
    sure = [number for number in free if _is_sure(pending, values, number)]
    return _taken(
        pending, wanted, values, sure + _unshared(values, [number for number in free if number not in sure])
    )


def foreseen(request: Request) -> tuple[int, ...] | None:
    """What :func:`offers` would say now; None where that cannot be told without waiting. Changes nothing. The
    value of an input that is still pending is None."""
    pending, wanted, values = request.pending, request.wanted, request.values
    large = pending.state.large.get(wanted)
    if large is None:
        large = _large(pending.state, wanted)
    if any(values[number] is None for number in large):
        return None
    free = [number for number in large if _is_unreachable(pending, values, number)]
    if not all(_is_sure(pending, values, number) for number in free):
        return None
    return _taken(pending, wanted, values, free)


def _is_sure(pending: Pending, values: Sequence[Any], number: int) -> bool:
    """Whether it is known that no other array has the memory of an unreachable input."""
    return values[number] in owned or any(array is values[number] for array in pending.doomed)


def _taken(
    pending: Pending, wanted: tuple[int, ...], values: Sequence[Any], free: Sequence[int]
) -> tuple[int, ...]:
    """Of the inputs ``free`` those whose memory fits a result."""
    left = [_kind(_aval(pending, slot)) for slot in wanted]
    taken = []
    for number in sorted(free):
        kind = _kind(values[number])
        if kind in left:
            left.remove(kind)
            taken.append(number)
    return tuple(taken)


def is_large(aval: Any) -> bool:
    """Whether memory of an array like ``aval`` is worth using again."""
    return not jc.is_key(aval) and aval.size * aval.dtype.itemsize >= config.min_donated


def _large(state: State, wanted: tuple[int, ...]) -> tuple[int, ...]:
    """Numbers of the inputs worth offering: large, and of the type of a result."""
    path = state.path()
    if any(step.operation.may_fail for step in path if step.operation is not None):
        return ()  # the inputs are needed again
    slots = set(wanted)
    kinds = {
        _kind(step.avals[slot - step.first])
        for step in path
        for slot in range(step.first, step.slots)
        if slot in slots
    }
    inputs = [step.avals[0] for step in path if step.operation is None]
    return tuple([number for number, aval in enumerate(inputs) if is_large(aval) and _kind(aval) in kinds])


def _kind(value: Any) -> tuple[Any, Any]:
    return value.shape, value.dtype


def _aval(pending: Pending, slot: int) -> Any:
    owner = pending.owner(slot)
    return owner.avals[slot - owner.first]


def _is_unreachable(pending: Pending, values: Sequence[Any], number: int) -> bool:
    if (
        type(values[number]) is not jc.ArrayImpl
        or values[number].is_deleted()
        or len(values[number].sharding.device_set) > 1
    ):
        return False
    if any(array is values[number] for array in pending.doomed):
        return True  # the user gave it away
    if pending.inputs[number].__class__ is LazyTensor and _references(pending.inputs, number) > _HELD_ONCE:
        return False
    by_guard = references(values[number], pending.guards.get(id(values[number])))
    return _references(values, number) == _HELD_ONCE + 1 + by_guard


def _references(items: Sequence[Any], number: int) -> int:
    return getrefcount(items[number])


_HELD_ONCE = _references([object()], 0)
"""What ``_references`` says of an object that only the list holds: it depends on the interpreter."""


def _unshared(values: Sequence[Any], numbers: Sequence[int]) -> list[int]:
    """Of the inputs ``numbers``, made outside, those whose memory no other array uses.

    Waits for them: where an array lies is known when it is there. A loop's own results need no such check.
    """
    if not numbers:
        return []
    jax.block_until_ready([values[number] for number in numbers])
    pointers: dict[int, int] = {}
    for array in jax.live_arrays():
        if type(array) is jc.ArrayImpl and not array.is_deleted() and jc.is_ready(array):
            for shard in array._arrays:
                pointer = shard.unsafe_buffer_pointer()
                pointers[pointer] = pointers.get(pointer, 0) + 1
    return [number for number in numbers if pointers.get(values[number].unsafe_buffer_pointer(), 0) == 1]
