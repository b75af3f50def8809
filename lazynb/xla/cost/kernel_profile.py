"""The measured time of each kernel, from JAX's profiler; no TensorBoard.

Each run is a profiler session of its own, which costs about 1 ms and 12 us for each kernel that it sees;
nothing has to tell runs apart afterwards. While it runs, a kernel takes 0.3 us longer.
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

# What XLA:CPU records (0.10 and 0.12; tests/xla/test_profile.py holds it to this):
# - For each kernel an event with ``hlo_op``, the instruction's name. It lasts until the *call* of the kernel
#   returns. A kernel that is spread over threads may return before the other threads are done (copying 8 MB:
#   0.4 of 1.6 ms), and a loop after its first iteration.
# - When a kernel is done, what waited for it runs at once in the thread that finished it, and only then that
#   thread notes ``end: NAME``. Hence a kernel that returned too early ended when that thread, in the task in
#   which it notes the end, started the next kernel. (``StartRegion`` is where a thread takes up a task.) The
#   note may come when the profile is over.
# - A small loop may be compiled as one function: then it is one event, of the ``call`` that it stands in, and
#   its body has none.


class ProfilerBusy(LazynbError):
    """Another profile is being taken: JAX's profiler takes one at a time."""


@dataclasses.dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one run of the program, of an instruction all its executions together (a loop's body).

    Attributes:
      median, low, high: of the runs.
      runs: runs in which it was seen; a branch that was not taken is not seen.
      calls: how often it was executed in one run (median).
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
      timings: by HLO instruction; no kernel, no entry (a bitcast, a tuple).
    """

    module: str
    timings: dict[str, Timing]


@dataclasses.dataclass(frozen=True, slots=True)
class Profile:
    """What several runs of a function took.

    Attributes:
      programs: the compiled programs that it ran, in the order in which they started.
      wall: the whole function until its results are computed; without the profiler, unless it takes so long
        (:data:`SLOW`) that the profiler makes no difference.
      text: how it was measured, and what is missing.
      module: name of the HLO module that was asked for; empty for any.
      timeline: when each kernel ran.
    """

    programs: tuple[ProgramTimes, ...]
    wall: Timing
    text: str
    module: str = ""
    timeline: Timeline = dataclasses.field(default_factory=Timeline, compare=False)

    @property
    def timings(self) -> dict[str, Timing]:
        """By HLO instruction; of several programs (of the module that was asked for), those of the one that
        took longest."""
        candidates = [program for program in self.programs if self.module in ("", program.module)]
        if not candidates:
            return {}
        return max(candidates, key=_seconds_of).timings


def _seconds_of(program: ProgramTimes) -> float:
    return sum(timing.median for timing in program.timings.values())


def profile(run: Callable[[], Any], runs: int = 5, module: hlo.Module | None = None) -> Profile:
    """Calls ``run`` to warm up and then ``runs`` times under the profiler, each until the arrays that it
    returns are computed.

    A quick ``run`` is called as often without the profiler, for ``wall``.

    Args:
      run: may be called again and again: what it donates it has to make anew, which counts in ``wall`` alone.
      module: optimised HLO of the program that is meant, if ``run`` runs others beside it (copies of what it
        donates). With it, a loop that goes on in several threads is timed exactly, else until a thread
        noticed that it had ended.

    Raises:
      ProfilerBusy: a profile is being taken already, by ``jax.profiler`` for example; that one goes on
        unharmed.
      ValueError: fewer than one run.
      What ``run`` raises; an interrupt ends the profile.
    """
    if runs < 1:
        raise ValueError(f"runs must be at least 1, not {runs}")
    _stop(jc.new_profile())  # before anything runs: is the profiler free?
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
    """Seconds of a run under the profiler, and what the profiler wrote."""
    session = jc.new_profile()
    try:
        seconds = _seconds(run)
    except BaseException:
        with contextlib.suppress(RuntimeError):
            session.stop()  # a traceback that is kept would keep the session running
        raise
    return seconds, _stop(session)


SLOW_RUN_SECONDS = 0.05
"""Seconds from which on a run is not repeated for ``wall``."""


def _seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    jax.block_until_ready(run())  # lets an interrupt through within 0.1 s
    return time.perf_counter() - start


def _stop(session: Any) -> bytes:
    try:
        return session.stop()
    except RuntimeError as error:
        raise ProfilerBusy(f"JAX's profiler is in use; end the other profile first ({error})") from None


# ---- from events to times ----------------------------------------------------------------------------------


@dataclasses.dataclass(slots=True)
class _KernelEvent:
    """One execution of a kernel. Times are in nanoseconds.

    Attributes:
      op: the HLO instruction.
      program: name of the HLO module, and a number that tells programs apart.
      line: thread or stream.
      end_note: by which thread its end was noted, since when in this task, and when.
    """

    op: str
    program: tuple[str, int]
    line: int
    start: float
    end: float
    end_note: tuple[int, float, float] | None = None


def _events(data: bytes) -> Iterator[_KernelEvent]:
    """The kernels of a profile: those of devices if it has any, since the host's are then only their
    launches."""
    planes = list(jax.profiler.ProfileData.from_serialized_xspace(data).planes)
    devices = list(_plane_events([plane for plane in planes if plane.name.startswith("/device:")]))
    yield from devices or _plane_events(planes)


def _plane_events(planes: Sequence[Any]) -> Iterator[_KernelEvent]:
    kernels: dict[Any, _KernelEvent] = {}  # by the number that links a kernel to the note of its end
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
    """Gives each kernel the note of its end.

    Arguments:
      kernels: by the number that links them to the notes.
      ends: link, thread and time of each note.
      tasks: by thread, when it took up a task.
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
    """Gives the instructions that run inside a loop, branch or call."""

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
    """Fills in the notes of ends that are missing because they came when the profile was over.

    The next kernel of any thread shows that a kernel ended. The next execution of a loop shows that the loop
    ended, even if the note of that comes later.
    """
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
    """Whether all was done when the call returned. If another thread finished it, the call may also have
    returned too late."""
    return event.end_note is None or (event.end_note[0] == event.line and event.end_note[2] <= event.end)


def _kernel_end(event: _KernelEvent, starts: dict[int, list[float]]) -> float:
    if event.end_note is None or _finished_at_return(event):
        return event.end
    line, since, at = event.end_note
    following = bisect.bisect_right(starts[line], max(event.start, since))
    return min([at, *starts[line][following : following + 1]])


def _control_end(event: _KernelEvent, events: list[_KernelEvent], inner: frozenset[str]) -> float:
    """When a loop ended: with the last kernel in it, where that is known, else when its end was noted."""
    if event.end_note is None or _finished_at_return(event):
        return event.end
    first = bisect.bisect_left(events, event.start, key=lambda other: other.start)
    last = bisect.bisect_right(events, event.end_note[2], key=lambda other: other.start)
    ends = [other.end for other in events[first:last] if other.op in inner and other.program == event.program]
    return max(ends, default=event.end_note[2])


def _programs(runs: Sequence[_Times]) -> Iterator[ProgramTimes]:
    """The times of each program, in the order in which they were first seen."""
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
