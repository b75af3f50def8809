"""The flush: runs a pending trace and gives the waiting tensors their values.

What is computed is what somebody can still reach. Nothing is changed before the run succeeded: after an error the trace is
pending as before, but for what does not depend on the operation that failed. An interrupt ends the wait, not the run: its results
are there for whoever asks next.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import jax

from lazynb import _jax_compat as jc
from lazynb.config import config
from lazynb.errors import TraceBreakError
from lazynb.execute.background import in_background, wait
from lazynb.execute.blame import add_note
from lazynb.execute.breaks import break_log
from lazynb.execute.donation import offers
from lazynb.execute.events import log
from lazynb.execute.executable import Binding, Executable, ExecutableCache
from lazynb.execute.failure import Attempt, Trouble, obtain
from lazynb.execute.landing import Landing
from lazynb.execute.misses import Cut, Miss, log as miss_log
from lazynb.execute.program import needed_steps
from lazynb.reasons import REASONS
from lazynb.record.names import names_of, user_namespace
from lazynb.record.pending import Pending, closure
from lazynb.record.runtime import Hooks
from lazynb.record.sketch import sketch
from lazynb.record.tensor import LazyTensor
from lazynb.record.trace import LazyTrace, thread_trace, trie
from lazynb.source import Spot, here

executables = ExecutableCache(trie)


_ASKED_FOR = "compile"
"""The only kind that is no trace break: ``%%compile`` was asked to run what is pending."""


class Witness(Protocol):
    """Sees every run of the thread that it watches, see :attr:`Execution.witness`."""

    def ran(self, run: Run, pending: Pending, tensors: Sequence[LazyTensor], values: Sequence[Any],
            results: Sequence[Any]) -> None:
        """``run`` of ``pending`` took ``values`` and gives ``results`` to ``tensors``; called before they have them."""

    def broke(self, kind: str, spot: Spot, detail: str, operations: int, runs: Sequence[Run], seconds: float,
              forced: LazyTensor | None) -> None:
        """A trace break made ``runs`` necessary; ``forced`` is the tensor whose value was needed, which has it now."""


class Run(NamedTuple):
    """One pending trace that was run.

    Attributes:
      binding: what ran it.
      miss: why the program had to be made; None for a hit.
      seconds: handing it over; making the program not included.
      record_seconds: from the beginning of the trace to its end.
    """

    binding: Binding
    miss: Miss | None
    seconds: float
    record_seconds: float


class Execution:
    """Runs pending traces; the recorder's runtime."""

    def __init__(self) -> None:
        self.show: Any = None  # set by the view layer: a tensor's MIME bundle

    @property
    def local(self) -> LazyTrace:
        """This thread's recorder, which holds ``strict`` (a trace break raises) and ``witness``."""
        return thread_trace()

    def force(self, tensor: LazyTensor, kind: str, detail: str = "") -> Any:
        """The concrete value of ``tensor``, see :class:`lazynb.record.runtime.Runtime`."""
        pending = tensor._pending
        if pending is not None:
            self._break(pending, kind, here(2), detail, tensor)
        return tensor._value

    def flush(self, pending: Pending, kind: str) -> None:
        """Runs ``pending`` and what it depends on; notes a trace break of ``kind``."""
        self._break(pending, kind, here(2))

    def _break(self, pending: Pending, kind: str, spot: Spot, detail: str = "", forced: LazyTensor | None = None,
               targets: Sequence[LazyTensor] = ()) -> None:
        """Runs ``pending`` after what it takes inputs from, waits for ``forced`` if Python needs it at once, and notes why.

        Arguments:
          targets: what was asked for, where it is not ``forced``; by default all of ``pending``.

        Raises:
          TraceBreakError: trace breaks are errors in this thread.
        """
        start = time.perf_counter()
        trace = pending.trace
        with trace.lock:
            traces = closure(pending.live()) if pending.depends else [pending]  # what nobody can reach may go
            if any([one.calls_back for one in traces]):
                traces = _with_earlier(traces, trace)
            operations = sum(map(len, traces))
            if trace.strict and not REASONS[kind].explicit and any(one.has_live() for one in traces):
                raise TraceBreakError(kind, detail, spot, operations)
            awaited = forced if kind in WAITING else None
            current = jc.ambient.value
            try:
                runs = self._run(traces, kind, spot, targets or ((forced,) if forced is not None else ()), awaited is not None)
            except KeyboardInterrupt:  # it may have cut short what makes a trace current again
                jc.set_trace(current)
                raise
        if not runs:
            return
        last = runs[-1].binding.executable
        try:
            if awaited is not None and awaited._value is not None:
                _wait_for(awaited._value, last)
        finally:  # an interrupt ends the wait, not the run
            seconds = time.perf_counter() - start
            made = [run.miss for run in runs if run.miss is not None]
            compiles, compiling = _compiled(made) if made else (0, 0.0)
            if awaited is not None:
                last.waited(seconds - compiling)
            if kind != _ASKED_FOR:
                break_log.add(kind, spot, operations, compiles, seconds, detail, compiling)
                trace.cut_by = (kind, spot)
            if trace.witness is not None:
                trace.witness.broke(kind, spot, detail, operations, runs, seconds, forced)

    def display(self, tensor: LazyTensor) -> dict[str, Any]:
        """A pending tensor's MIME bundle. Runs nothing, unless the user's settings say so."""
        if config.run_on_display and tensor._pending is not None:
            self._break(tensor._pending, _ASKED_FOR, here(2), "", tensor)
        if self.show is None or tensor._value is not None:
            return {"text/plain": repr(tensor)}
        return self.show(tensor)

    def _run(self, traces: Sequence[Pending], kind: str, spot: Spot, targets: Sequence[LazyTensor], awaited: bool) -> list[Run]:
        """Runs ``traces``; where not all of it can run, what ``targets`` need, or without them all that can.

        Arguments:
          awaited: whether Python needs a value of the last trace at once.
        """
        runs: list[Run] = []
        if not any([one.trouble for one in traces]):
            try:
                for one in traces:
                    self._run_one(one, kind, spot, runs, awaited and one is traces[-1])
                return runs
            except Exception as error:
                one.trouble = Trouble()
                one.trouble.learn(error)
        self._run_what_can(traces, targets, lambda one, tensors: self._run_one(one, kind, spot, runs, tensors=tensors))
        return runs

    @staticmethod
    def _run_what_can(traces: Sequence[Pending], targets: Sequence[LazyTensor], attempt: Attempt) -> None:
        """Runs what ``targets`` need, or all that can run of ``traces``.

        Of the latter no error is raised a second time: eager JAX raises once, where the operation stands.
        """
        if not targets:
            gc.collect()  # the traceback of an earlier error may hold what nobody else can reach
            traces[-1].trace.close_dead()
            targets = [one for pending in traces for one in pending.live()
                       if pending.trouble is None or one._slot not in pending.trouble.told]
        errors: list[Exception] = []
        for tensor in targets:
            pending = tensor._pending
            if pending is not None:
                try:
                    obtain(tensor, traces, attempt)
                except Exception as error:
                    errors.append(error)
                    if pending.trouble is not None:
                        pending.trouble.told.add(tensor._slot)
        try:
            if errors:
                raise errors[0]
        finally:
            errors.clear()  # their tracebacks hold this frame

    def _run_one(self, pending: Pending, kind: str, spot: Spot, runs: list[Run], awaited: bool = False,
                 tensors: list[LazyTensor] | None = None) -> None:
        """Runs ``pending`` for all who wait, or for ``tensors`` alone, and adds to ``runs``.

        Its inputs that are needed have values. ``awaited``: Python needs a value of it at once.
        """
        if pending.landing is not None:
            self.finish(pending)
            if tensors is not None:
                tensors = [tensor for tensor in tensors if tensor._pending is pending]  # the others have their values now
                if not tensors:
                    return
        whole = tensors is None
        tensors = pending.live() if tensors is None else tensors
        if not tensors:
            pending.close()
            return
        pending.seal()
        recorded = time.perf_counter() - pending.began
        landing = None
        try:
            if pending.guards:
                pending.restore()
            values = [value._value if value.__class__ is LazyTensor else value for value in pending.inputs]
            found = self._binding(pending, tensors, values, kind, spot, whole)
            if found is None:
                pending.close()
                return
            binding, miss = found
            landing = pending.landing = Landing(binding, tensors, kind, spot, miss, recorded)
            self._start(pending, landing, values, awaited)
        except BaseException:
            if landing is None or not landing.arrived():
                pending.landing = None
                pending.trace.resume(pending)
            raise
        self._note(pending, landing)  # a witness asks how often the program ran
        run = Run(binding, miss, landing.seconds, recorded)
        if pending.trace.witness is not None:
            pending.trace.witness.ran(run, pending, tensors, values, landing.placed())
        self.finish(pending)
        runs.append(run)

    @staticmethod
    def _start(pending: Pending, landing: Landing, values: list[Any], awaited: bool) -> None:
        binding = landing.binding
        for number in binding.executable.donated:  # nobody else can reach them, and XLA cannot take what is held elsewhere
            pending.guards.pop(id(values[binding.inputs[number]]), None)
        start = time.perf_counter()
        try:
            binding.start(values, awaited, landing)
        except BaseException as error:
            add_note(error, pending, needed_steps(pending.state.path(), [tensor._slot for tensor in landing.tensors]),
                     running=True)
            raise
        landing.seconds = time.perf_counter() - start

    def finish(self, pending: Pending) -> None:
        """Gives the tensors of ``pending`` what a run of it gave; after an interrupt, that of the run which it came upon."""
        landing = pending.landing
        if landing is None:
            return
        if not landing.arrived():
            pending.landing = None
            return
        self._note(pending, landing)
        whole = pending.trouble is None
        for tensor, value in zip(landing.tensors, landing.placed(), strict=True):
            tensor._settle(value)
            if whole:
                tensor._forget_origin()
        doomed = pending.doomed
        landing.tensors = ()
        pending.landing = None
        if whole or not pending.live():
            pending.close()
            for array in doomed:
                if not array.is_deleted():
                    array.delete()

    def _note(self, pending: Pending, landing: Landing) -> None:
        """Counts the run, once."""
        if landing.noted:
            return
        landing.noted = True
        executable, miss = landing.binding.executable, landing.miss
        self._count(executable)
        log.events.append((landing.kind, landing.spot, len(pending), executable.operations,
                           "hit" if executable.hits else executable.origin, miss.seconds if miss is not None else 0.0,
                           landing.seconds, landing.recorded, executable.miss))

    @staticmethod
    def _count(executable: Executable) -> None:
        """The first run of an executable is the miss that made it, every later one a hit."""
        if executable.runs:
            executable.hits += 1
            executables.hits += 1
        executable.runs += 1

    def prepare(self, pending: Pending) -> tuple[Binding, bool] | None:
        """The executable for ``pending`` and whether it was made now; None if nobody waits for it. Runs nothing; keeps it for
        the run.

        What ``pending`` takes inputs from must have been prepared before it.
        """
        with pending.trace.lock:
            self.finish(pending)
            values = [self._preview(value) for value in pending.inputs]
            found = self._binding(pending, pending.live(), values, "compile", here(2))
        return (found[0], found[1] is not None) if found is not None else None

    @staticmethod
    def _preview(value: Any) -> Any:
        """An input, or what it will look like when the earlier trace that computes it has run."""
        if not isinstance(value, LazyTensor):
            return value
        if value._pending is None:
            return value._value
        wanted = tuple([tensor._slot for tensor in value._pending.live()])
        return executables.any(value._pending.state, wanted).abstract_result(wanted.index(value._slot))

    def _binding(self, pending: Pending, tensors: list[LazyTensor], values: list[Any], kind: str, spot: Spot,
                 whole: bool = True) -> tuple[Binding, Miss | None] | None:
        """What runs ``pending`` for ``tensors`` (brought up to date), and why it had to be made, if it had; None where it turns
        out that nobody can reach them (only the traceback of an error did). Unless they are the ``whole`` of those that wait,
        nothing is donated."""
        wanted, donated, found = self._look_up(pending, tensors, values, whole)
        if found is None and whole:
            # Tensors in reference cycles live until the collector runs, at times that differ between equal steps: collecting
            # costs less than compiling for a tensor that nobody can reach. The young generations take about a millisecond;
            # the whole heap is worth it when this trace was compiled before, for other tensors.
            tensors.clear()
            gc.collect(2 if pending.state.executables else 1)
            tensors.extend(pending.live())
            if not tensors:
                return None
            wanted, donated, found = self._look_up(pending, tensors, values, whole)
        if found is not None:
            return found, None
        binding, made = executables.make(pending, wanted, donated, values)
        return binding, self._missed(pending, wanted, donated, binding.executable, kind, spot) if made else None

    @staticmethod
    def _missed(pending: Pending, wanted: tuple[int, ...], donated: tuple[int, ...], executable: Executable, kind: str,
                spot: Spot) -> Miss:
        drawn = sketch(pending, _names())
        cut = Cut(*pending.cut_by) if pending.cut_by is not None else None
        executable.miss = miss_log.add(kind, spot, drawn, wanted, donated, cut, executable.origin, executable.compile_seconds)
        return executable.miss

    @staticmethod
    def _look_up(pending: Pending, tensors: list[LazyTensor], values: list[Any], whole: bool,
                 ) -> tuple[tuple[int, ...], tuple[int, ...], Binding | None]:
        wanted = tuple([tensor._slot for tensor in tensors])
        donated = offers(pending, wanted, values) if whole else ()
        if donated:
            donated = executables.allowed(pending.state, wanted, donated)
        return wanted, donated, executables.find(pending, wanted, donated)

    def sync(self, *tensors: Any) -> None:
        """Runs what is pending of this thread; see :func:`lazynb.sync`."""
        if not tensors:
            thread_trace().close_dead()
            for pending in thread_trace().all_pending():
                self.flush(pending, "sync")
        for tensor in tensors_in(tensors):
            if tensor._pending is not None:
                self._break(tensor._pending, "sync", here(1), targets=(tensor,))

    def waiting(self, tensors: Sequence[Any]) -> list[Pending]:
        """The pending traces that ``tensors`` (or pytrees of them) need, in the order they would run; all of this thread's where
        none are given."""
        return closure(tensors_in(tensors)) if tensors else thread_trace().all_pending()

    def run_all(self, kind: str) -> None:
        """Runs all that is pending of this thread."""
        for pending in thread_trace().all_pending():
            self.flush(pending, kind)


def tensors_in(trees: Sequence[Any]) -> list[LazyTensor]:
    """The lazy tensors among the leaves of pytrees."""
    return [leaf for leaf in jax.tree.leaves(list(trees)) if isinstance(leaf, LazyTensor)]


def _with_earlier(traces: Sequence[Pending], trace: LazyTrace) -> list[Pending]:
    """``traces`` and those before their last: a function that they call may read what it closes over."""
    known = set(map(id, traces))
    order = [one for one in (*trace.sealed, trace.pending) if one is not None and (id(one) in known or one.has_live())]
    last = max((number for number, one in enumerate(order) if one is traces[-1]), default=None)
    return list(traces) if last is None else order[:last + 1]


def _compiled(made: Sequence[Miss]) -> tuple[int, float]:
    """How many programs were compiled, and the seconds for that and for loading the others."""
    return sum(miss.origin == "compiled" for miss in made), sum(miss.seconds for miss in made)


def _names() -> dict[int, tuple[str, ...]]:
    """Names of the user's variables; none where one of the user's containers fails to be looked into."""
    try:
        return names_of(user_namespace())
    except Exception:
        return {}


def _wait_for(value: Any, executable: Executable) -> None:
    """Waits until ``value`` is there. In another thread, so that an interrupt gets through, unless the wait is known to be
    short: handing it over takes longer than most programs."""
    if executable.wait_seconds < _SHORT:
        value.block_until_ready()
        return
    start = time.perf_counter()
    if not jc.is_ready(value):
        wait(in_background(value.block_until_ready))
    executable.wait_seconds = time.perf_counter() - start


_SHORT = 0.02  # seconds

WAITING = frozenset(("bool", "int", "float", "complex", "index", "item", "tolist", "print", "format", "asarray", "pickle",
                     "bytes", "contains", "save", "plot", "static", "block",
                     "numpy_function", "numpy_dtype", "numpy_values", "numpy_out"))
"""Conversions that need the value in Python at once."""

execution = Execution()
Hooks.runtime = execution
