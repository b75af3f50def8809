"""Syntax of the user's source: statements, spans and names, and the signatures of the functions it calls."""

from __future__ import annotations

import ast
import functools
import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

import jax

# ---- Source as statements and expressions -----------------------------------------------------------------

_NOT_PYTHON = re.compile(r"^(\s*)[%!?].*$", re.MULTILINE)
"""Lines with IPython syntax."""

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_BODIES = ("body", "orelse", "finalbody", "handlers", "cases")


class Span(NamedTuple):
    """A span of a text, from (line, column) to (line, column); columns count UTF-8 bytes."""

    start: tuple[int, int]
    end: tuple[int, int]

    def holds(self, other: Span) -> bool:
        """Whether ``other`` lies within the span."""
        return self.start <= other.start and other.end <= self.end


class Statement:
    """A statement; for a compound statement, its header (``for i in xs``) without the body.

    Attributes:
      parts: its expressions.
      key: equal for equal statements, independent of position and formatting.
      size: number of syntax tree nodes.
    """

    def __init__(self, node: ast.stmt):
        self.node = node
        self.parts = [
            part for name, value in ast.iter_fields(node) if name not in _BODIES for part in _parts(value)
        ]
        self.key = (type(node).__name__, getattr(node, "name", ""), *map(ast.dump, self.parts))
        self.size = 1 + sum(map(size_of, self.parts))
        self.first = min([node.lineno, *[getattr(part, "lineno", node.lineno) for part in self.parts]])
        self.last = max([node.lineno, *[getattr(part, "end_lineno", 0) or 0 for part in self.parts]])


def _parts(value: object) -> Iterator[ast.AST]:
    for each in value if isinstance(value, list) else (value,):
        if isinstance(each, ast.AST):
            yield each


@functools.lru_cache(maxsize=100_000)
def size_of(node: ast.AST) -> int:
    """The number of nodes of an expression."""
    return sum(1 for each in ast.walk(node) if isinstance(each, ast.expr | ast.arg | ast.keyword))


class Source:
    """The text of a cell or of a file.

    Attributes:
      tree: its syntax tree; empty if the text is not Python.
      statements: in text order.
      words: the names in the text.
    """

    def __init__(self, text: str):
        try:
            self.tree = ast.parse(_NOT_PYTHON.sub(r"\1pass", text))
        except (SyntaxError, ValueError):
            self.tree = ast.parse("")
        self.statements = [Statement(node) for node in ast.walk(self.tree) if isinstance(node, ast.stmt)]
        self.statements.sort(key=lambda statement: (statement.node.lineno, statement.node.col_offset))
        self.words = {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name)}

    def at(self, line: int) -> Statement | None:
        """The innermost statement on a line."""
        return self._by_line.get(line)

    @functools.cached_property
    def _by_line(self) -> dict[int, Statement]:
        lines: dict[int, Statement] = {}
        for statement in self.statements:
            lines.update(dict.fromkeys(range(statement.first, statement.last + 1), statement))
        return lines

    def around(self, line: int) -> Sequence[Statement]:
        """The statements whose text, with the body, includes a line; the outermost first."""
        return self._around.get(line, ())

    @functools.cached_property
    def _around(self) -> dict[int, list[Statement]]:
        lines: dict[int, list[Statement]] = {}
        for statement in self.statements:
            first = statement.node.lineno
            for line in range(first, (statement.node.end_lineno or first) + 1):
                lines.setdefault(line, []).append(statement)
        return lines

    @functools.cached_property
    def defined(self) -> Set[str]:
        """The names that its statements bind."""
        return frozenset().union(*(names_bound_by(statement.node) for statement in self.statements))

    def qualified_name(self, statement: Statement) -> str | None:
        """The name of a function or class with the names of those around it; None for another statement."""
        node = statement.node
        if not isinstance(node, _DEFINITIONS):
            return None
        return ".".join(
            [each.node.name for each in self.around(node.lineno) if isinstance(each.node, _DEFINITIONS)]
        )


@functools.lru_cache(maxsize=256)
def source_of(text: str) -> Source:
    """The parsed source of a text, cached."""
    return Source(text)


def span_of(node: ast.AST) -> Span | None:
    """The span of a node; None if unknown."""
    line, end = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
    if line is None or end is None:
        return None
    return Span((line, node.col_offset), (end, node.end_col_offset))  # type: ignore[attr-defined]


def names_in(node: ast.AST) -> set[str]:
    """The variables that an expression reads or sets."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def names_bound_by(node: ast.stmt) -> set[str]:
    """The names that one statement binds."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        return {node.name}
    if isinstance(node, ast.Assign):
        return set().union(*map(names_in, node.targets))
    if isinstance(node, ast.AnnAssign | ast.AugAssign | ast.For):
        return names_in(node.target)
    return set()


def expression_text(node: ast.AST) -> str:
    """An expression as one line of text; a dotted name is shortened to its last part."""
    if isinstance(node, ast.Attribute) and dotted_name(node) is not None:
        return node.attr
    text = ast.unparse(node)
    return text if len(text) <= 60 else text[:59] + "…"


def dotted_name(node: ast.AST) -> str | None:
    """``jax.numpy.sin`` for a name or attributes of a name; None for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        front = dotted_name(node.value)
        return None if front is None else f"{front}.{node.attr}"
    return None


_USUAL = {
    "jax": "jax",
    "jnp": "jax.numpy",
    "lax": "jax.lax",
    "np": "numpy",
    "nn": "flax.linen",
    "optax": "optax",
    "functools": "functools",
    "lazynb": "lazynb",
}
"""Usual alias → module, for sources without the import."""

_VARIADIC = {"reshape": "shape", "transpose": "axes"}
"""Methods that take a tuple or its elements as separate arguments → name of the tuple."""

Argument = ast.expr | None
"""None stands for the default."""


class Signatures:
    """Signatures of the functions that sources call, from their imports and definitions. Runs no user code.

    Arguments:
      sources: sources that may define the functions, latest last.
    """

    def __init__(self, sources: Iterable[Source]):
        self._modules: dict[str, str] = dict(_USUAL)
        self.functions: dict[str, ast.FunctionDef] = {}
        for source in sources:
            for node in ast.walk(source.tree):
                self._add(node)

    def _add(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.name if alias.asname else alias.name.split(".")[0]
                self._modules[alias.asname or name] = name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                self._modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.FunctionDef):
            self.functions[node.name] = node
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    self.functions[target.id] = _as_function(target.id, node.value)

    def object(self, node: ast.AST) -> Any:
        """The object that a library name refers to; None if unknown."""
        name = dotted_name(node)
        if name is None or name.split(".")[0] in self.functions:
            return None
        first, *rest = name.split(".")
        if first not in self._modules:
            return None
        return found(".".join([self._modules[first], *rest]))

    def arguments(self, call: ast.Call) -> Mapping[str, Argument] | None:
        """The arguments of a call by parameter name; None if the names are unknown.

        An omitted parameter has its default, if the default can be written as an expression.
        """
        if any(isinstance(arg, ast.Starred) for arg in call.args):
            return None
        if any(keyword.arg is None for keyword in call.keywords):
            return None
        if (
            isinstance(call.func, ast.Attribute)
            and call.func.attr in _VARIADIC
            and self.object(call.func) is None
        ):
            return _packed(call, _VARIADIC[call.func.attr])
        signature, skip = self._signature(call.func)
        given: dict[str, Argument] = {}
        if signature is not None:
            given.update(_defaults(signature))
        names = _positional(signature, len(call.args) + skip)
        if names is None:
            return None
        given.update(zip(names[skip:], call.args, strict=False))
        given.update((keyword.arg or "", keyword.value) for keyword in call.keywords)
        order = signature.parameters if signature is not None else ()
        return {name: given[name] for name in (*order, *given) if name in given}

    def _signature(self, function: ast.expr) -> tuple[inspect.Signature | None, int]:
        """The signature of a function, and the number of leading parameters that a call omits."""
        name = dotted_name(function)
        if name in self.functions:
            return _written_signature(self.functions[name]), 0
        value = self.object(function)
        if value is functools.partial:
            return None, 0
        if value is not None:
            return signature_of(value), 0
        if isinstance(function, ast.Attribute):  # usually a method of an array
            array_function = getattr(jax.numpy, function.attr, None)
            if callable(getattr(jax.Array, function.attr, None)) and array_function is not None:
                return signature_of(array_function), 1
        return None, 0


def _packed(call: ast.Call, name: str) -> Mapping[str, Argument]:
    """The arguments of a method that takes a tuple or its elements as separate arguments."""
    given: dict[str, Argument] = {keyword.arg or "": keyword.value for keyword in call.keywords}
    if len(call.args) == 1:
        given[name] = call.args[0]
    elif call.args:
        given[name] = ast.Tuple(call.args, ast.Load())
    return given


@functools.lru_cache(maxsize=4096)
def found(name: str) -> Any:
    """The object that a dotted name refers to in the loaded modules; None if there is none."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        module = sys.modules.get(".".join(parts[:length]))
        if module is None:
            continue
        value: Any = module
        for part in parts[length:]:
            value = getattr(value, part, None)
        return value
    return None


def signature_of(function: Any) -> inspect.Signature | None:
    """The signature of a function; None if it cannot be inspected."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _positional(signature: inspect.Signature | None, count: int) -> list[str] | None:
    """The names of the first ``count`` arguments; None if unknown."""
    if signature is None:
        return [] if count == 0 else None
    names: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}[{number}]" for number in range(count - len(names))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    return names if len(names) >= count else None


def _defaults(signature: inspect.Signature) -> dict[str, Argument]:
    """The defaults that can be written as expressions, by parameter."""
    defaults: dict[str, Argument] = {}
    for parameter in signature.parameters.values():
        if parameter.default is not parameter.empty:
            defaults[parameter.name] = _as_expression(parameter.default)
    return defaults


def _as_expression(value: Any) -> Argument:
    if isinstance(value, ast.expr):
        return value
    try:
        return ast.parse(repr(value), mode="eval").body
    except SyntaxError:
        return None


def _written_signature(function: ast.FunctionDef) -> inspect.Signature:
    """The signature of a user function. Its defaults are expressions."""
    parameters = []
    spec = function.args
    plain = [*spec.posonlyargs, *spec.args]
    defaults = [None] * (len(plain) - len(spec.defaults)) + list(spec.defaults)
    for arg, default in zip(plain, defaults, strict=True):
        parameters.append(_parameter(arg, inspect.Parameter.POSITIONAL_OR_KEYWORD, default))
    if spec.vararg:
        parameters.append(_parameter(spec.vararg, inspect.Parameter.VAR_POSITIONAL, None))
    for arg, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
        parameters.append(_parameter(arg, inspect.Parameter.KEYWORD_ONLY, default))
    try:
        return inspect.Signature(parameters)
    except ValueError:
        return inspect.Signature()


def _parameter(arg: ast.arg, kind: Any, default: ast.expr | None) -> inspect.Parameter:
    return inspect.Parameter(arg.arg, kind, default=inspect.Parameter.empty if default is None else default)


def _as_function(name: str, function: ast.Lambda) -> ast.FunctionDef:
    body = ast.Return(function.body)
    node = ast.FunctionDef(name, function.args, [body], [])
    return ast.copy_location(node, function)
