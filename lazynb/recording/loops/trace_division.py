"""Division of a long repeating trace into pieces, for each of which one program is compiled and run.

Finds the repetition, chooses the cuts and moves the tensors. Each piece is a trace that continues the one
before, as after a barrier every few turns, but nothing runs earlier. The tensors move to the pieces one at a
time, and the whole trace is kept until the last has moved, so an interrupt loses nothing.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Hashable, Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from lazynb.recording.input_key import HOST, Constant
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.loops.bit_exact_cuts import Rounding
from lazynb.recording.loops.division_plan import DivisionPlan, Piece, SplitCall, content_of
from lazynb.recording.pending_trace import PendingTrace
from lazynb.recording.trie import LoopStart, State
from lazynb.user_code.source_lines import CodePosition, Origin

# ---- Repetition in a trace ---------------------------------------------------------------------------------
# Two operations are alike if they do the same and each operand was last touched equally many operations ago.
# So the number of turns makes no difference, and a value from before the loop (last used one turn ago) looks
# the same at each turn.

TURNS = 3
"""Minimal number of turns of a repetition."""


class Repetition(NamedTuple):
    """A repeating part of a trace. Operations are counted without inputs.

    Attributes:
      start: number of the first operation of the part.
      end: number of the operation after its last.
      period: number of operations after which it repeats.
    """

    start: int
    end: int
    period: int

    @property
    def length(self) -> int:
        return self.end - self.start

    @property
    def turns(self) -> int:
        """Number of complete periods."""
        return self.length // self.period


def repetition(path: Sequence[State]) -> Repetition | None:
    """Returns the longest repeating part of ``path`` that reaches its end, its half or its quarter, or None.

    Takes time proportional to the length of ``path``.
    """
    marks = _marks(path)
    found = [_ending_at(marks, len(marks) // share) for share in (1, 2, 4)]
    known = [part for part in found if part is not None]
    return max(known, key=lambda part: part.length, default=None)


def _marks(path: Sequence[State]) -> list[int]:
    """Returns for each operation a number that alike operations share."""
    numbers: dict[Hashable, int] = {}
    touched: dict[int, tuple[Hashable, int]] = {}  # by slot: its last operation, and its role there
    marks: list[int] = []
    for step in path:
        if step.operation is None:
            touched[step.first] = (step.key, 0)
            continue
        mark: list[Hashable] = [id(step.operation)]
        for position, slot in enumerate(step.operands):
            last, role = touched[slot]
            mark.append((len(marks) - last, role) if isinstance(last, int) else last)
            touched[slot] = (len(marks), position)
        for slot in range(step.first, step.slots):
            touched[slot] = (len(marks), step.first - slot - 1)
        marks.append(numbers.setdefault(tuple(mark), len(numbers)))
    return marks


def _ending_at(marks: Sequence[int], end: int) -> Repetition | None:
    """Returns the longest repeating part with the operations before ``end``, and the turns after it."""
    backwards = marks[:end][::-1]
    best: Repetition | None = None
    for count, border in enumerate(_borders(backwards), 1):
        period = count - border
        if border and count >= TURNS * period:
            best = Repetition(end - count, end, period)
    if best is None:
        return None
    last = best.end
    while last < len(marks) and marks[last] == marks[last - best.period]:
        last += 1
    return best._replace(end=last)


def _borders(marks: Sequence[int]) -> list[int]:
    """The prefix function of Knuth, Morris and Pratt (1977): the longest proper border of each prefix."""
    borders = [0] * len(marks)
    border = 0
    for number in range(1, len(marks)):
        while border and marks[number] != marks[border]:
            border = borders[border - 1]
        border += marks[number] == marks[border]
        borders[number] = border
    return borders


MAX_PIECE_WEIGHT = 256
"""Maximal weight of the operations in a piece, unless one turn has more."""

_TURNS_PER_PIECE = (100, 50, 20, 10, 5, 2, 1)
"""Turns in a piece: a value kept every ten turns is then at the same place in each piece."""

_TRIED = 64
"""Places in a turn that are tried for the cut."""


def turns_together(weight: int) -> int:
    """Returns how many repetitions of operations of this weight form a piece."""
    return next((turns for turns in _TURNS_PER_PIECE if turns * weight <= MAX_PIECE_WEIGHT), 1)


def weight_of_turn(path: Sequence[State], part: Repetition) -> int:
    """Returns the weight of the operations of one repetition."""
    weights = [0, *(step.weight for step in path if step.operation is not None)]
    return weights[part.start + part.period] - weights[part.start]


class Cuts(NamedTuple):
    """The cuts of a trace.

    Attributes:
      places: the numbers of the operations before which to cut. The first may be before the first whole turn,
        whose piece has the content of those after it only if it reads nothing else from before the loop.
      keeps_bits: whether every bit of every result is kept.
    """

    places: Sequence[int]
    keeps_bits: bool


def cuts_of(path: Sequence[State], part: Repetition) -> Cuts | None:
    """Returns the cuts of the repeating part of ``path``; None if it is too short.

    Among bit-exact places it takes the one where the fewest bytes cross, if possible between two calls of the
    user's: a call cut in its middle goes through JAX's code each time. Without a bit-exact place it takes the
    one where the fewest bytes cross: a trace of this length is cut in any case, and repeating pieces compile
    once.
    """
    length = turns_together(weight_of_turn(path, part)) * part.period
    if part.length < 2 * length + part.period or not all(map(_is_on_one_device, path)):
        return None
    rounding = Rounding(path)
    crossing = rounding.bytes_crossing()
    middle = part.start + part.period  # the first turn may read values from before the loop
    places = sorted(range(middle, middle + part.period), key=lambda number: crossing[number])
    inside = _inside_calls(path)
    between = [number for number in places if number not in inside]
    within = [number for number in places if number in inside]
    exact: Iterator[int] = iter(())
    if rounding.is_settled(part.start, min(part.start + 2 * part.period, part.end)):
        exact = filter(rounding.keeps_bits, [*between[:_TRIED], *within[:_TRIED]])
    place = next(exact, None)
    first = (between or within)[0] if place is None else place
    if first > length and (place is None or rounding.keeps_bits(first - length)):
        first -= length
    return Cuts(range(first, part.end + 1, length), place is not None)


def _inside_calls(path: Sequence[State]) -> set[int]:
    """Returns the operations before which a cut would divide a replayed call."""
    ours = set(path)
    return {
        number
        for end in path
        for before in end.edge_sources
        if before in ours
        for number in range(before.operations + 1, end.operations)
    }


def _is_on_one_device(step: State) -> bool:
    return step.devices is None or len(step.devices) == 1


class Division:
    """The pieces of a pending trace.

    Attributes:
      pieces: in order; recording may continue in the last.
      cut_at: the user's line at the first cut.
    """

    def __init__(self, whole: PendingTrace, plan: DivisionPlan):
        self._whole = whole
        self._tensors = self._own_tensors()
        self._codes = list(map(_code, self._tensors))
        for torn in plan.split_calls:
            self._materialize_split_call(torn)
        self.cut_at = self._position(plan.cut_at)
        self.pieces: list[PendingTrace] = []
        for planned in plan.pieces:
            self.pieces.append(self._piece(planned))
        self._planned = plan.pieces
        self._fill()

    def _own_tensors(self) -> list[LazyTensor]:
        """Returns the tensors of the trace, with new ones for those that the user has deleted."""
        whole = self._whole
        tensors = whole.records[:]
        if operator.countOf(map(_pending, tensors), whole) < len(tensors):
            for number, tensor in enumerate(tensors):
                if tensor._pending is not whole:
                    tensors[number] = tensor._alias()
                    tensors[number]._pending = whole
        return tensors

    def _materialize_split_call(self, torn: SplitCall) -> None:
        """Replaces the tensors of a divided call by one tensor for each result of its operations."""
        whole = self._whole
        given = self._tensors[torn.first : torn.last]
        known = {tensor._slot: tensor for tensor in given}
        origins = map(_with_distinct_call_id, whole.origins_of(torn.first, len(torn.steps)))
        tensors, codes = [], []
        for step, origin in zip(torn.steps, origins, strict=True):
            for slot, aval in enumerate(step.avals, step.first):
                tensor = known.get(slot)
                tensors.append(LazyTensor(whole.trace, aval, whole, slot) if tensor is None else tensor)
                codes.append(origin)
        self._tensors[torn.first : torn.last] = tensors
        self._codes[torn.first : torn.last] = codes

    def _piece(self, planned: Piece) -> PendingTrace:
        """Returns a pending trace with the path and the inputs of ``planned``."""
        whole = self._whole
        piece = PendingTrace(whole.trace, whole.trie, whole.root, whole.context, planned.start)
        piece.began, piece.cut_by = whole.began, whole.cut_by
        inputs, slots_of, guards = piece.inputs, piece.slots_of, whole.guards
        for given in planned.given:
            source: PendingTrace | None
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
        piece.open_state = planned.end
        return piece

    def _position(self, number: int) -> CodePosition:
        code = self._codes[number]
        if isinstance(code, Origin):
            return CodePosition(code.code, code.lasti, None, None)
        return CodePosition(code, self._tensors[number]._lasti, None, None)

    def _fill(self) -> None:
        """Gives the pieces their tensors, which still belong to the whole trace."""
        before = 0
        for piece, planned in zip(self.pieces, self._planned, strict=True):
            after = before + len(planned.slots)
            piece.records += self._tensors[before:after]
            before = after
        for piece in self.pieces[:-1]:
            piece.seal()

    def move_tensors(self) -> None:
        """Moves the tensors to the pieces. After an interrupt each tensor still has its value."""
        before = 0
        for piece, planned in zip(self.pieces, self._planned, strict=True):
            after = before + len(planned.slots)
            tensors, codes = self._tensors[before:after], self._codes[before:after]
            for tensor, slot, edge, code in zip(tensors, planned.slots, planned.edges, codes, strict=True):
                # No call and no backward jump in between, so no signal is handled.
                tensor._pending = piece
                tensor._slot = slot
                tensor._edge = edge
                tensor._code = code
            before = after
        self._tensors.clear()


def _with_distinct_call_id(origin: Origin) -> Origin:
    """Returns ``origin`` with an unused call number: those of replayed calls count down from -1."""
    if origin.call_id >= 0:
        return origin
    return dataclasses.replace(origin, call_id=origin.call_id - (1 << 40))


_code, _pending = attrgetter("_code"), attrgetter("_pending")


def _is_alike(entry: Any, other: Any) -> bool:
    """Whether two entries are equal, or stand for numbers of one type. A number is an input in one
    and a constant in the other if a variable had its value in the first turns."""
    if entry == other:
        return True
    return _is_number(entry) and _is_number(other) and bool(entry[0] == other[0])


def _is_number(entry: Any) -> bool:
    return type(entry) is tuple and (entry[1] is HOST or type(entry[1]) is Constant)


def ends_like(state: State, start: LoopStart) -> bool:
    """Whether the path to ``state`` has the content of a piece of ``start``."""
    if state in start.ends:
        return True
    path = state.path()
    keys = {step.first: step.key for step in path if step.operation is None}
    operations = [step for step in path if step.operation is not None]
    content = content_of(operations, keys.__getitem__)
    same = len(content) == len(start.content) and all(
        [_is_alike(*pair) for pair in zip(content, start.content, strict=True)]
    )
    if same:
        start.ends.add(state)
    return same
