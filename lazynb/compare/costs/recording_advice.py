"""The advice from totals: a step that takes longer to record than to run, and what to wrap in ``jax.jit``."""

from __future__ import annotations

import collections
import dataclasses
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any

from lazynb.compare.costs.joint_program import SeparateRuns, Spread, measure
from lazynb.recording.snapshot.trace_description import TraceSummary
from lazynb.recording.trie import State
from lazynb.running.record_table import plural
from lazynb.running.run_recorder import RecordedBreak, RecordedRun, RunRecorder
from lazynb.user_code.call_graph import CallGraph, changes
from lazynb.user_code.call_stack import Place, place
from lazynb.user_code.text_format import compact_duration
from lazynb.xla.program_interface import InputsGone


@dataclasses.dataclass(frozen=True, slots=True)
class Advice:
    """A step that was repeated and takes longer to record than to run.

    Attributes:
      location: the line of the function to wrap; if there is none, that of the break that ends the step.
      count: how often the step was seen.
      operations: recorded operations in one.
      record_seconds: recording one, with the Python between the operations; median.
      run_seconds: running its programs again without recording, on its inputs; measured, median.
      lazy_seconds: one step as it was: recording, finding and running its programs, waiting; median.
      function: what to wrap; empty if no function of the user's can be named.
      covered: how many of the operations it recorded, at most: what it calls may be called by others too.
      gain: how many times faster than ``lazy_seconds`` the programs run without recording.
      doubts: what speaks against wrapping it, a phrase each; empty when nothing was seen.
      inputs: on what was measured.
      text: all this in words.
    """

    location: Place
    count: int
    operations: int
    record_seconds: float
    run_seconds: float
    lazy_seconds: float
    function: str
    covered: int
    gain: float
    doubts: tuple[str, ...]
    inputs: str
    text: str


def advise(seen: RunRecorder, functions: Iterable[Any]) -> list[Advice]:
    """The steps that take longer to record than to run, those that lose most first. Runs their programs
    again.

    Arguments:
      functions: from which the user's functions are found.
    """
    advice = []
    summaries = {run.end: run.summary for run in seen.runs if run.summary is not None}
    broken = {trace_break.spot.code for trace_break in seen.breaks}
    for step in _joined(steps(seen.breaks))[:_MOST]:
        measurement = _measure(step)
        if measurement is None:
            continue
        run, inputs = measurement
        if step.record_seconds > run.median:
            wrap = _function_to_jit(_recorded(step, summaries), CallGraph(functions), broken)
            advice.append(_advice(step, run, inputs, wrap))
    return sorted(advice, key=_loss, reverse=True)


_MOST = 4


def _loss(advice: Advice) -> float:
    """The seconds that all repetitions of a step take longer than its programs alone."""
    return advice.count * (advice.lazy_seconds - advice.run_seconds)


def _joined(repeated: Iterable[Repetition]) -> list[Repetition]:
    """The steps, those with the same programs as one: a loop that is begun again is no other step. What came
    oftenest is first."""
    same: dict[tuple[int, ...], list[Sequence[RecordedBreak]]] = {}
    for step in repeated:
        programs = tuple(sorted(id(seen.run.binding.executable) for seen in step.runs))
        same.setdefault(programs, []).extend(step.times)
    return sorted(map(Repetition, same.values()), key=lambda step: -len(step.times))


class Repetition:
    """A sequence of breaks that was repeated, with the same programs each time.

    Attributes:
      times: the repetitions, each a list of breaks.
    """

    def __init__(self, times: Sequence[Sequence[RecordedBreak]]):
        self.times = times

    @property
    def runs(self) -> list[RecordedRun]:
        """The runs of one repetition."""
        return _runs(self.times[-1])

    @property
    def operations(self) -> int:
        """Operations recorded in one repetition."""
        return sum(seen.operations for seen in self.runs)

    @property
    def record_seconds(self) -> float:
        """Median; the first repetition, in which JAX traces for the first time, is left out."""
        return statistics.median(map(_record_seconds, self.times[1:]))

    @property
    def lazy_seconds(self) -> float:
        """Recording and the breaks, without compiling; median, as ``record_seconds``."""
        return statistics.median(map(_lazy_seconds, self.times[1:]))


def _runs(breaks: Sequence[RecordedBreak]) -> list[RecordedRun]:
    return [seen for trace_break in breaks for seen in trace_break.runs]


def _record_seconds(breaks: Sequence[RecordedBreak]) -> float:
    return sum(seen.run.record_seconds for seen in _runs(breaks))


def _lazy_seconds(breaks: Sequence[RecordedBreak]) -> float:
    waits = sum(trace_break.seconds - trace_break.compile_seconds for trace_break in breaks)
    return waits + _record_seconds(breaks)


def steps(breaks: Sequence[RecordedBreak]) -> Iterator[Repetition]:
    """The sequences of breaks that come three times or more in a row, each with the same programs."""
    programs = [
        tuple([id(seen.run.binding.executable) for seen in trace_break.runs]) for trace_break in breaks
    ]
    start = 0
    while start < len(breaks):
        length, times = _repeated(programs, start)
        end = start + length * times
        if times >= _REPEATED:
            yield Repetition([breaks[at : at + length] for at in range(start, end, length)])
        start = end


_LONGEST = 16
_REPEATED = 3


def _repeated(programs: Sequence[Any], start: int) -> tuple[int, int]:
    """The length of the shortest sequence from ``start`` on that is repeated often enough, and how often it
    comes; ``(1, 1)`` if none is."""
    for length in range(1, _LONGEST + 1):
        times = _repetitions(programs, start, length)
        if times >= _REPEATED:
            return length, times
    return 1, 1


def _repetitions(programs: Sequence[Any], start: int, length: int) -> int:
    """How often the sequence of ``length`` from ``start`` on comes in a row."""
    first, times = programs[start : start + length], 1
    while programs[start + times * length : start + (times + 1) * length] == first:
        times += 1
    return times


def _measure(step: Repetition) -> tuple[Spread, str] | None:
    """How long the step's programs run without recording, and on what; returns None if they cannot or need
    not be run again."""
    if step.operations < _FEW or any(seen.run.binding.executable.may_fail for seen in step.runs):
        return None
    apart = SeparateRuns(step.times[-1])
    try:
        apart.find_values()
        [spread] = measure(apart.run)
    except InputsGone:
        return None
    except Exception:  # a made-up input may be one that the program cannot take
        if not apart.made_up:
            raise
        return None
    return spread, apart.measured_on()


_FEW = 4  # operations: below, wrapping them spares nothing


# ---- what to wrap ------------------------------------------------------------------------------------------


def _advice(step: Repetition, run: Spread, inputs: str, wrap: JitSuggestion) -> Advice:
    gain = step.lazy_seconds / run.median
    head = (
        f"a step of {plural(step.operations, 'operation')} takes "
        f"{compact_duration(step.record_seconds)} to record and {compact_duration(run.median)} to run"
    )
    if wrap.code is None:
        location = step.times[-1][-1].spot.place
    else:
        location = place(wrap.code.co_filename, wrap.code.co_firstlineno)
    return Advice(
        location=location,
        count=len(step.times),
        operations=step.operations,
        record_seconds=step.record_seconds,
        run_seconds=run.median,
        lazy_seconds=step.lazy_seconds,
        function=wrap.name,
        covered=wrap.covered,
        gain=gain,
        doubts=wrap.doubts,
        inputs=inputs,
        text=f"{head}; {_words(wrap, step, run, gain)}",
    )


@dataclasses.dataclass(frozen=True, slots=True)
class JitSuggestion:
    """A function to wrap, see :class:`Advice`.

    Attributes:
      code: of the function; None if no function can be named.
      breaks_inside: whether a break lies in it or in what it calls.
      shared: whether what it calls is called by others too, so that ``covered`` may count theirs.
    """

    code: CodeType | None
    name: str
    covered: int
    doubts: tuple[str, ...]
    breaks_inside: bool
    shared: bool


def _recorded(step: Repetition, summaries: Mapping[State, TraceSummary]) -> collections.Counter[CodeType]:
    """How many of the step's operations each code object of the user's recorded."""
    recorded: collections.Counter[CodeType] = collections.Counter()
    for seen in step.runs:
        summary = summaries.get(seen.end)
        if summary is not None:
            recorded.update(origin.code for origin in summary.origins if origin is not None)
    return recorded


def _function_to_jit(
    recorded: collections.Counter[CodeType], calls: CallGraph, broken: set[CodeType]
) -> JitSuggestion:
    """The outermost function that recorded most and in which nothing breaks; else the one that recorded
    most."""
    candidates = {code for code in (*calls.functions, *recorded) if not code.co_name.startswith("<")}
    reached = {code: calls.reached(code) for code in candidates}
    covered = {code: sum(recorded[other] for other in reached[code]) for code in candidates}
    whole = [code for code in candidates if covered[code] and not reached[code] & broken]
    if whole:
        best = max(whole, key=lambda code: (covered[code], len(reached[code])))
        doubts = tuple(_impurities(reached[best]))
        is_shared = any(recorded[code] for code in calls.shared(best))
        return JitSuggestion(best, best.co_qualname, covered[best], doubts, False, is_shared)
    recording = [code for code in candidates if recorded[code]]
    if not recording:
        return JitSuggestion(None, "", 0, (), False, False)
    most = max(recording, key=lambda code: recorded[code])
    return JitSuggestion(
        most, most.co_qualname, recorded[most], ("a trace break lies inside it",), True, False
    )


def _impurities(codes: set[CodeType]) -> Iterator[str]:
    for code in sorted(codes, key=lambda code: code.co_firstlineno):
        for what, line in changes(code):
            yield f"it assigns to {what} ({place(code.co_filename, line).label})"


def _words(wrap: JitSuggestion, step: Repetition, run: Spread, gain: float) -> str:
    measured = (
        f"its programs alone, as jax.jit would run them, take {compact_duration(run.median)} instead of "
        f"{compact_duration(step.lazy_seconds)} a step ({gain:.1f} times faster, measured)"
    )
    if wrap.code is None:
        return (
            f"no function of yours recorded it: put these lines into one and wrap it in jax.jit; {measured}"
        )
    share = f"`{wrap.name}` recorded {'up to ' * wrap.shared}{wrap.covered:,} of them"
    if wrap.breaks_inside:
        return (
            f"{share}, but a trace break lies inside it: take that out, then wrap it in jax.jit; {measured}"
        )
    name = wrap.name.rpartition(".")[2]
    effect = f"`{name} = jax.jit({name})` records it as one operation, which takes a little too"
    doubts = ", and nothing breaks inside it"
    if wrap.doubts:
        doubts = f"; it cannot be shown to be pure: {'; '.join(wrap.doubts)}"
    return f"{share}{doubts}: {effect}; {measured}"
