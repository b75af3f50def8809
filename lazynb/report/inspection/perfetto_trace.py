"""A profile as a trace that Perfetto opens: JSON of Chrome's trace events, a slice for each kernel that ran.

The fields are those of the "Trace Event Format": complete events (``ph`` is ``X``), times in microseconds,
and names of processes and threads as metadata (``M``). A run is a process there. All runs begin at 0, so that
they stand below one another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypedDict

from lazynb.errors import LazynbError
from lazynb.report.inspection import inspection_phrases
from lazynb.user_code.text_format import escape_invisible, size
from lazynb.version import __version__
from lazynb.xla.compilation import Compilation
from lazynb.xla.cost.profiler_events import Execution
from lazynb.xla.inspection_schema import Cluster, Inspection


class NotProfiled(LazynbError):
    """There is no profile of a compilation, or it has no times of kernels."""


class TraceEvent(TypedDict, total=False):
    """A slice, or the name of a process or thread. Times are in microseconds."""

    ph: str
    name: str
    cat: str
    pid: int
    tid: int
    ts: float
    dur: float
    args: dict[str, Any]


class PerfettoTrace(TypedDict):
    """What Perfetto (``ui.perfetto.dev``) and ``chrome://tracing`` open."""

    traceEvents: list[TraceEvent]
    displayTimeUnit: str
    otherData: dict[str, str]


def perfetto(compilation: Compilation, data: Inspection) -> PerfettoTrace:
    """The last profile of a compilation.

    Arguments:
      data: its inspection.

    Raises:
      NotProfiled: it was not profiled, or the profiler saw no kernel of it.
    """
    events: list[TraceEvent] = []
    said = {"lazynb": __version__}
    for number, trace in enumerate(compilation.traces):
        if trace.measured is None:
            raise NotProfiled("there is no profile yet: compilation.profile() takes one")
        own = {one["name"]: one for one in data["clusters"] if one["program"] == number}
        for run, executions in enumerate(trace.measured.timeline.of(own), 1):
            title = f"run {run}"
            if len(compilation.traces) > 1:
                title = f"program {number + 1}, {title}"
            events += _process(title, len({event["pid"] for event in events}) + 1, executions, own, data)
        said[f"program {number + 1}"] = trace.measured.text
        if trace.measured.timeline.left_out:
            said[f"program {number + 1}"] += f"; {trace.measured.timeline.left_out} runs left out"
    if not any(event["ph"] == "X" for event in events):
        raise NotProfiled("the profiler gave no times of kernels on this backend")
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": said}


class _Track(NamedTuple):
    """Slices of one thread that do not overlap but where one holds the other."""

    thread: int
    is_control: bool
    open: list[float]  # the ends of the slices that have not ended, the innermost last


def _process(
    title: str, pid: int, executions: Sequence[Execution], own: dict[str, Cluster], data: Inspection
) -> Iterator[TraceEvent]:
    """One run."""
    yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": title}}
    tracks: list[_Track] = []
    for one in executions:
        cluster = own[one.op]
        tid, is_new = _track(tracks, one, cluster["kind"] == "control")
        if is_new:
            name = f"{'loops of ' if cluster['kind'] == 'control' else ''}thread {one.thread}"
            yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}
        yield _slice(one, cluster, data, pid, tid)


def _track(tracks: list[_Track], one: Execution, is_control: bool) -> tuple[int, bool]:
    """The number of the track that a slice lies on, and whether it is a new one.

    A kernel that other threads finish may end after the next one of its thread began; such a slice gets a
    track of its own, since slices of a track must nest.
    """
    for number, track in enumerate(tracks, 1):
        if (track.thread, track.is_control) != (one.thread, is_control):
            continue
        while track.open and track.open[-1] <= one.start:
            track.open.pop()
        if not track.open or one.end <= track.open[-1]:
            track.open.append(one.end)
            return number, False
    tracks.append(_Track(one.thread, is_control, [one.end]))
    return len(tracks), True


def _slice(one: Execution, cluster: Cluster, data: Inspection, pid: int, tid: int) -> TraceEvent:
    lines, _ = inspection_phrases.lines_text(cluster, data)
    place, cost = cluster["place"], cluster["cost"]
    args = {
        "kernel": cluster["label"],
        "instruction": one.op,
        "kind": inspection_phrases.kind_text(cluster),
        "lines": lines,
        "source": place["text"] if place is not None else "",
        "operations": inspection_phrases.operations(cluster, data),
        "bytes in": size(cluster["input_bytes"]),
        "bytes out": size(cluster["output_bytes"]),
    }
    known: dict[str, Any] = {key: escape_invisible(value) for key, value in args.items() if value}
    if cost is not None and cost["flops"] is not None:
        known["FLOPs"] = cost["flops"]
    return {
        "ph": "X",
        "name": escape_invisible(f"{cluster['label']} {one.op}"),
        "cat": "loop" if cluster["kind"] == "control" else "kernel",
        "pid": pid,
        "tid": tid,
        "ts": round(one.start * 1e6, 3),
        "dur": round(round(one.end * 1e6, 3) - round(one.start * 1e6, 3), 3),
        "args": known,
    }
