"""The HTML page of a program's run: figures, trace breaks, compilations, and their source lines.

The page works offline. This module needs Jinja2, an optional dependency: importers check for it.
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

from lazynb.compare.costs.budget import Limits, Used
from lazynb.compare.misses.compilation_causes import Compiled
from lazynb.report import drawing_style
from lazynb.report.inspection.source_data import LineMark, sources
from lazynb.report.short_text import clip
from lazynb.running.break_log import TraceBreak
from lazynb.running.record_table import plural
from lazynb.running.run_statistics import JaxCompiled, RunCounter
from lazynb.user_code.source_lines import Place
from lazynb.user_code.text_format import duration, escape_invisible, size

_ROWS = 200  # of each table
_CAUSES = 6  # of a compilation


@dataclasses.dataclass(frozen=True)
class RunReport:
    """The facts of a run.

    Attributes:
      program, arguments: the command.
      status: exit status of the program.
      error, where: the exception that ended the run, and its cell; empty without an exception.
      seconds: wall time of the run.
      counter, used: counts of runs, compilations and trace breaks.
      limits, verdict: the budget, and its message; the message is empty if the budget was kept.
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
        template = _templates().get_template("report.html")
        return template.render(
            title=f"lazynb: {name}",
            name=name,
            command=self._command(),
            state=self._state(),
            about=self._about(),
            verdict=self._budget_rows(),
            figures=list(self._figures()),
            breaks=[_break(row, used.breaks[0].seconds) for row in used.breaks[:_ROWS]],
            more_breaks=max(0, len(used.breaks) - _ROWS),
            compilations=[_compiled(row) for row in used.compilations[:_ROWS]],
            more_compilations=max(0, len(used.compilations) - _ROWS),
            jax_compilations=[_compiled_by_jax(row) for row in self.counter.jax_log.rows()[:_ROWS]],
            kernels=list(self._kernels()),
            sources=sources(_line_marks(used)),
            style=drawing_style,
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
        about = [time.strftime("%Y-%m-%d %H:%M"), duration(self.seconds), f"JAX {jax.__version__}"]
        if self.counter.runs:  # jax.default_backend() would start the backend
            about[-1] += f" on {jax.default_backend().upper()}"
        about.append(f"Python {sys.version.split()[0]}")
        return " · ".join(about)

    def _state(self) -> tuple[str, str]:
        """A word for the outcome, and a sentence that explains it."""
        if self.error:
            return "failed", f"{self.where}: {self.error}" if self.where else self.error
        if self.status:
            return "failed", f"exit status {self.status}"
        if self.verdict:
            return "over budget", self.verdict.partition("\n")[0].removeprefix("over budget: ")
        return "within budget" if self.limits.asked() else "finished", ""

    def _budget_rows(self) -> list[dict[str, Any]]:
        counts, rows = self.used.counts, []
        for name, limit in self.limits.asked().items():
            there = round(counts[name])
            rows.append({"what": _LIMITS[name], "there": there, "limit": limit, "over": there > limit})
        return rows

    def _figures(self) -> Iterator[tuple[str, str, str]]:
        """Number, noun and remark of each figure."""
        counter, used = self.counter, self.used
        yield *_figure(counter.operations, "operation"), f"in {plural(counter.runs, 'run')}"
        lost = ""
        if used.broken:
            lost = f"{duration(used.breaks.seconds)} in {plural(len(used.breaks), 'place')}"
        yield *_figure(used.broken, "trace break"), lost
        spent = duration(counter.compile_seconds)
        if counter.loaded:
            spent += f", {counter.loaded:,} loaded from disk"
        yield *_figure(used.compiles, "compilation"), spent
        jax_itself = counter.jax_log.rows()
        if jax_itself:
            count = sum(row.count for row in jax_itself)
            yield f"{count:,}", "compiled by JAX itself", duration(sum(row.seconds for row in jax_itself))
        yield *_figure(counter.hits, "cache hit"), "runs that compiled nothing"
        if used.kernels is not None:
            launched = "launched"
            if used.kernels.unknown:
                launched = f"{plural(used.kernels.unknown, 'program')} not counted"
            yield *_figure(used.kernels.total, "kernel"), launched
        if used.footprints is not None and self.limits.bytes is not None:
            moved = used.footprints.moved
            yield size(moved.low), "through memory", "" if moved.exact is not None else "at least"
        if used.footprints is not None and self.limits.peak_memory is not None:
            yield size(used.footprints.largest), "of memory", "taken by the program that takes most"

    def _kernels(self) -> Iterator[dict[str, Any]]:
        if self.used.kernels is None:
            return
        for program in self.used.kernels.programs[:_ROWS]:
            kernels = launches = "unknown"
            if program.kernels is not None:
                kernels, launches = f"{program.kernels:,}", f"{program.kernels * program.runs:,}"
            yield {
                "place": _place(program.location),
                "kernels": kernels,
                "runs": program.runs,
                "operations": program.operations,
                "launches": launches,
            }


_LIMITS = {
    "breaks": "trace breaks",
    "compiles": "compilations",
    "kernels": "kernel launches",
    "bytes": "bytes through memory",
    "peak_memory": "bytes that a program takes",
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


def _compiled_by_jax(one: JaxCompiled) -> dict[str, Any]:
    return {
        "place": _place(one.location),
        "name": one.name,
        "count": one.count,
        "time": duration(one.seconds),
    }


def _place(place: Place) -> dict[str, str]:
    return {"label": place.label, "text": clip(place.text, 90), "anchor": anchor(place)}


def anchor(place: Place) -> str:
    """The id of the line in the page; empty if the page does not show the line."""
    return LineMark.anchor(place) if place.file else ""


def _line_marks(used: Used) -> list[LineMark]:
    """A mark for each trace break, and one for all compilations of each line."""
    line_marks = [_break_mark(row) for row in used.breaks[:_ROWS]]
    by_line: dict[Place, list[Compiled]] = {}
    for row in used.compilations[:_ROWS]:
        by_line.setdefault(row.location, []).append(row)
    line_marks += [_compilations_mark(place, rows) for place, rows in by_line.items()]
    return line_marks


def _break_mark(row: TraceBreak) -> LineMark:
    text = f"{row.code} {row.kind}{_times(row.count)}"
    return LineMark(row.location, "break", text, duration(row.seconds), (row.hint,))


def _compilations_mark(place: Place, rows: Sequence[Compiled]) -> LineMark:
    verb = "loaded" if all(row.loaded == row.count for row in rows) else "compiled"
    text = f"{verb}{_times(sum(row.count for row in rows))}"
    time_spent = duration(sum(row.seconds for row in rows))
    return LineMark(place, "compile", text, time_spent, tuple(_first_cures(rows)))


def _first_cures(rows: Sequence[Compiled]) -> Iterator[str]:
    for row in rows:
        if row.causes and row.causes[0].cure:
            yield row.causes[0].cure


def _times(count: int) -> str:
    return f" ×{count:,}" if count > 1 else ""


def _words(text: str) -> Markup:
    """A sentence as HTML; text in backticks becomes ``<code>``."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(escape_invisible(text)))))


@cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("lazynb.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: escape_invisible(value) if type(value) is str else value,
    )
    environment.filters.update(count=lambda number: f"{number:,}", words=_words)
    return environment
