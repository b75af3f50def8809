"""How things stand, in one line: what is pending, compiled, hit, missed and broken."""

from __future__ import annotations

from lazynb.execute.breaks import breaks
from lazynb.execute.flush import execution
from lazynb.execute.records import plural
from lazynb.record.mode import is_lazy
from lazynb.record.trace import thread_trace
from lazynb.session.cache_info import cache_info
from lazynb.session.recording import recording_share
from lazynb.units import duration


def status(on: bool | None = None, strict: bool | None = None, recorder: str = "") -> str:
    """How things stand, in one line.

    Arguments:
      recorder: what is said of the recorder, after the mode.
      on: whether lazy mode is; None: whether it is in force now, which it never is between two cells.
      strict: whether a trace break is an error; None: whether it is now.
    """
    if on is None:
        on = is_lazy()
    if strict is None:
        strict = execution.local.strict
    mode = "lazy mode is off"
    if on:
        mode = "lazy mode is on (strict)" if strict else "lazy mode is on"
    if recorder:
        mode += f", {recorder}"
    info, broken = cache_info(), breaks()
    executables = plural(len(info), "executable")
    if info and info.memory:
        executables += f" ({info.memory} of heap, measured)"
    trace_breaks = plural(broken.total, "trace break")
    if broken.seconds:
        trace_breaks += f" ({duration(broken.seconds)} lost)"
    parts = [
        mode,
        plural(sum(len(trace) for trace in thread_trace().all_pending()), "operation") + " pending",
        executables,
        plural(info.hits, "hit"),
        plural(info.misses, "miss"),
        trace_breaks,
    ]
    hint = recording_share().hint
    if hint:
        parts.append(hint)
    return " · ".join(parts)
