"""What XLA's profiler noted of one compilation, as a tree: pipelines hold passes, and these pipelines."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax

# What XLA:CPU notes (0.10 and 0.12; tests/xla/test_compile_times.py holds it to this):
# - In the thread that compiles, an event for the whole, in it one for each pipeline ("NAME (MODULE)") and in
#   that one for each pass. A pass that is a pipeline holds the pipeline's event, once for each run of it.
# - ``RunInvariantCheckers`` in the event of a pass that changed the module, and at a pipeline's start.
# - ``RunBackend`` after the passes: it plans, emits kernels (``EmitEntryComputation``, ``ConsumeKernels``)
#   and has LLVM make machine code of them (``Codegen``).
# - In threads of code generation, an event for each kernel that MLIR lowers, with its name.

CHECKERS = "RunInvariantCheckers"
BACKEND = "CpuCompiler::RunBackend"
_KERNEL = "FusionCompiler::Compile"
_WHOLE = ("CompileCpuExecutable", "PjRtCpuClient::Compile")


class NoTimes(Exception):
    """The profile is of no single compilation; the text says what it is of."""


@dataclasses.dataclass(slots=True)
class Event:
    """A stretch of time in one thread, in seconds since the profile began.

    Attributes:
      module: that it is of, where XLA says so.
      inside: the events in it, in order.
    """

    name: str
    start: float
    end: float
    module: str = ""
    inside: list[Event] = dataclasses.field(default_factory=list)

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.end - self.start

    def find(self, name: str) -> Event | None:
        """The first event called ``name`` in it, at any depth."""
        return next((event for event in self.walk() if event.name == name), None)

    def walk(self) -> Iterator[Event]:
        """It and the events in it, each before those in it."""
        waiting = [self]
        while waiting:
            event = waiting.pop()
            yield event
            waiting.extend(reversed(event.inside))


@dataclasses.dataclass(frozen=True, slots=True)
class Compiling:
    """The events of one compilation.

    Attributes:
      whole: in the thread that compiles.
      kernels: the kernels that MLIR lowered, by their modules' names.
    """

    whole: Event
    kernels: tuple[Event, ...]


def read_events(data: bytes) -> Compiling:
    """The compilation that a profile was taken of.

    Raises:
      NoTimes: the profile holds none, or several, between which nobody can tell.
    """
    with warnings.catch_warnings():
        # jaxlib's iterators come without a module name, of which Python 3.12 warns.
        warnings.simplefilter("ignore", DeprecationWarning)
        threads = [_tree(line) for line in _lines(data)]
    events = [event for thread in threads for top in thread for event in top.walk()]
    backends = sum(event.name == BACKEND for event in events)
    whole = next((event for event in events if event.name in _WHOLE and event.find(BACKEND)), None)
    if backends > 1:
        raise NoTimes(
            "other programs were compiled at the same time, and XLA's timing does not tell them apart"
        )
    if whole is None:
        raise NoTimes("this XLA does not time what it compiles")
    kernels = [event for event in events if event.name == _KERNEL and event.module]
    return Compiling(whole, tuple(sorted(kernels, key=lambda event: event.start)))


def _lines(data: bytes) -> Iterator[Any]:
    for plane in jax.profiler.ProfileData.from_serialized_xspace(data).planes:
        if plane.name.startswith("/host:"):
            yield from plane.lines


def _tree(line: Any) -> Sequence[Event]:
    """The events of a thread that stand in no other; of one that only generates code, just the kernels."""
    events = list(line.events)
    if not any(event.name in _WHOLE for event in events):
        events = [event for event in events if event.name == _KERNEL]
    tops: list[Event] = []
    around: list[Event] = []
    for event in sorted(map(_event, events), key=lambda event: (event.start, -event.end)):
        while around and around[-1].end <= event.start:
            around.pop()
        (around[-1].inside if around else tops).append(event)
        around.append(event)
    return tops


def _event(event: Any) -> Event:
    start = event.start_ns * 1e-9
    stats: Mapping[str, Any] = {}
    if event.name == _KERNEL or event.name.endswith(")"):  # of others it is not asked
        stats = {key: value for key, value in event.stats if key == "module"}
    return Event(event.name, start, start + event.duration_ns * 1e-9, str(stats.get("module", "")))
