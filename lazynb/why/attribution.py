"""What the user edited, as the cause of what the operations differ in.

An edit is told only if operations differ that it reaches: those of the expression that was edited, of a
function that it calls, or of what is called by a name that it defines.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from lazynb.why.carried import carried, words_of_carried
from lazynb.why.comparable import Comparable, ProgramStep
from lazynb.why.concealed import concealed
from lazynb.why.edit_search import TOLD
from lazynb.why.edit_words import words_of
from lazynb.why.lone_calls import lone_calls
from lazynb.why.reach import EXPLAINED, Reach
from lazynb.why.sides import Change, names_joined
from lazynb.why.source_pair import SourcePair, UserEdit

EDITED = -1
"""The number of the step that stands for the line of an edit."""


def attributed(
    changes: Sequence[Change],
    pair: SourcePair,
    comparables: tuple[Comparable, Comparable],
    different: Callable[[], Sequence[tuple[ProgramStep, ProgramStep]]],
) -> list[Change]:
    """``changes``, with those that an edit of the user's explains told as that edit.

    Arguments:
      different: gives the operations that correspond and are not the same.
    """
    changes = [_closed_over(change, pair) for change in changes]
    edits = [*pair.edits, *lone_calls(pair)]
    edits = [edit for edit in edits if edit.edit.kind in TOLD and words_of(edit.edit) is not None]
    if not edits:
        return changes
    reach = Reach(pair, comparables)
    told: list[Change] = []
    by_edit: dict[tuple[int, tuple[str, ...]], int] = {}  # where in ``told`` an edit is
    for change in changes:
        causes = reach.causes(change, edits)
        if not causes:
            told.append(change)
        for edit in causes:
            inside = _functions(change) if reach.is_inside(change, edit) else ()
            known = by_edit.get((id(edit), inside))
            if known is None:
                by_edit[id(edit), inside] = len(told)
                told.append(_told(edit, change, inside))
            else:
                told[known] = _merged(told[known], change)
    seen = {key for key, _ in by_edit}
    left = [edit for edit in edits if id(edit) not in seen]
    if left:
        functions = pair.sides[1].functions
        found = concealed(left, reach, different(), comparables[1], functions)
        told += [_told(edit, change, ()) for edit, change in found]
    return _joined(_with_carried(told, by_edit, edits))


def _with_carried(
    told: Sequence[Change], by_edit: dict[tuple[int, tuple[str, ...]], int], edits: Sequence[UserEdit]
) -> list[Change]:
    """``told``, in which what was taken off one expression and put around another is one change."""
    changes: list[Change | None] = list(told)
    pairs = carried(edits)
    for put in edits:
        off = pairs.get(id(put))
        places = [by_edit.get((id(edit), ())) for edit in (put, off) if edit is not None]
        if off is None or places == [None, None]:
            continue
        both = [told[place] for place in places if place is not None]
        before, now = words_of_carried(put.edit, off.edit)
        fields = {"operation": _operation(put), "before": before, "now": now}
        numbers = _merged(both[0], both[-1])
        change = Change("carried", fields, numbers.now, numbers.before, _step_at(put, 1))
        for place in places:
            if place is not None:
                changes[place] = None
        changes[next(place for place in places if place is not None)] = change
    return [change for change in changes if change is not None]


def _operation(edit: UserEdit) -> object:
    words = words_of(edit.edit)
    assert words is not None
    return words[1]["operation"]


def _closed_over(change: Change, pair: SourcePair) -> Change:
    """``change``, told as a number that a function closes over if it is not written where it is taken: the
    line is the same in both sources."""
    inner = change.fields.get("change")
    if change.kind != "nested" or inner is None:
        return change
    if inner.kind == "nested":
        told = _closed_over(inner, pair)
    elif inner.kind == "literal" and change.at is not None and pair.is_unchanged(change.at.place):
        told = Change("closed_over", inner.fields, inner.now, inner.before, inner.at)
    else:
        return change
    return Change(change.kind, {**change.fields, "change": told}, change.now, change.before, change.at)


def _joined(changes: Sequence[Change]) -> list[Change]:
    """``changes``, in which what was put around one expression, or taken off, is one."""
    joined: list[Change] = []
    where: dict[tuple[str, object], int] = {}
    for change in changes:
        if change.kind not in ("added", "removed") or not is_edit(change):
            joined.append(change)
            continue
        assert change.at is not None
        known = where.setdefault((change.kind, change.at.line), len(joined))
        if known == len(joined):
            joined.append(change)
        else:
            joined[known] = _with_more(joined[known], change)
    return joined


def _with_more(told: Change, change: Change) -> Change:
    """One change for two that are about what was put around an expression."""
    words = names_joined(str(told.fields["operation"]), str(change.fields["operation"]))
    merged = _merged(told, change)
    was, it = ("were", "they were") if " and " in words else ("was", "it was")
    fields = {"operation": words, "was": was, "it": it}
    return Change(told.kind, fields, merged.now, merged.before, told.at)


def _functions(change: Change) -> tuple[str, ...]:
    """The functions in which a change is, the outermost first."""
    if change.kind != "nested":
        return ()
    inner = change.fields.get("change")
    return change.fields["function"], *(_functions(inner) if inner is not None else ())


def unattributed(changes: Sequence[Change]) -> list[Change]:
    """Those of ``changes`` that an edit could explain, and none does."""
    return [change for change in changes if change.kind in EXPLAINED and not is_edit(change)]


def is_edit(change: Change) -> bool:
    """Whether a change is told as an edit of the user's."""
    return change.at is not None and change.at.number == EDITED


def _told(edit: UserEdit, change: Change, inside: tuple[str, ...]) -> Change:
    """The change as the edit that caused it, in the functions ``inside``."""
    words = words_of(edit.edit)
    assert words is not None
    kind, fields = words
    at = _step_at(edit, 0 if kind == "removed" else 1)
    told = Change(kind, fields, change.now, change.before, at)
    for function in reversed(inside):
        told = Change("nested", {"function": function, "change": told}, change.now, change.before, at)
    return told


def _merged(told: Change, change: Change) -> Change:
    now = tuple(dict.fromkeys((*told.now, *change.now)))
    before = tuple(dict.fromkeys((*told.before, *change.before)))
    return Change(told.kind, told.fields, now, before, told.at)


def _step_at(edit: UserEdit, side: int) -> ProgramStep:
    """A step that stands for the line of an edit."""
    node = (edit.edit.before, edit.edit.now)[side]
    if edit.edit.kind == "argument":
        node = edit.edit.given[side] or node
    return stand_in((edit.files[side], _line_of(node, edit.statements[side].first)))


def stand_in(line: tuple[str, int]) -> ProgramStep:
    """A step that stands for a line of the user's."""
    return ProgramStep(EDITED, line=line)


def _line_of(node: ast.AST | None, otherwise: int) -> int:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.end_lineno or otherwise  # a chain of methods goes over several lines
    return getattr(node, "lineno", None) or otherwise
