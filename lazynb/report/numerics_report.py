"""Text and HTML of ``lazynb.Numerics``, which compares compiled and eager values.

The HTML has no style sheets and no scripts, so an untrusted notebook still shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lazynb.compare.numerics.equation_list import MOVING
from lazynb.compare.numerics.float_arrays import INF, NAN
from lazynb.compare.numerics.numerics_causes import NumericsCause
from lazynb.compare.numerics.numerics_result import Numerics
from lazynb.compare.numerics.numerics_table import (
    ComparedOperation,
    nonfinite_row,
    number_text,
    operation_row,
    ulps_text,
)
from lazynb.compare.numerics.program_values import CHANGED, RESULT
from lazynb.compare.numerics.rounding_bounds import ULPS
from lazynb.report import document
from lazynb.report.graph.graph_html import fill_template
from lazynb.report.short_text import clip
from lazynb.running.record_table import SHOWN, plural, scrolling
from lazynb.user_code.source_lines import Place
from lazynb.user_code.text_format import escape_invisible

_CELL = "text-align:left;vertical-align:top;padding:2px 14px 2px 0"
_HEAD = _CELL + ";font-weight:600;opacity:0.75;white-space:nowrap"
_TABLE = "text-align:left;border-collapse:collapse;margin:4px 0;font-size:12px;color:inherit;border:0"
_SOFT = "opacity:0.75;font-size:12px"
_WIDE = 72  # characters of a line of code
_APART, _AGREE = "#D55E00", "#009E73"

ABOUT = (
    "ULPs: units in the last place of the type, at the larger magnitude. from float64: the largest distance "
    "to the same operations in float64, in ULPs."
)

Row = dict[str, str]


def headline(numerics: Numerics) -> str:
    """For example ``softmax: compiled and eager results differ by rounding alone, up to 3 ULPs · Inf is born
    at cell 4, line 2``."""
    return f"{numerics.name}: {' · '.join([_apart_or_not(numerics), *_nonfinite_text(numerics)])}"


def _apart_or_not(numerics: Numerics) -> str:
    first = numerics.first
    if not len(numerics.operations):
        return "nothing to compare"
    if first is not None:
        return f"compiled and eager values part at {_where(first.location)}, `{first.name}`"
    results = [row for row in numerics.operations if row.seen == RESULT]
    if any(row.differing for row in results):
        nans, size = numerics.nan_results
        both = f"; both are NaN in {nans:,} of {size:,} elements" if nans else ""
        return f"compiled and eager results differ {_difference(results)}{both}"
    if any(row.differing for row in numerics.operations):
        return f"compiled and eager results are {_equal(numerics)}, values before them differ"
    what = "results" if numerics.nan_results[0] else "values"
    return f"compiled and eager {what} are {_equal(numerics)}"


def _equal(numerics: Numerics) -> str:
    """How results are equal. NaNs of different bits count as equal."""
    nans, size = numerics.nan_results
    if not nans:
        return "equal to the bit"
    if nans == size:
        return "NaN in every element"
    return f"NaN in the same {nans:,} of {size:,} elements, and equal to the bit in the others"


def _difference(results: Sequence[ComparedOperation]) -> str:
    """How results differ that do not part."""
    most = max(row.ulps or 0.0 for row in results)
    if not most:
        return "in the sign of zeros alone"
    if most == float("inf"):
        return "by rounding, which makes a NaN or an infinity of one and not of the other"
    return f"by rounding alone, up to {ulps_text(most)} ULPs"


def _nonfinite_text(numerics: Numerics) -> Iterator[str]:
    for kind in (NAN, INF):
        births = [birth for birth in numerics.nonfinite if birth.kind == kind]
        if births:
            more = f" and in {plural(len(births) - 1, 'operation')} more" if len(births) > 1 else ""
            yield f"{kind} is born at {_where(births[0].location)}{more}"


def findings(numerics: Numerics) -> Iterator[str]:
    """Sentences on the first or largest difference and its cause."""
    first = numerics.first
    row = first or numerics.largest
    cause = numerics.cause
    if row is None:
        return
    if first is not None or (row.ulps or 0.0) > ULPS:
        yield _apart(row)
    if first is None and ULPS < (row.ulps or 0.0) < float("inf"):
        yield (
            "That is within the rounding of the operands: they are larger than the result, or the operation "
            "makes more of their last digits."
        )
    if cause is not None:
        yield _cause_sentence(cause)


def _apart(row: ComparedOperation) -> str:
    where = f"`{row.name}` at {_where(row.location)}"
    if row.ulps is not None and row.ulps != float("inf"):
        where += f" is {ulps_text(row.ulps)} ULPs of {row.type.partition('[')[0]} apart"
    values = (
        f"eagerly {number_text(row.eager)}, compiled {number_text(row.compiled)}, in float64 "
        f"{number_text(row.reference)}"
    )
    at = f" (element {list(row.index)})" if row.index else ""
    of = f"; {row.differing:,} of {row.size:,} elements differ" if row.size > 1 else ""
    known = (
        " (the compiled value is inferred: looking at it changed the results)" if row.seen == CHANGED else ""
    )
    return f"{where}: {values}{at}{of}{known}."


def _cause_sentence(cause: NumericsCause) -> str:
    kernel = f" Its kernel is `{cause.kernel}`." if cause.kernel else ""
    if cause.experiment:
        return (
            f"{_sentence(cause.text)} ({cause.label}: compiled again {cause.experiment}, the difference is "
            f"gone.){kernel}"
        )
    tried = f" It stays when the program is compiled {'; '.join(cause.tried)}." if cause.tried else ""
    known = f" ({cause.label})" if cause.code != "unknown" else ""
    return f"{_sentence(cause.text)}{known}{tried}{kernel}"


def sections(numerics: Numerics) -> Iterator[tuple[str, list[Row], list[Place | None], str]]:
    """Heading, rows, source line of each row, and remark of each table."""
    births = list(numerics.nonfinite)
    if births:
        left = _more(len(births))
        yield (
            "Where NaN and Inf are born",
            [nonfinite_row(birth) for birth in births[:SHOWN]],
            [birth.location for birth in births[:SHOWN]],
            left,
        )
    told = [row for row in numerics.operations if _is_informative(row)]
    if told:
        silent = len(numerics.operations) - len(told)
        remark = f"Left out: operations that move or convert numbers ({silent:,})." if silent else ""
        shown = _shown(told)
        yield (
            "Operations",
            [operation_row(row) for row in shown],
            [row.location for row in shown],
            " ".join(filter(None, [_more(len(told)), remark, ABOUT])),
        )


def _shown(rows: list[ComparedOperation]) -> list[ComparedOperation]:
    """At most ``SHOWN`` rows: differing rows, then the first others, in program order."""
    if len(rows) <= SHOWN:
        return rows
    differing = [row for row in rows if row.differing][:SHOWN]
    kept = {id(row) for row in differing}
    for row in rows:
        if len(kept) >= SHOWN:
            break
        kept.add(id(row))
    return [row for row in rows if id(row) in kept]


def _more(count: int) -> str:
    return f"{count - SHOWN:,} more are in `operations`." if count > SHOWN else ""


def _is_informative(row: ComparedOperation) -> bool:
    return bool(row.differing) or row.name not in MOVING


def _without_empty(rows: Sequence[Row]) -> list[Row]:
    used = [name for name in rows[0] if any(row[name] for row in rows)]
    return [{name: row[name] for name in used} for row in rows]


def _where(place: Place | None) -> str:
    return place.label if place is not None else "an unknown line"


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


# ---- Text --------------------------------------------------------------------------------------------------


def to_text(numerics: Numerics) -> str:
    """The numerics as text."""
    parts = ["\n".join([headline(numerics), *findings(numerics)])]
    for heading, rows, places, remark in sections(numerics):
        lines = _columns(_without_repeated_lines(_without_empty(rows), places))
        parts.append("\n".join([heading, *(f"  {line}" for line in [*lines, *filter(None, [remark])])]))
    if numerics.notes:
        parts.append("\n".join(map(_sentence, numerics.notes)))
    return escape_invisible("\n\n".join(parts))


def _without_repeated_lines(rows: list[Row], places: Sequence[Place | None]) -> list[Row]:
    """The rows without the line of the row above."""
    before: Any = object()
    found = []
    for row, place in zip(rows, places, strict=True):
        if "line" in row:
            row = {**row, "line": "" if place == before else clip(row["line"], _WIDE)}
        found.append(row)
        before = place
    return found


def _columns(rows: list[Row]) -> list[str]:
    names = list(rows[0])
    table = [names, *([escape_invisible(row[name]) for name in names] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(cells, widths)).rstrip() for cells in table]


# ---- HTML --------------------------------------------------------------------------------------------------


def to_html(numerics: Numerics) -> str:
    """The numerics as HTML."""
    parts = []
    for heading, rows, places, remark in sections(numerics):
        body = _table(_without_repeated_lines(_without_empty(rows), places)) + (
            _soft(remark) if remark else ""
        )
        parts.append(fill_template("section", open="open", title=document.escaped(heading), body=body))
    return fill_template(
        "numerics",
        colour=_APART if _is_notable(numerics) else _AGREE,
        headline=document.sentence_html(headline(numerics)),
        findings="".join(f"<div>{document.sentence_html(sentence)}</div>" for sentence in findings(numerics)),
        sections="\n".join(parts),
        notes="".join(_soft(_sentence(note)) for note in numerics.notes),
    )


def _is_notable(numerics: Numerics) -> bool:
    """Whether values part, or are not finite because of an operation, or are NaN."""
    infinite = any(row.ulps == float("inf") for row in numerics.operations if row.seen == RESULT)
    return numerics.first is not None or bool(len(numerics.nonfinite) or numerics.nan_results[0]) or infinite


def _table(rows: list[Row]) -> str:
    head = "".join(f'<th style="{_HEAD}">{document.escaped(name)}</th>' for name in rows[0])
    body = ""
    for row in rows:
        parts = ' style="background:rgba(213,94,0,0.14)"' if row.get("verdict") == "parts" else ""
        body += f"<tr{parts}>{''.join(_cell(name, text) for name, text in row.items())}</tr>"
    inner = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    first = document.escaped(next(iter(rows[0])))
    return scrolling(f'<table style="{_TABLE}">{inner}</table>', f"table of {first}")


def _cell(name: str, text: str) -> str:
    if name == "line" and ": " in text:
        label, _, source = text.partition(": ")
        code = document.escaped(source)
        return f'<td style="{_CELL};white-space:nowrap">{document.escaped(label)} <code>{code}</code></td>'
    return f'<td style="{_CELL};white-space:nowrap">{document.sentence_html(text)}</td>'


def _soft(sentence: str) -> str:
    return f'<div style="{_SOFT}">{document.sentence_html(sentence)}</div>'
