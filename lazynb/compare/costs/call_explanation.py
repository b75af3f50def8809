"""``lazynb.explain``: runs a function lazily and reports its breaks, compilations with reasons, and costs."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from lazynb import jax_compat as jc
from lazynb.compare.costs.counterfactual import (
    BeforeAfter,
    Counterfactual,
    counterfactuals,
    first_line,
    without_all_breaks,
)
from lazynb.compare.costs.recording_advice import Advice, advise
from lazynb.compare.misses.compilation_causes import cures_of, reason_of
from lazynb.errors import LazynbError
from lazynb.recording.break_reasons import ASKED_FOR
from lazynb.recording.lazy_mode import lazy
from lazynb.recording.lazy_trace import LazyTrace, thread_trace
from lazynb.recording.runtime_interface import runtime
from lazynb.running.break_log import Breaks
from lazynb.running.flush import execution
from lazynb.running.miss_log import Miss
from lazynb.running.observers import observing
from lazynb.running.record_table import Records
from lazynb.running.run_recorder import RunRecorder
from lazynb.running.time_log import PYTHON, analysis, time_log
from lazynb.running.trace_executable import Executable
from lazynb.user_code.source_lines import Place
from lazynb.user_code.text_format import compact_duration, duration, duration_range


@dataclasses.dataclass(frozen=True, slots=True)
class CompiledProgram:
    """A program that was compiled or loaded.

    Attributes:
      location: the user's line that caused the run; for the final run, the line of the last operation.
      operations: recorded operations in it, without dead ones.
      origin: ``compiled``, or ``disk`` (from the persistent cache).
      seconds: time of lowering and compiling, or of loading.
      reason: how its trace differs from the nearest cached one.
      cures: the edits that would have made it a hit.
    """

    location: Place
    operations: int
    origin: str
    seconds: float
    reason: str
    cures: tuple[str, ...]


class Explanation:
    """The result of :func:`explain`; displays as text and as HTML.

    Attributes:
      name: name of the function.
      result: its return value, with pending values computed; None if it raised.
      error: text of its exception (the object itself would keep its frames alive); empty if it returned.
      seconds: from its call to its results, without the time of the explanation.
      operations: operations recorded and run, including dead ones.
      runs: number of programs run.
      breaks: its trace breaks, most expensive first.
      compilations: the programs that were compiled or loaded, in order.
      jax_compilations: compilations by JAX outside lazynb, most expensive first.
      counterfactuals: for each line with breaks, the program without them, largest saving first.
      together: the program without all breaks; None if there are fewer than two.
      advice: steps that take longer to record than to run.
      notes: further remarks, a sentence each.
    """

    def __init__(self, name: str, watched: ObservedCall):
        seen = watched.observer
        self.name = name
        self.result = watched.result
        self.error = watched.error
        self.seconds = watched.seconds
        self.operations = seen.operations
        self.runs = len(seen.runs) + seen.missed
        self.breaks = Breaks(seen.tallies.tallies())
        self.compilations = Records(_compilations(seen), "nothing was compiled", _compiled_row)
        self.jax_compilations = seen.jax_log.rows()
        self.notes = list(_notes(watched))
        self.counterfactuals: Records[Counterfactual] = Records(
            counterfactuals(seen.breaks), "no trace breaks", _apart_row, ranked=True
        )
        self.together = without_all_breaks(seen.breaks)
        self.advice: Records[Advice] = Records(
            advise(seen, watched.functions), "no advice", _advice_row, ranked=True
        )

    def to_dicts(self) -> dict[str, Any]:
        """All but the result as plain data."""
        return {
            "name": self.name,
            "seconds": self.seconds,
            "operations": self.operations,
            "runs": self.runs,
            "error": self.error,
            "breaks": self.breaks.to_dicts(),
            "compilations": self.compilations.to_dicts(),
            "jax_compilations": self.jax_compilations.to_dicts(),
            "counterfactuals": self.counterfactuals.to_dicts(),
            "together": dataclasses.asdict(self.together) if self.together is not None else None,
            "advice": self.advice.to_dicts(),
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        return runtime().displays.report_text(self)

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        return runtime().displays.report_bundle(self)


@dataclasses.dataclass
class ObservedCall:
    """One call and the events observed during it."""

    functions: Iterable[Any]
    observer: RunRecorder
    result: Any = None
    error: str = ""
    seconds: float = 0.0


def explain(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Explanation:
    """Runs ``fn(*args, **kwargs)`` lazily, once, and reports breaks, compilations with reasons, and costs.

    Values still pending at the end are computed; this is not counted as a break. Then programs are compiled
    outside all caches and measured: without each break, and as ``jax.jit`` would run a step. The function
    itself is not called again. Other threads are not observed.

    Raises:
      TypeError: ``fn`` is not callable, or is a generator or asynchronous function.
      LazynbError: called inside a JAX transformation, where nothing runs.
      Exception: what ``fn`` raises; its attribute ``lazynb_explanation`` is the :class:`Explanation` so far.
    """
    __tracebackhide__ = True
    _check(fn)
    name = getattr(fn, "__qualname__", None) or type(fn).__name__
    return explain_call(name, lambda: fn(*args, **kwargs), [fn, *args, *kwargs.values()])


@analysis
def explain_call(name: str, call: Callable[[], Any], functions: Iterable[Any]) -> Explanation:
    """Like :func:`explain`, for ``call``.

    Arguments:
      name: name of the call in the explanation.
      functions: objects in which the user's functions are searched, for advice on what to wrap.
    """
    __tracebackhide__ = True
    watched = ObservedCall(functions, RunRecorder())
    try:
        with _observed(watched):
            watched.result = call()
            _run_pending(watched.observer)
    except Exception as error:
        watched.result, watched.error = None, first_line(error)
        with contextlib.suppress(Exception):  # a failed explanation must not hide the user's exception
            error.lazynb_explanation = _finished(name, watched)  # type: ignore[attr-defined]
            error.add_note(
                "lazynb: what it did until then is explained by this exception's `lazynb_explanation`"
            )
        raise
    return _finished(name, watched)


def _run_pending(observer: RunRecorder) -> None:
    """Runs everything recorded since ``observer`` began and still pending."""
    for pending in thread_trace().all_pending():
        if pending.began >= observer.began:
            execution.flush([pending], ASKED_FOR)


def _finished(name: str, watched: ObservedCall) -> Explanation:
    try:
        with jc.set_current_trace(jc.eval_trace):
            return Explanation(name, watched)
    finally:
        watched.observer.release()


@contextlib.contextmanager
def _observed(watched: ObservedCall) -> Iterator[None]:
    """Records the body as a separate trace while the observer is active. Trace breaks raise no errors."""
    recorder = thread_trace()
    with time_log.spending(PYTHON), lazy(strict=False), observing(watched.observer):
        recorder.cut()
        start, observed = time.perf_counter(), recorder.observer_seconds
        try:
            yield
        finally:
            watched.seconds = time.perf_counter() - start - (recorder.observer_seconds - observed)
            recorder.cut()


def _check(fn: Any) -> None:
    if not callable(fn):
        raise TypeError(
            f"explain takes a function and its arguments, not {type(fn).__name__}: lazynb.explain(fn, *args)"
        )
    trace = jc.current_trace()
    if not (jc.is_eval(trace) or isinstance(trace, LazyTrace)):
        raise LazynbError(
            "explain runs a function, and inside a JAX transformation (jit, grad, vmap) nothing runs"
        )
    name = getattr(fn, "__name__", "fn")
    for what in (fn, inspect.getattr_static(type(fn), "__call__", None)):
        if inspect.isgeneratorfunction(what):
            raise TypeError(
                f"{name} is a generator function: its body runs when somebody iterates. Explain what does: "
                f"lazynb.explain(lambda: list({name}(...)))"
            )
        if inspect.iscoroutinefunction(what) or inspect.isasyncgenfunction(what):
            raise TypeError(
                f"{name} is asynchronous: its body runs when somebody awaits it. Explain a plain function"
            )


def _notes(watched: ObservedCall) -> Iterator[str]:
    seen = watched.observer
    if watched.error:
        yield f"it raised {watched.error.partition(':')[0]}: this is what it did until then"
    if inspect.isgenerator(watched.result):
        yield "it returned a generator, which has not run: explain a function that consumes it"
    if not seen.runs and not watched.error:
        yield "nothing was recorded: it computed no JAX array while lazy"
    if any(run.began < seen.began for run in seen.runs):
        yield "some of what its breaks forced was pending before it was called"
    if seen.missed:
        yield f"the first {len(seen.runs):,} programs were looked at; {seen.missed:,} more ran"


def _compilations(seen: RunRecorder) -> list[CompiledProgram]:
    compilations = []
    for run in (each.run for each in seen.runs):
        if run.miss is not None:
            compilations.append(_compiled(run.miss, run.binding.executable))
    return compilations


def _compiled(miss: Miss, executable: Executable) -> CompiledProgram:
    return CompiledProgram(
        location=executable.place if miss.kind == ASKED_FOR else miss.place,
        operations=executable.operations,
        origin=miss.origin,
        seconds=miss.seconds,
        reason=reason_of(miss),
        cures=tuple(cures_of(miss)),
    )


# ---- Table rows --------------------------------------------------------------------------------------------


def _where(place: Place) -> str:
    return place.in_full


def _compiled_row(compiled: CompiledProgram) -> dict[str, str]:
    return {
        "line": _where(compiled.location),
        "operations": f"{compiled.operations:,}",
        "origin": compiled.origin,
        "time": duration(compiled.seconds),
        "reason": compiled.reason,
        "instead": "; ".join(compiled.cures),
    }


def _apart_row(row: Counterfactual) -> dict[str, str]:
    running = spread = ""
    if row.now is not None and row.then is not None:
        running = _change(row.now.median, row.then.median)
        spread = f"{row.now} → {row.then}"
    return {
        "code": row.code,
        "line": _where(row.location),
        "costs": costs(row),
        "left out": f"{row.joined} of {row.followed}" if row.joined else "",
        "programs": _pair(row.programs),
        "running": running,
        "kernels": _pair(row.kernels),
        "bytes": _pair(row.bytes),
        "compiled": _pair(row.compiles),
        "compiling": _change(row.compile_seconds.now, row.compile_seconds.then),
        "spread": spread,
    }


def costs(row: Counterfactual) -> str:
    """The cost of a row's breaks as a phrase, or why it is unknown."""
    if row.saved is None or row.total is None:
        return row.problem
    if not row.clear:
        return "less than the spread of the measured times"
    if row.saved < 0:
        return f"nothing: one program takes {compact_duration(-row.saved)} longer, for each break"
    if row.followed <= 1:
        return compact_duration(row.saved)
    total = f"{compact_duration(row.total)}{' inferred' if row.inferred else ''} for {row.followed:,}"
    return f"{compact_duration(row.saved)} each, {total}"


def all_together(row: Counterfactual) -> str:
    """The cost of all breaks as a sentence; empty if unknown."""
    if row.saved is None:
        return ""
    return f"All of them left out ({row.joined} of {row.followed} in one program): {costs(row)}"


def _pair(pair: BeforeAfter) -> str:
    if pair.now is None or pair.then is None:
        return ""
    return f"{pair.now:,.0f} → {pair.then:,.0f}"


def _change(now: float | None, then: float | None) -> str:
    if now is None or then is None:
        return ""
    if max(now, then) < 1:
        return duration_range(now, then, " → ")
    return f"{compact_duration(now)} → {compact_duration(then)}"


def _advice_row(advice: Advice) -> dict[str, str]:
    return {
        "step": _where(advice.location),
        "times": f"{advice.count:,}",
        "operations": f"{advice.operations:,}",
        "recording": compact_duration(advice.record_seconds),
        "running": compact_duration(advice.run_seconds),
        "advice": advice.text,
    }
