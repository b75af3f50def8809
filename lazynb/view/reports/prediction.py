"""A prediction beside what XLA did, as a table."""

from __future__ import annotations

import re
from collections.abc import Collection
from html import escape
from typing import Any

from lazynb.session.prediction import ComparedPrediction, Verdict
from lazynb.source import Place
from lazynb.view.graph.html import fill
from lazynb.view.words import clip, plain, plural

_CELL = "text-align:left;vertical-align:top;padding:3px 12px 3px 0;max-width:46em;white-space:normal"
_HEAD = ("from", "to", "you expected", "XLA made", "")


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
        rows = [_row(verdict) for verdict in self.comparison.verdicts]
        head = "".join(_cell(name, "th") for name in _HEAD) if rows else ""
        splits = "".join(f'<div style="margin-top:6px">{_words(text)}</div>' for text in self.splits())
        headline = escape(self.headline())
        return fill("prediction", headline=headline, rows="\n".join(rows), splits=splits, head=head)


def _row(verdict: Verdict) -> str:
    short = (
        _line(verdict.producer),
        _line(verdict.consumer),
        _kernels(verdict.expected),
        _kernels(verdict.fused),
    )
    return f"<tr>{''.join(map(_cell, short))}{_reason(verdict)}</tr>"


def _cell(text: str, tag: str = "td") -> str:
    return f'<{tag} style="{_CELL};white-space:nowrap">{text}</{tag}>'


def _line(place: Place) -> str:
    text = escape(plain(clip(place.text, 48)))
    return f'{place.line}&nbsp; <code style="white-space:nowrap">{text}</code>'


def _reason(verdict: Verdict) -> str:
    sign = "✓" if verdict.right else "✗"
    return f'<td style="{_CELL}"><b>{sign}</b>&nbsp;{_words(verdict.text)}</td>'


def _words(text: str) -> str:
    """A sentence, with what stands in backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(plain(text)))


def _kernels(together: bool) -> str:
    return "one kernel" if together else "two kernels"
