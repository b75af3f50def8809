"""Detects operations that one program lacks because its run did not reach their statement.

The statement is in both sources: the user neither added nor removed it. An exception left the preceding
lines, or the run took another branch.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lazynb.compare.misses.change_attribution import is_edit, line_step
from lazynb.compare.misses.insertions_deletions import listed
from lazynb.compare.misses.program_sides import ProgramChange
from lazynb.compare.misses.source_pair import Located, SourcePair
from lazynb.compare.misses.source_syntax import Source, Span, Statement, names_in, span_of
from lazynb.compare.program_graph import ProgramGraph, ProgramStep
from lazynb.running.miss_log import Miss
from lazynb.user_code import tracebacks
from lazynb.user_code.cells import history
from lazynb.user_code.source_lines import line_of, place

_LEAVING = ast.Return | ast.Break | ast.Continue
_LOOPS = ast.For | ast.While | ast.AsyncFor


class RunCoverage:
    """Determines which lines only one of two runs reached."""

    def __init__(
        self, pair: SourcePair, comparables: tuple[ProgramGraph, ProgramGraph], misses: tuple[Miss, Miss]
    ):
        self._pair = pair
        self._comparables = comparables
        self._misses = misses
        self._recorded = self._statements(0), self._statements(1)

    def report_exceptions(self, changes: Sequence[ProgramChange]) -> list[ProgramChange]:
        """Reports operations that an exception prevented as not reached."""
        found = [self._told(change) for change in changes]
        return self._joined(
            [new if "why" in new.fields else old for old, new in zip(changes, found, strict=True)]
        )

    def told(self, changes: Sequence[ProgramChange]) -> list[ProgramChange]:
        """Reports operations that were neither added nor removed, and that no edit explains, as not run."""
        return self._joined([self._told(change) for change in changes])

    def _joined(self, changes: Sequence[ProgramChange]) -> list[ProgramChange]:
        """Merges changes whose operations are missing for the same reason."""
        joined: list[ProgramChange] = []
        where: dict[tuple[str, object], int] = {}
        for change in changes:
            key = change.kind, change.fields.get("why", change.fields.get("which"))
            if change.kind not in ("not_reached", "reached", "not_run") or key not in where:
                where.setdefault(key, len(joined))
                joined.append(change)
            else:
                joined[where[key]] = self._with_more(joined[where[key]], change)
        return joined

    def _with_more(self, told: ProgramChange, change: ProgramChange) -> ProgramChange:
        now, before = told.now + change.now, told.before + change.before
        program = self._comparables[1 if now else 0]
        names = listed(program, [program.steps[number] for number in now or before])
        fields = {**told.fields, "operation": names}
        if " and " in names:
            fields.update(was="were", stand="stand", it="them")
        return ProgramChange(told.kind, fields, now, before, told.at)

    def stands(self, steps: Sequence[ProgramStep], side: int) -> bool:
        """Whether a cell that recorded the other program contains a line of ``steps``, possibly edited."""
        recorded = self._misses[1 - side].sources
        found = [self._pair.partner(side, step.line) for step in steps if step.line is not None]
        return any(there is not None and there[0] in recorded for there in found)

    def is_passed(self, steps: Sequence[ProgramStep], side: int) -> bool:
        """Whether the other run did not reach the lines of ``steps``, which only ``side`` has, so that no
        trace break cut them off: an exception left the preceding lines, or they precede the trace break and
        share no loop with it."""
        spot = self._misses[1 - side].spot
        file, line = spot.file, line_of(spot.code, spot.lasti)
        stand = [self._unrecorded(step, side) for step in steps]
        if any(there is not None and self._why(there, 1 - side) for there in stand):
            return True
        for step, there in zip(steps, stand, strict=True):
            if step.line is None or self._pair.is_edited(side, step.line):
                return False
            if there is None or there[0] != file or there[1].last >= line:
                return False
            source = self._pair.sides[1 - side].source(file)
            assert source is not None
            first = there[1].first
            if _function_around(source, first) != _function_around(source, line) or _loop(
                source, first, line
            ):
                return False
        return True

    # ---- One change ----------------------------------------------------------------------------------------

    def _told(self, change: ProgramChange) -> ProgramChange:
        if change.kind == "argument" and not (change.now and change.before):
            return self._branch(change)
        if change.kind not in ("added", "removed") or is_edit(change):
            return change
        side = 1 if change.kind == "added" else 0
        numbers = change.now if side else change.before
        steps = [self._comparables[side].steps[number] for number in numbers]
        found = [self._unrecorded(step, side) for step in steps]
        there = found[0] if found else None
        if there is None or None in found:
            here = steps[0].line
            if here is not None and all(self._is_left_out(step, side) for step in steps):
                partner = self._pair.partner(side, here)
                assert partner is not None
                return self._worded(change, side, None, here if side else (partner[0], partner[1].first))
            return change
        line = steps[0].line
        assert line is not None
        why = self._why(there, 1 - side)
        if self._pair.is_edited(side, line) and why is None:
            return change
        return self._worded(change, side, why, line if side else (there[0], there[1].first))

    def _is_left_out(self, step: ProgramStep, side: int) -> bool:
        """Whether a statement that is the same in both sources recorded such an operation in one program
        only."""
        there = self._pair.partner(side, step.line) if step.line is not None else None
        if step.line is None or there is None or self._pair.is_edited(side, step.line):
            return False
        file, statement = there
        return not any(
            other.name == step.name
            and other.line is not None
            and other.line[0] == file
            and statement.first <= other.line[1] <= statement.last
            for other in self._comparables[1 - side].operations
        )

    def _branch(self, change: ProgramChange) -> ProgramChange:
        """Rewords a call that is an identity in the other program, if its branch may not have run there."""
        side = 1 if change.now else 0
        program = self._comparables[side]
        step = program.steps[(change.now or change.before)[0]]
        source = self._pair.sides[side].source(step.line[0]) if step.line is not None else None
        position = program.position(step)
        if source is None or position is None or change.at is None or change.at.line is None:
            return change
        if not _is_conditional(source, position):
            return change
        return self._worded(change, side, None, change.at.line)

    def _worded(
        self, change: ProgramChange, side: int, why: str | None, now: tuple[str, int]
    ) -> ProgramChange:
        """The reworded change.

        Arguments:
          side: the side that has the operations.
          why: why the other run did not reach them; None if unknown.
          now: their line in the present source.
        """
        several = " and " in str(change.fields["operation"])
        fields = {"operation": change.fields["operation"], "was": "were" if several else "was"}
        if why is not None:
            return ProgramChange(
                ("not_reached", "reached")[side],
                {**fields, "why": why},
                change.now,
                change.before,
                line_step(now),
            )
        fields.update(stand="stand" if several else "stands", it="them" if several else "it")
        fields["which"] = ("the cached", "this")[side]
        return ProgramChange("not_run", fields, change.now, change.before, line_step(now))

    def _unrecorded(self, step: ProgramStep, side: int) -> Located | None:
        """The partner, in the other source, of the statement of ``step``, if the other program has no
        operation of it. None if the cell recorded nothing of the other program."""
        there = self._pair.partner(side, step.line) if step.line is not None else None
        if there is None or (there[0], id(there[1].node)) in self._recorded[1 - side]:
            return None
        return there if there[0] in self._misses[1 - side].sources else None

    def _statements(self, side: int) -> set[tuple[str, int]]:
        """The statements that recorded operations of one program, as file and node id."""
        found = set()
        for line in {step.line for step in self._comparables[side].operations if step.line is not None}:
            source = self._pair.sides[side].source(line[0])
            statement = source.at(line[1]) if source is not None else None
            if statement is not None:
                found.add((line[0], id(statement.node)))
        return found

    # ---- Reasons -------------------------------------------------------------------------------------------

    def _why(self, there: Located, side: int) -> str | None:
        """Why a statement of ``side`` was not reached; None if unknown."""
        for each in (there, *self._callers(there, side)):
            why = self._after_exception(each, side) or self._left_try(each, side)
            if why is not None:
                return why
        return None

    def _callers(self, there: Located, side: int) -> Iterator[Located]:
        """The statements that call the function containing a statement."""
        file, statement = there
        source = self._pair.sides[side].source(file)
        assert source is not None
        function = _function_around(source, statement.first)
        if function is None:
            return
        for other, text in self._pair.sides[side].texts.items():
            calling = self._pair.sides[side].source(other)
            for each in calling.statements if text and calling is not None else ():
                if any(function in names_in(part) for part in each.parts):
                    yield other, each

    def _after_exception(self, there: Located, side: int) -> str | None:
        """The exception that left the lines before a statement in the run of its cell."""
        file, statement = there
        source = self._pair.sides[side].source(file)
        assert source is not None
        runs = [run.time for run in history.runs_until(self._misses[side].time) if run.file == file]
        for error in tracebacks.exception_log.at(runs[-1], self._misses[side].raised) if runs else ():
            for left, line in error.lines:
                same = left == file and _function_around(source, line) == _function_around(
                    source, statement.first
                )
                if same and line <= statement.last:
                    return f"{place(*error.lines[-1]).label} raised {error.error}"
        return None

    def _left_try(self, there: Located, side: int) -> str | None:
        """The ``try`` around a statement, if only an exception can leave the lines before it."""
        file, statement = there
        source = self._pair.sides[side].source(file)
        spot = self._misses[side].spot
        assert source is not None
        if spot.file != file or line_of(spot.code, spot.lasti) <= statement.last:
            return None
        for each in source.statements:
            if isinstance(each.node, ast.Try) and statement.node in each.node.body:
                before = each.node.body[: each.node.body.index(statement.node)]
                if before and not any(isinstance(part, _LEAVING) for one in before for part in ast.walk(one)):
                    at = place(file, each.node.lineno).label
                    return f"an exception left the `try` of {at} (inferred)"
        return None


def _is_conditional(source: Source, position: tuple[int, int, int, int]) -> bool:
    """Whether an expression may be skipped although its statement runs."""
    line, end_line, column, end_column = position
    own = Span((line, column), (end_line, end_column))
    for node in ast.walk(source.tree):
        if isinstance(node, ast.IfExp):
            parts = [node.body, node.orelse]
        elif isinstance(node, ast.BoolOp):
            parts = node.values[1:]
        elif isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp):
            parts = [node.elt]
        else:
            continue
        spans = [span for part in parts if (span := span_of(part)) is not None]
        if any(span.holds(own) for span in spans):
            return True
    return False


def _function_around(source: Source, line: int) -> str | None:
    """The innermost function whose body contains a line, without the ``def`` line; None if there is none."""
    found = None
    for statement in source.statements:
        node = statement.node
        if isinstance(node, ast.FunctionDef) and node.body[0].lineno <= line <= (node.end_lineno or 0):
            found = node.name
    return found


def _loop(source: Source, first: int, second: int) -> bool:
    """Whether two lines are in the same loop."""
    for statement in source.statements:
        node: Statement | ast.stmt = statement.node
        if isinstance(node, _LOOPS) and node.lineno <= min(first, second) <= max(first, second) <= (
            node.end_lineno or 0
        ):
            return True
    return False
