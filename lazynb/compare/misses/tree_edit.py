"""The smallest edit that turns one statement into another: which expressions the user changed.

A tree edit distance (Zhang and Shasha 1989) with typical edits as moves: a different function, operator or
argument, a call added around an expression or removed.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator, Sequence
from typing import TypeGuard

from lazynb.compare.misses.source_syntax import Signatures, Statement, dotted_name, size_of

LARGE = 250
"""Statements with more nodes than this are not compared."""

REPORTED_KINDS = frozenset("function operator argument variable added removed swapped".split())
"""Kinds of edits that can be reported on their own."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Edit:
    """One expression that the user changed.

    Attributes:
      kind: ``function`` or ``operator`` (replaced), ``argument`` (of a call), ``variable`` (its assigned
        value), ``added`` or ``removed`` (a call or operator around an expression), ``swapped`` (operands in
        another order), ``value`` (a number, a variable, an index within an expression).
      before, now: the expression in both sources; for ``argument`` the call; for ``added`` and ``removed``
        the expression without and with its wrapper. None if one source lacks it.
      name: name of the variable, or the function's name for the argument.
      given: the argument or value in both sources, None for a default that cannot be written as an
        expression; for ``added`` and ``removed`` the wrapped expression, in the source that has the wrapper.
    """

    kind: str
    before: ast.AST | None
    now: ast.AST | None
    name: str = ""
    given: tuple[ast.AST | None, ast.AST | None] = (None, None)


CostedEdits = tuple[float, tuple[Edit, ...]]
"""Cost of an edit, and its parts."""

_NOTHING: CostedEdits = 0.0, ()


def edit_between(before: Statement, now: Statement, functions: tuple[Signatures, Signatures]) -> CostedEdits:
    """The smallest edit between two statements, given the functions that the two sources call."""
    if before.key == now.key:
        return _NOTHING
    if max(before.size, now.size) > LARGE:
        return float(before.size + now.size), ()
    return _EditDistance(functions).statements(before, now)


class _EditDistance:
    """Compares expressions, each pair once."""

    def __init__(self, functions: tuple[Signatures, Signatures]):
        self._functions = functions
        self._known: dict[tuple[int, int], CostedEdits] = {}
        self._dumps: dict[int, str] = {}
        self._kept: list[tuple[ast.AST, ast.AST]] = []  # keeps the nodes alive, so that their ids stay unique

    def statements(self, before: Statement, now: Statement) -> CostedEdits:
        cost, edits = self._sequences(before.parts, now.parts)
        a, b = before.node, now.node
        if isinstance(a, ast.Assign) and isinstance(b, ast.Assign) and self._is_setting(a, b):
            return min(cost, 2.0), (Edit("variable", a, b, ast.unparse(b.targets[0]), (a.value, b.value)),)
        if type(before.node) is not type(now.node):
            return cost + 2, edits
        if isinstance(before.node, ast.AugAssign):
            return _sum([(cost, edits), _operator(before.node, now.node)])
        return cost, edits

    def _is_setting(self, a: ast.Assign, b: ast.Assign) -> bool:
        """Whether a variable is assigned a different plain value."""
        if list(map(ast.dump, a.targets)) != list(map(ast.dump, b.targets)):
            return False
        if not isinstance(b.targets[0], ast.Name) or isinstance(a.value, ast.Lambda):
            return False
        return self._is_plain(0, a.value) and self._is_plain(1, b.value)

    def between(self, a: ast.AST, b: ast.AST) -> CostedEdits:
        """The smallest edit between two expressions."""
        key = id(a), id(b)
        known = self._known.get(key)
        if known is None:
            self._kept.append((a, b))
            known = _NOTHING if self._dump(a) == self._dump(b) else self._least(a, b)
            self._known[key] = known
        return known

    def _dump(self, node: ast.AST) -> str:
        text = self._dumps.get(id(node))
        if text is None:
            text = self._dumps[id(node)] = ast.dump(node)
        return text

    def _least(self, a: ast.AST, b: ast.AST) -> CostedEdits:
        if self._functions[0].object(a) is not None or self._functions[1].object(b) is not None:
            return float(1 + size_of(a) + size_of(b)) / 3, (Edit("value", a, b),)
        best: CostedEdits = float(size_of(a) + size_of(b)), (Edit("value", a, b),)
        if type(a) is type(b):
            best = min(best, self._alike(a, b), self._swapped(a, b), key=_cost)
        for inner in inner_expressions(b):
            edit = Edit("added", a, b, given=(None, inner))
            best = min(best, self._around(edit, b, inner, self.between(a, inner)), key=_cost)
        for inner in inner_expressions(a):
            edit = Edit("removed", a, b, given=(inner, None))
            best = min(best, self._around(edit, a, inner, self.between(inner, b)), key=_cost)
        return best

    def _swapped(self, a: ast.AST, b: ast.AST) -> CostedEdits:
        """The edit between two expressions that differ in the order of their operands. One of two operands of
        an operator may be edited too."""
        edit: CostedEdits = 1.0, (Edit("swapped", a, b),)
        old, new = _operands(a), _operands(b)
        before, now = list(map(self._dump, old)), list(map(self._dump, new))
        if len(old) != len(new) or not _is_one_function(a, b):
            return float("inf"), ()
        moved = [each for each, x, y in zip(old, before, now, strict=True) if x != y]
        is_call = isinstance(a, ast.Call)
        if sorted(before) == sorted(now):
            return (float("inf"), ()) if is_call and any(self._is_plain(0, each) for each in moved) else edit
        if len(old) == 2 and not is_call and (before[0] == now[1] or before[1] == now[0]):
            return _sum([edit, self.between(old[0], new[1]), self.between(old[1], new[0])])
        return float("inf"), ()

    def _around(self, edit: Edit, outer: ast.AST, inner: ast.AST, rest: CostedEdits) -> CostedEdits:
        function = outer.func if isinstance(outer, ast.Call) else None
        known = function is not None and any(side.object(function) is not None for side in self._functions)
        module = function.value if known and isinstance(function, ast.Attribute) else None
        others = [each for each in inner_expressions(outer) if each is not inner and each is not module]
        return rest[0] + 1.5 + sum(map(self._size, others)), (*rest[1], edit)

    def _size(self, node: ast.AST) -> int:
        """The number of nodes of an expression; a library name counts as one node, however it is written."""
        return 1 if any(side.object(node) is not None for side in self._functions) else size_of(node)

    # ---- Expressions of the same type ----------------------------------------------------------------------

    def _alike(self, a: ast.AST, b: ast.AST) -> CostedEdits:
        if isinstance(a, ast.Call) and isinstance(b, ast.Call):
            return self._calls(a, b)
        if isinstance(a, ast.Constant | ast.Name):
            return 1.0, (Edit("value", a, b),)
        if _is_power(a) and _is_power(b):
            return _sum([self.between(a.left, b.left), self._exponent(a, b)])
        if isinstance(a, ast.Subscript) and isinstance(b, ast.Subscript):
            return _sum([self.between(a.value, b.value), *self._indices(a, b)])
        parts = [self._sequences(list(_children(a)), list(_children(b)))]
        if isinstance(a, ast.Attribute) and isinstance(b, ast.Attribute) and a.attr != b.attr:
            parts.append((1.0, (Edit("value", a, b),)))
        if isinstance(a, ast.BinOp | ast.UnaryOp | ast.BoolOp | ast.Compare):
            parts.append(_operator(a, b))
        if not any(map(_cost, parts)):
            return 1.0, (Edit("value", a, b),)
        return _sum(parts)

    def _exponent(self, a: ast.BinOp, b: ast.BinOp) -> CostedEdits:
        """The edit between two exponents; an exponent written as a literal is part of the program."""
        cost, edits = self.between(a.right, b.right)
        if edits and self._is_plain(0, a.right) and self._is_plain(1, b.right):
            return cost, (Edit("argument", a, b, "exponent", (a.right, b.right)),)
        return cost, edits

    def _indices(self, a: ast.Subscript, b: ast.Subscript) -> Iterator[CostedEdits]:
        """The edits between two indices, by axis; indices written as literals are part of the program."""
        old, new = (each.elts if isinstance(each, ast.Tuple) else [each] for each in (a.slice, b.slice))
        if len(old) != len(new):
            yield self._sequences(old, new)
            return
        for x, y in zip(old, new, strict=True):
            if isinstance(x, ast.Slice) and isinstance(y, ast.Slice):
                for name, field in (("start", "lower"), ("end", "upper"), ("step", "step")):
                    yield self._index(name, a, b, getattr(x, field), getattr(y, field))
            else:
                yield self._index("index", a, b, x, y)

    def _index(
        self, name: str, a: ast.Subscript, b: ast.Subscript, old: ast.AST | None, new: ast.AST | None
    ) -> CostedEdits:
        if old is None and new is None:
            return _NOTHING
        if old is None or new is None:
            return 1.0, (Edit("argument", a, b, name, (old, new)),)
        cost, edits = self.between(old, new)
        if edits and self._is_plain(0, old) and self._is_plain(1, new):
            return cost, (Edit("argument", a, b, name, (old, new)),)
        return cost, edits

    def _sequences(self, a: Sequence[ast.AST], b: Sequence[ast.AST]) -> CostedEdits:
        """The smallest edit between two lists of expressions, including insertions and deletions."""
        if len(a) == len(b):
            return _sum([self.between(x, y) for x, y in zip(a, b, strict=True)])
        rows: list[CostedEdits] = [_sum(map(_only_now, b[:n])) for n in range(len(b) + 1)]
        for x in a:
            row = [_sum([rows[0], _only_before(x)])]
            for n, y in enumerate(b):
                ways = (
                    _sum([rows[n], self.between(x, y)]),
                    _sum([rows[n + 1], _only_before(x)]),
                    _sum([row[n], _only_now(y)]),
                )
                row.append(min(ways, key=_cost))
            rows = row
        return rows[-1]

    # ---- Calls ---------------------------------------------------------------------------------------------

    def _calls(self, a: ast.Call, b: ast.Call) -> CostedEdits:
        same = self._same_function(a.func, b.func)
        if same is None:
            other, (cost, edits) = self._functions_called(a, b), self._plain_arguments(a, b)
            if other is not _NOTHING:  # arguments of only one function follow from the replacement
                edits = tuple(edit for edit in edits if not _is_given_once(edit, a))
            return _sum([other, (cost, edits)])
        old, new = self._functions[0].arguments(a), self._functions[1].arguments(b)
        if old is None or new is None:
            return _sum([same, self._plain_arguments(a, b)])
        names = [*new, *(name for name in old if name not in new)]
        return _sum([same, *(self._argument(name, a, b, old.get(name), new.get(name)) for name in names)])

    def _same_function(self, a: ast.AST, b: ast.AST) -> CostedEdits | None:
        """The edit between two expressions for the same function; None if the functions differ."""
        if self._dump(a) == self._dump(b):
            return _NOTHING
        if isinstance(a, ast.Attribute) and isinstance(b, ast.Attribute) and a.attr == b.attr:
            first, second = self._functions[0].object(a), self._functions[1].object(b)
            if first is second:  # one method of two values, or one function under two names
                return _NOTHING if first is not None else self.between(a.value, b.value)
        if isinstance(a, ast.Call) and isinstance(b, ast.Call):
            return self.between(a, b)
        return None

    def _functions_called(self, a: ast.Call, b: ast.Call) -> CostedEdits:
        """The edit that replaces the called function."""
        if self._is_renamed(a.func, b.func):
            return _NOTHING
        first, second = self._receiver(0, a.func), self._receiver(1, b.func)
        kind = "value" if called(a) == called(b) else "function"
        edit: CostedEdits = (1.0, (Edit(kind, a, b),))
        if first is not None and second is not None:
            return _sum([self.between(first, second), edit])
        if isinstance(a.func, ast.Call) != isinstance(b.func, ast.Call):
            return edit[0] + 2, edit[1]
        alone = first or second
        return edit if alone is None else (edit[0] + 2 + size_of(alone), edit[1])

    def _is_renamed(self, a: ast.AST, b: ast.AST) -> bool:
        """Whether two names refer to user functions with equal bodies, or to one that was renamed."""
        first, second = self._functions[0].functions, self._functions[1].functions
        before, now = dotted_name(a) or "", dotted_name(b) or ""
        if before not in first or now not in second:
            return False
        if before not in second and now not in first:
            return True
        return _body(first[before]) == _body(second[now])

    def _receiver(self, side: int, function: ast.AST) -> ast.AST | None:
        """The value whose method is called; None for a function."""
        if not isinstance(function, ast.Attribute) or self._functions[side].object(function) is not None:
            return None
        return function.value

    def _plain_arguments(self, a: ast.Call, b: ast.Call) -> CostedEdits:
        """The edits between the arguments of two calls, by position and keyword."""
        old = {keyword.arg: keyword.value for keyword in a.keywords}
        new = {keyword.arg: keyword.value for keyword in b.keywords}
        keywords = [self._argument(name or "", a, b, old.get(name), new.get(name)) for name in {**old, **new}]
        return _sum([self._sequences(a.args, b.args), *keywords])

    def _argument(
        self, name: str, a: ast.Call, b: ast.Call, old: ast.AST | None, new: ast.AST | None
    ) -> CostedEdits:
        """The edit between one argument of two calls: the argument itself, or an expression within it."""
        if old is None and new is None:
            return _NOTHING
        edit = Edit("argument", a, b, name, (old, new))
        if old is None or new is None:
            return 1.0 + size_of(old or new or a), (edit,)
        cost, edits = self.between(old, new)
        if not edits or not name or "[" in name:
            return cost, edits
        if isinstance(old, ast.Lambda) and isinstance(new, ast.Lambda):
            return cost, edits
        if self._is_plain(0, old) and self._is_plain(1, new):
            return min(cost, 2.0), (edit,)
        return cost, edits

    def _is_plain(self, side: int, node: ast.AST) -> bool:
        """Whether an argument is not an array: numbers, strings, types, functions, and tuples of them."""
        if isinstance(node, ast.Constant | ast.Lambda):
            return True
        if isinstance(node, ast.Tuple | ast.List):
            return all(self._is_plain(side, element) for element in node.elts)
        if isinstance(node, ast.UnaryOp):
            return self._is_plain(side, node.operand)
        if isinstance(node, ast.Name | ast.Attribute):
            functions = self._functions[side]
            return dotted_name(node) in functions.functions or functions.object(node) is not None
        return False


def _body(function: ast.FunctionDef) -> list[str]:
    return list(map(ast.dump, (function.args, *function.body)))


def _is_given_once(edit: Edit, call: ast.Call) -> bool:
    """Whether ``edit`` is a keyword argument of ``call`` that only one source has."""
    return edit.kind == "argument" and edit.before is call and None in edit.given


def called(call: ast.Call) -> str:
    """The last part of the called function's name; empty if it has no name."""
    function: ast.AST = call.func
    while isinstance(function, ast.Call):
        function = function.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def inner_expressions(node: ast.AST) -> Iterator[ast.AST]:
    """The operands of a call, operator, attribute or index that it may wrap."""
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute):
            yield node.func.value
        yield from node.args
    elif isinstance(node, ast.BinOp | ast.UnaryOp | ast.BoolOp | ast.Compare | ast.Attribute | ast.Subscript):
        for child in _children(node):
            if not isinstance(node, ast.Subscript) or child is node.value:
                yield child


def _children(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr_context | ast.operator | ast.unaryop | ast.boolop | ast.cmpop):
            yield child


def _operator(a: ast.AST, b: ast.AST) -> CostedEdits:
    """The edit between the operators of two expressions of the same type."""
    old, new = (list(map(type, operators_of(each))) for each in (a, b))
    return _NOTHING if old == new else (1.0, (Edit("operator", a, b),))


def operators_of(node: ast.AST) -> list[ast.AST]:
    """The operators of an expression."""
    if isinstance(node, ast.Compare):
        return list(node.ops)
    operator = getattr(node, "op", None)
    return [operator] if operator is not None else []


def _operands(node: ast.AST) -> list[ast.AST]:
    """The operands of an operator or call; for a chain of one operator that may be reordered, all of them."""
    if isinstance(node, ast.Call):
        first = node.args[:1]
        elements = first[0].elts if first and isinstance(first[0], ast.List | ast.Tuple) else first
        return [*elements, *node.args[1:]]
    if not isinstance(node, ast.BinOp):
        return []
    inner, can_move = node.left, isinstance(node.op, ast.Add | ast.Mult)
    is_chain = can_move and isinstance(inner, ast.BinOp) and type(inner.op) is type(node.op)
    return [*(_operands(inner) if is_chain else [inner]), node.right]


def _is_one_function(a: ast.AST, b: ast.AST) -> bool:
    """Whether two expressions apply one operator, or call one function with the same keywords."""
    if isinstance(a, ast.Call) and isinstance(b, ast.Call):
        others = [ast.dump(ast.Call(each.func, [], each.keywords)) for each in (a, b)]
        return others[0] == others[1]
    return isinstance(a, ast.BinOp) and isinstance(b, ast.BinOp) and type(a.op) is type(b.op)


def _is_power(node: ast.AST) -> TypeGuard[ast.BinOp]:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)


def _only_before(node: ast.AST) -> CostedEdits:
    return float(size_of(node)), (Edit("value", node, None),)


def _only_now(node: ast.AST) -> CostedEdits:
    return float(size_of(node)), (Edit("value", None, node),)


def _cost(found: CostedEdits) -> float:
    return found[0]


def _sum(parts: Sequence[CostedEdits] | Iterator[CostedEdits] | map[CostedEdits]) -> CostedEdits:
    listed = list(parts)
    return sum(map(_cost, listed)), tuple(edit for _, edits in listed for edit in edits)
