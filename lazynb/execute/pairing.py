"""The order of a program's results, by which XLA pairs them with the inputs that give their memory.

Neither JAX nor XLA asks what a result is computed from. JAX gives a donated argument the next result of its
type, in their order; where XLA chooses shardings, XLA does so, by the size of what one device has
(``optimize_input_output_buffer_alias.cc``). An input that is still read when its memory is written is copied
first, so that a wrong pair costs two passes over the array: a step of Adam on four matrices of 1,024 by 1,024
took 1.4 times as long as with ``jax.jit(step, donate_argnums=(0, 1))``, which has its results in order of
its arguments. So here the results that are what an input becomes come first, in the order of the inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lazynb.execute.donation import kind_of
from lazynb.record.trie import State

_SEEN = 256  # values looked at behind a result


def paired_order(path: Sequence[State], wanted: Sequence[int], donated: Sequence[int]) -> list[int]:
    """Positions in ``wanted``: first the result for each input of ``donated``, then all others.

    Arguments:
      path: the steps of the program.
      wanted: slots of the results.
      donated: numbers of the inputs that give their memory, ascending.
    """
    if not donated:
        return list(range(len(wanted)))
    owners = [step for step in path for _ in step.avals]  # by slot
    inputs = [step.first for step in path if step.operation is None]
    given = [inputs[number] for number in donated]
    of_input = _nearest(owners, wanted, set(given))
    left = [at for at in range(len(wanted)) if at not in of_input.values()]
    for slot in given:
        if slot not in of_input:  # it gives its memory to what is left of its type
            kind = _kind(owners, slot)
            fitting = next((at for at in left if _kind(owners, wanted[at]) == kind), None)
            if fitting is not None:
                left.remove(fitting)
                of_input[slot] = fitting
    return [*(of_input[slot] for slot in given if slot in of_input), *left]


def _nearest(owners: Sequence[State], wanted: Sequence[int], given: set[int]) -> dict[int, int]:
    """For inputs of ``given``, by slot, the position of the result that is fewest operations behind it."""
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
    """The inputs of ``given`` that ``result`` is computed from by values of its type, and by how many
    operations; the nearest first."""
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
    return kind_of(owners[slot].avals[slot - owners[slot].first])
