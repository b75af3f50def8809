"""A prediction beside what XLA did, as a table."""

from __future__ import annotations

import re
from collections.abc import Collection
from html import escape
from typing import Any

from lazynb.session.prediction import ComparedPrediction, Verdict
from lazynb.source import Place
from lazynb.view.graph.html import fill
from lazynb.view.words import plain, plural


class Reveal:
    """Shows a comparison: a row for each pair of lines of which one uses what the other gives."""

    def __init__(self, comparison: ComparedPrediction):
        self.comparison = comparison

    def headline(self) -> str:
        """For example ``3 of 4 right``."""
        verdicts = self.comparison.verdicts
        if not verdicts:
            return "No line uses what another one gives: there is nothing to predict"
        return f"{self.comparison.right} of {len(verdicts)} right"

    def splits(self) -> list[str]:
        """A sentence for each line that became several kernels."""
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
        return fill("prediction", headline=escape(self.headline()), rows=rows, splits=splits)


def _row(verdict: Verdict) -> str:
    """A pair of lines, and below it what became of it: no column that a narrow page could cut off."""
    pair = f"{line_html(verdict.producer)} <span>→</span> {line_html(verdict.consumer)}"
    said = f"You expected {_kernels(verdict.expected)}. {words_html(verdict.text)}"
    return row_html(verdict.right, pair, said)


def row_html(right: bool, head: str, said: str) -> str:
    """Whether an expectation held, of what, and what became of it."""
    sign = "✓ right" if right else "✗ wrong"
    return f'<div style="margin:0 0 8px"><div><b>{sign}</b>&ensp;{head}</div><div>{said}</div></div>'


def line_html(place: Place) -> str:
    """A line: its number and its code."""
    code = f'<code style="white-space:pre-wrap;overflow-wrap:anywhere">{escape(plain(place.text))}</code>'
    return f"<span>line {place.line}</span>&nbsp; {code}"


def words_html(text: str) -> str:
    """A sentence, with what stands in backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(plain(text)))


def _kernels(together: bool) -> str:
    return "one kernel" if together else "two kernels"
