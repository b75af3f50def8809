"""Division: a long trace that repeats becomes pieces, so that one program is compiled and run for each.

The pieces are traces of their own, each the continuation of the one before, as if the user had placed a
barrier after every so many turns. Nothing runs sooner for it. What the user holds moves to the pieces one
tensor at a
time, and until the last has moved the whole trace stays as well, so that an interrupt loses nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from lazynb import _jax as jc
from lazynb.record.loops.repetition import Repetition
from lazynb.record.loops.rounding import Rounding
from lazynb.record.pending import Pending
from lazynb.record.tensor import LazyTensor
from lazynb.record.trie import LoopStart, State

if TYPE_CHECKING:
    from lazynb.source import Origin

PIECE = 256
"""Operations in a piece, at most, unless one turn has more."""

_ROUND = (100, 50, 20, 10, 5, 2, 1)
"""Turns in a piece: what comes every ten turns (a value that is kept) is at the same place in each piece."""

_TRIED = 64
"""Places in a turn that are tried for the cut."""


def turns_together(period: int) -> int:
    """How many repetitions of ``period`` operations make a piece."""
    return next((turns for turns in _ROUND if turns * period <= PIECE), 1)


class Cuts(NamedTuple):
    """Where to cut a trace.

    Attributes:
      places: the numbers of the operations before which to cut.
      keeps_bits: whether no result changes, to the last bit.
    """

    places: Sequence[int]
    keeps_bits: bool


def cuts_of(path: Sequence[State], part: Repetition) -> Cuts | None:
    """Where to cut the part of ``path`` that repeats; None if it is too short for that.

    Of the places that change no bits that where fewest bytes cross is taken. If there is none, it is the one
    where fewest bytes cross: a trace as long as that is cut in any case, and pieces that repeat are compiled
    once.
    """
    length = turns_together(part.period) * part.period
    if part.length < 2 * length + part.period or not all(map(_is_on_one_device, path)):
        return None
    rounding = Rounding(path)
    crossing = rounding.bytes_crossing()
    middle = part.start + part.period  # the first turn may take what comes from before the loop
    places = sorted(range(middle, middle + part.period), key=lambda number: crossing[number])
    exact: Iterator[int] = iter(())
    if rounding.is_settled(part.start, min(part.start + 2 * part.period, part.end)):
        exact = filter(rounding.keeps_bits, places[:_TRIED])
    place = next(exact, None)
    first = places[0] if place is None else place
    return Cuts(range(first, part.end + 1, length), place is not None)


def _is_on_one_device(step: State) -> bool:
    return step.devices is None or len(step.devices) == 1


class _Given(NamedTuple):
    """What a piece takes for a slot of the whole trace.

    Attributes:
      value: an input, or a tensor of an earlier piece.
      key: its key in the trie.
      devices: those that it is committed to.
      identity: what stands for it among the inputs; None for a number.
    """

    value: Any
    key: Hashable
    devices: tuple[Any, ...] | None
    identity: Any


class _Move(NamedTuple):
    """A tensor of the whole trace and its place in a piece."""

    tensor: LazyTensor
    piece: Pending
    slot: int
    state: State | None
    origin: Origin | None


class Division:
    """The pieces of a pending trace.

    Attributes:
      pieces: in order; the last may be recorded on.
    """

    def __init__(self, whole: Pending, cuts: Sequence[int]):
        self.pieces: list[Pending] = []
        self._whole = whole
        self._path = whole.state.path()
        self._owners = [step for step in self._path for _ in step.avals]  # by slot
        self._tensors = {tensor._slot: tensor for tensor in whole.records if tensor._pending is whole}
        self._origins = whole.origins()
        self._moves: list[_Move] = []
        operations = [step for step in self._path if step.operation is not None]
        parts = [
            operations[start:end] for start, end in zip([0, *cuts], [*cuts, len(operations)], strict=True)
        ]
        start = self._start(parts[1])
        for number, part in enumerate(parts):
            self._add(part, start if number else None)
        for piece in self.pieces[:-1]:
            piece.seal()

    def _start(self, part: Sequence[State]) -> LoopStart:
        """The start of the pieces that are like ``part``."""
        content = content_of(part, self._held)
        return self._whole.root.loop(content, len(part))

    def _held(self, slot: int) -> Hashable:
        """The key of ``slot`` as an input of a piece."""
        owner = self._owners[slot]
        if owner.operation is None:
            return owner.key
        placed = jc.uncommitted_sharding(owner.devices[0]) if owner.devices is not None else None
        return owner.avals[slot - owner.first], placed

    def _add(self, part: Sequence[State], start: LoopStart | None) -> None:
        """Appends the piece of the operations ``part``."""
        whole = self._whole
        piece = Pending(whole.trace, whole.trie, whole.root, whole.context, start)
        piece.began, piece.cut_by = whole.began, whole.cut_by
        moved: dict[int, int] = {}
        for step in part:
            for slot in step.operands:
                if slot not in moved:
                    given = self._given(slot)
                    moved[slot] = piece.take(*given)
                    if id(given.value) in whole.guards:
                        piece.guards[id(given.value)] = whole.guards[id(given.value)]
            first = piece.state.slots
            piece.repeat(step, tuple([moved[slot] for slot in step.operands]))
            moved.update((slot, first + slot - step.first) for slot in range(step.first, step.slots))
            self._plan(piece, step, first)
        self.pieces.append(piece)

    def _given(self, slot: int) -> _Given:
        """What a piece takes for ``slot``, which is none of its own results."""
        whole, owner = self._whole, self._owners[slot]
        if owner.operation is not None:
            tensor = self._tensors[slot]
            return _Given(tensor, self._held(slot), owner.devices, tensor)
        value = whole.inputs[owner.inputs - 1]
        identity = value if whole.slots_of.get(id(value)) == slot else None
        return _Given(value, owner.key, owner.devices, identity)

    def _plan(self, piece: Pending, step: State, first: int) -> None:
        """Notes the tensors of ``step`` for ``piece``, in which its results begin at the slot ``first``."""
        origin = self._origins[step.depth - 1]
        for number, aval in enumerate(step.avals):
            slot = step.first + number
            tensor = self._tensors.get(slot)
            if tensor is None:  # an operation inside of a call that was recalled
                tensor = LazyTensor(self._whole.trace, aval, self._whole, slot)
                self._tensors[slot] = tensor
            state = piece.state if number == 0 else None
            piece.records.append(tensor)
            self._moves.append(_Move(tensor, piece, first + number, state, origin if number == 0 else None))

    def move(self) -> None:
        """Moves the tensors to the pieces. An interrupt between two of them leaves each with its value."""
        for tensor, piece, slot, state, origin in self._moves:
            # No call and no jump back in between, so that no signal is handled.
            tensor._pending = piece
            tensor._slot = slot
            tensor._edge = state
            tensor._code = origin
        self._moves.clear()
        self._tensors.clear()


def content_of(operations: Sequence[State], held: Any) -> tuple[Hashable, ...]:
    """What a piece of ``operations`` does, so that equal pieces have equal contents.

    Arguments:
      held: gives the key of an input by its slot.
    """
    numbers: dict[int, int] = {}
    content: list[Hashable] = []
    for step in operations:
        for slot in step.operands:
            if slot not in numbers:
                content.append(held(slot))
                numbers[slot] = len(numbers)
        content.append((step.operation, tuple([numbers[slot] for slot in step.operands])))
        for slot in range(step.first, step.slots):
            numbers[slot] = len(numbers)
    return tuple(content)


def ends_like(state: State, start: LoopStart) -> bool:
    """Whether the path to ``state`` does what a piece of ``start`` does."""
    if state in start.ends:
        return True
    path = state.path()
    keys = {step.first: step.key for step in path if step.operation is None}
    operations = [step for step in path if step.operation is not None]
    same = content_of(operations, keys.__getitem__) == start.content
    if same:
        start.ends.add(state)
    return same
