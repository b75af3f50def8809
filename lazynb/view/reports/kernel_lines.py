"""A kernel as a question, and a prediction of its lines beside what XLA did."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from html import escape
from typing import Any

from lazynb.session.kernel_lines import ComparedKernel, Kernel, LineVerdict
from lazynb.source import Place
from lazynb.view.graph.html import fill
from lazynb.view.reports.prediction import line_html, row_html, words_html


class KernelQuestion:
    """Asks which lines are in a kernel; as text, what to write to answer."""

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


class KernelReveal:
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
            lines.append(f"  {word}  line {verdict.place.line} {_said(verdict)} {verdict.text}")
        return "\n".join(lines)

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        rows = "\n".join(map(_row, self.comparison.verdicts))
        html = fill("prediction", headline=escape(self.headline()), rows=rows, splits="")
        return {"text/plain": repr(self), "text/html": html}


def _row(verdict: LineVerdict) -> str:
    said = words_html(f"The line {_said(verdict)} {verdict.text}")
    return row_html(verdict.right, line_html(verdict.place), said)


def _said(verdict: LineVerdict) -> str:
    """``is in it, as you expected.``"""
    inside = "is in it" if verdict.inside else "is not in it"
    return f"{inside}, {'as you expected' if verdict.right else 'and you expected otherwise'}."
