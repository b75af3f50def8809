"""Writes extension/src/model/data.ts, what Python and the inspector's front end say to each other, from
lazynb/xla/inspection_schema.py. The comments beside the fields go with them.

    python scripts/front_end_data.py
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = "lazynb.xla.inspection_schema"
TARGET = ROOT / "extension" / "src" / "model" / "data.ts"
HEAD = """/**
 * What Python sends (version 1), and what the widget and the kernel say to each other.
 * A figure that is not known is null.
 *
 * Made from lazynb/xla/inspection_schema.py by scripts/front_end_data.py: change it there, run the script.
 */
"""
WIDTH = 130  # extension/package.json's printWidth
SIMPLE = {"str": "string", "int": "number", "float": "number", "bool": "boolean", "None": "null"}


@dataclass(frozen=True, slots=True)
class Module:
    """A module's text and what it says."""

    lines: list[str]
    body: list[ast.stmt]


def main() -> None:
    TARGET.write_text(source(), encoding="utf-8")
    print(f"wrote {TARGET.relative_to(ROOT)}")


def source() -> str:
    """The whole file."""
    return HEAD + "".join(f"\n{shape}\n" for shape in _shapes(_module(SCHEMA)))


def _module(name: str) -> Module:
    text = (ROOT / Path(*name.split(".")).with_suffix(".py")).read_text(encoding="utf-8")
    return Module(text.splitlines(), ast.parse(text).body)


def _shapes(module: Module, wanted: set[str] | None = None) -> Iterator[str]:
    """The shapes of a module in their order, or those called ``wanted``; before them what it imports from the
    package."""
    for number, statement in enumerate(module.body):
        if (
            isinstance(statement, ast.ImportFrom)
            and wanted is None
            and (statement.module or "").startswith("lazynb.")
        ):
            yield from _shapes(_module(str(statement.module)), {alias.name for alias in statement.names})
            continue
        name = _name(statement)
        if name is None or (wanted is not None and name not in wanted):
            continue
        if isinstance(statement, ast.ClassDef):
            yield _interface(module, name, _fields(statement.body), ast.get_docstring(statement) or "")
            continue
        assert isinstance(statement, ast.Assign)
        words = _words_after(module.body, number)
        if isinstance(statement.value, ast.Call):
            yield _interface(module, name, _keys(statement.value), words)
        else:
            yield _comment(words) + _alias(name, statement.value)


def _name(statement: ast.stmt) -> str | None:
    """What a statement defines, if that is a shape: a class, or a type that got a name."""
    if isinstance(statement, ast.ClassDef):
        return statement.name
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return None if isinstance(statement.value, ast.Constant) else statement.targets[0].id
    return None


def _words_after(body: list[ast.stmt], number: int) -> str:
    """The docstring behind an assignment."""
    following = body[number + 1] if number + 1 < len(body) else None
    if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
        return str(following.value.value)
    return ""


def _fields(body: list[ast.stmt]) -> list[tuple[str, ast.expr]]:
    return [
        (field.target.id, field.annotation)
        for field in body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
    ]


def _keys(call: ast.Call) -> list[tuple[str, ast.expr]]:
    """The fields of ``TypedDict("Name", {...})``, which has those whose names are words of Python."""
    fields = call.args[1]
    assert isinstance(fields, ast.Dict)
    return [
        (str(key.value), kind)
        for key, kind in zip(fields.keys, fields.values, strict=True)
        if isinstance(key, ast.Constant)
    ]


def _interface(module: Module, name: str, fields: list[tuple[str, ast.expr]], words: str) -> str:
    lines = [f"{_comment(words)}export interface {name} {{"]
    for field, kind in fields:
        beside = re.search(r"  # (.*)$", module.lines[kind.lineno - 1])
        if beside:
            lines.append(f"  /** {_capital(_plain(beside[1]))} */")
        lines.append(f"  {field}: {typescript(kind)};")
    return "\n".join([*lines, "}"])


def _alias(name: str, kind: ast.expr) -> str:
    """A name for a type, in the lines that prettier would write."""
    line = f"export type {name} = {typescript(kind)};"
    if len(line) <= WIDTH:
        return line
    indented = f"  {typescript(kind)};"
    if len(indented) <= WIDTH:
        return f"export type {name} =\n{indented}"
    return "\n".join([f"export type {name} =", *(f"  | {option}" for option in _options(kind))]) + ";"


def typescript(kind: ast.expr) -> str:
    """An annotation in TypeScript."""
    return " | ".join(_options(kind))


def _options(kind: ast.expr) -> list[str]:
    """TypeScript's words for an annotation: one, or those of a union."""
    if isinstance(kind, ast.BinOp):
        return [*_options(kind.left), *_options(kind.right)]
    if isinstance(kind, ast.Subscript):
        return _subscript(ast.unparse(kind.value), _elements(kind.slice))
    name = ast.unparse(kind)
    return [SIMPLE.get(name, name)]


def _elements(index: ast.expr) -> list[ast.expr]:
    return index.elts if isinstance(index, ast.Tuple) else [index]


def _subscript(name: str, inner: list[ast.expr]) -> list[str]:
    if name == "Literal":
        return [_literal(option) for option in inner]
    if name == "tuple":
        return [f"[{', '.join(typescript(item) for item in inner)}]"]
    if name == "list":
        item = typescript(inner[0])
        return [f"({item})[]" if " | " in item else f"{item}[]"]
    raise ValueError(f"{name}[...] has no form in TypeScript yet: add it here")


def _literal(option: ast.expr) -> str:
    assert isinstance(option, ast.Constant)
    return f'"{option.value}"' if isinstance(option.value, str) else str(option.value)


def _comment(words: str) -> str:
    text = _plain(" ".join(words.split()))
    if not text:
        return ""
    if len(text) + 7 <= WIDTH:
        return f"/** {text} */\n"
    return "/**\n" + "\n".join(f" * {line}" for line in textwrap.wrap(text, WIDTH - 3)) + "\n */\n"


def _plain(text: str) -> str:
    """Python's words for TypeScript's readers."""
    return re.sub(r"\bNone\b", "null", text.replace("``", "`"))


def _capital(text: str) -> str:
    """A sentence, unless it begins with a value or a name."""
    closed = text if text.endswith((".", "...")) or not text[0].isalpha() else f"{text}."
    return closed[0].upper() + closed[1:]


if __name__ == "__main__":
    main()
