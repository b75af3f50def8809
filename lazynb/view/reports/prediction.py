"""A prediction beside what XLA did, as a table."""

from __future__ import annotations

import re
from collections.abc import Collection
from html import escape
from typing import Any

from lazynb.session.prediction import Comparison, Verdict
from lazynb.view.graph.html import fill
from lazynb.view.words import clip, plain, plural

_CELL = "text-align:left;vertical-align:top;padding:3px 12px 3px 0;max-width:46em;white-space:normal"
_HEAD = ("from", "to", "you expected", "XLA made", "")


class Reveal:
    """Shows a comparison: a row for each pair of lines of which one uses what the other gives."""

    def __init__(self, comparison: Comparison):
        self.comparison = comparison

    def headline(self) -> str:
        """For example ``3 of 4 right``."""
        verdicts = self.comparison.verdicts
        if not verdicts:
            return "No line uses what another one gives: there is nothing to predict"
        return f"{self.comparison.right} of {len(verdicts)} right"

    def splits(self) -> list[str]:
        """A sentence for each line that became several kernels."""
        return [
            f"Line {split.place.line} itself became {plural(len(split.clusters), 'kernel')}: "
            + "; ".join(dict.fromkeys(f"{one.text} ({one.label})" for one in split.boundaries))
            + "."
            for split in self.comparison.splits
        ]

    def __repr__(self) -> str:
        rows = [
            f"  {'right' if verdict.right else 'WRONG'}  line {verdict.producer.line} -> line "
            f"{verdict.consumer.line}: "
            f"you expected {_kernels(verdict.expected)}. {verdict.text}"
            for verdict in self.comparison.verdicts
        ]
        return "\n".join([self.headline(), *rows, *(f"  {split}" for split in self.splits())])

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        return {"text/plain": repr(self), "text/html": self._html()}

    def _html(self) -> str:
        def cell(text: str, tag: str = "td") -> str:
            return f'<{tag} style="{_CELL};white-space:nowrap">{text}</{tag}>'

        def why(verdict: Verdict) -> str:
            return (
                f'<td style="{_CELL}"><b>{"✓" if verdict.right else "✗"}</b>&nbsp;{_words(verdict.text)}</td>'
            )

        def line(place: Any) -> str:
            text = escape(plain(clip(place.text, 48)))
            return f'{place.line}&nbsp; <code style="white-space:nowrap">{text}</code>'

        def row(one: Verdict) -> str:
            short = (line(one.producer), line(one.consumer), _kernels(one.expected), _kernels(one.fused))
            return f"<tr>{''.join(map(cell, short))}{why(one)}</tr>"

        rows = [row(verdict) for verdict in self.comparison.verdicts]
        splits = "".join(f'<div style="margin-top:6px">{_words(text)}</div>' for text in self.splits())
        return fill(
            "prediction",
            headline=escape(self.headline()),
            rows="\n".join(rows),
            splits=splits,
            head="".join(cell(name, "th") for name in _HEAD) if rows else "",
        )


def _words(text: str) -> str:
    """A sentence, with what stands in backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(plain(text)))


def _kernels(together: bool) -> str:
    return "one kernel" if together else "two kernels"
