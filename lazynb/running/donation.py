"""Buffer donation: an input that the user can no longer reach gives its buffer to a result of the same type.

So a training loop holds one copy of its state, as with a handwritten ``jax.jit(step, donate_argnums=...)``.
An input is offered if only the pending trace refers to it and no other array shares its memory. (A NumPy or
DLPack view does no harm, because XLA then copies.) Small arrays are offered only if the user donated them,
because each set of donated inputs needs a separate executable. An array on several devices donates the
buffers of all its parts to a result of its type; XLA takes a part if that result has the same sharding. An
array that spans processes is not donated: the references of other processes are unknown, and all processes
must run one program.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping, Sequence
from sys import getrefcount
from typing import Any

import jax

from lazynb import jax_compat as jc
from lazynb.config import config
from lazynb.recording.external_arrays import Guard, exclusively_owned, references
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.pending_trace import PendingTrace
from lazynb.recording.trie import State
from lazynb.running.jaxpr_program import Request

# ---- Exclusively owned buffers --------------------------------------------------------------------------
# An array on several devices consists of single-device arrays. A reference to one of these
# (``addressable_shards``, ``addressable_data``) is a reference to a part of the memory. JAX creates the parts
# on request and the array keeps them, so only their reference counts show other references.


def exclusive_arrays(values: Sequence[Any], numbers: Sequence[int], guards: Mapping[int, Guard]) -> list[int]:
    """The arrays among ``numbers`` of ``values`` whose memory no other array uses.

    Waits for them, because an array has an address only when it is computed.

    Arguments:
      values: plain arrays at ``numbers``, to which only lazynb refers.
      guards: the guards of the arrays, by the id of the array.
    """
    if not numbers:
        return []
    arrays = [values[number] for number in numbers]
    jax.block_until_ready(arrays)
    users = _users(arrays)
    return [
        number
        for number, array in zip(numbers, arrays, strict=True)
        if all(users[jc.address(part)] == 1 for part in jc.device_parts(array))
        and not _has_held_part(array, guards.get(id(array)))
    ]


def _users(arrays: Sequence[Any]) -> collections.Counter[int | None]:
    """The number of arrays that use the memory at each address, in the backends of ``arrays``. Parts that an
    array keeps do not count. An unknown address is None, and counts twice. An array that is not computed yet
    has separate memory."""
    users: collections.Counter[int | None] = collections.Counter({None: 2})
    backends = {id(device.client): array for array in arrays for device in array.sharding.device_set}
    for array in backends.values():
        live = [other for other in jc.live_arrays_on_backend(array) if type(other) is jc.ArrayImpl]
        kept = {id(part) for other in live for part in jc.device_parts(other) if part is not other}
        for other in live:
            if id(other) not in kept:
                users.update(map(jc.address, jc.device_parts(other)))
    return users


def _has_held_part(array: Any, guard: Guard | None) -> bool:
    """Whether anything but the array itself and its guard refers to a part of ``array``. The expected number
    of references is measured on a second array with the same buffers, because it depends on JAX (0.10 creates
    the list of parts each time, 0.12 keeps it)."""
    jc.clear_shard_cache(array)
    if len(jc.device_parts(array)) == 1:
        return False  # its only part is the array itself
    twin = jc.with_buffers(array, jc.device_parts(array))
    parts, others = jc.device_parts(array), jc.device_parts(twin)
    if getrefcount(parts) > getrefcount(others):
        return True
    held = [getrefcount(parts[at]) - references(parts[at], guard) for at in range(len(parts))]
    return any(held[at] > getrefcount(others[at]) for at in range(len(parts)))


def donatable_inputs(request: Request) -> tuple[int, ...]:
    """Numbers of the inputs that can be donated. May wait for inputs that are being computed."""
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
    return _taken(pending, wanted, values, sure + exclusive_arrays(values, unsure, pending.guards))


def predicted_donation(request: Request) -> tuple[int, ...] | None:
    """The result of :func:`donatable_inputs` without waiting; None if it is not known. Changes nothing. The
    value of an input that is still pending is None."""
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


def _is_sure(pending: PendingTrace, values: Sequence[Any], number: int) -> bool:
    """Whether an unreachable input is known to share its memory with no other array."""
    return values[number] in exclusively_owned or _is_donated(pending, values[number])


def _is_donated(pending: PendingTrace, value: Any) -> bool:
    return any(array is value for array in pending.delete_after_run)


def _candidates(
    pending: PendingTrace, values: Sequence[Any], wanted: tuple[int, ...], large: tuple[int, ...]
) -> tuple[int, ...]:
    """The inputs with the type of a result that are ``large`` or that the user donated."""
    if not pending.delete_after_run:
        return large
    fitting = _fitting(pending.state, wanted)
    return tuple([number for number in fitting if number in large or _is_donated(pending, values[number])])


def _taken(
    pending: PendingTrace, wanted: tuple[int, ...], values: Sequence[Any], free: Sequence[int]
) -> tuple[int, ...]:
    """The inputs among ``free`` whose memory fits a result."""
    if not free:
        return ()
    left = _kinds(pending.state, wanted)
    taken = []
    for number in sorted(free):
        kind = shape_and_dtype(values[number])
        if kind in left:
            left.remove(kind)
            taken.append(number)
    return tuple(taken)


def is_large(aval: Any) -> bool:
    """Whether an array like ``aval`` is large enough for donation."""
    return not jc.is_key(aval) and aval.size * aval.dtype.itemsize >= config.min_donated


def _large(state: State, wanted: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([number for number, aval in _fitting(state, wanted).items() if is_large(aval)])


def _fitting(state: State, wanted: tuple[int, ...]) -> dict[int, Any]:
    """The types of the inputs that have the type of a result, by number; empty if an operation may fail,
    because then the inputs are needed again."""
    inputs = []
    avals: list[Any] = []  # by slot
    for step in state.path():
        avals.extend(step.avals)
        if step.operation is None:
            inputs.append(step.avals[0])
        elif step.operation.may_fail:
            return {}
    kinds = {shape_and_dtype(avals[slot]) for slot in wanted}
    found = {number: aval for number, aval in enumerate(inputs) if shape_and_dtype(aval) in kinds}
    return {number: aval for number, aval in found.items() if not jc.is_key(aval)}


def shape_and_dtype(value: Any) -> tuple[Any, Any]:
    """The shape and dtype, which a donated input and a result must share."""
    return value.shape, value.dtype


def _kinds(state: State | None, wanted: tuple[int, ...]) -> list[tuple[Any, Any]]:
    kinds = []
    for slot in sorted(wanted, reverse=True):
        while slot < state.first:  # type: ignore[union-attr]
            state = state.parent  # type: ignore[union-attr]
        kinds.append(shape_and_dtype(state.avals[slot - state.first]))  # type: ignore[union-attr]
    return kinds


def _is_unreachable(pending: PendingTrace, values: Sequence[Any], number: int) -> bool:
    """Whether only the pending trace refers to an input. A local variable for the value would count."""
    guard = pending.guards.get(id(values[number]))
    if not pending.delete_after_run and _references(values, number) > _HELD_ONCE + 1 + _most_by(guard):
        return False  # the usual case, decided first
    if type(values[number]) is not jc.ArrayImpl or jc.has_deleted_part(values[number]):
        return False
    if _is_donated(pending, values[number]):
        return True
    if not values[number].is_fully_addressable:
        return False
    if type(pending.inputs[number]) is LazyTensor and _references(pending.inputs, number) > _HELD_ONCE:
        return False
    return _references(values, number) == _HELD_ONCE + 1 + references(values[number], guard)


def _most_by(guard: Any) -> int:
    """The maximum number of references that a guard holds to its array."""
    if guard is None:
        return 0
    return 1 if type(guard) is memoryview else 2


def _references(items: Sequence[Any], number: int) -> int:
    return getrefcount(items[number])


_HELD_ONCE = _references([object()], 0)
"""The result of ``_references`` for an object that only the list holds; it depends on the interpreter."""


# ---- Result order for donation --------------------------------------------------------------------------
# Neither JAX nor XLA checks from what a result is computed. JAX pairs a donated argument with the next result
# of its type, in order; where XLA chooses shardings, XLA pairs them by the size on one device
# (``optimize_input_output_buffer_alias.cc``). A donated input that is still read when its buffer is written
# is copied first, so a wrong pair costs two passes over the array. A step of Adam on four matrices of 1,024
# by 1,024 took 1.4 times as long as with ``jax.jit(step, donate_argnums=(0, 1))``, whose results are in the
# order of its arguments. So the results that update an input come first, in the order of the inputs.

_SEEN = 256  # maximum number of values searched for a result


def donation_order(path: Sequence[State], wanted: Sequence[int], donated: Sequence[int]) -> list[int]:
    """Positions in ``wanted``: first the result for each donated input, then all others.

    Arguments:
      path: the steps of the program.
      wanted: slots of the results.
      donated: numbers of the donated inputs, ascending.
    """
    if not donated:
        return list(range(len(wanted)))
    owners = [step for step in path for _ in step.avals]  # by slot
    inputs = [step.first for step in path if step.operation is None]
    given = [inputs[number] for number in donated]
    of_input = _nearest(owners, wanted, set(given))
    left = [at for at in range(len(wanted)) if at not in of_input.values()]
    for slot in given:
        if slot not in of_input:  # pair it with a remaining result of its type
            kind = _kind(owners, slot)
            fitting = next((at for at in left if _kind(owners, wanted[at]) == kind), None)
            if fitting is not None:
                left.remove(fitting)
                of_input[slot] = fitting
    return [*(of_input[slot] for slot in given if slot in of_input), *left]


def _nearest(owners: Sequence[State], wanted: Sequence[int], given: set[int]) -> dict[int, int]:
    """For donated inputs, by slot, the position of the result that is the fewest operations away."""
    ways = sorted(
        (distance, at, order, slot)
        for at, result in enumerate(wanted)
        for order, (slot, distance) in enumerate(_behind(owners, result, given))
    )
    found: dict[int, int] = {}
    taken: set[int] = set()
    for _, at, _, slot in ways:
        if slot not in found and at not in taken:
            found[slot] = at
            taken.add(at)
    return found


def _behind(owners: Sequence[State], result: int, given: set[int]) -> Iterator[tuple[int, int]]:
    """The inputs of ``given`` that ``result`` depends on through values of its type, the nearest first."""
    kind = _kind(owners, result)
    seen, now, distance = {result}, [result], 0
    while now and len(seen) < _SEEN:
        behind: list[int] = []
        for slot in now:
            if slot in given:
                yield slot, distance
            for operand in owners[slot].operands:
                if operand not in seen and _kind(owners, operand) == kind:
                    seen.add(operand)
                    behind.append(operand)
        now, distance = behind, distance + 1


def _kind(owners: Sequence[State], slot: int) -> tuple[Any, Any]:
    return shape_and_dtype(owners[slot].avals[slot - owners[slot].first])
