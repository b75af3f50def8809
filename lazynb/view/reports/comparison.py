"""Two compilations compared, as text, HTML and JSON."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Collection
from html import escape
from pathlib import Path
from typing import Any

from lazynb.compare.change import Change
from lazynb.compare.difference import Difference, listed
from lazynb.compare.flags import sentence
from lazynb.compare.matching import LinePair
from lazynb.compare.memory_changes import peak
from lazynb.compare.side import Line, Side
from lazynb.execute.records import SHOWN, Records, text_table
from lazynb.units import number, short_duration, size
from lazynb.view.graph.html import fill
from lazynb.view.inspection.page import page_with
from lazynb.view.reports.beside import compared
from lazynb.view.reports.targets import html_table, linked
from lazynb.view.words import plain

NOTHING = "Nothing differs: the same operations on the same lines become the same kernels."


class Diff(Difference):
    """What differs between two compilations; displays as text and as HTML.

    Attributes:
      before, now: the two sides, each with its ``name``.
    """

    def to_dicts(self) -> list[dict[str, Any]]:
        """A dictionary for each of ``changes``: plain data."""
        return self.changes.to_dicts()

    def to_json(self) -> str:
        """The headline, both sides' totals and flags, the changes and the passes, as JSON."""
        data = {
            "before": _total(self.before),
            "now": _total(self.now),
            "flags": self.flags.to_dicts(),
            "headline": self.headline,
            "changes": self.to_dicts(),
            "passes": self.passes.to_dicts(),
        }
        return json.dumps(data, indent=1)

    def save_html(self, path: str | os.PathLike[str]) -> Path:
        """Writes it as one HTML page that works offline, with both inspectors side by side.

        Raises:
          OSError: the file cannot be written.
        """
        target = Path(path)
        title = f"{self.before.name} and {self.now.name}"
        page = page_with(compared(self), "", title, above=self.to_html())
        target.write_text(page, encoding="utf-8", errors="replace")
        return target

    def __repr__(self) -> str:
        findings = [f"{place}. {finding}" for place, finding in enumerate(self.headline, 1)] or [NOTHING]
        lines = [*filter(None, [sentence(self.before, self.now)]), *findings]
        lines += ["", *text_table(self._totals())]
        if rows := [row for row in map(self._figures, self.changes) if row]:
            lines += ["", *text_table(rows[:SHOWN])]
        others = [self.sentence(change) for change in self.changes[len(self.headline) : SHOWN]]
        if others:
            lines += ["", "What else differs:", *(f"- {sentence}" for sentence in others)]
        if (left := len(self.changes) - SHOWN) > 0:
            lines.append(f"... {left:,} more in changes")
        if self.passes:
            lines += ["", "Passes of XLA that acted differently on a line:", *repr(self.passes).splitlines()]
        return "\n".join([*lines, *(f"\n{note}" for note in self._notes())])

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        return {"text/plain": repr(self), "text/html": self.to_html()}

    def to_html(self) -> str:
        """The findings, and tables of all that differs."""
        findings = "".join(f"<li>{escape(plain(finding))}</li>" for finding in self.headline)
        passes = ""
        if self.passes:
            head = f"Passes of XLA that acted differently on a line ({len(self.passes):,})"
            passes = f"<details><summary>{escape(head)}</summary>{_html(self.passes)}</details>"
        flags = sentence(self.before, self.now)
        return fill(
            "comparison",
            title=escape(plain(f"{self.before.name} → {self.now.name}")),
            flags=f"<div>{escape(plain(flags))}</div>" if flags else "",
            findings=f"<ol>{findings}</ol>" if findings else f"<p>{escape(NOTHING)}</p>",
            totals=html_table(self._totals()),
            changes=self._changes(),
            passes=passes,
            notes="".join(f"<p>{escape(plain(note))}</p>" for note in self._notes()),
        )

    def _changes(self) -> str:
        """The changes; their lines are buttons that select them in the inspectors on the page."""
        if not self.changes:
            return ""
        links = ["".join(map(self._linked, change.lines[:SHOWN])) for change in self.changes[:SHOWN]]
        return html_table(self.changes.rows(), links)

    def _linked(self, pair: LinePair) -> str:
        """A line as it is now; before it the line as it was, if that stands somewhere else."""
        spans: dict[tuple[str, int], str] = {}
        for side, line in ((self.before, pair.before), (self.now, pair.now)):
            if line is not None and (place := _place(side, line)) is not None:
                spans[place] = linked(line.label, *place)
        return f"<div>{' → '.join(spans.values()) or escape(plain(pair.shown.label))}</div>"

    def _figures(self, change: Change) -> dict[str, str]:
        """The row of a change of kernels in the table of figures; empty for another."""
        if change.now is None:
            return {}
        row = self._row(change)
        return {name: row[name] for name in ("lines", "kernels", "written", "FLOPs")}

    def _totals(self) -> list[dict[str, str]]:
        rows = [_row(self.before), _row(self.now)]
        filled = {name for row in rows for name, text in row.items() if text}
        return [{name: text for name, text in row.items() if name in filled or not name} for row in rows]

    def _notes(self) -> list[str]:
        """What cannot be said, and why."""
        notes = []
        if not self.changes and self.rewritten:
            where = listed(self.rewritten)
            may = "what comes from outside may differ: the values of inputs, such as a seed, or a callback"
            notes.append(f"{where}: written otherwise, with the same operations; {may}.")
        if self.before.is_timed != self.now.is_timed:
            timed, other = (self.before, self.now) if self.before.is_timed else (self.now, self.before)
            notes.append(
                f"Only {timed.name} was measured, so times are not compared: profile {other.name} too."
            )
        if not (self.before.figures.is_exact and self.now.figures.is_exact):
            notes.append("How often some loop turns is not known: its kernels count once.")
        if not (self.before.has_passes and self.now.has_passes):
            notes.append("What XLA's passes did is not kept of both, so passes are not compared.")
        elif self.before.compilers != self.now.compilers:
            notes.append("XLA has other passes for each kind of chip, so passes are not compared.")
        return notes


def _place(side: Side, line: Line) -> tuple[str, int] | None:
    """The file and number of a line; None if its file is not known."""
    if line.source is None:
        return None
    return side.data["sources"][line.source]["file"], line.number


def _total(side: Side) -> dict[str, Any]:
    memory = peak(side)
    return {
        "name": side.name,
        "about": side.about,
        "flags": side.flags,
        **dataclasses.asdict(side.figures),
        "peak_memory": None if memory is None else memory["peak_bytes"],
    }


def _row(side: Side) -> dict[str, str]:
    figures, memory = side.figures, peak(side)
    return {
        "": side.name,
        "compiled": side.about,
        "kernels": f"{figures.kernels:,}",
        "written": size(figures.written),
        "through memory": size(figures.moved),
        "FLOPs": number(figures.flops),
        "peak memory": "" if memory is None else size(memory["peak_bytes"]),
        "measured": "" if figures.seconds is None else short_duration(figures.seconds.median),
    }


def _html(records: Records[Any]) -> str:
    return html_table(records.rows())
