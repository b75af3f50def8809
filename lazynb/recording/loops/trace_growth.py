"""Growth of traces: the search for a loop, its warning, and the division of full traces.

A trace is examined at a quarter of ``config.max_program`` operations, and whenever it has grown by half. If a
loop records it, the user is warned early, once for each loop. A full trace is divided where the loop repeats,
at a bit-exact place if possible. A trace with large turns, such as steps of a training, is divided as soon as
its loop is found: each turn is a piece of its own in any case, and many turns compile slowly as one.
"""

from __future__ import annotations

import warnings
from types import FrameType
from typing import TYPE_CHECKING

from lazynb.config import config
from lazynb.errors import LoopWarning
from lazynb.recording.loops.division_plan import DivisionPlan, plan_of
from lazynb.recording.loops.trace_division import (
    MAX_PIECE_WEIGHT,
    Division,
    Repetition,
    cuts_of,
    ends_like,
    repetition,
    turns_together,
    weight_of_turn,
)
from lazynb.user_code.loop_statements import Loop, LoopWatch
from lazynb.user_code.source_lines import CodePosition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazynb.recording.lazy_trace import LazyTrace
    from lazynb.recording.pending_trace import PendingTrace
    from lazynb.recording.trie import State

CUT = "loop"
"""Stands for the kind of a trace break where lazynb itself cut a trace."""

_MIN_TURNS = 8
"""Repetitions after which the user is warned of a loop."""

_LARGE_TURN = MAX_PIECE_WEIGHT // 2
"""Weight of a turn that is a piece of its own."""

_WATCHED = 2
"""Repetitions during which the loop is searched."""


class _LoopDetector:
    """The search for a loop.

    Attributes:
      pending: the trace.
      part: the repeating part of it.
      end: number of operations at which the search ends.
      watch: the loops that ran since the search began.
    """

    def __init__(self, pending: PendingTrace, part: Repetition):
        self.pending = pending
        self.part = part
        self.end = pending.state.operations + _WATCHED * part.period + 1
        self.watch = LoopWatch()


def is_full(pending: PendingTrace) -> bool:
    """Whether ``pending`` must be cut: it has the length of its loop's pieces, or is over the limit."""
    state, loop = pending.state, pending.loop
    return state.weight >= config.max_program or (loop is not None and state.operations == loop.length)


def has_room(pending: PendingTrace) -> bool:
    """Whether the call that filled ``pending`` may continue in it; a cut call is recorded anew each time."""
    state, loop = pending.state, pending.loop
    is_piece = loop is not None and state.operations == loop.length
    return not is_piece and state.weight < config.max_program + MAX_PIECE_WEIGHT


def examine(trace: LazyTrace, pending: PendingTrace, frame: FrameType) -> None:
    """Examines ``pending``, which has reached ``pending.limit``, with the lock of ``trace`` held."""
    operations, loop = pending.state.operations, pending.loop
    if loop is not None and operations == loop.length and ends_like(pending.state, loop):
        trace.next_piece(pending)
        return
    if pending.state.weight >= config.max_program:
        trace.loop_detector = None
        if not _divide(trace, pending):
            trace.seal()
        return
    _look_for_loop(trace, pending, frame)


def _look_for_loop(trace: LazyTrace, pending: PendingTrace, frame: FrameType) -> None:
    """Continues the search for the loop that records ``pending``, and warns once it is found."""
    operations, telling = pending.state.operations, trace.loop_detector
    if telling is None or telling.pending is not pending:
        path = pending.state.path()
        part = repetition(path)
        if part is None or part.end < operations or not (part.turns >= _MIN_TURNS or _is_large(path, part)):
            pending.limit = operations + operations // 2
            return
        telling = trace.loop_detector = _LoopDetector(pending, part)
    telling.watch.observe(frame)
    pending.limit = operations + 1
    if operations >= telling.end:
        trace.loop_detector = None
        pending.limit = max(2 * telling.part.end, operations + 1)
        found = telling.watch.common_loop()
        if found is not None:
            loop, pending.loop_spot = found
            if not (_is_large(pending.state.path(), telling.part) and _divide(trace, pending)):
                _warn_of_loop(pending, telling.part, loop, pending.loop_spot)


def _is_large(path: Sequence[State], part: Repetition) -> bool:
    """Whether a turn of ``part`` is a piece of its own."""
    return weight_of_turn(path, part) > _LARGE_TURN


def _warn_of_loop(pending: PendingTrace, part: Repetition, loop: Loop, spot: CodePosition) -> None:
    if spot.identity in _warned_loops:
        return
    if len(_warned_loops) >= _MANY:
        _warned_loops.clear()
    _warned_loops.add(spot.identity)
    path = pending.state.path()
    now = repetition(path)
    if now is None or now.period != part.period or now.end < pending.state.operations:
        return  # it was just left
    place = spot.place
    what = "loop" if loop.is_statement else "comprehension"
    several = part.period > 1
    text = (
        f"{place.label}: this {what} has recorded the same "
        f"{f'{part.period:,} operations' if several else 'operation'} again and again, and "
        f"nothing has read {'them' if several else 'it'}: {pending.state.operations:,} are pending. "
        "They become one program, and XLA's compile time grows faster than its length. "
        f"{_advice(loop, part.period, weight_of_turn(path, now))}"
    )
    cuts = cuts_of(path, now)
    if cuts is not None:
        text += f" From {config.max_program:,} operations on lazynb cuts it by itself where it repeats"
        text += "." if cuts.keeps_bits else ", which may change the last bits of what it computes."
    warnings.warn_explicit(text, LoopWarning, place.file, place.line)


def _advice(loop: Loop, period: int, weight: int) -> str:
    turns = turns_together(weight)
    these = "these operations" if period > 1 else "this operation"
    often = f"once every {turns:,} repetitions of {these}" if turns > 1 else f"at each repetition of {these}"
    if loop.is_statement:
        return f"Call lazynb.sync() in the loop, {often}."
    return f"Make it a for statement, and call lazynb.sync() in that, {often}."


_warned_loops: set[tuple[object, ...]] = set()
_MANY = 1_000


def _divide(trace: LazyTrace, pending: PendingTrace) -> bool:
    """Divides ``pending`` into pieces where it repeats; returns whether it was divided."""
    if (
        pending.delete_after_run
        or pending.calls_back
        or pending.failure is not None
        or pending.in_flight_run is not None
    ):
        return False
    plan = _plan(pending)
    pending.trie.keep_divided(pending.state, plan)
    if plan is None:
        return False
    pending.seal()
    division = Division(pending, plan)
    cut = (CUT, pending.loop_spot or division.cut_at)
    for piece in division.pieces[1:]:
        piece.cut_by = cut
    trace.install_pieces(pending, division)
    return True


def _plan(pending: PendingTrace) -> DivisionPlan | None:
    """Returns the kept or a new plan to divide ``pending``; None if it cannot be divided."""
    state, divided = pending.state, pending.trie.divided
    if state not in divided:
        places = _places(state)
        return None if places is None else plan_of(pending, places)
    plan: DivisionPlan | None = divided[state]
    if plan is None or plan.fits(pending):
        return plan
    return plan_of(pending, plan.places)


def _places(end: State) -> Sequence[int] | None:
    """Returns the cuts of the path to ``end``, or None."""
    path = end.path()
    part = repetition(path)
    cuts = cuts_of(path, part) if part is not None else None
    return None if cuts is None else cuts.places
