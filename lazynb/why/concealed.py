"""Arguments that were edited together with something that changes types: the operations of their call would
differ without them too, so that no difference tells them. That the call does not take them as data does."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from lazynb import _jax as jc
from lazynb._jax.names import DTYPE_PARAMETERS, SIZE_PARAMETERS
from lazynb.record.structure import structure
from lazynb.why.comparable import Comparable, ProgramStep, comparable_of_jaxpr
from lazynb.why.expressions import dotted, span_of
from lazynb.why.parameters import is_plumbing
from lazynb.why.sides import Change
from lazynb.why.signatures import Signatures
from lazynb.why.source_pair import UserEdit


class Reaching(Protocol):
    """Which edits reach which operations, and where those were asked for."""

    def causes(self, change: Change, edits: Sequence[UserEdit]) -> list[UserEdit]:
        """The edits that reach a change."""

    def span(self, side: int, step: ProgramStep) -> Any:
        """Where the expression stands that asked for an operation."""


def concealed(
    edits: Sequence[UserEdit],
    reach: Reaching,
    pairs: Sequence[tuple[ProgramStep, ProgramStep]],
    now: Comparable,
    functions: Signatures,
) -> Iterator[tuple[UserEdit, Change]]:
    """Those of ``edits`` that make another program though no difference tells them, each with the pair of
    operations that differs.

    Arguments:
      pairs: the operations that correspond and are not the same.
      functions: what the present source calls.
    """
    for edit in edits:
        if edit.edit.kind != "argument" or _calls_users(edit.edit.now, functions):
            continue
        for old, new in pairs:
            change = Change("argument", {}, (new.number,), (old.number,), new)
            if not reach.causes(change, [edit]) or not _is_of_call(edit, reach, new, functions):
                continue
            if not _is_data(edit.edit.given[1], now, new) and _tells(edit, old, new):
                yield edit, change
                break


def _calls_users(node: ast.AST | None, functions: Signatures) -> bool:
    return isinstance(node, ast.Call) and dotted(node.func) in functions.functions


def _is_of_call(edit: UserEdit, reach: Reaching, step: ProgramStep, functions: Signatures) -> bool:
    """Whether the edited call itself asked for an operation, or one of the functions that it is given."""
    node = edit.edit.now
    if node is not None and reach.span(1, step) == span_of(node):
        return True
    given = [*node.args, *(keyword.value for keyword in node.keywords)] if isinstance(node, ast.Call) else []
    return any(_is_function(each, functions) for each in given)


def _is_function(node: ast.AST, functions: Signatures) -> bool:
    return (
        isinstance(node, ast.Lambda)
        or dotted(node) in functions.functions
        or callable(functions.object(node))
    )


def _is_data(argument: ast.AST | None, program: Comparable, step: ProgramStep) -> bool:
    """Whether an operation takes the argument as a number: then its value makes no other program."""
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
    """Whether an argument differs in more than how it is written: -1 may be the same axis as 1."""
    return "ax" not in edit.edit.name or differs_in_form(old, new)


def differs_in_form(old: ProgramStep, new: ProgramStep) -> bool:
    """Whether two operations differ in more than the sizes and types of what they take."""
    if old.primitive is not new.primitive:
        return True
    for name, value in new.params.items():
        if name in SIZE_PARAMETERS or name in DTYPE_PARAMETERS or is_plumbing(name, value):
            continue
        if structure(old.params.get(name)) != structure(value):
            return True
    return any(map(_programs_differ, jc.jaxprs_in(old.params), jc.jaxprs_in(new.params)))


def _programs_differ(before: Any, now: Any) -> bool:
    old, new = comparable_of_jaxpr(before).operations, comparable_of_jaxpr(now).operations
    return len(old) != len(new) or any(map(differs_in_form, old, new))
