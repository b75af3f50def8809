"""Runs separated by trace breaks: joined into one program, and both variants run again for measurement."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax

from lazynb.recording.break_reasons import REASONS
from lazynb.recording.trie import Root, State, detached_step
from lazynb.running.jaxpr_program import needed_steps
from lazynb.running.run_recorder import RecordedBreak, RecordedRun, ValueReference
from lazynb.running.trace_executable import Executable
from lazynb.user_code.source_lines import Place
from lazynb.user_code.text_format import duration_range
from lazynb.xla.program_interface import copy_of_array, synthetic_array


class CannotJoin(Exception):
    """The runs cannot be one program; the text says why."""


class SeparateRuns:
    """Consecutive breaks as they happened: their programs one after the other, with the waits between them.

    Attributes:
      outside: input values from outside these runs, each once.
      made_up: number of these that no longer exist and were replaced by synthetic arrays.
    """

    def __init__(self, breaks: Sequence[RecordedBreak]):
        self.breaks = breaks
        self.runs = [seen for trace_break in breaks for seen in trace_break.runs]
        self._numbers = {seen.number for seen in self.runs}
        outside: dict[int, ValueReference] = {}
        for seen in self.runs:
            for source in self._taken(seen):
                if not self.within(source.earlier):
                    outside[id(source.held)] = source.held
        self.outside = list(outside.values())
        self._values: dict[int, Any] = {}
        self.made_up = 0

    def within(self, earlier: tuple[int, int] | None) -> bool:
        """Whether a value is the result of one of these runs."""
        return earlier is not None and earlier[0] in self._numbers

    @staticmethod
    def _taken(seen: RecordedRun) -> list[Any]:
        return [seen.sources[number] for number in seen.run.binding.inputs]

    def outputs(self) -> list[tuple[int, int]]:
        """Run and slot of the values that a joint program must return: values that Python read, values still
        reachable after the last break, and all results of the last run."""
        end = self.breaks[-1].number
        read = {(trace_break.runs[-1].number, trace_break.read) for trace_break in self.breaks}
        outputs = []
        for seen in self.runs:
            is_last = seen is self.runs[-1]
            for slot in seen.wanted:
                if is_last or (seen.number, slot) in read or seen.alive(slot, end):
                    outputs.append((seen.number, slot))
        return outputs

    def find_values(self) -> None:
        """Collects the input values from outside, or synthesises them.

        Raises:
          InputsGone: a value cannot be synthesised.
        """
        for held in self.outside:
            value = held.value()
            self.made_up += value is None
            self._values[id(held)] = synthetic_array(held.aval) if value is None else value

    def value(self, held: ValueReference) -> Any:
        """The value of one of ``outside``."""
        return self._values[id(held)]

    def measured_on(self) -> str:
        """A phrase on the values that :meth:`run` uses."""
        if not self.made_up:
            return "measured on your values"
        return f"measured on your values, {self.made_up} of {len(self.outside)} made up (they are gone)"

    def donated(self) -> set[int]:
        """Ids of the values in ``outside`` that a run donated."""
        donated: set[int] = set()
        for seen in self.runs:
            binding = seen.run.binding
            donated.update(
                id(seen.sources[binding.inputs[number]].held) for number in binding.executable.donated
            )
        return donated

    def run(self) -> Callable[[], Any]:
        """Prepares one pass through all programs; returns a function that runs it and returns all results."""
        donated = self.donated()
        values = {
            key: copy_of_array(value) if key in donated else value for key, value in self._values.items()
        }
        jax.block_until_ready([value for value in values.values() if isinstance(value, jax.Array)])
        steps = self._steps()

        def go() -> Any:
            given: dict[tuple[int, int], Any] = {}
            for seen, awaited in steps:
                inputs = [
                    given[source.earlier] if source.earlier in given else values[id(source.held)]
                    for source in self._taken(seen)
                ]
                results = seen.run.binding.executable.run(inputs)
                given.update(zip([(seen.number, slot) for slot in seen.wanted], results, strict=True))
                value = given.get((seen.number, awaited)) if awaited is not None else None
                if value is not None:
                    value.block_until_ready()
            return [value for value in given.values() if not value.is_deleted()]

        return go

    def _steps(self) -> list[tuple[RecordedRun, int | None]]:
        """The runs in order, each with the slot to wait for after it, or None."""
        steps: list[tuple[RecordedRun, int | None]] = []
        for trace_break in self.breaks:
            steps += [(seen, None) for seen in trace_break.runs]
            if trace_break.runs and REASONS[trace_break.kind].waits:
                steps[-1] = trace_break.runs[-1], trace_break.forced
        return steps


class JointProgram:
    """The runs of ``apart`` as one program, compiled outside all caches.

    Raises:
      Exception: from JAX, if the program cannot be compiled.
    """

    def __init__(self, apart: SeparateRuns):
        self._apart = apart
        self._inputs: list[ValueReference] = []
        outputs = apart.outputs()
        end, moved = self._path(self._needed(outputs))
        wanted = tuple([moved[key] for key in outputs])
        self.executable = Executable(
            end, wanted, self._donated(end, wanted), apart.runs[0].root.config, Place("", 0, "")
        )
        self.executable.compile_uncached([apart.value(held) for held in self._inputs])

    def run(self) -> Callable[[], Any]:
        """Prepares one run and returns a function that runs the program and returns its results."""
        values = [self._apart.value(held) for held in self._inputs]
        for number in self.executable.donated:
            values[number] = copy_of_array(values[number])
        jax.block_until_ready([value for value in values if isinstance(value, jax.Array)])
        return lambda: self.executable.run(values)

    def _needed(self, outputs: Sequence[tuple[int, int]]) -> list[tuple[RecordedRun, list[State]]]:
        """For each run, the steps that ``outputs`` depend on."""
        wanted: dict[int, set[int]] = {seen.number: set() for seen in self._apart.runs}
        for number, slot in outputs:
            wanted[number].add(slot)
        needed = []
        for seen in reversed(self._apart.runs):
            path = seen.end.path()
            steps = needed_steps(path, sorted(wanted[seen.number]))
            inputs = [step.first for step in path if step.operation is None]
            used = {step.first for step in steps if step.operation is None}
            for slot, source in zip(inputs, seen.sources, strict=True):
                if slot not in used or source.earlier is None:
                    continue
                number, result = source.earlier
                if number in wanted:
                    wanted[number].add(result)
            needed.append((seen, steps))
        needed.reverse()
        return needed

    def _path(
        self, parts: Sequence[tuple[RecordedRun, list[State]]]
    ) -> tuple[State, dict[tuple[int, int], int]]:
        """One path for all steps, outside any trie: its end, and the new slot of each result."""
        root = parts[0][0].root
        state: State = Root(root.placement, root.config)
        moved: dict[tuple[int, int], int] = {}
        outside: dict[int, int] = {}  # id of a value from outside → its slot
        for seen, steps in parts:
            inputs = [step.first for step in seen.end.path() if step.operation is None]
            sources = dict(zip(inputs, seen.sources, strict=True))
            for step in steps:
                if step.operation is not None:
                    operands = tuple([moved[seen.number, slot] for slot in step.operands])
                    for result in range(step.slots - step.first):
                        moved[seen.number, step.first + result] = state.slots + result
                    state = detached_step(state, step, (step.operation, operands), operands)
                    continue
                held, earlier = sources[step.first]
                if earlier is not None and earlier in moved:
                    moved[seen.number, step.first] = moved[earlier]
                    continue
                if id(held) not in outside:
                    outside[id(held)] = state.slots
                    state = detached_step(state, step, step.key, ())
                    self._inputs.append(held)
                moved[seen.number, step.first] = outside[id(held)]
        return state, moved

    def _donated(self, end: State, wanted: Sequence[int]) -> tuple[int, ...]:
        """Numbers of the inputs that the runs donated and whose type a result has."""
        donated = self._apart.donated()
        avals: dict[int, Any] = {}
        for step in end.path():
            avals.update(zip(range(step.first, step.slots), step.avals))
        left = [(avals[slot].shape, avals[slot].dtype) for slot in wanted]
        taken = []
        for number, held in enumerate(self._inputs):
            kind = (held.aval.shape, held.aval.dtype)
            if id(held) in donated and kind in left:
                left.remove(kind)
                taken.append(number)
        return tuple(taken)


class Spread(NamedTuple):
    """A time measured several times, in seconds.

    Attributes:
      median: of all runs.
      low, high: lower and upper quartile; equal to ``median`` if there was only one run.
      runs: number of runs.
    """

    median: float
    low: float
    high: float
    runs: int

    def __str__(self) -> str:
        return "measured once" if self.runs == 1 else duration_range(self.low, self.high)


def measure(*ways: Callable[[], Callable[[], Any]]) -> list[Spread]:
    """Times each of ``ways`` in turn, repeatedly, until its results are computed.

    Arguments:
      ways: each prepares a run (not timed) and returns the function to time.
    """
    times: list[list[float]] = [[] for _ in ways]
    began = time.perf_counter()
    pairs = list(zip(ways, times, strict=True))
    for number in range(-1, _REPEATS):
        for way, seconds in pairs:
            go = way()
            start = time.perf_counter()
            jax.block_until_ready(go())
            spent = time.perf_counter() - start
            if number >= 0 or spent > _LONG:  # the first run of each is for warm-up
                seconds.append(spent)
        pairs.reverse()
        if all(times) and time.perf_counter() - began > _ENOUGH:
            break
    return [_spread(seconds) for seconds in times]


def _spread(seconds: Sequence[float]) -> Spread:
    if len(seconds) < 2:
        return Spread(seconds[0], seconds[0], seconds[0], len(seconds))
    low, middle, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return Spread(middle, low, high, len(seconds))


_REPEATS = 25
_ENOUGH = 0.6  # seconds
_LONG = 0.3  # seconds; in runs longer than this, warm-up time is negligible


def joinable(breaks: Sequence[RecordedBreak]) -> None:
    """Checks that lazynb would have recorded the runs of ``breaks`` as one trace without the breaks.

    Raises:
      CannotJoin: it would not.
    """
    if any(len(trace_break.runs) != 1 for trace_break in breaks):
        raise CannotJoin("several programs ran for one of these breaks")
    runs = [trace_break.runs[0] for trace_break in breaks]
    if any(seen.root is not runs[0].root for seen in runs):
        raise CannotJoin("JAX's configuration changed in between, which begins a new program")
    if len({seen.end.program for seen in runs} - {None}) > 1:
        raise CannotJoin("the parts run on different devices, so they are different programs")
