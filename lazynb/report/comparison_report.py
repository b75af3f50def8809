"""Comparison of two compilations: ``lazynb.diff`` as text, HTML and JSON, and the paired inspector."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Collection, Mapping
from html import escape
from pathlib import Path
from typing import Any

from lazynb.compare.differences.compilation_difference import CompilationDifference, listed
from lazynb.compare.differences.compilation_match import CompilationChange, LinePair
from lazynb.compare.differences.compilation_side import CompilationSide, Line, merge_inspections
from lazynb.compare.differences.compiler_changes import own_flags, sentence
from lazynb.compare.differences.memory_changes import peak
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.snapshot.variable_names import user_namespace
from lazynb.report.graph.graph_html import fill_template
from lazynb.report.graph.lazy_graph import Graph
from lazynb.report.inspection.inspection_data import inspection
from lazynb.report.inspection.inspection_file import (
    SavedInspections,
    dump_passes,
    jax_version_text,
    read_inspections,
)
from lazynb.report.inspection.inspection_page import render_page
from lazynb.report.inspection.program_reading import Reading, read_program
from lazynb.report.target_report import TargetComparison, html_table, line_link
from lazynb.running.flush import tensors_in
from lazynb.running.record_table import SHOWN, Records, text_table
from lazynb.running.time_log import analysis
from lazynb.user_code.source_files import NOTE
from lazynb.user_code.text_format import escape_invisible, number, short_duration, size
from lazynb.xla.compilation import Compilation
from lazynb.xla.compilation_builder import compile_tensors
from lazynb.xla.external.external_programs import SUFFIXES, compile_stage, is_jax_stage
from lazynb.xla.function_compilation import compile_function, is_function
from lazynb.xla.inspection_schema import Compared, SameLine

# ---- Data of the paired inspector --------------------------------------------------------------------------


def comparison_data(difference: CompilationDifference) -> Compared:
    """The data of the paired inspector."""
    before, now = difference.before, difference.now
    return {
        "version": 1,
        "names": [_name(before, now), _name(now, before)],
        "before": difference.before.data,
        "now": difference.now.data,
        "nodes": sorted(difference.matching.now_of.items()),
        "lines": _lines(difference),
    }


def _name(side: CompilationSide, other: CompilationSide) -> str:
    """The title of a side: its name, and the flags that only this side has."""
    return ", ".join(filter(None, (side.name, own_flags(side, other))))


def _lines(difference: CompilationDifference) -> list[SameLine]:
    """The pairs of matching lines whose source text is available on both sides."""
    matching = difference.matching
    pairs = {matching.of_before(line): None for line in difference.before.lines if line is not None}
    found: list[SameLine] = []
    for old, new in pairs:
        if old is None or new is None or old.source is None or new.source is None:
            continue
        found.append(
            {"before": old.source, "before_line": old.number, "now": new.source, "now_line": new.number}
        )
    return found


# ---- Sides of a comparison ---------------------------------------------------------------------------------

ACCEPTED = (
    "a Compilation, a function with its arguments as a tuple (f, x, y), a tensor or graph that is pending, "
    "what jax.jit lowered or compiled, or a file: one that lazynb run --save or lazynb inspect --json wrote, "
    "HLO (.hlo, .txt) or StableHLO (.mlir)"
)


def side_of(
    obj: Any, name: str, namespace: Mapping[str, Any], reading: Reading | None = None
) -> CompilationSide:
    """Compiles or reads ``obj`` as one side of a comparison. Runs no operation.

    Arguments:
      name: the name of the side; a file keeps its own name.
      namespace: the user's variables.
      reading: how to read a program file.

    Raises:
      TypeError: ``obj`` cannot be compared.
      ValueError: nothing of ``obj`` is pending, or the file has no inspection.
      OSError: the file cannot be read.
      LazynbError: ``obj`` cannot be compiled or read here; the message says why.
    """
    if isinstance(obj, str | os.PathLike):
        return _of_file(os.fspath(obj), reading)
    if isinstance(obj, SavedInspections):
        return _of_saved(obj, name)
    return _of_compilation(_compilation_of(obj, namespace), name)


def _of_saved(saved: SavedInspections, name: str) -> CompilationSide:
    return CompilationSide(merge_inspections(saved.inspections), name, saved.made_by, saved.flags)


def _of_file(path: str, reading: Reading | None) -> CompilationSide:
    name = os.path.basename(path)
    if path.endswith(SUFFIXES):
        entry = read_program(path, reading)
        return CompilationSide(entry.data, name, jax_version_text(), entry.flags)
    return _of_saved(read_inspections(path), name)


def _of_compilation(compilation: Compilation, name: str) -> CompilationSide:
    if not compilation.traces:
        raise ValueError(f"{name} has no program: {compilation.instead or 'nothing was pending'}")
    dump_passes(compilation)
    return CompilationSide(
        inspection(compilation, full=True, live=False), name, jax_version_text(), compilation.all_flags
    )


def _compilation_of(obj: Any, namespace: Mapping[str, Any]) -> Compilation:
    if isinstance(obj, Compilation):
        return obj
    if isinstance(obj, TargetComparison):
        raise TypeError(
            f"this holds {len(obj)} compilations, one for each target: compare two of them, such as "
            "both[0] and both[1]"
        )
    if is_jax_stage(obj):
        return compile_stage(obj)
    if isinstance(obj, tuple) and obj and is_function(obj[0]):
        return compile_function(obj[0], obj[1:], {}, namespace)
    if isinstance(obj, Graph):
        return _of_tensors(obj.pending(), namespace)
    if isinstance(obj, LazyTensor):
        return _of_tensors([obj], namespace)
    if is_function(obj):
        called = getattr(obj, "__name__", "f")
        raise TypeError(
            f"a function is compiled for its arguments: write ({called}, x, y) for {called}(x, y)"
        )
    raise TypeError(f"lazynb.diff compares two of these: {ACCEPTED}; not {type(obj).__name__}")


def _of_tensors(tensors: list[Any], namespace: Mapping[str, Any]) -> Compilation:
    if not any(tensor._pending is not None for tensor in tensors_in(tensors)):
        raise ValueError("nothing of this is pending any more, so there is nothing to compile")
    return compile_tensors(tensors, namespace)


NO_DIFFERENCE = "Nothing differs: the same operations on the same lines become the same kernels."


class Diff(CompilationDifference):
    """The differences between two compilations; displays as text and as HTML.

    Attributes:
      before, now: the two sides, each with its ``name``.
    """

    def to_dicts(self) -> list[dict[str, Any]]:
        """A dictionary of plain data for each of ``changes``."""
        return self.changes.to_dicts()

    def to_json(self) -> str:
        """The headline, the totals and flags of both sides, the changes, passes and notes, as JSON."""
        data = {
            "before": _total(self.before),
            "now": _total(self.now),
            "flags": self.flags.to_dicts(),
            "headline": self.headline,
            "changes": self.to_dicts(),
            "passes": self.passes.to_dicts(),
            "notes": self._notes(),
        }
        return json.dumps(data, indent=1)

    def save_html(self, path: str | os.PathLike[str]) -> Path:
        """Writes one HTML page that works offline, with both inspectors side by side.

        Raises:
          OSError: the file cannot be written.
        """
        target = Path(path)
        title = f"{self.before.name} and {self.now.name}"
        page = render_page(comparison_data(self), "", title, above=self.to_html())
        target.write_text(page, encoding="utf-8", errors="replace")
        return target

    def __repr__(self) -> str:
        findings = [f"{place}. {finding}" for place, finding in enumerate(self.headline, 1)] or [
            NO_DIFFERENCE
        ]
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
        """The findings, and tables of all differences."""
        findings = "".join(f"<li>{escape(escape_invisible(finding))}</li>" for finding in self.headline)
        passes = ""
        if self.passes:
            head = f"Passes of XLA that acted differently on a line ({len(self.passes):,})"
            passes = f"<details><summary>{escape(head)}</summary>{_html(self.passes)}</details>"
        flags = sentence(self.before, self.now)
        return fill_template(
            "comparison",
            title=escape(escape_invisible(f"{self.before.name} → {self.now.name}")),
            flags=f"<div>{escape(escape_invisible(flags))}</div>" if flags else "",
            findings=f"<ol>{findings}</ol>" if findings else f"<p>{escape(NO_DIFFERENCE)}</p>",
            totals=html_table(self._totals()),
            changes=self._changes(),
            passes=passes,
            notes="".join(f"<p>{escape(escape_invisible(note))}</p>" for note in self._notes()),
        )

    def _changes(self) -> str:
        """The table of changes; the inspectors on the page turn its lines into buttons."""
        if not self.changes:
            return ""
        links = ["".join(map(self._line_links, change.lines[:SHOWN])) for change in self.changes[:SHOWN]]
        return html_table(self.changes.rows(), links)

    def _line_links(self, pair: LinePair) -> str:
        """A link to the line now, after a link to the line before if that has another place."""
        spans: dict[tuple[str, int], str] = {}
        for side, line in ((self.before, pair.before), (self.now, pair.now)):
            if line is not None and (place := _place(side, line)) is not None:
                spans[place] = line_link(line.label, *place)
        return f"<div>{' → '.join(spans.values()) or escape(escape_invisible(pair.shown.label))}</div>"

    def _figures(self, change: CompilationChange) -> dict[str, str]:
        """The row of a change in the table of figures; empty if the change has no kernels now."""
        if change.now is None:
            return {}
        row = self._row(change)
        return {name: row[name] for name in ("lines", "kernels", "written", "FLOPs")}

    def _totals(self) -> list[dict[str, str]]:
        rows = [_row(self.before), _row(self.now)]
        filled = {name for row in rows for name, text in row.items() if text}
        return [{name: text for name, text in row.items() if name in filled or not name} for row in rows]

    def _notes(self) -> list[str]:
        notes = [
            f"{side.name}: {note}"
            for side in (self.before, self.now)
            for note in side.data["notes"]
            if note.startswith(NOTE)
        ]
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


def _place(side: CompilationSide, line: Line) -> tuple[str, int] | None:
    """The file and number of a line, or None if its file is unknown."""
    if line.source is None:
        return None
    return side.data["sources"][line.source]["file"], line.number


def _total(side: CompilationSide) -> dict[str, Any]:
    memory = peak(side)
    return {
        "name": side.name,
        "about": side.about,
        "flags": side.flags,
        **dataclasses.asdict(side.figures),
        "peak_memory": None if memory is None else memory["peak_bytes"],
    }


def _row(side: CompilationSide) -> dict[str, str]:
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


@analysis
def diff(
    a: Any,
    b: Any,
    *,
    source: str | os.PathLike[str] | None = None,
    limit_seconds: float | None = None,
    limit_memory: int | str | None = None,
) -> Diff:
    """Compares two compilations line by line: kernels, bytes, operations, memory, passes and times.

    Compiles ``a`` and ``b`` if necessary. Runs no operation.

    Arguments:
      a, b: before and now. Each is a :class:`Compilation`; a tuple of a function and its arguments or their
        types, ``(f, x, y)``; a pending :class:`LazyTensor` or :class:`Graph`; the result of
        ``jax.jit(f).lower(...)`` or of its ``.compile()``; or the path of a file: HLO (``.hlo``, ``.txt``),
        StableHLO (``.mlir``), or the output of ``lazynb run --save`` or ``lazynb inspect --json``, also from
        another JAX version or for another chip.
      source, limit_seconds, limit_memory: for program files, as in :func:`inspect`.

    Returns:
      A :class:`Diff`: ``changes`` (the most important first; empty if the programs are the same),
      ``headline`` (at most three sentences), ``passes`` (of XLA, that acted differently), ``to_dicts()``,
      ``to_json()``, ``save_html()``. Sizes are in bytes, times in seconds. Times are compared if both sides
      were profiled.

    Raises:
      TypeError: ``a`` or ``b`` cannot be compared.
      ValueError: ``a`` or ``b`` has no program, or the file has no inspection.
      OSError: a file cannot be read.
      TraceBreakError: a function needs a value.
      LazynbError: a file has no program, or a program for another machine; the message says which.
    """
    __tracebackhide__ = True
    namespace = user_namespace()
    reading = Reading(source, limit_seconds, limit_memory)
    return Diff(side_of(a, "before", namespace, reading), side_of(b, "now", namespace, reading))
