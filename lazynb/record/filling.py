"""Which numbers of a program may be its constants: all but those of which the user's arrays are made.

Of ``jnp.ones(3)`` or ``jax.random.key(0)`` XLA would work out what the user's data stand for, and of what is
done with them nothing would be left to see. So their numbers stay arguments, also those that are written in
the code. What a function of JAX's makes of numbers for itself (the zeros of a gradient) is no such array.
"""

from __future__ import annotations

from collections.abc import Sequence

from lazynb.record.trie import State


def inputs_of(path: Sequence[State]) -> list[State]:
    """The inputs of a program, in order."""
    return [state for state in path if state.operation is None]


def own_numbers(path: Sequence[State]) -> list[int]:
    """Which inputs of a program are numbers that may be constants."""
    filling = _Arrays(path).filling
    return [
        number
        for number, state in enumerate(inputs_of(path))
        if state.is_host_scalar and state.first not in filling
    ]


class _Arrays:
    """The arrays that are made of numbers alone.

    Arguments:
      path: the steps of a program.

    Attributes:
      filling: the slots of the numbers in those that go from one call of the user's to another, or that
        nothing in the program reads.
    """

    def __init__(self, path: Sequence[State]):
        self.filling: set[int] = set()
        self._scalars: dict[int, frozenset[int]] = {}  # by slot, the numbers of which it is made
        self._arrays: dict[int, tuple[frozenset[int], int | None]] = {}  # those, and the call
        self._read: set[int] = set()
        for state in path:
            if state.is_host_scalar:
                self._scalars[state.first] = frozenset((state.first,))
            elif state.operation is not None:
                self._add(state)
        for slot, (numbers, _) in self._arrays.items():
            if slot not in self._read:
                self.filling |= numbers

    def _add(self, state: State) -> None:
        given = {slot: self._arrays[slot] for slot in state.operands if slot in self._arrays}
        self._read.update(given)
        for numbers, call in given.values():
            if call != state.call:
                self.filling |= numbers
        if not all(slot in self._scalars or self._is_of(slot, state.call) for slot in state.operands):
            return
        numbers = frozenset().union(
            *(self._scalars[slot] if slot in self._scalars else given[slot][0] for slot in state.operands)
        )
        results = range(state.first, state.slots)
        if not given and all(aval.shape == () for aval in state.avals):
            self._scalars.update(dict.fromkeys(results, numbers))
        else:
            self._arrays.update(dict.fromkeys(results, (numbers, state.call)))

    def _is_of(self, slot: int, call: int | None) -> bool:
        """Whether an array was made of numbers in this call."""
        return slot in self._arrays and self._arrays[slot][1] == call
