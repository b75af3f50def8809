"""Maps user edits to the operations that they reach: those of the edited expression, those of a function that
it calls, or those of calls to a name that it defines."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from lazynb.compare.misses.program_sides import ProgramChange
from lazynb.compare.misses.source_pair import SourcePair, UserEdit
from lazynb.compare.misses.source_syntax import Source, Span, names_bound_by, names_in, span_of
from lazynb.compare.program_graph import ProgramGraph, ProgramStep

EXPLAINED = frozenset(
    "replaced added removed parameter argument nested literal identity operand input_added input_removed "
    "returns moved repeats".split()
)
"""Kinds of changes that an edit can explain."""

_NAMED = frozenset(("parameter", "literal"))
"""Kinds that describe the difference well; only an edited argument of the same call describes it better."""

_FAR = 9


class EditReach:
    """Determines which edits reach which operations."""

    def __init__(self, pair: SourcePair, comparables: tuple[ProgramGraph, ProgramGraph]):
        self._pair = pair
        self._comparables = comparables
        self._definitions: dict[int, dict[str, list[ast.stmt]]] = {}

    def causes(self, change: ProgramChange, edits: Sequence[UserEdit]) -> list[UserEdit]:
        """The edits nearest to a change; empty if no edit reaches it."""
        if change.kind not in EXPLAINED:
            return []
        distances = [(self._distance(change, edit), edit) for edit in edits]
        nearest = min(distance for distance, _ in distances)
        if nearest >= _FAR:
            return []
        found = [edit for distance, edit in distances if distance == nearest]
        return _exact(change, found)

    def is_inside(self, change: ProgramChange, edit: UserEdit) -> bool:
        """Whether an edit is in the function that a changed operation calls, not in the call itself."""
        if change.kind != "nested":
            return False
        if change.at is not None and self._on_line(change.at, edit):
            calls = [edit.edit.before, edit.edit.now]
            spans = [span_of(call) for call in calls if call is not None]
            own = [self.span(side, step) for side, step in self._steps(change)]
            is_call = any(span in spans for span in own if span is not None)
            return not is_call and not self._is_argument(change, edit)
        return False

    def _is_argument(self, change: ProgramChange, edit: UserEdit) -> bool:
        """Whether an edit is in the statement of a changed call, and in no lambda."""
        for side, step in self._steps(change):
            statement, node = edit.statements[side], (edit.edit.before, edit.edit.now)[side]
            span = span_of(node) if node is not None else None
            is_here = step.line is not None and statement.first <= step.line[1] <= statement.last
            if span is None or not is_here or step.line is None or step.line[0] != edit.files[side]:
                return False
            lambdas = [each for part in statement.parts for each in ast.walk(part) if _is_lambda(each)]
            if any(outer.holds(span) for each in lambdas if (outer := span_of(each)) is not None):
                return False
        return True

    # ---- Distance of an edit -------------------------------------------------------------------------------

    def _distance(self, change: ProgramChange, edit: UserEdit) -> int:
        """Distance: the same expression, inside it, around it, by name."""
        best = _FAR
        if change.kind == "nested" and change.at is not None and self._on_line(change.at, edit):
            best = 1
        for side, step in self._steps(change):
            best = min(best, self._from_step(change, side, step, edit))
        return best

    def _steps(self, change: ProgramChange) -> Iterator[tuple[int, ProgramStep]]:
        for side, numbers in enumerate((change.before, change.now)):
            for number in numbers:
                step = self._comparables[side].steps[number]
                if step.line is not None:
                    yield side, step

    def _from_step(self, change: ProgramChange, side: int, step: ProgramStep, edit: UserEdit) -> int:
        node = (edit.edit.before, edit.edit.now)[side]
        if node is None:
            return _FAR
        own, span = self.span(side, step), span_of(node)
        consequence = change.kind not in _NAMED or edit.edit.kind == "argument"
        if (
            step.line is not None
            and step.line[0] == edit.files[side]
            and own is not None
            and span is not None
        ):
            distance = _between(own, span, node, edit.edit.kind, edit.edit.kind == ("added", "removed")[side])
            if distance < 3 or (distance < _FAR and consequence):
                return distance
        return 5 if consequence and self._by_name(side, step, edit, node) else _FAR

    def _on_line(self, step: ProgramStep, edit: UserEdit) -> bool:
        """Whether ``step``, which only has a line, is in the statement of an edit."""
        if step.line is None:
            return False
        file, line = step.line
        return any(
            file == edit.files[side] and edit.statements[side].first <= line <= edit.statements[side].last
            for side in (0, 1)
        )

    def span(self, side: int, step: ProgramStep) -> Span | None:
        """Source span of the expression that requested an operation."""
        position = self._comparables[side].position(step)
        if position is None or None in position:
            return None
        line, end_line, column, end_column = position
        return Span((line, column), (end_line, end_column))

    # ---- Reach by name -------------------------------------------------------------------------------------

    def _by_name(self, side: int, step: ProgramStep, edit: UserEdit, node: ast.AST) -> bool:
        """Whether an operation is in a function that the edited expression calls, or uses an edited name."""
        assert step.line is not None
        source = self._pair.sides[side].source(step.line[0])
        if source is None:
            return False
        around = _functions_around(source, step.line[1])
        if around & self._called_from(side, names_in(node)):
            return True
        statement = source.at(step.line[1])
        edited = edit.statements[side]
        own = self._pair.sides[side].source(edit.files[side])
        around = _functions_around(own, edited.first) if own is not None else set()
        defined = names_bound_by(edited.node) | around
        if statement is None or not defined or statement is edit.statements[side]:
            return False
        if edit.edit.kind == "variable":
            names = _read_around(source, step.line[1])
        else:
            names = set().union(*map(_callees, statement.parts))
        return bool(defined & self._called_from(side, names))

    def _called_from(self, side: int, names: set[str]) -> set[str]:
        """Transitive closure of the names that the definitions of ``names`` use."""
        definitions = self._definitions_of(side)
        reached, left = set(names), list(names)
        while left:
            for statement in definitions.get(left.pop(), ()):
                new = names_in(statement) - reached
                reached |= new
                left += new
        return reached

    def _definitions_of(self, side: int) -> dict[str, list[ast.stmt]]:
        """Name → functions, classes and other callables that a side's sources define."""
        known = self._definitions.get(side)
        if known is None:
            known = self._definitions[side] = {}
            for text in self._pair.sides[side].texts:
                source = self._pair.sides[side].source(text)
                for statement in source.statements if source is not None else ():
                    for name in names_bound_by(statement.node):
                        known.setdefault(name, []).append(statement.node)
        return known


def _is_lambda(node: ast.AST) -> bool:
    return isinstance(node, ast.Lambda)


def _between(own: Span, span: Span, node: ast.AST, kind: str, unchanged: bool) -> int:
    """Distance of the edited ``node`` at ``span`` from the expression at ``own`` that requested an operation.

    Arguments:
      unchanged: whether the edit only wrapped the node and left it unchanged.
    """
    if unchanged:
        return 4 if isinstance(node, ast.Lambda) and span.holds(own) else _FAR
    if own == span:
        return 0
    if span.holds(own) and kind in ("argument", "function", "swapped"):
        return 2
    return 3 if own.holds(span) else _FAR


def _functions_around(source: Source, line: int) -> set[str]:
    names: set[str] = set()
    for statement in source.around(line):
        node = statement.node
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            names |= names_bound_by(node)
    return names


def _read_around(source: Source, line: int) -> set[str]:
    """The names that the statement of a line and its enclosing blocks (tests, ranges) read."""
    names: set[str] = set()
    for statement in source.around(line):
        names.update(*map(names_in, statement.parts))
    return names


def _callees(node: ast.AST) -> set[str]:
    names: set[str] = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Call):
            names |= names_in(each.func)
    return names


def _exact(change: ProgramChange, edits: Sequence[UserEdit]) -> list[UserEdit]:
    """The edits with the same argument name as the change, if it has one."""
    inner: Any = change
    while inner.fields.get("change") is not None:
        inner = inner.fields["change"]
    if inner.kind != "parameter":
        return list(edits)
    name = str(inner.fields["name"]).strip("`")
    same = [edit for edit in edits if edit.edit.name == name]
    return same or list(edits)
