"""Measured time of each kernel, from JAX's profiler, without TensorBoard.

Each run is its own profiler session, so runs need not be separated afterwards. A session costs about 1 ms and
12 us for each recorded kernel; during it, a kernel takes 0.3 us longer.
"""

from __future__ import annotations

import bisect
import collections
import contextlib
import dataclasses
import functools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax

from lazynb import jax_compat as jc
from lazynb.errors import LazynbError
from lazynb.xla.cost.profiler_events import Timeline
from lazynb.xla.hlo import module as hlo
from lazynb.xla.hlo.clusters import CONTROL

# What XLA:CPU records (0.10 and 0.12; verified by tests/xla/test_profile.py):
# - For each kernel an event with ``hlo_op``, the instruction's name. It lasts until the *call* of the kernel
#   returns. A parallel kernel may return before the other threads are done (copying 8 MB: 0.4 of 1.6 ms), and
#   a loop after its first iteration.
# - The thread that finishes a kernel first runs what waited for it, and only then records ``end: NAME``.
#   Hence a kernel that returned too early ended when that thread, in the task that records the end, started
#   the next kernel. (A task begins at ``StartRegion``.) The record may come after the profile has ended.
# - A small loop may be compiled as one function: then only the ``call`` around it has an event.


class ProfilerBusy(LazynbError):
    """Another profile is in progress: JAX's profiler takes one at a time."""


@dataclasses.dataclass(frozen=True, slots=True)
class Timing:
    """Seconds in one run of the program; for an instruction, the sum over its executions (a loop's body).

    Attributes:
      median, low, high: over the runs.
      runs: runs in which it was seen; a branch that was not taken is not seen.
      calls: number of executions in one run (median).
    """

    median: float
    low: float
    high: float
    runs: int
    calls: int = 1


@dataclasses.dataclass(frozen=True, slots=True)
class ProgramTimes:
    """Times of one compiled program.

    Attributes:
      module: the HLO module's name; programs of lazynb share one.
      timings: by HLO instruction; instructions without a kernel (a bitcast, a tuple) are absent.
    """

    module: str
    timings: dict[str, Timing]


@dataclasses.dataclass(frozen=True, slots=True)
class Profile:
    """Times of several runs of a function.

    Attributes:
      programs: the compiled programs that it ran, in the order in which they started.
      wall: the whole function until its results are computed; measured without the profiler, except for runs
        slower than :data:`SLOW_RUN_SECONDS`, in which the profiler makes no difference.
      text: how it was measured, and what is missing.
      module: name of the requested HLO module; empty for any.
      timeline: executions of each kernel.
    """

    programs: tuple[ProgramTimes, ...]
    wall: Timing
    text: str
    module: str = ""
    timeline: Timeline = dataclasses.field(default_factory=Timeline, compare=False)

    @property
    def timings(self) -> dict[str, Timing]:
        """By HLO instruction; of several programs (of the requested module), those of the slowest."""
        candidates = [program for program in self.programs if self.module in ("", program.module)]
        if not candidates:
            return {}
        return max(candidates, key=_seconds_of).timings


def _seconds_of(program: ProgramTimes) -> float:
    return sum(timing.median for timing in program.timings.values())


def profile(run: Callable[[], Any], runs: int = 5, module: hlo.Module | None = None) -> Profile:
    """Profile ``run``: one warm-up call, then ``runs`` calls, each until the returned arrays are computed.

    A quick ``run`` is called as often again without the profiler, for ``wall``.

    Args:
      run: called repeatedly; it must recreate what it donates, which counts only in ``wall``.
      module: optimised HLO of the measured program, if ``run`` also runs others (copies of what it donates).
        With it, multi-threaded loops are timed exactly; without it, until a thread recorded their end.

    Raises:
      ProfilerBusy: another profile is in progress, for example of ``jax.profiler``; it continues unharmed.
      ValueError: fewer than one run.
      What ``run`` raises; an interrupt ends the profile.
    """
    if runs < 1:
        raise ValueError(f"runs must be at least 1, not {runs}")
    _stop(jc.new_profile())  # raises before the first run if the profiler is in use
    is_slow = _seconds(run) > SLOW_RUN_SECONDS
    inside, walls, times, timeline = _nested_instructions(module), [], [], Timeline()
    for _ in range(runs):
        if not is_slow:
            walls.append(_seconds(run))
        seconds, data = _profiled(run)
        if is_slow:
            walls.append(seconds)
        events = list(_events(data))
        times.append(_run_times(events, inside))
        timeline.add(events)
    programs = tuple(_programs(times))
    text = f"JAX's profiler, {runs} runs after one to warm up, JAX {jax.__version__}"
    if not programs:
        text += "; it gave no times of kernels on this backend"
    name = module.name if module is not None else ""
    return Profile(programs, _timing(walls, [1] * runs), text, name, timeline)


def _profiled(run: Callable[[], Any]) -> tuple[float, bytes]:
    """Seconds of a run under the profiler, and the profile."""
    session = jc.new_profile()
    try:
        seconds = _seconds(run)
    except BaseException:
        with contextlib.suppress(RuntimeError):
            session.stop()  # a stored traceback would keep the session running
        raise
    return seconds, _stop(session)


SLOW_RUN_SECONDS = 0.05
"""A slower run is not repeated for ``wall``."""


def _seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    jax.block_until_ready(run())  # lets an interrupt through within 0.1 s
    return time.perf_counter() - start


def _stop(session: Any) -> bytes:
    try:
        return session.stop()
    except RuntimeError as error:
        raise ProfilerBusy(f"JAX's profiler is in use; end the other profile first ({error})") from None


# ---- Conversion of events to times -------------------------------------------------------------------------


@dataclasses.dataclass(slots=True)
class _KernelEvent:
    """One execution of a kernel. Times are in nanoseconds.

    Attributes:
      op: the HLO instruction.
      program: name of the HLO module, and a number that distinguishes programs.
      line: thread or stream.
      end_note: the record of its end: thread, start of that thread's task, and time.
    """

    op: str
    program: tuple[str, int]
    line: int
    start: float
    end: float
    end_note: tuple[int, float, float] | None = None


def _events(data: bytes) -> Iterator[_KernelEvent]:
    """The kernels of a profile. If devices have any, host events are only their launches and are left out."""
    planes = list(jax.profiler.ProfileData.from_serialized_xspace(data).planes)
    devices = list(_plane_events([plane for plane in planes if plane.name.startswith("/device:")]))
    yield from devices or _plane_events(planes)


def _plane_events(planes: Sequence[Any]) -> Iterator[_KernelEvent]:
    kernels: dict[Any, _KernelEvent] = {}  # by the number that links a kernel to the record of its end
    ends: list[tuple[Any, int, float]] = []
    tasks: dict[int, list[float]] = collections.defaultdict(list)
    for number, line in enumerate(line for plane in planes for line in plane.lines):
        for event in line.events:
            stats = {key: value for key, value in event.stats if key in _STATS}
            if "hlo_op" in stats:
                kernel = _kernel(event, stats, number)
                kernels[stats.get("_p")] = kernel
                yield kernel
            elif "_c" in stats and event.name.startswith("end: "):
                ends.append((stats["_c"], number, event.start_ns))
            elif event.name == "ThreadpoolListener::StartRegion":
                tasks[number].append(event.start_ns)
    _attach_end_notes(kernels, ends, tasks)


_STATS = {"hlo_op", "hlo_module", "program_id", "_p", "_c"}


def _kernel(event: Any, stats: dict[str, Any], line: int) -> _KernelEvent:
    program = (str(stats.get("hlo_module", "")), int(stats.get("program_id", 0)))
    return _KernelEvent(
        str(stats["hlo_op"]), program, line, event.start_ns, event.start_ns + event.duration_ns
    )


def _attach_end_notes(
    kernels: dict[Any, _KernelEvent], ends: Sequence[tuple[Any, int, float]], tasks: dict[int, list[float]]
) -> None:
    """Sets ``end_note`` of each kernel.

    Arguments:
      kernels: by the number that links them to the end records.
      ends: link, thread and time of each record.
      tasks: by thread, the start times of its tasks.
    """
    for starts in tasks.values():
        starts.sort()
    for link, line, at in ends:
        if link in kernels:
            starts = tasks.get(line, [])
            earlier = bisect.bisect(starts, at)
            since = starts[earlier - 1] if earlier else 0.0
            kernels[link].end_note = line, since, at


def _nested_instructions(module: hlo.Module | None) -> Callable[[str], frozenset[str]]:
    @functools.cache
    def inside(op: str) -> frozenset[str]:
        one = module.by_name.get(op) if module is not None else None
        if module is None or one is None or one.opcode not in CONTROL:
            return frozenset()
        inner = [
            other.name for name in one.calls for other in module.computations[name].instructions.values()
        ]
        return frozenset(inner).union(*map(inside, inner))

    return inside


_Times = dict[tuple[str, int], dict[str, tuple[float, int]]]
"""By program and instruction, seconds and number of executions in one run."""


def _run_times(events: list[_KernelEvent], inside: Callable[[str], frozenset[str]]) -> _Times:
    events.sort(key=lambda event: event.start)
    starts: dict[int, list[float]] = collections.defaultdict(list)
    for event in events:
        starts[event.line].append(event.start)
    control = [event for event in events if inside(event.op) or _holds_another(event, starts[event.line])]
    outer = {id(event) for event in control}
    if any(event.end_note for event in events):
        _fill_missing_ends(events, outer)
    for event in events:
        if id(event) not in outer:
            event.end = _kernel_end(event, starts)
    for event in control:
        event.end = _control_end(event, events, inside(event.op))
    times: _Times = {}
    for event in events:
        program = times.setdefault(event.program, {})
        seconds, calls = program.get(event.op, (0.0, 0))
        program[event.op] = seconds + (event.end - event.start) * 1e-9, calls + 1
    return times


def _fill_missing_ends(events: Sequence[_KernelEvent], control: set[int]) -> None:
    """Fills in end records that are missing because they came after the profile ended.
    The next kernel of any thread shows that a kernel ended. The next execution of a loop shows that the loop
    ended, even if its record comes later."""
    following = last = max(event.end for event in events)
    again: dict[str, float] = {}
    for event in reversed(events):
        is_control = id(event) in control
        if event.end_note is not None:
            line, since, at = event.end_note
        elif is_control:
            line, since, at = _NO_THREAD, 0.0, last
        else:
            line, since, at = _NO_THREAD, 0.0, max(event.end, following)
        if is_control:
            at = min(at, again.get(event.op, at))
        event.end_note = line, since, at
        again[event.op] = following = event.start


_NO_THREAD = -1


def _holds_another(event: _KernelEvent, starts: list[float]) -> bool:
    """Whether another event of the same thread starts within an event."""
    following = bisect.bisect_right(starts, event.start)
    return following < len(starts) and starts[following] < event.end


def _finished_at_return(event: _KernelEvent) -> bool:
    """Whether all work was done when the call returned.
    If another thread finished it, the call may also have returned too late."""
    return event.end_note is None or (event.end_note[0] == event.line and event.end_note[2] <= event.end)


def _kernel_end(event: _KernelEvent, starts: dict[int, list[float]]) -> float:
    if event.end_note is None or _finished_at_return(event):
        return event.end
    line, since, at = event.end_note
    following = bisect.bisect_right(starts[line], max(event.start, since))
    return min([at, *starts[line][following : following + 1]])


def _control_end(event: _KernelEvent, events: list[_KernelEvent], inner: frozenset[str]) -> float:
    """The end of a loop: that of the last kernel in it if known, else the recorded end."""
    if event.end_note is None or _finished_at_return(event):
        return event.end
    first = bisect.bisect_left(events, event.start, key=lambda other: other.start)
    last = bisect.bisect_right(events, event.end_note[2], key=lambda other: other.start)
    ends = [other.end for other in events[first:last] if other.op in inner and other.program == event.program]
    return max(ends, default=event.end_note[2])


def _programs(runs: Sequence[_Times]) -> Iterator[ProgramTimes]:
    samples: dict[tuple[str, int], dict[str, list[tuple[float, int]]]] = {}
    for run in runs:
        for program, times in run.items():
            of_program = samples.setdefault(program, {})
            for op, sample in times.items():
                of_program.setdefault(op, []).append(sample)
    for (module, _), of_program in samples.items():
        yield ProgramTimes(module, {op: _timing(*zip(*pairs)) for op, pairs in of_program.items()})


def _timing(seconds: Sequence[float], calls: Sequence[int]) -> Timing:
    return Timing(
        median=statistics.median(seconds),
        low=min(seconds),
        high=max(seconds),
        runs=len(seconds),
        calls=round(statistics.median(calls)),
    )
