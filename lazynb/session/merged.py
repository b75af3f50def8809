"""Runs that a trace break kept apart, as one program; and how both ways are run again, to be measured."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax

from lazynb.execute.executable import Executable
from lazynb.execute.program import needed_steps
from lazynb.reasons import REASONS
from lazynb.record.trie import Root, State
from lazynb.session.run_recorder import Held, Seen, SeenBreak
from lazynb.source import Place
from lazynb.units import milliseconds
from lazynb.xla.inputs import fresh, made_up


class Unmergeable(Exception):
    """The runs could not have been one program; the text says why."""


class Separate:
    """Breaks in a row as they were: their programs one after the other, with the waits between.

    Attributes:
      runs: the runs in order.
      outside: what flowed in from outside, each value once.
      made_up: how many of these are gone and were made up.
    """

    def __init__(self, breaks: Sequence[SeenBreak]):
        self.breaks = breaks
        self.runs = [seen for one in breaks for seen in one.runs]
        self._numbers = {seen.number for seen in self.runs}
        self.outside: list[Held] = list(
            {
                id(source.held): source.held
                for seen in self.runs
                for source in self._taken(seen)
                if not self.within(source.earlier)
            }.values()
        )
        self._values: dict[int, Any] = {}
        self.made_up = 0

    def within(self, earlier: tuple[int, int] | None) -> bool:
        """Whether a value is the result of one of these runs."""
        return earlier is not None and earlier[0] in self._numbers

    @staticmethod
    def _taken(seen: Seen) -> list[Any]:
        return [seen.sources[number] for number in seen.run.binding.inputs]

    def outputs(self) -> list[tuple[int, int]]:
        """Run and slot of what one program would have to give: what Python read, what somebody could still
        reach when the last break was over, and all that the last run gave."""
        over, last = self.breaks[-1].number, self.runs[-1]
        read = {(one.runs[-1].number, one.read) for one in self.breaks}
        return [
            (seen.number, slot)
            for seen in self.runs
            for slot in seen.wanted
            if seen is last or (seen.number, slot) in read or seen.alive(slot, over)
        ]

    def find_values(self) -> None:
        """Looks up what flowed in from outside, or makes it up.

        Raises:
          InputsGone: it cannot be made up.
        """
        for held in self.outside:
            value = held.value()
            self.made_up += value is None
            self._values[id(held)] = made_up(held.aval) if value is None else value

    def value(self, held: Held) -> Any:
        """The value of one of ``outside``."""
        return self._values[id(held)]

    def measured_on(self) -> str:
        """Whose values :meth:`run` runs on."""
        if not self.made_up:
            return "measured on your values"
        return f"measured on your values, {self.made_up} of {len(self.outside)} made up (they are gone)"

    def donated(self) -> set[int]:
        """Ids of those of ``outside`` whose memory a run took."""
        return {
            id(seen.sources[binding.inputs[number]].held)
            for seen in self.runs
            for binding in [seen.run.binding]
            for number in binding.executable.donated
        }

    def run(self) -> Callable[[], Any]:
        """Prepares one pass through all programs; what it returns runs them and gives all results."""
        gone = self.donated()
        values = {key: fresh(value) if key in gone else value for key, value in self._values.items()}
        jax.block_until_ready([value for value in values.values() if isinstance(value, jax.Array)])
        steps = [
            (seen, one.forced if REASONS[one.kind].waits and seen is one.runs[-1] else None)
            for one in self.breaks
            for seen in one.runs
        ]

        def go() -> Any:
            given: dict[tuple[int, int], Any] = {}
            for seen, awaited in steps:
                sources = [seen.sources[number] for number in seen.run.binding.inputs]
                results = seen.run.binding.executable.run(
                    [
                        given[source.earlier] if source.earlier in given else values[id(source.held)]
                        for source in sources
                    ]
                )
                given.update(zip([(seen.number, slot) for slot in seen.wanted], results, strict=True))
                if awaited is not None and (value := given.get((seen.number, awaited))) is not None:
                    value.block_until_ready()
            return [value for value in given.values() if not value.is_deleted()]

        return go


class Merged:
    """The runs of ``apart`` as one program, compiled beside every cache.

    Raises:
      Unmergeable: lazynb would not have recorded them as one trace.
      Exception: what JAX raises where the program cannot be compiled.
    """

    def __init__(self, apart: Separate):
        self._apart = apart
        self._inputs: list[Held] = []
        outputs = apart.outputs()
        end, moved = self._path(self._needed(outputs))
        wanted = tuple([moved[key] for key in outputs])
        self.executable = Executable(
            end, wanted, self._donated(end, wanted), apart.runs[0].root.config, Place("", 0, "")
        )
        self.executable.compile_apart([apart.value(held) for held in self._inputs])

    def run(self) -> Callable[[], Any]:
        """Prepares one run; what it returns runs the program and gives its results."""
        gone = self.executable.donated
        values = [
            fresh(value) if number in gone else value
            for number, value in enumerate(map(self._apart.value, self._inputs))
        ]
        jax.block_until_ready([value for value in values if isinstance(value, jax.Array)])
        return lambda: self.executable.run(values)

    def _needed(self, outputs: Sequence[tuple[int, int]]) -> list[tuple[Seen, list[State]]]:
        """Of each run, the steps that ``outputs`` need."""
        wanted: dict[int, set[int]] = {seen.number: set() for seen in self._apart.runs}
        for number, slot in outputs:
            wanted[number].add(slot)
        found = []
        for seen in reversed(self._apart.runs):
            path = seen.end.path()
            steps = needed_steps(path, sorted(wanted[seen.number]))
            inputs = [step.first for step in path if step.operation is None]
            used = {step.first for step in steps if step.operation is None}
            for slot, source in zip(inputs, seen.sources, strict=True):
                if slot in used and source.earlier is not None and source.earlier[0] in wanted:
                    wanted[source.earlier[0]].add(source.earlier[1])
            found.append((seen, steps))
        found.reverse()
        return found

    def _path(self, parts: Sequence[tuple[Seen, list[State]]]) -> tuple[State, dict[tuple[int, int], int]]:
        """One path for all steps, in no trie: its end, and the slot of each result by run and slot there."""
        root = parts[0][0].root
        state: State = Root(root.placement, root.config)
        moved: dict[tuple[int, int], int] = {}
        there: dict[int, int] = {}  # by id of what flows in from outside
        for seen, steps in parts:
            sources = dict(
                zip(
                    [step.first for step in seen.end.path() if step.operation is None],
                    seen.sources,
                    strict=True,
                )
            )
            for step in steps:
                if step.operation is not None:
                    operands = tuple([moved[seen.number, slot] for slot in step.operands])
                    first = state.slots
                    state = _after(state, step, (step.operation, operands), operands)
                    moved.update(
                        ((seen.number, slot), first + n)
                        for n, slot in enumerate(range(step.first, step.slots))
                    )
                    continue
                held, earlier = sources[step.first]
                if earlier is not None and earlier in moved:
                    moved[seen.number, step.first] = moved[earlier]
                    continue
                if id(held) not in there:
                    there[id(held)] = state.slots
                    state = _after(state, step, step.key, ())
                    self._inputs.append(held)
                moved[seen.number, step.first] = there[id(held)]
        return state, moved

    def _donated(self, end: State, wanted: Sequence[int]) -> tuple[int, ...]:
        """Numbers of the inputs whose memory the runs took and of which a result has the type."""
        gone = self._apart.donated()
        owner = {
            slot: step.avals[slot - step.first]
            for step in end.path()
            for slot in range(step.first, step.slots)
        }
        left = [(owner[slot].shape, owner[slot].dtype) for slot in wanted]
        taken = []
        for number, held in enumerate(self._inputs):
            kind = (held.aval.shape, held.aval.dtype)
            if id(held) in gone and kind in left:
                left.remove(kind)
                taken.append(number)
        return tuple(taken)


def _after(parent: State, step: State, key: Any, operands: tuple[int, ...]) -> State:
    state = State(parent, key, step.operation, operands, step.avals, step.devices)
    state.program = step.program
    return state


class Spread(NamedTuple):
    """A time that was measured several times, seconds.

    Attributes:
      median: of all.
      low, high: a quarter of them is below, a quarter above; the same as ``median`` where there was time for
        one only.
      runs: how often.
    """

    median: float
    low: float
    high: float
    runs: int

    def __str__(self) -> str:
        return "measured once" if self.runs == 1 else milliseconds(self.low, self.high)


def measure(*ways: Callable[[], Callable[[], Any]]) -> list[Spread]:
    """Times each of ``ways`` in turn, again and again, until its results are there.

    Arguments:
      ways: each prepares a run (not timed) and returns what runs it.
    """
    found: list[list[float]] = [[] for _ in ways]
    began = time.perf_counter()
    for number in range(-1, _REPEATS):
        pairs = list(zip(ways, found, strict=True))
        for way, seconds in pairs if number % 2 else reversed(pairs):
            go = way()
            start = time.perf_counter()
            jax.block_until_ready(go())
            spent = time.perf_counter() - start
            if number >= 0 or spent > _LONG:  # the first run of each warms up
                seconds.append(spent)
        if all(found) and time.perf_counter() - began > _ENOUGH:
            break
    return [_spread(seconds) for seconds in found]


def _spread(seconds: Sequence[float]) -> Spread:
    if len(seconds) < 2:
        return Spread(seconds[0], seconds[0], seconds[0], len(seconds))
    low, middle, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return Spread(middle, low, high, len(seconds))


_REPEATS = 25
_ENOUGH = 0.6  # seconds
_LONG = 0.3  # seconds: beside these, what warming up takes does not count


def joinable(breaks: Sequence[SeenBreak]) -> None:
    """Checks that lazynb would have recorded the runs of ``breaks`` as one trace, were the breaks not there.

    Raises:
      Unmergeable: it would not.
    """
    if any(len(one.runs) != 1 for one in breaks):
        raise Unmergeable("several programs ran for one of these breaks")
    runs = [one.runs[0] for one in breaks]
    if any(seen.root is not runs[0].root for seen in runs):
        raise Unmergeable("JAX's configuration changed in between, which begins a new program")
    if len({seen.end.program for seen in runs} - {None}) > 1:
        raise Unmergeable("the parts run on different devices, so they are different programs")
