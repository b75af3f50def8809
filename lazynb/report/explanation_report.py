"""Text and HTML of ``lazynb.Explanation``: trace breaks, compilations and advice of a call.

The HTML has no style sheets and no scripts, so an untrusted notebook still shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lazynb.compare.costs.call_explanation import Explanation, all_together
from lazynb.report import document
from lazynb.report.graph.graph_html import fill_template
from lazynb.report.short_text import clip
from lazynb.running.record_table import Records, plural, scrolling
from lazynb.user_code.text_format import duration, escape_invisible

_CELL = "text-align:left;vertical-align:top;padding:2px 14px 2px 0"
_HEAD = _CELL + ";font-weight:600;opacity:0.75;white-space:nowrap"
_TABLE = "text-align:left;border-collapse:collapse;margin:4px 0;font-size:12px;color:inherit;border:0"
_SOFT = "opacity:0.75;font-size:12px"
_WIDE = 90  # characters of a cell of text
_LONG = 160  # characters of a sentence in a column of text
_CODE = {"line", "step"}  # columns of places with their source text
_WORDS = {"instead", "reason", "advice"}  # columns of sentences, shown below a place if the table has one


def headline(explanation: Explanation) -> str:
    """For example ``train: 80 trace breaks in 2 lines, 2 compilations (180 ms)``."""
    broke = "no trace breaks"
    if len(explanation.breaks):
        lines = {(row.location.file, row.location.line) for row in explanation.breaks}
        broke = f"{plural(explanation.breaks.total, 'trace break')} in {plural(len(lines), 'line')}"
    compiled = plural(len(explanation.compilations), "compilation")
    spent = sum(row.seconds for row in explanation.compilations)
    if spent:
        compiled += f" ({duration(spent)})"
    return f"{explanation.name}: {broke}, {compiled}"


def detail(explanation: Explanation) -> str:
    """For example ``1,080 operations in 80 runs, 335 ms``."""
    operations, runs = plural(explanation.operations, "operation"), plural(explanation.runs, "run")
    return f"{operations} in {runs}, {duration(explanation.seconds)}"


def sections(explanation: Explanation) -> Iterator[tuple[str, Records[Any], list[str]]]:
    """Heading, table and remarks of each non-empty part."""
    if len(explanation.breaks):
        yield "Trace breaks", explanation.breaks, []
        heading = "Without the break: the same work as one program"
        yield heading, explanation.counterfactuals, list(_counterfactual_remarks(explanation))
    if len(explanation.compilations):
        yield "Compilations", explanation.compilations, []
    if len(explanation.jax_compilations):
        yield "Compiled by JAX itself, beside lazynb's programs", explanation.jax_compilations, []
    if len(explanation.advice):
        yield "Recording takes longer than running", explanation.advice, []


def _counterfactual_remarks(explanation: Explanation) -> Iterator[str]:
    together = explanation.together
    rows = [*explanation.counterfactuals]
    if together is not None:
        rows.append(together)
    known = [row for row in rows if row.joined]
    if not known:
        return
    if together is not None:
        conclusion = all_together(together)
        if conclusion:
            yield f"{conclusion}."
    yield (
        "Programs, kernels, bytes and times are of what was joined, as it is and as it would be. Times are "
        "medians with the middle half of them as their spread: running with the waits, recording left out."
    )
    assumptions: list[str] = []
    for row in known:
        assumptions += row.assumptions
    if assumptions:
        yield f"Assumed: {'; '.join(dict.fromkeys(assumptions))}."
    for inputs in dict.fromkeys(row.inputs for row in known if row.inputs):
        yield _sentence(inputs)


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def to_text(explanation: Explanation) -> str:
    """The explanation as text."""
    parts = [f"{headline(explanation)}\n{detail(explanation)}", *map(_sentence, explanation.notes)]
    for heading, table, remarks in sections(explanation):
        body = "\n".join(_paragraphs(table)) if heading.startswith("Recording") else _columns(table)
        indented = ["  " + line for line in [*body.splitlines(), *remarks]]
        parts.append("\n".join([heading, *indented]))
    return escape_invisible("\n\n".join(parts))


def _columns(table: Records[Any]) -> str:
    """The rows in columns, without empty columns."""
    rows = table.rows()
    names = _used(rows)
    limits = [_WIDE if name in _CODE else _LONG for name in names]
    table_lines = [names]
    for row in rows:
        table_lines.append([clip(row[name], limit) for name, limit in zip(names, limits, strict=True)])
    widths = [max(map(len, column)) for column in zip(*table_lines, strict=True)]
    lines = []
    for cells in table_lines:
        padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def _used(rows: list[dict[str, str]]) -> list[str]:
    return [name for name in rows[0] if any(row[name] for row in rows)]


def _paragraphs(table: Records[Any]) -> Iterator[str]:
    for row in table.rows():
        yield f"{row['step']} ({row['times']} times): {row['advice']}"


def to_html(explanation: Explanation) -> str:
    """The explanation as HTML."""
    parts = []
    for heading, table, remarks in sections(explanation):
        body = _table(heading, table) + "".join(map(_soft, remarks))
        parts.append(fill_template("section", open="open", title=document.escaped(heading), body=body))
    return fill_template(
        "explanation",
        headline=document.escaped(headline(explanation)),
        detail=document.escaped(detail(explanation)),
        notes="".join(_soft(_sentence(note)) for note in explanation.notes),
        sections="\n".join(parts),
    )


def _soft(sentence: str) -> str:
    return f'<div style="{_SOFT}">{document.sentence_html(sentence)}</div>'


def _table(heading: str, table: Records[Any]) -> str:
    rows = table.rows()
    names = _used(rows)
    below = [name for name in names if name in _WORDS] if _CODE.intersection(names) else []
    names = [name for name in names if name not in below]
    head = "".join(f'<th style="{_HEAD}">{document.escaped(name)}</th>' for name in names)
    body = ""
    for row in rows:
        told = "".join(_soft(f"{name}: {row[name]}") for name in below if row[name])
        cells = "".join(_cell(name, row[name], told if name in _CODE else "") for name in names)
        body += f"<tr>{cells}</tr>"
    inner = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return scrolling(f'<table style="{_TABLE}">{inner}</table>', document.escaped(heading))


def _cell(name: str, text: str, told: str) -> str:
    if name not in _CODE:
        width = "min-width:16em;max-width:40em" if name in _WORDS else "white-space:nowrap"
        return f'<td style="{_CELL};{width}">{document.sentence_html(text)}</td>'
    label, colon, source = text.partition(": ")
    code = f" <code>{document.escaped(clip(source, _WIDE))}</code>" if colon else ""
    return f'<td style="{_CELL};min-width:18em;max-width:48em">{document.escaped(label)}{code}{told}</td>'
