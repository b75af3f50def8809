"""The recorder of what one thread runs while somebody explains it: the runs, what flowed between them, and
the breaks that cut them.

It holds no tensor and no large array: it would keep memory alive, prevent donation and change which results
are in reach.
"""

from __future__ import annotations

import dataclasses
import time
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax

from lazynb import jax_compat as jc
from lazynb.recording.break_reasons import ASKED_FOR
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.pending_trace import PendingTrace
from lazynb.recording.snapshot.trace_description import TraceSummary, summarise
from lazynb.recording.trie import Root, State
from lazynb.running.break_log import BreakLog
from lazynb.running.donation import is_large
from lazynb.running.observers import BreakEvent, JaxCompilation, Observer, Run, RunEvent
from lazynb.running.run_statistics import JaxLog
from lazynb.user_code.call_stack import CodePosition


class ValueReference:
    """A value that flowed into a trace: a small one itself, a large one for as long as others keep it.

    Attributes:
      aval: its type.
    """

    __slots__ = ("_reference", "aval")

    def __init__(self, value: Any, aval: Any, keep: bool):
        self.aval = aval
        self._reference: Any = (lambda: value) if keep else weakref.ref(value)

    def value(self) -> Any | None:
        """The array or host scalar; returns None if it is gone."""
        value = self._reference()
        if isinstance(value, jax.Array) and value.is_deleted():
            return None
        return value


class InputSource(NamedTuple):
    """Where an input of a trace came from.

    Attributes:
      held: the value.
      earlier: run and slot of which it is the result; None for what came from outside.
    """

    held: ValueReference
    earlier: tuple[int, int] | None


@dataclasses.dataclass(eq=False, slots=True)
class RecordedRun:
    """A run that was seen.

    Attributes:
      number: counts the runs from 0.
      run: what ran, and the seconds it took.
      root, end: the path of its trace.
      wanted: slots that it computed.
      sources: of the trace's inputs.
      summary: the trace; None if the same trace was summarised often enough before.
      began: ``time.perf_counter()`` when the trace was opened.
      operations: recorded operations, dead ones included.
      died: by slot, how many breaks there had been when nobody could reach the result any more.
      watched: what fills ``died``.
    """

    number: int
    run: Run
    root: Root
    end: State
    wanted: tuple[int, ...]
    sources: list[InputSource]
    summary: TraceSummary | None
    began: float
    operations: int
    died: dict[int, int] = dataclasses.field(default_factory=dict)
    watched: list[Any] = dataclasses.field(default_factory=list)

    def alive(self, slot: int, breaks: int) -> bool:
        """Whether somebody could still reach the result ``slot`` when break number ``breaks`` was over."""
        died = self.died.get(slot)
        return died is None or died > breaks


class RecordedBreak(NamedTuple):
    """A break that was seen.

    Attributes:
      number: counts the breaks from 0.
      kind, spot, detail: why, and the user's line.
      runs: what it made necessary, of what was recorded since the recorder watches; the last one gives what
        was forced.
      forced: slot of that run whose value was needed; None for a barrier.
      seconds: until Python could go on, without what observers took.
      compile_seconds: of these, making the programs.
    """

    number: int
    kind: str
    spot: CodePosition
    detail: str
    runs: list[RecordedRun]
    forced: int | None
    seconds: float
    compile_seconds: float

    @property
    def read(self) -> int | None:
        """The slot whose value left the trace; None if it was only waited for."""
        return None if self.kind == "block" else self.forced

    @property
    def identity(self) -> tuple[Any, ...]:
        """Equal for breaks of one kind at one line."""
        return (self.kind, self.detail, *self.spot.identity)


class RunRecorder(Observer):
    """Notes what the thread that it watches runs; the runs beyond a bound are only counted.

    Attributes:
      began: ``time.perf_counter()`` when it started to watch.
      runs: in order.
      breaks: those that ran something which was recorded since, in order.
      tallies: the breaks, counted by kind and line.
      operations: of the runs seen, dead ones included.
      missed: runs that were not kept.
      jax_log: what JAX compiled by itself.
    """

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.runs: list[RecordedRun] = []
        self.breaks: list[RecordedBreak] = []
        self.tallies = BreakLog()
        self.operations = 0
        self.missed = 0
        self.jax_log = JaxLog()
        self._holding = _HOLDING
        self._flows = 0
        self._held: dict[int, ValueReference] = {}
        self._given: dict[int, tuple[weakref.ref[Any], int, int]] = {}  # by id of a result: itself, run, slot
        self._summarised: dict[State, int] = {}
        self._seen: dict[int, RecordedRun] = {}  # by id of the Run, until its break is noted

    def ran(self, event: RunEvent) -> None:
        self.operations += len(event.pending)
        if len(self.runs) < _RUNS and self._flows < _FLOWS:
            self._flows += len(event.values) + len(event.results)
            self._add(*event)
        else:
            self.missed += 1

    def broke(self, event: BreakEvent) -> None:
        misses = [run.miss for run in event.runs if run.miss is not None]
        if event.kind != ASKED_FOR:
            compiles = sum(miss.origin == "compiled" for miss in misses)
            self.tallies.add(event.kind, event.spot, event.operations, compiles, event.seconds, event.detail)
        known = [self._seen.pop(id(run)) for run in event.runs if id(run) in self._seen]
        recorded = [seen for seen in known if seen.began >= self.began]
        if recorded:
            trace_break = RecordedBreak(
                number=len(self.breaks),
                kind=event.kind,
                spot=event.spot,
                detail=event.detail,
                runs=recorded,
                forced=event.forced._slot if event.forced is not None else None,
                seconds=event.seconds,
                compile_seconds=sum(miss.seconds for miss in misses),
            )
            self.breaks.append(trace_break)

    def jax_compiled(self, compilation: JaxCompilation) -> None:
        self.jax_log.add(compilation)

    def release(self) -> None:
        """Lets go of the user's values."""
        self._held.clear()
        self._given.clear()
        for seen in self.runs:
            seen.watched.clear()
            seen.sources.clear()

    # ---- what flows ----------------------------------------------------------------------------------------

    def _add(
        self,
        run: Run,
        pending: PendingTrace,
        tensors: Sequence[LazyTensor],
        values: Sequence[Any],
        results: Sequence[Any],
    ) -> None:
        end = pending.state
        times = self._summarised.get(end, 0)
        self._summarised[end] = times + 1
        seen = RecordedRun(
            number=len(self.runs),
            run=run,
            root=pending.root,
            end=end,
            wanted=tuple([tensor._slot for tensor in tensors]),
            sources=self._sources(end, values),
            summary=summarise(pending, {}) if times < _SUMMARIES else None,
            began=pending.began,
            operations=len(pending),
        )
        for tensor, result in zip(tensors, results, strict=True):
            seen.watched.append(weakref.ref(tensor, self._watch(seen.died, tensor._slot)))
            self._given[id(result)] = weakref.ref(result), seen.number, tensor._slot
        self.runs.append(seen)
        self._seen[id(run)] = seen

    def _watch(self, died: dict[int, int], slot: int) -> Any:
        """What notes in ``died`` that the result ``slot`` cannot be reached any more."""
        breaks = self.breaks  # not ``self``: a cycle would hold what is watched

        def note(_: Any) -> None:
            died[slot] = len(breaks)

        return note

    def _sources(self, end: State, values: Sequence[Any]) -> list[InputSource]:
        avals = [step.avals[0] for step in end.path() if step.operation is None]
        return [
            InputSource(self._hold(value, aval), self._earlier(value))
            for value, aval in zip(values, avals, strict=True)
        ]

    def _earlier(self, value: Any) -> tuple[int, int] | None:
        """Run and slot of which ``value`` is the result; returns None if it came from outside."""
        reference, run, slot = self._given.get(id(value), (None, 0, 0))
        if reference is None or reference() is not value:
            return None
        return run, slot

    def _hold(self, value: Any, aval: Any) -> ValueReference:
        """Holds ``value``: a small array itself, as long as there is room for it."""
        if jc.is_host_array(value):
            return ValueReference(value, aval, True)
        known = self._held.get(id(value))
        if known is not None and known.value() is value:
            return known
        size = 0 if jc.is_key(aval) else aval.size * aval.dtype.itemsize
        keep = not is_large(aval) and size <= self._holding
        if keep:
            self._holding -= size
        held = self._held[id(value)] = ValueReference(value, aval, keep)
        return held


_RUNS = 10_000
_FLOWS = 200_000  # inputs and results of the runs that are kept
_SUMMARIES = 3
_HOLDING = 64 << 20  # bytes of small arrays
