"""Division: a long trace that repeats becomes pieces, so that one program is compiled and run for each.

The pieces are traces of their own, each the continuation of the one before, as if the user had placed a
barrier after every so many turns. Nothing runs sooner for it. What the user holds moves to the pieces one
tensor at a time, and until the last has moved the whole trace stays as well, so that an interrupt loses
nothing.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from lazynb.record.loops.plan import Piece, Plan, Torn, content_of
from lazynb.record.loops.repetition import Repetition
from lazynb.record.loops.rounding import Rounding
from lazynb.record.pending import Pending
from lazynb.record.tensor import LazyTensor
from lazynb.record.trie import LoopStart, State
from lazynb.source import Origin, Spot

PIECE = 256
"""Weight of the operations in a piece, at most, unless one turn has more."""

_ROUND = (100, 50, 20, 10, 5, 2, 1)
"""Turns in a piece: what comes every ten turns (a value that is kept) is at the same place in each piece."""

_TRIED = 64
"""Places in a turn that are tried for the cut."""


def turns_together(weight: int) -> int:
    """How many repetitions of operations of this weight make a piece."""
    return next((turns for turns in _ROUND if turns * weight <= PIECE), 1)


def weight_of_turn(path: Sequence[State], part: Repetition) -> int:
    """The weight of the operations of one repetition."""
    weights = [0, *(step.weight for step in path if step.operation is not None)]
    return weights[part.start + part.period] - weights[part.start]


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

    Of the places that change no bits that where fewest bytes cross is taken, one between two calls of the
    user's if there is any: a call that is cut in its middle is made through JAX's code each time. If no place
    changes no bits, it is the one where fewest bytes cross: a trace as long as that is cut in any case, and
    pieces that repeat are compiled once.
    """
    length = turns_together(weight_of_turn(path, part)) * part.period
    if part.length < 2 * length + part.period or not all(map(_is_on_one_device, path)):
        return None
    rounding = Rounding(path)
    crossing = rounding.bytes_crossing()
    middle = part.start + part.period  # the first turn may take what comes from before the loop
    places = sorted(range(middle, middle + part.period), key=lambda number: crossing[number])
    inside = _inside_calls(path)
    between = [number for number in places if number not in inside]
    within = [number for number in places if number in inside]
    exact: Iterator[int] = iter(())
    if rounding.is_settled(part.start, min(part.start + 2 * part.period, part.end)):
        exact = filter(rounding.keeps_bits, [*between[:_TRIED], *within[:_TRIED]])
    place = next(exact, None)
    first = (between or within)[0] if place is None else place
    return Cuts(range(first, part.end + 1, length), place is not None)


def _inside_calls(path: Sequence[State]) -> set[int]:
    """The numbers of the operations before which a cut would divide a call that is recalled as a whole."""
    ours = set(path)
    return {
        number
        for end in path
        for before in end.arrivals
        if before in ours
        for number in range(before.operations + 1, end.operations)
    }


def _is_on_one_device(step: State) -> bool:
    return step.devices is None or len(step.devices) == 1


class Division:
    """The pieces of a pending trace.

    Attributes:
      pieces: in order; the last may be recorded on.
      cut_at: the user's line at the first cut.
    """

    def __init__(self, whole: Pending, plan: Plan):
        self._whole = whole
        self._tensors = self._own_tensors()
        self._codes = list(map(_code, self._tensors))
        for torn in plan.torn:
            self._spread(torn)
        self.cut_at = self._spot(plan.cut_at)
        self.pieces: list[Pending] = []
        for planned in plan.pieces:
            self.pieces.append(self._piece(planned))
        self._planned = plan.pieces
        self._fill()

    def _own_tensors(self) -> list[LazyTensor]:
        """The tensors of the trace, with others for those that the user has deleted."""
        whole = self._whole
        tensors = whole.records[:]
        if operator.countOf(map(_pending, tensors), whole) < len(tensors):
            for number, tensor in enumerate(tensors):
                if tensor._pending is not whole:
                    tensors[number] = tensor._twin()
                    tensors[number]._pending = whole
        return tensors

    def _spread(self, torn: Torn) -> None:
        """Puts a tensor for each result of a call that is cut in the place of those that the call gave."""
        whole = self._whole
        given = self._tensors[torn.first : torn.last]
        known = {tensor._slot: tensor for tensor in given}
        origins = map(_apart, whole.origins_of(torn.first, len(torn.steps)))
        tensors, codes = [], []
        for step, origin in zip(torn.steps, origins, strict=True):
            for slot, aval in enumerate(step.avals, step.first):
                tensor = known.get(slot)
                tensors.append(LazyTensor(whole.trace, aval, whole, slot) if tensor is None else tensor)
                codes.append(origin)
        self._tensors[torn.first : torn.last] = tensors
        self._codes[torn.first : torn.last] = codes

    def _piece(self, planned: Piece) -> Pending:
        """A pending trace with the path and the inputs of ``planned``."""
        whole = self._whole
        piece = Pending(whole.trace, whole.trie, whole.root, whole.context, planned.start)
        piece.began, piece.cut_by = whole.began, whole.cut_by
        inputs, slots_of, guards = piece.inputs, piece.slots_of, whole.guards
        for given in planned.given:
            source: Pending | None
            if given.piece is not None:
                value, source, has_slot = self._tensors[given.number], self.pieces[given.piece], True
            else:
                value = whole.inputs[given.number]
                source = getattr(value, "_pending", None)
                has_slot = whole.slots_of.get(id(value)) == given.slot
                if id(value) in guards:
                    piece.guards[id(value)] = guards[id(value)]
            inputs.append(value)
            if has_slot:
                slots_of[id(value)] = given.state.first
            if source is not None:
                piece.sources.add(source)
        piece.tip = planned.end
        return piece

    def _spot(self, number: int) -> Spot:
        """The user's line that recorded the tensor ``number``."""
        code = self._codes[number]
        if isinstance(code, Origin):
            return Spot(code.code, code.lasti, None, None)
        return Spot(code, self._tensors[number]._lasti, None, None)

    def _fill(self) -> None:
        """Gives the pieces their tensors, which still belong to the whole trace."""
        before = 0
        for piece, planned in zip(self.pieces, self._planned, strict=True):
            after = before + len(planned.slots)
            piece.records += self._tensors[before:after]
            before = after
        for piece in self.pieces[:-1]:
            piece.seal()

    def move(self) -> None:
        """Moves the tensors to the pieces. An interrupt between two of them leaves each with its value."""
        before = 0
        for piece, planned in zip(self.pieces, self._planned, strict=True):
            after = before + len(planned.slots)
            tensors, codes = self._tensors[before:after], self._codes[before:after]
            for tensor, slot, edge, code in zip(tensors, planned.slots, planned.edges, codes, strict=True):
                # No call and no jump back in between, so that no signal is handled.
                tensor._pending = piece
                tensor._slot = slot
                tensor._edge = edge
                tensor._code = code
            before = after
        self._tensors.clear()


def _apart(origin: Origin) -> Origin:
    """``origin`` with a number of its call that no recalled call of a piece has: those count from -1 down."""
    if origin.call_id >= 0:
        return origin
    return dataclasses.replace(origin, call_id=origin.call_id - (1 << 40))


_code, _pending = attrgetter("_code"), attrgetter("_pending")


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
