"""Tables that compare the compilations of one cell for several chips."""

from __future__ import annotations

import collections
from collections.abc import Collection, Mapping, Sequence
from html import escape
from typing import Any

from lazynb.compare.differences.variant_comparison import (
    LineDifference,
    LineKernels,
    ProgramFigures,
    kernels_of_no_line,
    line_differences,
    liveness,
    pairs,
    program_figures,
)
from lazynb.report.graph.graph_html import fill_template
from lazynb.report.inspection.inspection_phrases import kernels, with_loop_executions
from lazynb.report.inspection.source_data import file_key
from lazynb.report.short_text import clip
from lazynb.running.record_table import text_table
from lazynb.user_code.source_lines import Place
from lazynb.user_code.text_format import escape_invisible, short_duration, size
from lazynb.xla.compilation import Compilation


class TargetComparison:
    """The compilations of one cell for several targets and as ``jax.jit``, in the requested order.

    Attributes:
      compilations: one for each target.
      refused: by title of each target that cannot run the cell, the reason.
    """

    def __init__(self, compilations: Sequence[Compilation], refused: Mapping[str, str] | None = None):
        self.compilations = tuple(compilations)
        self.refused = dict(refused or {})
        self._found: list[LineDifference] | None = None

    def __getitem__(self, number: int) -> Compilation:
        return self.compilations[number]

    def __len__(self) -> int:
        return len(self.compilations)

    def to_dicts(self) -> list[dict[str, Any]]:
        """A dictionary for each target: title, kernels, bytes and seconds, or the reason of a refusal."""
        refused = [{"target": title, "refused": why} for title, why in self.refused.items()]
        return [*(vars(program_figures(one)) for one in self.compilations), *refused]

    def __repr__(self) -> str:
        lines = text_table(self._targets())
        if rows := self._lines():
            lines += ["", f"{_DIFFERING}:"]
            lines += text_table(rows)
        for sentence in self._sentences():
            lines += ["", sentence]
        for title, why in self.refused.items():
            lines += ["", f"Not compiled for {title}. {why}"]
        return "\n".join([*lines, "", self._note()])

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        return {"text/plain": repr(self), "text/html": self.to_html()}

    def to_html(self) -> str:
        """The tables."""
        rows = self._lines()
        heading = _DIFFERING if rows else "On each of them the same lines share a kernel"
        if not rows and any(map(kernels_of_no_line, self.compilations)):
            heading += ", as far as their lines are known"
        places = [difference.place for difference in self._differences()]
        links = [
            line_link(row["line"], place.file, place.line) for row, place in zip(rows, places, strict=True)
        ]
        return fill_template(
            "targets",
            targets=html_table(self._targets()),
            heading=escape(heading),
            lines=html_table(rows, links) if rows else "",
            alive="".join(_paragraph(sentence) for sentence in self._sentences()),
            refused="".join(_not_compiled(title, why) for title, why in self.refused.items()),
            note=escape(self._note()),
        )

    def _targets(self) -> list[dict[str, str]]:
        rows = []
        for one in map(program_figures, self.compilations):
            rows.append(
                {
                    "compiled for": one.target,
                    "kernels": kernels(one),
                    "transfers": f"{one.transfers:,}" if one.transfers else "",
                    "through memory": with_loop_executions(one.moved, one.moved_in_all, size),
                    "largest value written": size(one.largest),
                    "estimated time": _at_least(one),
                }
            )
        filled = {name for row in rows for name, text in row.items() if text}
        return [{name: text for name, text in row.items() if name in filled} for row in rows]

    def _note(self) -> str:
        here = all(one.target is None for one in self.compilations)
        jitted = any(one.form is not None for one in self.compilations)
        return " ".join([*([] if here else [ESTIMATED]), *([NOT_RUN] if jitted else []), COUNTED])

    def _sentences(self) -> list[str]:
        """On kernels of no known line, and why lazynb's programs write values that ``jax.jit``'s do not.
        Equal sentences are listed once."""
        sentences = [
            said for lazy, jitted in pairs(self.compilations) for said in liveness(lazy, jitted).sentences()
        ]
        unknown = [(program_figures(one).target, kernels_of_no_line(one)) for one in self.compilations]
        listed = ", ".join(f"{title} {count}" for title, count in unknown if count)
        if listed:
            sentences.insert(0, f"Kernels whose line is not known: {listed}.")
        return list(dict.fromkeys(sentences))

    def _lines(self) -> list[dict[str, str]]:
        titles = [program_figures(one).target for one in self.compilations]
        return [_line(each, titles) for each in self._differences()]

    def _differences(self) -> list[LineDifference]:
        if self._found is None:
            self._found = line_differences(self.compilations)
        return self._found


_DIFFERING = "Lines whose kernels differ between targets, and the lines with which they share them"
ESTIMATED = (
    "Estimated: no kernel is faster than its bytes by the chip's published bandwidth, or its operations by "
    "the chip's published peaks. A transfer brings a value to another memory."
)
NOT_RUN = (
    "What stands under jax.jit was compiled to be looked at; the values are those of lazynb's own program."
)
COUNTED = "What is in a loop counts as often as the loop turns, where XLA knows that."


def _paragraph(text: str) -> str:
    return f'<div style="margin:8px 0">{escape(escape_invisible(text))}</div>'


def _not_compiled(title: str, why: str) -> str:
    lines = "\n".join(map(escape_invisible, why.splitlines()))
    said = f"<b>Not compiled for {escape(escape_invisible(title))}.</b> {escape(lines)}"
    return f'<div style="margin:8px 0;white-space:pre-wrap">{said}</div>'


def _at_least(one: ProgramFigures) -> str:
    if one.seconds is None:
        return ""
    return f"at least {with_loop_executions(one.seconds, one.seconds_in_all, short_duration)}"


def _line(difference: LineDifference, titles: Sequence[str]) -> dict[str, str]:
    place = difference.place
    cells = {"line": f"{place.label}: {clip(place.text, 60)}"}
    for title, own in zip(titles, difference.kernels, strict=True):
        cells[title] = _kernels_of_line(place, own) if own is not None else "not known"
    return cells


def _kernels_of_line(place: Place, own: LineKernels) -> str:
    """``no kernel``, ``with 2, 3``, ``3 kernels, alone`` or ``3 kernels: 2 alone, 1 with 8``."""
    counts = collections.Counter(_other_lines(place, others) for others in own)
    if len(own) == 1:
        return next(iter(counts))
    if len(counts) == 1:
        return f"{len(own)} kernels, {next(iter(counts))}"
    parts = ", ".join(f"{count} {others}" for others, count in counts.items())
    return f"{len(own)} kernels: {parts}" if own else "no kernel"


def _other_lines(place: Place, others: Sequence[Place]) -> str:
    """``alone``, ``with 2, 3``; lines of other cells and files with these."""
    if not others:
        return "alone"
    own = place.cell, place.file
    named = [str(each.line) if (each.cell, each.file) == own else each.label for each in others]
    return f"with {', '.join(named)}"


def html_table(rows: Sequence[dict[str, str]], first: Sequence[str] = ()) -> str:
    """A table whose head is the keys of the rows.

    Arguments:
      first: HTML that replaces the first cell of each row.
    """
    head = "".join(f'<th style="{_CELL}">{escape(escape_invisible(name))}</th>' for name in rows[0])
    body = ""
    for number, row in enumerate(rows):
        text, *others = [escape(escape_invisible(cell)) for cell in row.values()]
        cells = [first[number] if first else text, *others]
        body += f"<tr>{''.join(map(_cell, cells))}</tr>"
    return (
        f'<table style="border-collapse:collapse"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    )


_CELL = "text-align:left;vertical-align:top;padding:3px 16px 3px 0"


def line_link(text: str, file: str, line: int) -> str:
    """Text that the inspectors on the page turn into a button that selects the line."""
    said = f'data-lazynb-file="{file_key(file)}" data-lazynb-line="{line}"'
    return f"<span {said}>{escape(escape_invisible(text))}</span>"


def _cell(html: str) -> str:
    return f'<td style="{_CELL}">{html}</td>'
