"""Division plans: the piece and slot of each tensor of a long trace that is divided.

A plan depends only on the path and on the calls that recorded it. So it is made once, in time proportional to
the operations, and kept with the path. Another trace with this path is divided by a few list operations.
"""

from __future__ import annotations

import bisect
from collections.abc import Hashable, Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from lazynb import jax_compat as jc
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.pending_trace import PendingTrace
from lazynb.recording.trie import LoopStart, State


class MovedEdge:
    """The end of a replayed call in a piece, instead of its
    :class:`~lazynb.recording.replay.replay_edge.ReplayEdge`."""

    __slots__ = ("callee", "end")

    def __init__(self, end: State, callee: Any):
        self.end = end
        self.callee = callee


class PieceInput(NamedTuple):
    """An input of a piece.

    Attributes:
      state: its step in the piece.
      slot: its slot in the whole trace.
      number: its number among the inputs of the whole trace, or among the tensors.
      piece: the number of the piece that computes it; None for an input of the whole trace.
    """

    state: State
    slot: int
    number: int
    piece: int | None


class Piece(NamedTuple):
    """A piece of a path.

    Attributes:
      start: the start of its path; None for the first piece, which begins at the root.
      end: the end of its path.
      given: its inputs, in order.
      slots: the slots of its tensors.
      edges: for each tensor, the end of the call of which it is the first result, or None.
    """

    start: LoopStart | None
    end: State
    given: Sequence[PieceInput]
    slots: Sequence[int]
    edges: Sequence[Any]

    @property
    def is_kept(self) -> bool:
        """Whether its path is still in the trie."""
        end, start = self.end, self.start
        parent = end.parent
        return parent is not None and parent.children.get(end.key) is end and (start is None or start.is_kept)


class SplitCall(NamedTuple):
    """A replayed call that a cut divides. It gets one tensor for each result of its operations.

    Attributes:
      first, last: the range of its tensors in the trace.
      steps: its operations.
    """

    first: int
    last: int
    steps: Sequence[State]


class DivisionPlan(NamedTuple):
    """The division of a trace.

    Attributes:
      edges: the edges of its tensors; a trace with others needs another plan.
      places: the cuts.
      pieces: the pieces.
      split_calls: the divided calls, the last first.
      cut_at: the number of the tensor of the first operation after the first cut.
    """

    edges: Sequence[Any]
    places: Sequence[int]
    pieces: Sequence[Piece]
    split_calls: Sequence[SplitCall]
    cut_at: int

    def fits(self, whole: PendingTrace) -> bool:
        """Whether this plan fits ``whole``, a trace with the same path."""
        return self.edges == edges_of(whole) and all([piece.is_kept for piece in self.pieces])


def edges_of(whole: PendingTrace) -> list[Any]:
    return list(map(_edge, whole.records))


_edge = attrgetter("_edge")


class _Entry(NamedTuple):
    """A tensor of the trace, where divided calls have one tensor for each result.

    Attributes:
      slot: its slot.
      end: the last operation of the call of which it is the first result; None for other results.
      edge: the edge of a replayed call; otherwise None.
    """

    slot: int
    end: State | None
    edge: Any


def plan_of(whole: PendingTrace, places: Sequence[int]) -> DivisionPlan:
    """Returns the plan to divide ``whole`` at ``places``. Adds the paths of the pieces to the trie."""
    edges = edges_of(whole)
    path = whole.state.path()
    operations = [step for step in path if step.operation is not None]
    places = _without_other_turn(path, operations, places)
    entries, torn = _entries(whole.records, operations, places)
    paths = _PiecePaths(whole, path, [entry.slot for entry in entries])
    bounds = [0, *places, len(operations)]
    parts = [operations[bounds[at] : bounds[at + 1]] for at in range(len(bounds) - 1)]
    content = content_of(parts[1], paths.held)
    start = whole.root.loop(content, len(parts[1]))
    pieces = [paths.piece(part, start if at else None) for at, part in enumerate(parts)]
    numbers = [
        paths.owners[entry.slot].operations - 1 for entry in entries
    ]  # of their operations, increasing
    filled = [
        paths.filled(at, piece, entries[_before(numbers, bounds[at]) : _before(numbers, bounds[at + 1])])
        for at, piece in enumerate(pieces)
    ]
    return DivisionPlan(edges, places, filled, torn[::-1], _first_after(entries, places[0]))


def _without_other_turn(
    path: Sequence[State], operations: Sequence[State], places: Sequence[int]
) -> Sequence[int]:
    """Returns ``places``, without the first if the piece after it differs from the next."""
    if len(places) < 3:
        return places
    owners = _owners(path)
    first, second = [
        content_of(operations[places[at] : places[at + 1]], lambda slot: _held(owners[slot], slot))
        for at in (0, 1)
    ]
    return places if first == second else places[1:]


def _before(numbers: Sequence[int], place: int) -> int:
    """Returns how many of the tensors ``numbers`` come before the operation ``place``."""
    return bisect.bisect_left(numbers, place)


def _first_after(entries: Sequence[_Entry], place: int) -> int:
    """Returns the number of the first result of the call that contains the operation ``place``."""
    ends = ((number, entry.end) for number, entry in enumerate(entries) if entry.end is not None)
    return next(number for number, end in ends if end.operations > place)


def _entries(
    records: Sequence[LazyTensor], operations: Sequence[State], places: Sequence[int]
) -> tuple[list[_Entry], list[SplitCall]]:
    """Returns the tensors of a trace, and the calls that are cut at ``places``."""
    entries: list[_Entry] = []
    torn: list[SplitCall] = []
    before = 0
    for first, last, end, edge in _calls(records):
        steps = operations[before : end.operations]
        if bisect.bisect_right(places, before) == bisect.bisect_left(places, end.operations):
            entries.append(_Entry(records[first]._slot, end, edge))
            entries += [_Entry(tensor._slot, None, None) for tensor in records[first + 1 : last]]
        else:
            torn.append(SplitCall(first, last, steps))
            for step in steps:
                slots = range(step.first, step.slots)
                entries += [_Entry(slot, None if slot > step.first else step, None) for slot in slots]
        before = end.operations
    return entries, torn


def _calls(records: Sequence[LazyTensor]) -> Iterator[tuple[int, int, State, Any]]:
    """Yields the recorded calls: the range of their tensors, their end, and their edge if replayed."""
    firsts = [number for number, tensor in enumerate(records) if tensor._edge is not None]
    for first, last in zip(firsts, [*firsts[1:], len(records)], strict=True):
        edge = records[first]._edge
        is_state = isinstance(edge, State)
        yield first, last, edge if is_state else edge.end, None if is_state else edge


def content_of(operations: Sequence[State], held: Any) -> tuple[Hashable, ...]:
    """Returns a key of ``operations`` that is equal for pieces with equal content; ``held`` gives an input's
    key."""
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


def _owners(path: Sequence[State]) -> list[State]:
    """Returns the step of each slot."""
    return [step for step in path for _ in step.avals]


def _held(owner: State, slot: int) -> Hashable:
    if owner.operation is None:
        return owner.key
    placed = jc.uncommitted_sharding(owner.devices[0]) if owner.devices is not None else None
    return owner.avals[slot - owner.first], placed


class _PiecePaths:
    """Creates the paths of the pieces of a trace.

    Attributes:
      owners: the step of each slot of the trace.
    """

    def __init__(self, whole: PendingTrace, path: Sequence[State], slots: Sequence[int]):
        self.owners = _owners(path)
        self._trie, self._root = whole.trie, whole.root
        self._numbers = {slot: number for number, slot in enumerate(slots)}
        self._moved: list[dict[int, int]] = []  # for each piece, its slots by those of the trace
        self._states: list[dict[State, State]] = []  # for each piece, its operations by those of the trace

    def held(self, slot: int) -> Hashable:
        """Returns the key of ``slot`` as an input of a piece."""
        return _held(self.owners[slot], slot)

    def piece(self, part: Sequence[State], start: LoopStart | None) -> Piece:
        """Returns the piece of the operations ``part``, without tensors."""
        state: State = start or self._root
        moved: dict[int, int] = {}
        states: dict[State, State] = {}
        given: list[PieceInput] = []
        for step in part:
            for slot in step.operands:
                if slot not in moved:
                    moved[slot] = state.slots
                    state = self._after_input(state, slot)
                    given.append(self._given(state, slot))
            operands = tuple([moved[slot] for slot in step.operands])
            state = states[step] = self._trie.step_like(state, step, (step.operation, operands), operands)
            moved.update(zip(range(step.first, step.slots), range(state.first, state.slots), strict=True))
        self._moved.append(moved)
        self._states.append(states)
        return Piece(start, state, given, (), ())

    def _after_input(self, state: State, slot: int) -> State:
        key, devices = self.held(slot), self.owners[slot].devices
        following = state.children.get(key)
        if following is None:
            following = self._trie.extend(state, key, None, (), (key[0],), devices)  # type: ignore[index]
        return following

    def _given(self, state: State, slot: int) -> PieceInput:
        owner = self.owners[slot]
        if owner.operation is None:
            return PieceInput(state, slot, owner.inputs - 1, None)
        piece = next(at for at, moved in enumerate(self._states) if owner in moved)
        return PieceInput(state, slot, self._numbers[slot], piece)

    def filled(self, at: int, piece: Piece, entries: Sequence[_Entry]) -> Piece:
        """Returns ``piece``, which has the number ``at``, with the tensors ``entries``."""
        moved, states = self._moved[at], self._states[at]
        slots = [moved[entry.slot] for entry in entries]
        edges: list[Any] = []
        for entry in entries:
            end = states[entry.end] if entry.end is not None else None
            edges.append(end if end is None or entry.edge is None else MovedEdge(end, entry.edge.callee))
        return piece._replace(slots=slots, edges=edges)
