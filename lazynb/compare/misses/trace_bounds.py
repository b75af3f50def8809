"""Changed boundaries of a trace: trace breaks and cell ends that divide the same lines differently."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from lazynb.compare.matching import Alignment
from lazynb.compare.misses.insertions_deletions import OMITTABLE, listed
from lazynb.compare.misses.run_coverage import RunCoverage
from lazynb.compare.program_graph import ProgramGraph, ProgramStep
from lazynb.recording.loops.trace_growth import CUT
from lazynb.running.miss_log import Miss
from lazynb.user_code.cells import CellRun, cell_source, history
from lazynb.user_code.source_files import lines_of_file
from lazynb.user_code.source_lines import CodePosition, Place, line_of

Sides = tuple[Sequence[ProgramStep], Sequence[ProgramStep]]
"""Steps of the earlier and of the present program."""


@dataclasses.dataclass(frozen=True, slots=True)
class TraceBoundary:
    """A trace break, or the end of a cell, that only one of two traces has.

    Attributes:
      kind: ``broke``, ``goes_on``, ``begins_later``, ``begins_earlier``, ``turn``, ``cell_split`` or
        ``cell_merged``.
      reason: kind of the trace break; empty for the end of a cell.
      place: its line; for the end of a cell, a line on its other side.
      now, before: steps of the two programs that are only there because of it.
      operations: these steps as a phrase, for kinds whose text contains them.
    """

    kind: str
    reason: str
    place: Place
    now: tuple[int, ...]
    before: tuple[int, ...]
    operations: str = ""


_NEAR = 20
"""Number of preceding cell runs in which the other part of a program may have been recorded."""

_ENDS = frozenset(("broke", "goes_on", "cell_split", "cell_merged"))
"""Kinds after which different variables are alive at the end of the trace."""


class TraceBoundaries:
    """Finds the boundaries, ``bounds``, where the trace of ``now`` begins or ends elsewhere than ``before``.

    Unpaired steps count as cut off if their lines are in the other source, otherwise as added or removed.

    Arguments:
      reached: finds lines that are in both sources but were not reached.
    """

    def __init__(
        self,
        before: Miss,
        now: Miss,
        comparables: tuple[ProgramGraph, ProgramGraph],
        reached: RunCoverage,
    ):
        self._reached = reached
        self._misses = before, now
        self._comparables = comparables
        self.bounds: list[TraceBoundary] = []
        self.sources = self._source(0), self._source(1)

    def outside(self, alignment: Alignment) -> tuple[set[int], set[int], bool]:
        """The steps of both programs that the boundaries explain, and whether the traces end elsewhere."""
        before, now = self._misses
        if _follows(before, now) or _follows(now, before):
            return set(), set(), False  # two parts of one program
        heads, tails = self._leftover(alignment)
        if _end(before) != _end(now):
            self._compare_ends(tails)
        if _start(before) != _start(now):
            self._compare_starts(heads)
        self._compare_cells(heads, alignment)
        self._compare_cells(tails, alignment)
        old = {number for bound in self.bounds for number in bound.before}
        new = {number for bound in self.bounds for number in bound.now}
        return old, new, any(bound.kind in _ENDS for bound in self.bounds)

    def _compare_ends(self, tails: Sides) -> None:
        """Adds the trace break that cuts off the tail of one program."""
        before, now = self._misses
        if any(tails[side] and self._reached.is_passed(tails[side], side) for side in (0, 1)):
            return
        if tails[0] and not self._off_line(tails[1], 1) and self._written(tails[0], 0):
            self._add("broke", now.kind, now.spot, tails)
        elif tails[1] and not self._off_line(tails[0], 0) and self._written(tails[1], 1):
            self._add("goes_on", before.kind, before.spot, tails)

    def _compare_starts(self, heads: Sides) -> None:
        """Adds the trace break that cuts off the head of one program."""
        before, now = self._misses
        if any(heads[side] and self._left_out(heads[side], side) for side in (0, 1)):
            return
        if heads[1] and now.cut is not None and self._is_turn(heads):
            words = listed(self._comparables[1], heads[1])
            self._add("turn", now.cut.kind, now.cut.spot, heads, words)
        if heads[0] and heads[1]:
            return
        if heads[0] and _begins_at_break(now) and self._written(heads[0], 0):
            assert now.cut is not None
            self._add("begins_later", now.cut.kind, now.cut.spot, heads)
        elif heads[1] and _begins_at_break(before) and self._written(heads[1], 1):
            assert before.cut is not None
            self._add("begins_earlier", before.cut.kind, before.cut.spot, heads)

    def _left_out(self, steps: Sequence[ProgramStep], side: int) -> bool:
        """Whether the lines of ``steps`` are in the other program, where they were identities."""
        own, other = self._comparables[side], self._comparables[1 - side]
        lines = {other.text(step) for step in other.operations}
        return all(step.primitive.name in OMITTABLE and own.text(step) in lines for step in steps)

    def _compare_cells(self, leftover: Sides, alignment: Alignment) -> None:
        """Adds the end of a cell that cuts off steps of one side only."""
        before, now = leftover
        if bool(before) == bool(now):
            return
        side, steps = (0, before) if before else (1, now)
        numbers = {step.number for step in steps}
        if self._reached.stands(steps, side) or not self._is_handed_over(numbers, side, alignment):
            return
        if any(numbers & {*bound.now, *bound.before} for bound in self.bounds):
            return
        found = self._elsewhere(steps, side)
        if found is not None:
            words = listed(self._comparables[side], steps)
            own, none = tuple(sorted(numbers)), ()
            if side:
                self.bounds.append(TraceBoundary("cell_merged", "", found, own, none, words))
            else:
                self.bounds.append(TraceBoundary("cell_split", "", found, none, own, words))

    def _is_handed_over(self, numbers: set[int], side: int, alignment: Alignment) -> bool:
        """Whether a value passes between the steps ``numbers`` of ``side`` and the other program.

        The value is an input of the other program only, or a result. Also true for isolated steps.
        """
        own, other = self._comparables[side], self._comparables[1 - side]
        partner, back = (alignment.old, alignment.new) if side else (alignment.new, alignment.old)
        alone = True
        for step in own.operations:
            inside = step.number in numbers
            there = other.steps[partner[step.number]] if step.number in partner else None
            for place, (number, result) in enumerate(step.operands):
                if (number in numbers) == inside or not (inside or own.steps[number].is_operation):
                    continue
                alone = alone and not own.steps[number].is_operation
                if inside and (partner.get(number), result) in other.wanted:
                    return True
                if not inside and there is not None and place < len(there.operands):
                    taken = other.steps[there.operands[place][0]]
                    if not taken.is_operation and taken.number not in back:
                        return True
        return alone

    def _elsewhere(self, steps: Sequence[ProgramStep], side: int) -> Place | None:
        """The first line of ``steps`` if all are in cells that recorded neither program, otherwise None."""
        lines = {self._comparables[side].text(step) for step in steps} - {""}
        texts = [text for text in self._misses[1 - side].sources.values()]
        here = {line.strip() for text in texts for line in text.splitlines()}
        if not lines or 2 * len(lines & here) > len(lines):
            return None
        before, now = (miss.time for miss in self._misses)
        if side:
            runs: Sequence[CellRun] = [run for run in history.runs_until(now) if run.time > before - _NEAR]
        else:
            runs = history.after(before)
        known = self._misses[0].sources.keys() | self._misses[1].sources.keys()
        own = {run.number for run in history.runs_until(history.time) if run.file in known}
        first = next(text for step in steps if (text := self._comparables[side].text(step)))
        found = None
        for run in reversed(runs):
            texts = [line.strip() for line in run.text.splitlines()]
            if run.number in own:  # a cell magic and its body are two runs of one cell
                continue
            if first in texts and lines:
                found = found or Place(run.file, texts.index(first) + 1, first, run.number)
            lines -= set(texts)
        return None if lines else found

    def _is_turn(self, heads: Sides) -> bool:
        """Whether the present program begins with the rest of the previous loop iteration, after its break.

        The head of the earlier program must be in the source too, so that it was not added or removed.
        """
        if self._misses[0].cut is not None or not self._written(heads[1], 1):
            return False
        return not heads[0] or self._written(heads[0], 0)

    def _add(self, kind: str, reason: str, spot: CodePosition, steps: Sides, words: str = "") -> None:
        before, now = (tuple(step.number for step in side) for side in steps)
        self.bounds.append(TraceBoundary(kind, reason, spot.place, now, before, words))

    def _leftover(self, alignment: Alignment) -> tuple[Sides, Sides]:
        """The unpaired steps before the first pair, and those after the last pair."""
        before, now = self._comparables
        old_head, old_tail = _head_and_tail(before, alignment.new)
        new_head, new_tail = _head_and_tail(now, alignment.old)
        return (old_head, new_head), (old_tail, new_tail)

    def _off_line(self, steps: Sequence[ProgramStep], side: int) -> bool:
        """Whether a step is on another line than the trace break of its side."""
        spot = self._misses[side].spot
        line = (spot.file, line_of(spot.code, spot.lasti))
        return any(step.line != line for step in steps)

    def _written(self, steps: Sequence[ProgramStep], side: int) -> bool:
        """Whether the lines of the unpaired ``steps`` of ``side`` are in the source of the other side.

        More than half of them suffice, because others may have been edited at the same time.
        """
        comparable = self._comparables[side]
        lines = {comparable.text(step) for step in steps} - {""}
        return bool(lines) and 2 * len(lines & self.sources[1 - side]) > len(lines)

    def _source(self, side: int) -> set[str]:
        """Lines of the code behind one side."""
        spot = self._misses[side].spot
        texts = []
        if spot.cell is not None:
            texts.append(spot.cell[1])
        for file in self._files(side) | {spot.file}:
            cell = cell_source(file)
            if cell is not None:
                texts.append(cell)
            elif file != spot.file or spot.cell is None:
                texts.append("".join(lines_of_file(file)))
        return {line.strip() for text in texts for line in text.splitlines()}

    def _files(self, side: int) -> set[str]:
        """The source files of one side, and those of the other side that are only known as they are now."""
        own = _files_of(self._comparables[side])
        other = _files_of(self._comparables[1 - side])
        return own | {file for file in other if cell_source(file) is None}


def _files_of(comparable: ProgramGraph) -> set[str]:
    return {step.line[0] for step in comparable.operations if step.line is not None}


def _head_and_tail(
    comparable: ProgramGraph, match: dict[int, int]
) -> tuple[list[ProgramStep], list[ProgramStep]]:
    """The needed unpaired operations before the first paired one, and those after the last."""
    paired = [step.number for step in comparable.operations if step.number in match]
    if not paired:
        return [], []
    leftover = [step for step in comparable.operations if step.needed and step.number not in match]
    head = [step for step in leftover if step.number < paired[0]]
    tail = [step for step in leftover if step.number > paired[-1]]
    return head, tail


def _end(miss: Miss) -> tuple[str, str]:
    """Kind and source line of the trace break that ended the trace."""
    return miss.kind, miss.spot.place.text


def _begins_at_break(miss: Miss) -> bool:
    """Whether the trace began after a trace break, and not where lazynb cut a loop."""
    return miss.cut is not None and miss.cut.kind != CUT


def _start(miss: Miss) -> tuple[str, str] | None:
    """Kind and source line of the trace break after which the program begins."""
    if miss.cut is None:
        return None
    return miss.cut.kind, miss.cut.spot.place.text


def _follows(miss: Miss, other: Miss) -> bool:
    """Whether ``miss`` begins where ``other`` ends, and ends elsewhere."""
    return _start(miss) == _end(other) and _end(miss) != _end(other)
