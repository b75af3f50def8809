"""Which arrays alone use their memory, so that it may be given away.

An array on several devices consists of arrays on one, and who holds one of these holds a part of the memory
(``addressable_shards``, ``addressable_data``). JAX makes the parts when somebody asks, and the array keeps
them: they say nothing of who holds them but for their reference counts.
"""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from sys import getrefcount
from typing import Any

import jax

from lazynb import _jax as jc
from lazynb.record.outside import Guard, references


def unshared(values: Sequence[Any], numbers: Sequence[int], guards: Mapping[int, Guard]) -> list[int]:
    """The arrays among ``numbers`` of ``values`` whose memory no other array uses.

    Waits for them, because the address of an array is known only when it is computed.

    Arguments:
      values: at ``numbers`` plain arrays, to which only lazynb refers.
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
        if all(users[jc.address(part)] == 1 for part in jc.parts(array))
        and not _has_held_part(array, guards.get(id(array)))
    ]


def _users(arrays: Sequence[Any]) -> collections.Counter[int | None]:
    """The number of arrays that use the memory at each address, in the backends of ``arrays``.

    The parts that an array keeps do not count beside it. An address that cannot be told is None, and counts
    twice. What is not computed yet has memory of its own.
    """
    users: collections.Counter[int | None] = collections.Counter({None: 2})
    backends = {id(device.client): array for array in arrays for device in array.sharding.device_set}
    for array in backends.values():
        live = [other for other in jc.live_arrays_beside(array) if type(other) is jc.ArrayImpl]
        kept = {id(part) for other in live for part in jc.parts(other) if part is not other}
        for other in live:
            if id(other) not in kept:
                users.update(map(jc.address, jc.parts(other)))
    return users


def _has_held_part(array: Any, guard: Guard | None) -> bool:
    """Whether anything refers to a part of ``array`` but the array itself and its guard.

    The parts of another array of the same memory, which nobody else knows, tell how many references an array
    holds; that depends on JAX (0.10 makes the list of parts anew each time, 0.12 keeps it).
    """
    jc.forget_shards(array)
    if len(jc.parts(array)) == 1:
        return False  # its one part is the array itself
    twin = jc.with_buffers(array, jc.parts(array))
    parts, others = jc.parts(array), jc.parts(twin)
    if getrefcount(parts) > getrefcount(others):
        return True
    held = [getrefcount(parts[at]) - references(parts[at], guard) for at in range(len(parts))]
    return any(held[at] > getrefcount(others[at]) for at in range(len(parts)))
