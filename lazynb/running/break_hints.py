"""The hint of a trace break, chosen by the expression of the user that needed the value.

A kind of break has one hint, and others for expressions in which that one does not apply.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

from lazynb.recording.break_reasons import REASONS
from lazynb.user_code.instructions import child_containing, parse, source_of, span_of
from lazynb.user_code.source_lines import CodePosition

NUMBER = "take the number from .shape, from len() or from the code"


class _Hint(NamedTuple):
    """A hint for some expressions.

    Attributes:
      kind: the kind of break.
      applies: whether it applies, given the syntax nodes around the instruction, the innermost first, and the
        name of the function that the user called.
      hint: the hint.
    """

    kind: str
    applies: Callable[[list[ast.AST], str], bool]
    hint: str


def _calls(*names: str) -> Callable[[list[ast.AST], str], bool]:
    return lambda nodes, name: name in names


def _is_slice(nodes: list[ast.AST], name: str) -> bool:
    return isinstance(nodes[0], ast.Subscript) and any(
        isinstance(node, ast.Slice) for node in ast.walk(nodes[0].slice)
    )


def _is_subscript(nodes: list[ast.AST], name: str) -> bool:
    return isinstance(nodes[0], ast.Subscript)


def _is_test_of(*statements: type[ast.stmt]) -> Callable[[list[ast.AST], str], bool]:
    def applies(nodes: list[ast.AST], name: str) -> bool:
        expressions = list(itertools.takewhile(lambda node: not isinstance(node, ast.stmt), nodes))
        statement = nodes[len(expressions)] if len(expressions) < len(nodes) else None
        return isinstance(statement, statements) and expressions[-1:] == [getattr(statement, "test", None)]

    return applies


_SIZED = (
    "nonzero flatnonzero argwhere where unique unique_values unique_counts unique_inverse unique_all "
    "intersect1d setdiff1d setxor1d union1d compress extract"
).split()
_MADE = "zeros ones full empty arange linspace eye tri broadcast_to normal uniform".split()

_HINTS = (
    _Hint(
        "static", _calls(*_SIZED), "use the jax.numpy function with size=, or jnp.where with three arguments"
    ),
    _Hint(
        "static",
        _calls("repeat"),
        f"use jnp.repeat with total_repeat_length= for an array of counts, or {NUMBER}",
    ),
    _Hint("static", _calls("integer_pow"), "write x ** n, which takes an array as exponent"),
    _Hint("static", _calls("fori_loop"), "use jax.lax.while_loop, whose condition takes an array"),
    _Hint(
        "static",
        _calls(*_MADE),
        f"{NUMBER}, or make the array as large as it may become and mask it with jnp.where",
    ),
    _Hint(
        "static",
        _is_slice,
        "keep the length fixed with jax.lax.dynamic_slice, mask with jnp.where, or " + NUMBER,
    ),
    _Hint("static", _is_subscript, "use jnp.where with the mask, or an index from jnp.nonzero with size="),
    _Hint("index", _is_subscript, "index a JAX array with the tensor itself"),
    _Hint("index", _calls("range"), f"use jax.lax.while_loop, or {NUMBER}"),
    _Hint("bool", _calls("max", "min"), "use jnp.maximum or jnp.minimum"),
    _Hint("bool", _calls("sorted", "sort"), "use jnp.sort on one array"),
    _Hint("bool", _calls("any", "all"), "use jnp.any or jnp.all on one array"),
    _Hint("bool", _is_test_of(ast.While), "use jax.lax.while_loop, or test less often"),
    _Hint("bool", _is_test_of(ast.Assert), "collect the conditions, and test them once at the end"),
)


def hint_of(kind: str, spot: CodePosition, count: int = 1) -> str:
    """The hint for a break.

    Arguments:
      spot: the user's line.
      count: number of breaks there; more than one means that they are in a loop.
    """
    reason = REASONS[kind]
    candidates = [one for one in _HINTS if one.kind == kind]
    nodes = list(_nodes_around(spot)) if candidates and spot.library is None else []
    name = _called(nodes)
    for one in candidates:
        if nodes and one.applies(nodes, name):
            return one.hint
    return reason.hint_for(count)


def _nodes_around(spot: CodePosition) -> Iterator[ast.AST]:
    """The syntax nodes around the instruction at ``spot``, the innermost first; none if not known."""
    span = span_of(spot.code, spot.lasti) if spot.running is None else None
    node = parse(source_of(spot.code)) if span is not None else None
    found: list[ast.AST] = []
    while node is not None and span is not None:
        found.append(node)
        node = child_containing(node, span)
    yield from reversed(found)


def _called(nodes: list[ast.AST]) -> str:
    """The name of the function that the user called; empty if the instruction is no call."""
    function = nodes[0].func if nodes and isinstance(nodes[0], ast.Call) else None
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""
