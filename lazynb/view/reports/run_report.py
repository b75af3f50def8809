"""A program's run as one HTML page without a network: figures, trace breaks, compilations, and the lines they
are of.

Needs Jinja2, which lazynb itself does without: who imports this module has made sure of it.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jinja2
from markupsafe import Markup, escape

from lazynb.execute.breaks import TraceBreak
from lazynb.session.budget import Limits, Used
from lazynb.session.compiled import Compiled
from lazynb.session.run_counter import RunCounter
from lazynb.source import Place
from lazynb.units import duration
from lazynb.view import style
from lazynb.view.reports.sources import Mark, sources
from lazynb.view.words import clip, plain, plural

_ROWS = 200  # of each table
_CAUSES = 6  # of a compilation


@dataclasses.dataclass(frozen=True)
class Report:
    """What is told of a run.

    Attributes:
      program, arguments: what ran.
      status: its exit status.
      error, where: what ended it, and in which cell; empty where nothing did.
      seconds: how long it took.
      counter, used: what it ran, compiled and broke.
      limits, verdict: its budget, and what the budget says; empty where it was kept.
    """

    program: str
    arguments: Sequence[str]
    status: int
    error: str
    where: str
    seconds: float
    counter: RunCounter
    used: Used
    limits: Limits
    verdict: str

    def html(self) -> str:
        """The page."""
        used, name = self.used, Path(self.program).name
        return (
            _templates()
            .get_template("report.html")
            .render(
                title=f"lazynb: {name}",
                name=name,
                command=self._command(),
                state=self._state(),
                about=self._about(),
                verdict=self._over(),
                figures=list(self._figures()),
                breaks=[_break(one, used.breaks[0].seconds) for one in used.breaks[:_ROWS]],
                more_breaks=max(0, len(used.breaks) - _ROWS),
                compilations=[_compiled(one) for one in used.compilations[:_ROWS]],
                more_compilations=max(0, len(used.compilations) - _ROWS),
                kernels=list(self._kernels()),
                sources=sources(_marks(used)),
                style=style,
            )
        )

    def save(self, path: Path) -> None:
        """Writes the page.

        Raises:
          OSError: it cannot be written.
        """
        path.write_text(self.html(), encoding="utf-8", errors="replace")

    def _command(self) -> str:
        return shlex.join([self.program, *self.arguments])

    def _about(self) -> str:
        device = (
            f" on {jax.default_backend().upper()}" if self.counter.runs else ""
        )  # asking starts JAX's backend
        return (
            f"{time.strftime('%Y-%m-%d %H:%M')} · {duration(self.seconds)} · JAX {jax.__version__}{device} · "
            f"Python {sys.version.split()[0]}"
        )

    def _state(self) -> tuple[str, str]:
        """A word for how it ended, and the sentence behind it."""
        if self.error:
            return "failed", f"{self.where}: {self.error}" if self.where else self.error
        if self.status:
            return "failed", f"exit status {self.status}"
        if self.verdict:
            return "over budget", self.verdict.partition("\n")[0].removeprefix("over budget: ")
        return "within budget" if self.limits.asked() else "finished", ""

    def _over(self) -> list[dict[str, Any]]:
        """A row for each limit."""
        there = {
            "breaks": self.used.broken,
            "compiles": self.used.compiles,
            "kernels": self.used.kernels.total if self.used.kernels is not None else 0,
        }
        words = {"breaks": "trace breaks", "compiles": "compilations", "kernels": "kernel launches"}
        return [
            {"what": words[name], "there": there[name], "limit": limit, "over": there[name] > limit}
            for name, limit in self.limits.asked().items()
        ]

    def _figures(self) -> Iterator[tuple[str, str, str]]:
        """Number, what it counts, and what more there is to say."""
        counter, used = self.counter, self.used
        yield *_figure(counter.operations, "operation"), f"in {plural(counter.runs, 'run')}"
        yield (
            *_figure(used.broken, "trace break"),
            f"{duration(used.breaks.seconds)} in {plural(len(used.breaks), 'place')}" if used.broken else "",
        )
        loaded = f", {counter.loaded:,} loaded from disk" if counter.loaded else ""
        yield *_figure(used.compiles, "compilation"), f"{duration(counter.compile_seconds)}{loaded}"
        yield *_figure(counter.hits, "cache hit"), "runs that compiled nothing"
        if used.kernels is not None:
            unknown = (
                f"{plural(used.kernels.unknown, 'program')} not counted"
                if used.kernels.unknown
                else "launched"
            )
            yield *_figure(used.kernels.total, "kernel"), unknown

    def _kernels(self) -> Iterator[dict[str, Any]]:
        for one in self.used.kernels.programs[:_ROWS] if self.used.kernels is not None else ():
            yield {
                "place": _place(one.location),
                "kernels": "unknown" if one.kernels is None else f"{one.kernels:,}",
                "runs": one.runs,
                "operations": one.operations,
                "launches": "unknown" if one.kernels is None else f"{one.kernels * one.runs:,}",
            }


def _figure(number: int, noun: str) -> tuple[str, str]:
    shown, _, words = plural(number, noun).partition(" ")
    return shown, words


def _break(one: TraceBreak, most: float) -> dict[str, Any]:
    return {
        "code": one.code,
        "kind": one.kind,
        "place": _place(one.location),
        "count": one.count,
        "operations": one.ops,
        "compiles": one.compiles,
        "time": duration(one.seconds),
        "share": round(100 * one.seconds / most, 1) if most else 0,
        "text": one.text,
        "hint": one.hint,
        "library": one.library.label if one.library is not None else "",
    }


def _compiled(one: Compiled) -> dict[str, Any]:
    return {
        "place": _place(one.location),
        "count": one.count,
        "operations": one.operations,
        "time": duration(one.seconds),
        "causes": one.causes[:_CAUSES],
        "more_causes": max(0, len(one.causes) - _CAUSES),
        "loaded": one.loaded,
    }


def _place(place: Place) -> dict[str, str]:
    return {"label": place.label, "text": clip(place.text, 90), "anchor": anchor(place)}


def anchor(place: Place) -> str:
    """The id of the line in the page; empty where it is not shown."""
    return Mark.anchor(place) if place.file else ""


def _marks(used: Used) -> list[Mark]:
    """The breaks, and for each line the compilations together."""
    found = [
        Mark(
            one.location,
            "break",
            f"{one.code} {one.kind}{_times(one.count)}",
            duration(one.seconds),
            (one.hint,),
        )
        for one in used.breaks[:_ROWS]
    ]
    by_line: dict[Place, list[Compiled]] = {}
    for one in used.compilations[:_ROWS]:
        by_line.setdefault(one.location, []).append(one)
    for place, several in by_line.items():
        found.append(
            Mark(
                place,
                "compile",
                f"{_made(several)}{_times(sum(one.count for one in several))}",
                duration(sum(one.seconds for one in several)),
                tuple(_first_cures(several)),
            )
        )
    return found


def _made(rows: Sequence[Compiled]) -> str:
    return "loaded" if all(one.loaded == one.count for one in rows) else "compiled"


def _first_cures(rows: Sequence[Compiled]) -> Iterator[str]:
    """For each row what to do about the cause that matters most."""
    for one in rows:
        if one.causes and one.causes[0].cure:
            yield one.causes[0].cure


def _times(count: int) -> str:
    return f" ×{count:,}" if count > 1 else ""


def _words(text: str) -> Markup:
    """A sentence, with what stands in backticks as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(plain(text)))))


@cache
def _templates() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("lazynb.view"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: plain(value) if type(value) is str else value,
    )
    made.filters.update(count=lambda number: f"{number:,}", words=_words)
    return made
