"""Attribution of program differences to the user's edits and to JAX settings.

An edit is reported only if it reaches differing operations: those of the edited expression, those of a
function that it calls, or those of calls to a name that it defines.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from lazynb import jax_compat as jc
from lazynb.compare.misses.edit_description import (
    calls_on_one_side,
    cause_fields,
    moved_wrapper_text,
    moved_wrappers,
)
from lazynb.compare.misses.edit_reach import EXPLAINED, EditReach
from lazynb.compare.misses.operation_parameters import is_plumbing
from lazynb.compare.misses.program_sides import ProgramChange, names_joined
from lazynb.compare.misses.source_pair import SourcePair, UserEdit
from lazynb.compare.misses.source_syntax import Signatures, dotted_name, span_of
from lazynb.compare.misses.tree_edit import REPORTED_KINDS
from lazynb.compare.program_graph import ProgramGraph, ProgramStep, graph_of_jaxpr
from lazynb.jax_compat.jax_names import DTYPE_PARAMETERS, SIZE_PARAMETERS
from lazynb.recording.jaxpr_structure import structure
from lazynb.running.miss_log import Miss

# ---- Edited arguments hidden by type changes --------------------------------------------------------------
# If types changed in the same edit, the operations of the call would differ anyway, so that no difference
# reports the argument. Such an argument is reported if the call does not read it as data.


class EditReachProtocol(Protocol):
    """Maps edits to the operations that they reach, and operations to source spans."""

    def causes(self, change: ProgramChange, edits: Sequence[UserEdit]) -> list[UserEdit]:
        """The edits that reach a change."""

    def span(self, side: int, step: ProgramStep) -> Any:
        """Source span of the expression that requested an operation."""


def hidden_edits(
    edits: Sequence[UserEdit],
    reach: EditReachProtocol,
    pairs: Sequence[tuple[ProgramStep, ProgramStep]],
    now: ProgramGraph,
    functions: Signatures,
) -> Iterator[tuple[UserEdit, ProgramChange]]:
    """Yields edits that change the program without a reported difference, with the differing operations.

    Arguments:
      pairs: corresponding operations that differ.
      functions: the functions that the present source calls.
    """
    for edit in edits:
        if edit.edit.kind != "argument" or _calls_users(edit.edit.now, functions):
            continue
        for old, new in pairs:
            change = ProgramChange("argument", {}, (new.number,), (old.number,), new)
            if not reach.causes(change, [edit]) or not _is_of_call(edit, reach, new, functions):
                continue
            if not _is_data(edit.edit.given[1], now, new) and _tells(edit, old, new):
                yield edit, change
                break


def _calls_users(node: ast.AST | None, functions: Signatures) -> bool:
    return isinstance(node, ast.Call) and dotted_name(node.func) in functions.functions


def _is_of_call(edit: UserEdit, reach: EditReachProtocol, step: ProgramStep, functions: Signatures) -> bool:
    """Whether the edited call, or a function passed to it, requested an operation."""
    node = edit.edit.now
    if node is not None and reach.span(1, step) == span_of(node):
        return True
    given = [*node.args, *(keyword.value for keyword in node.keywords)] if isinstance(node, ast.Call) else []
    return any(_is_function(each, functions) for each in given)


def _is_function(node: ast.AST, functions: Signatures) -> bool:
    return (
        isinstance(node, ast.Lambda)
        or dotted_name(node) in functions.functions
        or callable(functions.object(node))
    )


def _is_data(argument: ast.AST | None, program: ProgramGraph, step: ProgramStep) -> bool:
    """Whether an operation reads the argument as a number. Its value then does not change the program."""
    if not isinstance(argument, ast.Constant) or not isinstance(argument.value, int | float | complex):
        return False
    taken = [program.steps[number].scalar for number, _ in step.operands]
    return any(_number(text) == argument.value for text in taken if text is not None)


def _number(text: str) -> complex | None:
    try:
        return complex(text)
    except ValueError:
        return {"True": 1, "False": 0}.get(text)


def _tells(edit: UserEdit, old: ProgramStep, new: ProgramStep) -> bool:
    """Whether an argument differs in more than spelling: axis -1 may equal axis 1."""
    return "ax" not in edit.edit.name or differs_in_form(old, new)


def differs_in_form(old: ProgramStep, new: ProgramStep) -> bool:
    """Whether two operations differ in more than the sizes and types of their operands."""
    if old.primitive is not new.primitive:
        return True
    for name, value in new.params.items():
        if name in SIZE_PARAMETERS or name in DTYPE_PARAMETERS or is_plumbing(name, value):
            continue
        if structure(old.params.get(name)) != structure(value):
            return True
    return any(map(_programs_differ, jc.jaxprs_in(old.params), jc.jaxprs_in(new.params)))


def _programs_differ(before: Any, now: Any) -> bool:
    old, new = graph_of_jaxpr(before).operations, graph_of_jaxpr(now).operations
    return len(old) != len(new) or any(map(differs_in_form, old, new))


EDITED = -1
"""Number of a placeholder step that stands for the line of an edit."""


def attribute_to_edits(
    changes: Sequence[ProgramChange],
    pair: SourcePair,
    comparables: tuple[ProgramGraph, ProgramGraph],
    different: Callable[[], Sequence[tuple[ProgramStep, ProgramStep]]],
) -> list[ProgramChange]:
    """Replaces the changes that an edit of the user explains by that edit.

    Arguments:
      different: returns the corresponding operations that differ.
    """
    changes = [_closed_over(change, pair) for change in changes]
    edits = [*pair.edits, *calls_on_one_side(pair)]
    edits = [
        edit for edit in edits if edit.edit.kind in REPORTED_KINDS and cause_fields(edit.edit) is not None
    ]
    if not edits:
        return changes
    reach = EditReach(pair, comparables)
    told: list[ProgramChange] = []
    by_edit: dict[tuple[int, tuple[str, ...]], int] = {}  # index of an edit in ``told``
    for change in changes:
        causes = reach.causes(change, edits)
        if not causes:
            told.append(change)
        for edit in causes:
            inside = _functions(change) if reach.is_inside(change, edit) else ()
            known = by_edit.get((id(edit), inside))
            if known is None:
                by_edit[id(edit), inside] = len(told)
                told.append(_edit_change(edit, change, inside))
            else:
                told[known] = _merged(told[known], change)
    seen = {key for key, _ in by_edit}
    left = [edit for edit in edits if id(edit) not in seen]
    if left:
        functions = pair.sides[1].functions
        found = hidden_edits(left, reach, different(), comparables[1], functions)
        told += [_edit_change(edit, change, ()) for edit, change in found]
    return _joined(_with_carried(told, by_edit, edits))


def _with_carried(
    told: Sequence[ProgramChange], by_edit: dict[tuple[int, tuple[str, ...]], int], edits: Sequence[UserEdit]
) -> list[ProgramChange]:
    """Merges the removal of a wrapper from one expression and its addition to another into one change."""
    changes: list[ProgramChange | None] = list(told)
    pairs = moved_wrappers(edits)
    for put in edits:
        off = pairs.get(id(put))
        places = [by_edit.get((id(edit), ())) for edit in (put, off) if edit is not None]
        if off is None or places == [None, None]:
            continue
        both = [told[place] for place in places if place is not None]
        before, now = moved_wrapper_text(put.edit, off.edit)
        fields = {"operation": _operation(put), "before": before, "now": now}
        numbers = _merged(both[0], both[-1])
        change = ProgramChange("carried", fields, numbers.now, numbers.before, _step_at(put, 1))
        for place in places:
            if place is not None:
                changes[place] = None
        changes[next(place for place in places if place is not None)] = change
    return [change for change in changes if change is not None]


def _operation(edit: UserEdit) -> object:
    words = cause_fields(edit.edit)
    assert words is not None
    return words[1]["operation"]


def _closed_over(change: ProgramChange, pair: SourcePair) -> ProgramChange:
    """Reports a changed literal as closed over if the line that reads it is the same in both sources."""
    inner = change.fields.get("change")
    if change.kind != "nested" or inner is None:
        return change
    if inner.kind == "nested":
        told = _closed_over(inner, pair)
    elif inner.kind == "literal" and change.at is not None and pair.is_unchanged(change.at.place):
        told = ProgramChange("closed_over", inner.fields, inner.now, inner.before, inner.at)
    elif inner.kind in ("added", "removed") and inner.at is not None and _is_in_both(inner, pair):
        fields = {**inner.fields, "which": ("the cached", "this")[inner.kind == "added"], "stand": "stands"}
        told = ProgramChange("not_run", fields, inner.now, inner.before, inner.at)
    else:
        return change
    return ProgramChange(change.kind, {**change.fields, "change": told}, change.now, change.before, change.at)


def _is_in_both(change: ProgramChange, pair: SourcePair) -> bool:
    """Whether the statement of an operation inside a function is the same in both sources."""
    assert change.at is not None
    return change.at.line is not None and not pair.is_edited(int(change.kind == "added"), change.at.line)


def _joined(changes: Sequence[ProgramChange]) -> list[ProgramChange]:
    """Merges changes that added or removed several wrappers of one expression."""
    joined: list[ProgramChange] = []
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


def _with_more(told: ProgramChange, change: ProgramChange) -> ProgramChange:
    words = names_joined(str(told.fields["operation"]), str(change.fields["operation"]))
    merged = _merged(told, change)
    was, it = ("were", "they were") if " and " in words else ("was", "it was")
    fields = {"operation": words, "was": was, "it": it}
    return ProgramChange(told.kind, fields, merged.now, merged.before, told.at)


def _functions(change: ProgramChange) -> tuple[str, ...]:
    """The functions that contain a change, outermost first."""
    if change.kind != "nested":
        return ()
    inner = change.fields.get("change")
    return change.fields["function"], *(_functions(inner) if inner is not None else ())


def unattributed(changes: Sequence[ProgramChange]) -> list[ProgramChange]:
    """The changes that an edit could explain but no edit does."""
    return [change for change in changes if change.kind in EXPLAINED and not is_edit(change)]


def is_edit(change: ProgramChange) -> bool:
    """Whether a change is reported as an edit of the user."""
    return change.at is not None and change.at.number == EDITED


def _edit_change(edit: UserEdit, change: ProgramChange, inside: tuple[str, ...]) -> ProgramChange:
    """The change reported as the edit that caused it, in the functions ``inside``."""
    words = cause_fields(edit.edit)
    assert words is not None
    kind, fields = words
    at = _step_at(edit, 0 if kind == "removed" else 1)
    told = ProgramChange(kind, fields, change.now, change.before, at)
    for function in reversed(inside):
        told = ProgramChange("nested", {"function": function, "change": told}, change.now, change.before, at)
    return told


def _merged(told: ProgramChange, change: ProgramChange) -> ProgramChange:
    now = tuple(dict.fromkeys((*told.now, *change.now)))
    before = tuple(dict.fromkeys((*told.before, *change.before)))
    return ProgramChange(told.kind, told.fields, now, before, told.at)


def _step_at(edit: UserEdit, side: int) -> ProgramStep:
    """A placeholder step for the line of an edit."""
    node = (edit.edit.before, edit.edit.now)[side]
    if edit.edit.kind == "argument":
        node = edit.edit.given[side] or node
    return line_step((edit.files[side], _line_of(node, edit.statements[side].first)))


def line_step(line: tuple[str, int]) -> ProgramStep:
    """A placeholder step for a line of the user."""
    return ProgramStep(EDITED, line=line)


def _line_of(node: ast.AST | None, otherwise: int) -> int:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.end_lineno or otherwise  # a chain of methods goes over several lines
    return getattr(node, "lineno", None) or otherwise


# ---- JAX settings -----------------------------------------------------------------------------------------

_GENERATOR, _GENERATOR_PARAMETER = "jax_default_prng_impl", "`impl`"


def differing_settings(before: Miss, now: Miss) -> list[ProgramChange]:
    """The JAX settings that identify an operation and differ."""
    old, new = before.summary.root, now.summary.root
    if old is new:
        return []
    first, second = jc.traced_settings(old.config), jc.traced_settings(new.config)
    return [
        _change(name, first[name], value)
        for name, value in second.items()
        if name in first and first[name] != value
    ]


def attribute_to_settings(changes: Sequence[ProgramChange], before: Miss, now: Miss) -> list[ProgramChange]:
    """Replaces the changes that follow from a different JAX setting by that setting.

    Such a setting determines which operations JAX's functions record, but the operations do not contain it.
    It is reported if it differs, operations differ, and the user edited nothing.
    """
    different = [
        _change(name, before.settings[name], value)
        for name, value in now.settings.items()
        if name in before.settings and before.settings[name] != value
    ]
    left = unattributed(changes)
    if not different or not left:
        return list(changes)
    generator = [change for change in different if change.fields["setting"] == _GENERATOR]
    random = [change for change in left if change.fields.get("name") == _GENERATOR_PARAMETER]
    if generator and random:
        return [*generator, *(change for change in changes if change not in random)]
    if any(map(is_edit, changes)):
        return list(changes)
    others = [_inferred(change) for change in different if change not in generator]
    if not others:
        return list(changes)
    return [*others, *(change for change in changes if change not in left)]


def _change(name: str, before: object, now: object) -> ProgramChange:
    return ProgramChange("configuration", {"setting": name, "before": before, "now": now, "inferred": ""})


def _inferred(change: ProgramChange) -> ProgramChange:
    """``change``, marked as inferred: no operation shows that it follows from the setting."""
    inferred = "; that the operations differ for it is inferred: no edit explains it"
    return ProgramChange(change.kind, {**change.fields, "inferred": inferred})
