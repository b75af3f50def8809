"""Writes the reference's pages from lazynb's own tables, help texts and docstrings: nothing in them is kept
by hand."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import inspect
import os
import re
import textwrap
import types
import typing
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def write_reference(folder: Path) -> None:
    """Fills the pages of ``folder``: what a page's mark ``<!-- NAME -->`` stands for is written in its
    place."""
    parts = {
        "magics": magics,
        "python": python,
        "breaks": breaks,
        "misses": misses,
        "boundaries": boundaries,
        "command-line": command_line,
        "settings": settings,
        "events": events,
    }
    for name, part in parts.items():
        page = folder / f"{name}.md"
        page.write_text(fill(page, name.upper(), part()), encoding="utf-8")


def fill(page: Path, name: str, text: str) -> str:
    """The page with ``text`` in place of the comment ``<!-- name -->``."""
    before, mark, after = page.read_text(encoding="utf-8").partition(f"<!-- {name} -->")
    if not mark:
        raise ValueError(f"{page.name} has no <!-- {name} -->")
    return before + text + after


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(
        "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in row) + " |" for row in lines
    )


def code(text: str, language: str = "text") -> str:
    """A block of code."""
    return f"```{{code-block}} {language}\n{textwrap.dedent(text).strip(chr(10))}\n```"


def beside(*columns: str) -> str:
    """Blocks side by side, where there is room."""
    inner = "\n".join(f":::{{container}}\n{column}\n:::" for column in columns)
    return f"::::{{container}} lazynb-beside\n{inner}\n::::"


# ---- magics ------------------------------------------------------------------------------------------------


def magics() -> str:
    """A section for each magic: what ``%name?`` says."""
    import lazynb
    from lazynb.notebook.extension import MAGICS, LazyMagics

    own = [
        ("load_ext lazynb", lazynb.load_ipython_extension),
        ("unload_ext lazynb", lazynb.unload_ipython_extension),
    ]
    sections = [
        f"(magic-{name.split()[0]})=\n## "
        f"`%{name}`\n\n{_text(function.__doc__).partition(': ')[2].capitalize()}\n"
        for name, function in own
    ]
    for kind, name in MAGICS:
        sections.append(_magic("%%" if kind == "cell" else "%", name, getattr(LazyMagics, name)))
    return "\n".join(sections)


def _magic(prefix: str, name: str, method: Any) -> str:
    parser = getattr(method, "parser", None)
    if parser is None:
        return f"(magic-{name})=\n## `{prefix}{name}`\n\n{_text(method.__doc__)}\n"
    usage = " ".join(parser.format_usage().split()[1:]).removeprefix("::").strip()
    usage = re.sub(rf"^%*{name}", f"{prefix}{name}", usage)
    arguments = [(f"`{_spelling(action)}`", action.help or "") for action in parser._actions]
    return (
        f"(magic-{name})=\n## `{prefix}{name}`\n\n{code(usage)}\n\n{_text(parser.description)}\n\n"
        f"{table(('argument', 'meaning'), arguments)}\n"
    )


def _spelling(action: argparse.Action) -> str:
    shown = action.metavar or ("|".join(action.choices) if action.choices else action.dest.upper())
    return " ".join(filter(None, [", ".join(action.option_strings), "" if action.nargs == 0 else str(shown)]))


def _text(docstring: str | None) -> str:
    """A docstring as Markdown, which has the same double backticks."""
    return inspect.cleandoc(docstring or "").strip()


# ---- Python ------------------------------------------------------------------------------------------------


def public_names() -> list[str]:
    """The public names of the package but its settings: what its façade shows."""
    import lazynb

    return [
        name
        for name in dir(lazynb)
        if not name.startswith("_")
        and name not in ("TYPE_CHECKING", "annotations", "config", "numpy", "torch")
        and not isinstance(getattr(lazynb, name), types.ModuleType)
    ]


def python() -> str:
    """Functions, records and errors by autodoc; ``lazynb.torch`` from its source, as importing it takes
    PyTorch."""
    import lazynb

    values = {name: getattr(lazynb, name) for name in public_names()}
    errors = [
        name for name, value in values.items() if isinstance(value, type) and issubclass(value, BaseException)
    ]
    classes = [name for name, value in values.items() if isinstance(value, type) and name not in errors]
    functions = [name for name, value in values.items() if callable(value) and not isinstance(value, type)]
    return "\n".join(
        [
            "## Functions\n",
            _autodoc("autofunction", "lazynb", sorted(functions)),
            "## Types\n",
            _autodoc("autoclass", "lazynb", sorted(set(classes) - {"LazyTensor"})),
            _autodoc("autoclass", "lazynb", ["LazyTensor"], "no-members:"),
            "## Errors\n",
            _autodoc("autoexception", "lazynb", sorted(errors)),
            "## lazynb.numpy\n",
            _module_text("lazynb/numpy.py"),
            _autodoc("autofunction", "lazynb.numpy", ["mutable"]),
            _autodoc("autoclass", "lazynb.numpy", ["MutableArray"], "no-members:"),
            "## lazynb.torch\n",
            _module_text("lazynb/torch.py"),
            _from_source(
                "lazynb.torch", "lazynb/frontends/torch/device_switch.py", ("enable", "disable", "is_enabled")
            ),
        ]
    )


def _autodoc(directive: str, module: str, names: Iterable[str], *options: str) -> str:
    lines = [f".. py:currentmodule:: {module}", ""]
    for name in names:
        lines += [f".. {directive}:: {module}.{name}", *(f"   :{option}" for option in options), ""]
    return "```{eval-rst}\n" + "\n".join(lines) + "```\n"


def _module_text(file: str) -> str:
    text = ast.get_docstring(ast.parse((ROOT / file).read_text(encoding="utf-8"))) or ""
    return re.sub(r":\w+:(`[^`]*`)", r"`\1`", text) + "\n"


def _from_source(module: str, file: str, names: tuple[str, ...]) -> str:
    """Functions of a module that is not imported, by their text."""
    from sphinx.ext.napoleon import Config, GoogleDocstring

    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    found = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    lines = [f".. py:currentmodule:: {module}", ""]
    for name in names:
        node = found[name]
        returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        lines += [f".. py:function:: {name}({ast.unparse(node.args)}){returns}", ""]
        lines += [
            f"   {line}" for line in GoogleDocstring(ast.get_docstring(node) or "", Config()).lines()
        ] + [""]
    return "```{eval-rst}\n" + "\n".join(lines) + "\n```\n"


# ---- codes -------------------------------------------------------------------------------------------------


def breaks() -> str:
    """Each kind of trace break: cause, cure, the program that has it and the one that has not."""
    from lazynb.recording.break_reasons import REASONS

    reasons = sorted(REASONS.values(), key=lambda reason: reason.code)
    rows = [
        (f"[{one.code}](#{one.code.lower()})", f"`{one.kind}`", one.text, "yes" if one.explicit else "")
        for one in reasons
    ]
    sections = [table(("code", "kind", "what Python needed", "asked for"), rows)]
    for one in reasons:
        programs = beside(
            *(
                f"{title}:\n\n{code(program, 'ipython3')}"
                for title, program in zip(one._titles, (one.example, one.cure), strict=True)
            )
        )
        sections.append(
            f"({one.code.lower()})=\n## {one.code}: {one.kind}\n\nCause: {one.text}.\n\n"
            f"Cure: {one.hint}.\n\n{programs}"
        )
    return "\n\n".join(sections) + "\n"


def misses() -> str:
    """Each cause of a miss: what differs, and the edit that makes it a hit."""
    from lazynb.compare.misses.miss_causes import CAUSES

    sections = []
    for one in sorted(CAUSES.values(), key=lambda cause: cause.code):
        cure = _fields(one.cure) or "none of its own"
        sections.append(
            f"({one.code.lower()})=\n## {one.code}: {one.kind}\n\n"
            f"What differs: {_fields(one.text)}.\n\nCure: {cure}."
        )
    return "\n\n".join(sections) + "\n"


def boundaries() -> str:
    """Each reason of a boundary between two kernels, and each way to know it."""
    from lazynb.xla.fusion.boundary_reasons import REASONS

    sections = []
    for name, reason in REASONS.items():
        more = f"\n\nWhat you can change: {_fields(reason.hint)}." if reason.hint else ""
        tested = (
            f"\n\n`Compilation.verify` can test it (experiment `{reason.verify}`)." if reason.verify else ""
        )
        rule = f"\n\nInferred from: {reason.rule}." if reason.rule else ""
        sections.append(
            f"(boundary-{name})=\n## {name}\n\n{_sentence(_fields(reason.text))}{rule}{more}{tested}"
        )
    return "\n\n".join(sections) + "\n"


def _fields(text: str) -> str:
    """``text`` with its fields as words in italics; one that is written to the word before it is an addition,
    and left out."""
    text = re.sub(r"(?<=\w)\{\w+\}", "", text)
    return re.sub(r"\{(\w+)[^}]*\}", lambda field: f"*{field[1].replace('_', ' ')}*", text)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?", "!")) else ".")


# ---- the event stream --------------------------------------------------------------------------------------


def events() -> str:
    """A section for each event of the stream, with its fields."""
    from lazynb.compare.misses import event_stream as schema

    sections = [_event("every", schema.Event), _event("line", schema.Line)]
    sections += [_event(name, shape) for name, shape in schema.EVENTS.items()]
    return f"The version of this schema is {schema.VERSION}.\n\n" + "\n".join(sections)


_EVENT_TITLES = {"every": "Every event", "line": "A line"}


_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def _json_type(type_: Any) -> str:
    """What JSON calls a type of the schema."""
    if isinstance(type_, types.UnionType):
        return " or ".join(map(_json_type, typing.get_args(type_)))
    if typing.get_origin(type_) is list:
        return f"list: {_json_type(typing.get_args(type_)[0])}"
    return _JSON_TYPES.get(type_) or "[a line](#event-line)"


def _event(name: str, shape: Any) -> str:
    says, _, attributes = _text(shape.__doc__).partition("\n\nAttributes:\n")
    meanings = {
        field: " ".join(text.split())
        for fields, text in re.findall(r"^  ([\w, ]+): (.*(?:\n    .*)*)", attributes, re.MULTILINE)
        for field in fields.split(", ")
    }
    rows = [
        (f"`{field}`", _json_type(type_), meanings[field])
        for field, type_ in typing.get_type_hints(shape).items()
        if field in meanings
    ]
    title = _EVENT_TITLES.get(name, f"`{name}`")
    return f"(event-{name})=\n## {title}\n\n{says}\n\n{table(('field', 'type', 'meaning'), rows)}\n"


# ---- command line, settings --------------------------------------------------------------------------------


def command_line() -> str:
    """What ``lazynb --help`` and that of each command say."""
    os.environ["COLUMNS"] = "100"  # argparse's width
    import lazynb
    from lazynb.cli.arguments import parser

    top = parser(lazynb.__version__)
    commands = next(
        action for action in top._actions if isinstance(action, argparse._SubParsersAction)
    ).choices
    sections = [f"(command-lazynb)=\n## `lazynb`\n\n{code(top.format_help())}"]
    sections += [
        f"(command-{name})=\n## `lazynb {name}`\n\n{code(one.format_help())}"
        for name, one in commands.items()
    ]
    return "\n\n".join(sections) + "\n"


def settings() -> str:
    """The fields of ``lazynb.config`` with their defaults."""
    from lazynb.config import Config

    meaning = attributes(Config)
    sections = []
    for field in dataclasses.fields(Config):
        made = field.default_factory is not dataclasses.MISSING
        number = type(field.default) is int
        default = (
            _text(field.default_factory.__doc__)
            if made
            else f"`{field.default:_}`"
            if number
            else f"`{field.default}`"
        )
        sections.append(
            f"(config-{field.name})=\n## `{field.name}`\n\nDefault: "
            f"{default}\n\n{_sentence(meaning[field.name])}"
        )
    return "\n\n".join(sections) + "\n"


def attributes(owner: type) -> dict[str, str]:
    """What a class's docstring says of each attribute."""
    _, _, listed = inspect.cleandoc(owner.__doc__ or "").partition("Attributes:\n")
    entries = re.findall(r"^  (\w+): (.*(?:\n    .*)*)", listed, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}
