"""The flush: runs a pending trace and gives the waiting tensors their values.

What is computed is what somebody can still reach. Nothing is changed before the run succeeded: after an error or an interrupt
the trace is pending as before.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from typing import Any

import jax

from lazynb import _jax_compat as jc
from lazynb.execute.blame import add_note
from lazynb.execute.donation import offers
from lazynb.execute.events import log
from lazynb.execute.executable import Binding, Executable, ExecutableCache, in_background, wait
from lazynb.record.pending import Pending, closure
from lazynb.record.runtime import Hooks
from lazynb.record.tensor import LazyTensor
from lazynb.record.trace import thread_trace, trie
from lazynb.source import Spot, here

executables = ExecutableCache(trie)

_NOT_A_BREAK = {"compile"}


class Execution:
    """Runs pending traces; the recorder's runtime."""

    def __init__(self) -> None:
        self.show: Any = None  # set by the view layer: a tensor's MIME bundle

    def force(self, tensor: LazyTensor, kind: str) -> Any:
        """The concrete value of ``tensor``, see :class:`lazynb.record.runtime.Runtime`."""
        pending = tensor._pending
        if pending is not None:
            executable = self._flush(pending, kind, here(2))
            if kind in _WAITING and executable is not None and tensor._value is not None:
                _wait_for(tensor._value, executable)
        return tensor._value

    def flush(self, pending: Pending, kind: str) -> None:
        """Runs ``pending`` and what it depends on; notes a trace break of ``kind``."""
        self._flush(pending, kind, here(2))

    def _flush(self, pending: Pending, kind: str, spot: Spot) -> Executable | None:
        """Runs ``pending`` after what it takes inputs from; its executable, None if nothing was pending."""
        start = time.perf_counter()
        with pending.trace.lock:
            traces = closure(pending.live()) if pending.depends else [pending]  # what nobody can reach may go
            operations = sum(map(len, traces))
            runs = [self._run_one(trace, kind, spot) for trace in traces]
        ran = [run for run in runs if run is not None]
        if not ran:
            return None
        if kind not in _NOT_A_BREAK:
            log.add_break(kind, spot, operations, any(compiled for _, compiled in ran), time.perf_counter() - start)
        return ran[-1][0]

    def display(self, tensor: LazyTensor) -> dict[str, Any]:
        """A pending tensor's MIME bundle. Runs nothing."""
        if self.show is None:
            return {"text/plain": repr(tensor)}
        return self.show(tensor)

    def _run_one(self, pending: Pending, kind: str, spot: Spot) -> tuple[Executable, bool] | None:
        """Runs ``pending``, whose inputs have values. Its executable and whether that was compiled now; None if nobody waits."""
        tensors = pending.live()
        if not tensors:
            pending.close()
            return None
        pending.seal()
        try:
            values = [value._value if value.__class__ is LazyTensor else value for value in pending.inputs]
            binding, made = self._binding(pending, tensors, values)
            start = time.perf_counter()
            results = self._results(pending, binding, values)
        except BaseException:
            pending.trace.resume(pending)
            raise
        executable, seconds = binding.executable, time.perf_counter() - start
        self._count(executable)
        log.events.append((kind, spot, len(pending), executable.operations, "hit" if executable.hits else executable.origin,
                           executable.compile_seconds if made else 0.0, seconds))
        self._settle(pending, tensors, results)
        return executable, made and executable.origin == "compiled"

    @staticmethod
    def _results(pending: Pending, binding: Binding, values: list[Any]) -> list[Any]:
        try:
            return binding.run(values)
        except BaseException as error:
            add_note(error, pending, pending.state.path(), running=True)
            raise

    @staticmethod
    def _count(executable: Executable) -> None:
        """The first run of an executable is the miss that made it, every later one a hit."""
        if executable.runs:
            executable.hits += 1
            executables.hits += 1
        executable.runs += 1

    def prepare(self, pending: Pending) -> tuple[Binding, bool]:
        """The executable for ``pending`` and whether it was made now. Runs nothing; keeps it for the run.

        What ``pending`` takes inputs from must have been prepared before it.
        """
        with pending.trace.lock:
            return self._binding(pending, pending.live(), [self._preview(value) for value in pending.inputs])

    @staticmethod
    def _preview(value: Any) -> Any:
        """An input, or what it will look like when the earlier trace that computes it has run."""
        if not isinstance(value, LazyTensor):
            return value
        if value._pending is None:
            return value._value
        wanted = tuple([tensor._slot for tensor in value._pending.live()])
        return executables.any(value._pending.state, wanted).abstract_result(wanted.index(value._slot))

    def _binding(self, pending: Pending, tensors: list[LazyTensor], values: list[Any]) -> tuple[Binding, bool]:
        """What runs ``pending`` for ``tensors`` (brought up to date), and whether it was compiled now."""
        wanted, donated, found = self._look_up(pending, tensors, values)
        if found is None:
            # Tensors in reference cycles live until the collector runs, at times that differ between equal steps: collecting
            # costs less than compiling for a tensor that nobody can reach. The young generations take about a millisecond;
            # the whole heap is worth it when this trace was compiled before, for other tensors.
            tensors.clear()
            gc.collect(2 if pending.state.executables else 1)
            tensors.extend(pending.live())
            wanted, donated, found = self._look_up(pending, tensors, values)
        return (found, False) if found is not None else executables.make(pending, wanted, donated, values)

    @staticmethod
    def _look_up(pending: Pending, tensors: list[LazyTensor], values: list[Any],
                 ) -> tuple[tuple[int, ...], tuple[int, ...], Binding | None]:
        wanted = tuple([tensor._slot for tensor in tensors])
        donated = offers(pending, wanted, values)
        if donated:
            donated = executables.allowed(pending.state, wanted, donated)
        return wanted, donated, executables.find(pending, wanted, donated)

    @staticmethod
    def _settle(pending: Pending, tensors: list[LazyTensor], results: list[Any]) -> None:
        for tensor, value in zip(tensors, results, strict=True):
            tensor._settle(value)
        doomed = pending.doomed
        pending.close()
        for array in doomed:
            if not array.is_deleted():
                array.delete()

    def sync(self, *tensors: Any) -> None:
        """Runs what is pending of this thread; see :func:`lazynb.sync`."""
        if not tensors:
            for pending in thread_trace().all_pending():
                self.flush(pending, "sync")
        for tensor in jax.tree.leaves(tensors):
            if isinstance(tensor, LazyTensor) and tensor._pending is not None:
                self.flush(tensor._pending, "sync")

    def waiting(self, tensors: Sequence[LazyTensor]) -> list[Pending]:
        """The pending traces that ``tensors`` need, in the order they would run; all of this thread's without any."""
        if not tensors:
            return thread_trace().all_pending()
        return closure(tensors)

    def run_all(self, kind: str) -> None:
        """Runs all that is pending of this thread."""
        for pending in thread_trace().all_pending():
            self.flush(pending, kind)


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

# Conversions that need the value in Python at once.
_WAITING = {"bool", "int", "float", "complex", "index", "item", "tolist", "print", "asarray", "pickle", "bytes", "block"}

execution = Execution()
Hooks.runtime = execution
