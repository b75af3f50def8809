"""What compiling took, as the front end gets it: passes of one name together, lines with their places."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lazynb.record.snapshot.snapshot import Snapshot
from lazynb.view.inspection.schema import CompileTimes, LineTime, PassTime
from lazynb.view.inspection.sources import Sources
from lazynb.xla.program import CompiledTrace
from lazynb.xla.times.lines import INFERRED, LineWork, line_work
from lazynb.xla.times.passes import PassTime as Pass

_PASSES, _LINES = 24, 40


def compile_times(trace: CompiledTrace, snapshot: Snapshot, sources: Sources) -> CompileTimes:
    """What compiling a program took."""
    times = trace.compile_times
    places = {node.id: node.place for node in snapshot.nodes if node.place is not None}
    lines = line_work(trace, places) if times.xla is not None else []
    passes = sorted(_together(times.passes), key=lambda one: -one["seconds"])
    return {
        "lowering": times.lowering,
        "compiling": times.compiling,
        "loading": times.loading,
        "xla": times.xla,
        "stages": [(stage.name, stage.seconds) for stage in times.stages],
        "passes": passes[:_PASSES],
        "others": _sum("", passes[_PASSES:]) if len(passes) > _PASSES else None,
        "checking": times.checking,
        "writing": times.writing,
        "kernels": len(times.kernels),
        "lines": [_line(line, sources) for line in lines[:_LINES]],
        "lines_left": max(0, len(lines) - _LINES),
        "inferred": INFERRED if any(line.seconds is not None for line in lines) else "",
        "source": times.source,
        "why_not": times.why_not,
    }


def seconds_by_file(trace: CompiledTrace) -> dict[int, float]:
    """By number of the file that XLA wrote after it, the seconds of a pass without the writing."""
    passes = trace.compile_times.passes
    return {one.file: one.own for one in passes if one.file is not None and one.writing is not None}


def _together(passes: Iterable[Pass]) -> list[PassTime]:
    by_name: dict[str, list[PassTime]] = {}
    for one in passes:
        by_name.setdefault(one.name, []).append(
            {"name": one.name, "runs": 1, "changed": int(one.changed), "seconds": one.own}
        )
    return [_sum(name, each) for name, each in by_name.items()]


def _sum(name: str, passes: Sequence[PassTime]) -> PassTime:
    return {
        "name": name,
        "runs": sum(one["runs"] for one in passes),
        "changed": sum(one["changed"] for one in passes),
        "seconds": sum(one["seconds"] for one in passes),
    }


def _line(line: LineWork, sources: Sources) -> LineTime:
    return {
        "place": sources.place(line.place),
        "operations": line.operations,
        "before": line.before,
        "after": line.after,
        "compiled": line.compiled,
        "lowering": line.lowering,
        "seconds": line.seconds,
    }
