"""An explanation as text and as HTML, which outlives a notebook that is reopened untrusted: no style sheets,
no scripts."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from html import escape
from typing import Any

from lazynb.execute.records import Records
from lazynb.session.explain import Explanation, all_together
from lazynb.units import duration
from lazynb.view.graph.html import fill
from lazynb.view.words import clip, plain, plural

_CELL = "text-align:left;vertical-align:top;padding:2px 14px 2px 0"
_HEAD = _CELL + ";font-weight:600;opacity:0.75;white-space:nowrap"
_TABLE = "text-align:left;border-collapse:collapse;margin:4px 0;font-size:12px;color:inherit;border:0"
_SOFT = "opacity:0.75;font-size:12px"
_WIDE = 90  # characters of a cell of text
_LONG = 160  # characters of a sentence in a column of text
_CODE = {"line", "step"}  # columns that hold a place with its source
_WORDS = {"instead", "reason", "costs", "advice"}  # columns that hold sentences


def headline(one: Explanation) -> str:
    """For example ``train: 80 trace breaks in 2 lines, 2 compilations (180 ms)``."""
    lines = len({(row.location.file, row.location.line) for row in one.breaks})
    broke = (
        f"{plural(one.breaks.total, 'trace break')} in {plural(lines, 'line')}"
        if len(one.breaks)
        else "no trace breaks"
    )
    spent = sum(row.seconds for row in one.compilations)
    compiled = plural(len(one.compilations), "compilation") + (f" ({duration(spent)})" if spent else "")
    return f"{one.name}: {broke}, {compiled}"


def detail(one: Explanation) -> str:
    """For example ``1,080 operations in 80 runs, 335 ms``."""
    return f"{plural(one.operations, 'operation')} in {plural(one.runs, 'run')}, {duration(one.seconds)}"


def sections(one: Explanation) -> Iterator[tuple[str, Records[Any], list[str]]]:
    """Heading, table and remarks of each part that has something to say."""
    if len(one.breaks):
        yield "Trace breaks", one.breaks, []
        yield "Without the break: the same work as one program", one.counterfactuals, list(_remarks(one))
    if len(one.compilations):
        yield "Compilations", one.compilations, []
    if len(one.advice):
        yield "Recording takes longer than running", one.advice, []


def _remarks(one: Explanation) -> Iterator[str]:
    known = [
        row
        for row in (*one.counterfactuals, *([one.together] if one.together is not None else []))
        if row.joined
    ]
    if not known:
        return
    if one.together is not None and (text := all_together(one.together)):
        yield f"{text}."
    yield (
        "Programs, kernels, bytes and times are of what was joined, as it is and as it would be. Times are "
        "medians with the "
        "middle half of them as their spread: running with the waits, recording left out."
    )
    assumed = dict.fromkeys(text for row in known for text in row.assumptions)
    if assumed:
        yield f"Assumed: {'; '.join(assumed)}."
    for inputs in dict.fromkeys(row.inputs for row in known if row.inputs):
        yield f"{inputs[0].upper()}{inputs[1:]}."


def to_text(one: Explanation) -> str:
    """The explanation as text."""
    parts = [f"{headline(one)}\n{detail(one)}", *(f"{note[0].upper()}{note[1:]}." for note in one.notes)]
    for heading, table, remarks in sections(one):
        body = "\n".join(_paragraphs(table)) if heading.startswith("Recording") else _columns(table)
        parts.append("\n".join([heading, *("  " + line for line in [*body.splitlines(), *remarks])]))
    return plain("\n\n".join(parts))


def _columns(table: Records[Any]) -> str:
    """The rows in columns; those that are empty throughout are left out."""
    rows = table.rows()
    names = _used(rows)
    lines = [names, *([clip(row[name], _WIDE if name in _CODE else _LONG) for name in names] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _used(rows: list[dict[str, str]]) -> list[str]:
    return [name for name in rows[0] if any(row[name] for row in rows)]


def _paragraphs(table: Records[Any]) -> Iterator[str]:
    for row in table.rows():
        yield f"{row['step']} ({row['times']} times): {row['advice']}"


def to_html(one: Explanation) -> str:
    """The explanation as HTML."""
    notes = "".join(f'<div style="{_SOFT}">{_text(note[0].upper() + note[1:])}.</div>' for note in one.notes)
    parts = [
        fill(
            "section",
            open="open",
            title=_text(heading),
            body=_table(table) + "".join(f'<div style="{_SOFT}">{_text(remark)}</div>' for remark in remarks),
        )
        for heading, table, remarks in sections(one)
    ]
    return fill(
        "explanation",
        headline=_text(headline(one)),
        detail=_text(detail(one)),
        notes=notes,
        sections="\n".join(parts),
    )


def _table(table: Records[Any]) -> str:
    rows = table.rows()
    names = _used(rows)
    head = "".join(f'<th style="{_HEAD}">{_text(name)}</th>' for name in names)
    body = "".join("<tr>" + "".join(_cell(name, row[name]) for name in names) + "</tr>" for row in rows)
    inner = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<div style="overflow-x:auto"><table style="{_TABLE}">{inner}</table></div>'


def _cell(name: str, text: str) -> str:
    if name in _CODE and ": " in text:
        label, _, source = text.partition(": ")
        code = _text(clip(source, _WIDE))
        return f'<td style="{_CELL};white-space:nowrap">{_text(label)} <code>{code}</code></td>'
    width = "min-width:16em;max-width:40em" if name in _WORDS else "white-space:nowrap"
    return f'<td style="{_CELL};{width}">{_words(text)}</td>'


def _words(text: str) -> str:
    """A sentence, with what stands in backticks as code."""
    parts = _text(text).split("`")
    if len(parts) % 2 == 0:
        return _text(text)
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))


def _text(text: str) -> str:
    return escape(plain(text))


def install() -> None:
    """Lets explanations show themselves: what finds them out knows nothing of views."""
    hooks: Any = Explanation
    hooks.__repr__ = _repr
    hooks._repr_mimebundle_ = _bundle


def _repr(self: Explanation) -> str:
    try:
        return to_text(self)
    except Exception as error:  # display degrades
        return f"<Explanation; it cannot be shown: {type(error).__name__}: {error}>"


def _bundle(
    self: Explanation, include: Collection[str] | None = None, exclude: Collection[str] | None = None
) -> dict[str, Any]:
    shown = {"text/plain": _repr(self)}
    try:
        shown["text/html"] = to_html(self)
    except Exception:  # a rendering bug must not cost the user the text
        pass
    return shown
