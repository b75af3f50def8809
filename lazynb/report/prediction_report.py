"""Questions of ``%%predict``, and comparisons of the answers with XLA's kernels.

``%%predict`` asks which lines share a kernel, ``%%predict --kernel`` which lines are in one kernel. The text
forms are for frontends without widgets.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from html import escape
from typing import Any

from lazynb.compare.differences.kernel_prediction import (
    ComparedKernel,
    ComparedPrediction,
    Kernel,
    LineVerdict,
    Verdict,
)
from lazynb.report.graph.graph_html import fill_template
from lazynb.running.record_table import plural
from lazynb.user_code.source_lines import Place, Place as NodePlace
from lazynb.user_code.text_format import escape_invisible

# ---- Which lines share a kernel ----------------------------------------------------------------------------


class SharedKernelQuestion:
    """The question which lines will share a kernel; its text says how to answer.

    Arguments:
      places: the lines.
    """

    def __init__(self, places: Sequence[NodePlace]):
        self._places = tuple(places)

    def __repr__(self) -> str:
        lines = [f"{place.line:>5}  {place.text}" for place in self._places]
        numbers = " | ".join(str(place.line) for place in self._places)
        answer = f"Answer in the magic's line, | between kernels, such as %%predict {numbers}"
        if not lines:
            return "No line of this cell recorded an operation, so there is no kernel to predict."
        return "\n".join(["Which lines will share a kernel?", *lines, answer])


class PredictionResult:
    """Shows a comparison: a row for each pair of lines where one reads a result of the other."""

    def __init__(self, comparison: ComparedPrediction):
        self.comparison = comparison

    def headline(self) -> str:
        """For example ``3 of 4 right``."""
        verdicts = self.comparison.verdicts
        if not verdicts:
            return "No line uses what another one gives: there is nothing to predict"
        return f"{self.comparison.right} of {len(verdicts)} right"

    def splits(self) -> list[str]:
        """A sentence for each line that was compiled to several kernels."""
        sentences = []
        for split in self.comparison.splits:
            reasons = dict.fromkeys(f"{boundary.text} ({boundary.label})" for boundary in split.boundaries)
            kernels = plural(len(split.clusters), "kernel")
            sentences.append(f"Line {split.place.line} itself became {kernels}: {'; '.join(reasons)}.")
        return sentences

    def __repr__(self) -> str:
        lines = [self.headline()]
        for verdict in self.comparison.verdicts:
            word = "right" if verdict.right else "WRONG"
            pair = f"line {verdict.producer.line} -> line {verdict.consumer.line}"
            lines.append(f"  {word}  {pair}: you expected {_kernels(verdict.expected)}. {verdict.text}")
        lines += [f"  {split}" for split in self.splits()]
        return "\n".join(lines)

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        return {"text/plain": repr(self), "text/html": self._html()}

    def _html(self) -> str:
        rows = "\n".join(map(_row, self.comparison.verdicts))
        splits = "".join(f'<div style="margin-top:6px">{words_html(text)}</div>' for text in self.splits())
        return fill_template("prediction", headline=escape(self.headline()), rows=rows, splits=splits)


def _row(verdict: Verdict) -> str:
    """A pair of lines with the verdict below it; a column would be cut off on a narrow page."""
    pair = f"{line_html(verdict.producer)} <span>→</span> {line_html(verdict.consumer)}"
    said = f"You expected {_kernels(verdict.expected)}. {words_html(verdict.text)}"
    return row_html(verdict.right, pair, said)


def row_html(right: bool, head: str, said: str) -> str:
    """A verdict: its sign, the lines, and the sentence below them."""
    sign = "✓ right" if right else "✗ wrong"
    return f'<div style="margin:0 0 8px"><div><b>{sign}</b>&ensp;{head}</div><div>{said}</div></div>'


def line_html(place: Place) -> str:
    """The number and the code of a line."""
    text = escape(escape_invisible(place.text))
    code = f'<code style="white-space:pre-wrap;overflow-wrap:anywhere">{text}</code>'
    return f"<span>line {place.line}</span>&nbsp; {code}"


def words_html(text: str) -> str:
    """A sentence as HTML; text in backticks becomes ``<code>``."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(escape_invisible(text)))


def _kernels(together: bool) -> str:
    return "one kernel" if together else "two kernels"


# ---- Which lines are in one kernel -------------------------------------------------------------------------


class KernelQuestion:
    """The question which lines are in a kernel; its text says how to answer."""

    def __init__(self, kernel: Kernel, places: Sequence[Place]):
        self.kernel = kernel
        self.places = tuple(places)

    @property
    def title(self) -> str:
        """The question."""
        return f"Which of your lines are in the kernel {self.kernel.label}?"

    def __repr__(self) -> str:
        return "\n".join(
            [
                self.title,
                *(f"{place.line:>5}  {place.text}" for place in self.places),
                "The kernel, as XLA wrote it:",
                *(f"  {line}" for line in (self.kernel.hlo.rstrip() or "no text").splitlines()),
                f"Answer in the magic's line, such as %%predict --kernel {self.kernel.label} "
                f"{' '.join(str(place.line) for place in self.places[:2])}",
            ]
        )


class KernelPredictionResult:
    """Shows a comparison: a row for each line."""

    def __init__(self, comparison: ComparedKernel):
        self.comparison = comparison

    def headline(self) -> str:
        """For example ``Kernel c1: 3 of 4 lines right``."""
        verdicts = self.comparison.verdicts
        return (
            f"Kernel {self.comparison.kernel.label}: {self.comparison.right} of {len(verdicts)} lines right"
        )

    def __repr__(self) -> str:
        lines = [self.headline()]
        for verdict in self.comparison.verdicts:
            word = "right" if verdict.right else "WRONG"
            lines.append(f"  {word}  line {verdict.place.line} {_verdict_text(verdict)} {verdict.text}")
        return "\n".join(lines)

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        rows = "\n".join(map(_kernel_row, self.comparison.verdicts))
        html = fill_template("prediction", headline=escape(self.headline()), rows=rows, splits="")
        return {"text/plain": repr(self), "text/html": html}


def _kernel_row(verdict: LineVerdict) -> str:
    said = words_html(f"The line {_verdict_text(verdict)} {verdict.text}")
    return row_html(verdict.right, line_html(verdict.place), said)


def _verdict_text(verdict: LineVerdict) -> str:
    """``is in it, as you expected.``"""
    inside = "is in it" if verdict.inside else "is not in it"
    return f"{inside}, {'as you expected' if verdict.right else 'and you expected otherwise'}."
