"""An observer that records the runs and trace breaks of one thread, and the data flow between the runs.

It holds no tensor and no large array, because that would keep memory alive, prevent donation and change which
results are alive.
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
from lazynb.user_code.source_lines import CodePosition


class ValueReference:
    """A reference to an input value: strong for a small value, weak for a large one.

    Attributes:
      aval: its type.
    """

    __slots__ = ("_reference", "aval")

    def __init__(self, value: Any, aval: Any, keep: bool):
        self.aval = aval
        self._reference: Any = (lambda: value) if keep else weakref.ref(value)

    def value(self) -> Any | None:
        """The array or host scalar; None if it was freed or deleted."""
        value = self._reference()
        if isinstance(value, jax.Array) and value.is_deleted():
            return None
        return value


class InputSource(NamedTuple):
    """The source of an input of a trace.

    Attributes:
      held: the value.
      earlier: run and slot that computed it; None for a value from outside.
    """

    held: ValueReference
    earlier: tuple[int, int] | None


@dataclasses.dataclass(eq=False, slots=True)
class RecordedRun:
    """A recorded run.

    Attributes:
      number: index of the run, from 0.
      run: the run, with its times.
      root, end: the path of its trace.
      wanted: slots that it computed.
      sources: the sources of the trace's inputs.
      summary: the trace; None if the same trace was summarised often enough before.
      began: ``time.perf_counter()`` when the trace was opened.
      operations: number of recorded operations, dead ones included.
      died: for each slot whose tensor was freed, the number of breaks before that.
      watched: weak references whose callbacks fill ``died``.
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
        """Whether the tensor of result ``slot`` was alive after break number ``breaks``."""
        died = self.died.get(slot)
        return died is None or died > breaks


class RecordedBreak(NamedTuple):
    """A recorded trace break.

    Attributes:
      number: index of the break, from 0.
      kind, spot, detail: the reason, and the user's line.
      runs: the recorded runs that the break caused; the last one computes the forced value.
      forced: slot of that run whose value was needed; None for a barrier.
      seconds: time until Python could continue, without the time of observers.
      compile_seconds: the part of ``seconds`` in which programs were compiled or loaded.
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
        """The slot whose value was read; None if Python only waited for it."""
        return None if self.kind == "block" else self.forced

    @property
    def identity(self) -> tuple[Any, ...]:
        """A key that is equal for breaks of one kind at one line."""
        return (self.kind, self.detail, *self.spot.identity)


class RunRecorder(Observer):
    """Records the runs of one thread; runs beyond a bound are only counted.

    Attributes:
      began: ``time.perf_counter()`` at the start.
      runs: the recorded runs, in order.
      breaks: the breaks that ran operations recorded since the start, in order.
      tallies: the breaks, counted by kind and line.
      operations: number of operations in all runs, dead ones included.
      missed: number of runs that were not kept.
      jax_log: the programs that JAX compiled by itself.
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
        self._given: dict[
            int, tuple[weakref.ref[Any], int, int]
        ] = {}  # by id of a result: weak reference, run, slot
        self._summarised: dict[State, int] = {}
        self._seen: dict[int, RecordedRun] = {}  # by id of the Run, until its break

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
        """Drops the references to the user's values."""
        self._held.clear()
        self._given.clear()
        for seen in self.runs:
            seen.watched.clear()
            seen.sources.clear()

    # ---- Data flow --------------------------------------------------------------------------------------

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
        """A weak reference callback that notes in ``died`` that the tensor of ``slot`` was freed."""
        breaks = self.breaks  # a reference to ``self`` would be a cycle

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
        reference, run, slot = self._given.get(id(value), (None, 0, 0))
        if reference is None or reference() is not value:
            return None
        return run, slot

    def _hold(self, value: Any, aval: Any) -> ValueReference:
        """Holds ``value``: a small array strongly, up to a total size."""
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
_FLOWS = 200_000  # inputs and results of the recorded runs
_SUMMARIES = 3
_HOLDING = 64 << 20  # bytes of small arrays
