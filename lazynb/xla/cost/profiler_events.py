"""Profiler events: the timeline of kernel executions, and the event tree of one compilation."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import jax

# ---- Timeline of kernel executions ----------------------------------------------------------------------

MAX_EXECUTIONS = 20_000
"""Most executions whose times are kept, over all runs."""


class Event(Protocol):
    """The profiler's record of an execution. Times are in nanoseconds."""

    op: str
    program: tuple[str, int]
    line: int
    start: float
    end: float


@dataclasses.dataclass(frozen=True, slots=True)
class Execution:
    """One execution of a kernel, or of a loop around kernels.

    Attributes:
      op: the HLO instruction.
      program: name of the HLO module, and a number that distinguishes programs.
      thread: a number that distinguishes threads (of a device: streams).
      start, end: seconds since the first kernel of the run began.
    """

    op: str
    program: tuple[str, int]
    thread: int
    start: float
    end: float


class Timeline:
    """The executions of each run, ordered by start.

    Attributes:
      runs: by run.
      left_out: number of runs that exceeded :data:`MAX_EXECUTIONS`.
    """

    def __init__(self) -> None:
        self.runs: list[tuple[Execution, ...]] = []
        self.left_out = 0
        self._kept = 0

    def add(self, events: Sequence[Event]) -> None:
        """Add a run."""
        if self._kept + len(events) > MAX_EXECUTIONS:
            self.left_out += 1
            return
        self._kept += len(events)
        first = min((event.start for event in events), default=0.0)
        found = [
            Execution(
                event.op,
                event.program,
                event.line,
                (event.start - first) * 1e-9,
                (max(event.start, event.end) - first) * 1e-9,
            )
            for event in events
        ]
        self.runs.append(tuple(sorted(found, key=lambda one: (one.start, -one.end))))

    def of(self, ops: Collection[str]) -> list[list[Execution]]:
        """Return, by run, the executions of the program with most of the instructions ``ops``.
        Copies of donated inputs are programs too."""
        seen: dict[tuple[str, int], set[str]] = {}
        for one in self._all_executions():
            seen.setdefault(one.program, set()).add(one.op)
        if not seen:
            return [[] for _ in self.runs]
        own = max(seen, key=lambda program: len(seen[program].intersection(ops)))
        return [[one for one in run if one.program == own and one.op in ops] for run in self.runs]

    def _all_executions(self) -> Iterable[Execution]:
        for run in self.runs:
            yield from run


# ---- Event tree of a compilation --------------------------------------------------------------------------
# What XLA:CPU records (0.10 and 0.12; verified by tests/xla/test_compile_times.py):
# - In the compiling thread, one event for the whole, inside it one for each pipeline ("NAME (MODULE)"), and
#   inside that one for each pass. A pass that is a pipeline contains one pipeline event for each run of it.
# - ``RunInvariantCheckers`` in the event of a pass that changed the module, and at a pipeline's start.
# - ``RunBackend`` after the passes: it schedules, emits kernels (``EmitEntryComputation``,
#   ``ConsumeKernels``) and compiles them to machine code with LLVM (``Codegen``).
# - In code generation threads, an event for each kernel that MLIR lowers, with its name.

CHECKERS = "RunInvariantCheckers"
BACKEND = "CpuCompiler::RunBackend"
_KERNEL = "FusionCompiler::Compile"
_COMPILE_EVENTS = ("CompileCpuExecutable", "PjRtCpuClient::Compile")


class NoCompileProfile(Exception):
    """The profile does not contain exactly one timed compilation; the message states why."""


@dataclasses.dataclass(slots=True)
class CompileEvent:
    """A time span in one thread, in seconds since the profile began.

    Attributes:
      module: name of its module, if XLA states it.
      inside: the events in it, in order.
    """

    name: str
    start: float
    end: float
    module: str = ""
    inside: list[CompileEvent] = dataclasses.field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Its duration."""
        return self.end - self.start

    def find(self, name: str) -> CompileEvent | None:
        """Return the first event with a name in it, at any depth."""
        return next((event for event in self.walk() if event.name == name), None)

    def walk(self) -> Iterator[CompileEvent]:
        """Yield it and the events in it, parents first."""
        waiting = [self]
        while waiting:
            event = waiting.pop()
            yield event
            waiting.extend(reversed(event.inside))


@dataclasses.dataclass(frozen=True, slots=True)
class CompileEvents:
    """The events of one compilation.

    Attributes:
      whole: in the compiling thread.
      kernels: the kernels that MLIR lowered, ordered by start.
    """

    whole: CompileEvent
    kernels: tuple[CompileEvent, ...]


def read_events(data: bytes) -> CompileEvents:
    """Return the compilation in a profile.

    Raises:
      NoCompileProfile: the profile contains none, or several that cannot be separated.
    """
    with warnings.catch_warnings():
        # jaxlib's iterators have no module name; Python 3.12 warns about that.
        warnings.simplefilter("ignore", DeprecationWarning)
        threads = [_event_tree(line) for line in _lines(data)]
    events = [event for thread in threads for top in thread for event in top.walk()]
    backends = sum(event.name == BACKEND for event in events)
    whole = next((event for event in events if event.name in _COMPILE_EVENTS and event.find(BACKEND)), None)
    if backends > 1:
        raise NoCompileProfile(
            "other programs were compiled at the same time, and XLA's timing does not tell them apart"
        )
    if whole is None:
        raise NoCompileProfile("this XLA does not time what it compiles")
    kernels = [event for event in events if event.name == _KERNEL and event.module]
    return CompileEvents(whole, tuple(sorted(kernels, key=lambda event: event.start)))


def _lines(data: bytes) -> Iterator[Any]:
    for plane in jax.profiler.ProfileData.from_serialized_xspace(data).planes:
        if plane.name.startswith("/host:"):
            yield from plane.lines


def _event_tree(line: Any) -> Sequence[CompileEvent]:
    """The top events of a thread; for a thread that only generates code, just the kernels."""
    events = list(line.events)
    if not any(event.name in _COMPILE_EVENTS for event in events):
        events = [event for event in events if event.name == _KERNEL]
    tops: list[CompileEvent] = []
    around: list[CompileEvent] = []
    for event in sorted(map(_event, events), key=lambda event: (event.start, -event.end)):
        while around and around[-1].end <= event.start:
            around.pop()
        (around[-1].inside if around else tops).append(event)
        around.append(event)
    return tops


def _event(event: Any) -> CompileEvent:
    start = event.start_ns * 1e-9
    stats: Mapping[str, Any] = {}
    if event.name == _KERNEL or event.name.endswith(")"):  # other events have no module
        stats = {key: value for key, value in event.stats if key == "module"}
    return CompileEvent(event.name, start, start + event.duration_ns * 1e-9, str(stats.get("module", "")))
