"""Advice on steps that take longer to record than to run, and on which function to wrap in ``jax.jit``."""

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
from lazynb.user_code.source_lines import Place, place
from lazynb.user_code.text_format import compact_duration
from lazynb.xla.program_interface import InputsGone


@dataclasses.dataclass(frozen=True, slots=True)
class Advice:
    """A repeated step that takes longer to record than to run.

    Attributes:
      location: the line of the function to wrap; without one, the line of the break that ends the step.
      count: number of repetitions.
      operations: recorded operations in one step.
      record_seconds: median time to record one step, including the Python code between operations.
      run_seconds: measured median time of its programs alone, without recording, on its inputs.
      lazy_seconds: median time of one step with recording, lookup, running and waiting.
      function: the function to wrap; empty if no user function was found.
      covered: upper bound of the operations it recorded; functions that it calls may have other callers too.
      gain: ``lazy_seconds`` divided by the time without recording.
      doubts: reasons against wrapping it, a phrase each; empty if none was found.
      inputs: which inputs the measurement used.
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
    """Returns steps that take longer to record than to run, largest loss first. Runs their programs again.

    Arguments:
      functions: objects in which the user's functions are searched.
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
    """The time that recording costs in all repetitions of a step, in seconds."""
    return advice.count * (advice.lazy_seconds - advice.run_seconds)


def _joined(repeated: Iterable[Repetition]) -> list[Repetition]:
    """Merges steps with the same programs, such as a restarted loop. The most frequent step comes first."""
    same: dict[tuple[int, ...], list[Sequence[RecordedBreak]]] = {}
    for step in repeated:
        programs = tuple(sorted(id(seen.run.binding.executable) for seen in step.runs))
        same.setdefault(programs, []).extend(step.times)
    return sorted(map(Repetition, same.values()), key=lambda step: -len(step.times))


class Repetition:
    """A sequence of breaks that was repeated with the same programs; ``times`` has the repetitions."""

    def __init__(self, times: Sequence[Sequence[RecordedBreak]]):
        self.times = times

    @property
    def runs(self) -> list[RecordedRun]:
        """The runs of one repetition."""
        return _runs(self.times[-1])

    @property
    def operations(self) -> int:
        """Number of operations recorded in one repetition."""
        return sum(seen.operations for seen in self.runs)

    @property
    def record_seconds(self) -> float:
        """Median; the first repetition is left out, because JAX traces in it."""
        return statistics.median(map(_record_seconds, self.times[1:]))

    @property
    def lazy_seconds(self) -> float:
        """Median of recording and breaks, without compilation; the first repetition is left out."""
        return statistics.median(map(_lazy_seconds, self.times[1:]))


def _runs(breaks: Sequence[RecordedBreak]) -> list[RecordedRun]:
    return [seen for trace_break in breaks for seen in trace_break.runs]


def _record_seconds(breaks: Sequence[RecordedBreak]) -> float:
    return sum(seen.run.record_seconds for seen in _runs(breaks))


def _lazy_seconds(breaks: Sequence[RecordedBreak]) -> float:
    waits = sum(trace_break.seconds - trace_break.compile_seconds for trace_break in breaks)
    return waits + _record_seconds(breaks)


def steps(breaks: Sequence[RecordedBreak]) -> Iterator[Repetition]:
    """Yields sequences of breaks that occur at least three times in a row with the same programs."""
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
    """Length and repetitions of the shortest sequence at ``start`` that repeats enough; else ``(1, 1)``."""
    for length in range(1, _LONGEST + 1):
        times = _repetitions(programs, start, length)
        if times >= _REPEATED:
            return length, times
    return 1, 1


def _repetitions(programs: Sequence[Any], start: int, length: int) -> int:
    """Number of consecutive occurrences of the sequence of ``length`` at ``start``."""
    first, times = programs[start : start + length], 1
    while programs[start + times * length : start + (times + 1) * length] == first:
        times += 1
    return times


def _measure(step: Repetition) -> tuple[Spread, str] | None:
    """Run time of the step's programs without recording, and the inputs used; None if not measured."""
    if step.operations < _FEW or any(seen.run.binding.executable.may_fail for seen in step.runs):
        return None
    apart = SeparateRuns(step.times[-1])
    try:
        apart.find_values()
        [spread] = measure(apart.run)
    except InputsGone:
        return None
    except Exception:  # a synthetic input may be invalid for the program
        if not apart.made_up:
            raise
        return None
    return spread, apart.measured_on()


_FEW = 4  # with fewer operations, wrapping saves nothing


# ---- Function to wrap --------------------------------------------------------------------------------------


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
      code: code object of the function; None if none was found.
      breaks_inside: whether the function, or one that it calls, breaks the trace.
      shared: whether functions that it calls have other callers, so that ``covered`` may be too large.
    """

    code: CodeType | None
    name: str
    covered: int
    doubts: tuple[str, ...]
    breaks_inside: bool
    shared: bool


def _recorded(step: Repetition, summaries: Mapping[State, TraceSummary]) -> collections.Counter[CodeType]:
    """Number of the step's operations that each of the user's code objects recorded."""
    recorded: collections.Counter[CodeType] = collections.Counter()
    for seen in step.runs:
        summary = summaries.get(seen.end)
        if summary is not None:
            recorded.update(origin.code for origin in summary.origins if origin is not None)
    return recorded


def _function_to_jit(
    recorded: collections.Counter[CodeType], calls: CallGraph, broken: set[CodeType]
) -> JitSuggestion:
    """The outermost function that recorded most without a break; otherwise the one that recorded most."""
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
