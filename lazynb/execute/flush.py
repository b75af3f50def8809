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
from lazynb.execute.events import Event, log
from lazynb.execute.executable import Binding, Executable, ExecutableCache, in_background, wait
from lazynb.record.pending import Pending, closure
from lazynb.record.runtime import Hooks
from lazynb.record.tensor import LazyTensor
from lazynb.record.trace import thread_trace, trie
from lazynb.source import Place, here

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
            self.flush(pending, kind)
            value = tensor._value
            if value is not None and kind in _WAITING and not jc.is_ready(value):
                wait(in_background(value.block_until_ready))  # lets an interrupt through
        return tensor._value

    def flush(self, pending: Pending, kind: str) -> None:
        """Runs ``pending`` and what it depends on; notes a trace break of ``kind``."""
        operations, start = sum(map(len, closure(pending.live()))), time.perf_counter()
        location = here(2)
        compiled = self._run(pending, kind, location)
        if compiled is not None and kind not in _NOT_A_BREAK:
            log.add_break(kind, location, operations, compiled, time.perf_counter() - start)

    def display(self, tensor: LazyTensor) -> dict[str, Any]:
        """A pending tensor's MIME bundle. Runs nothing."""
        if self.show is None:
            return {"text/plain": repr(tensor)}
        return self.show(tensor)

    def _run(self, pending: Pending, kind: str, location: Place) -> bool | None:
        """Runs ``pending`` after what it takes inputs from. Whether anything was compiled; None if nothing was pending."""
        with pending.trace.lock:
            traces = closure(pending.live())  # no tensor is held here: what nobody else can reach may go
            if not traces:
                pending.close()
                return None
            return any([self._run_one(trace, kind, location) for trace in traces])

    def _run_one(self, pending: Pending, kind: str, location: Place) -> bool:
        """Runs ``pending``, whose inputs have values. Whether it had to be compiled."""
        tensors = pending.live()
        values = [value._value if isinstance(value, LazyTensor) else value for value in pending.inputs]
        binding, made = self._binding(pending, tensors, values)
        executable, start = binding.executable, time.perf_counter()
        try:
            results = binding.run(values)
        except BaseException as error:
            add_note(error, pending, pending.state.path(), running=True)
            raise
        seconds = time.perf_counter() - start
        self._count(executable)
        log.add_event(Event(kind, location, len(pending), executable.operations,
                            "hit" if executable.hits else executable.origin,
                            executable.compile_seconds if made else 0.0, seconds))
        self._settle(pending, tensors, results)
        return made and executable.origin == "compiled"

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
        return value._pending.state.executables[wanted].executable.abstract_result(wanted.index(value._slot))

    def _binding(self, pending: Pending, tensors: list[LazyTensor], values: list[Any]) -> tuple[Binding, bool]:
        """What runs ``pending`` for ``tensors`` (brought up to date), and whether it was compiled now."""
        wanted = tuple([tensor._slot for tensor in tensors])
        found = executables.find(pending, wanted)
        if found is None:
            # Tensors in reference cycles live until the collector runs, at times that differ between equal steps: collecting
            # costs less than compiling for a tensor that nobody can reach. The young generations take about a millisecond;
            # the whole heap is worth it when this trace was compiled before, for other tensors.
            tensors.clear()
            gc.collect(2 if pending.state.executables else 1)
            tensors.extend(pending.live())
            wanted = tuple([tensor._slot for tensor in tensors])
            found = executables.find(pending, wanted)
        return (found, False) if found is not None else executables.make(pending, wanted, values)

    @staticmethod
    def _settle(pending: Pending, tensors: list[LazyTensor], results: list[Any]) -> None:
        for tensor, value in zip(tensors, results, strict=True):
            tensor._value = value
            tensor._pending = None
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


# Conversions that need the value in Python at once.
_WAITING = {"bool", "int", "float", "complex", "index", "item", "tolist", "print", "asarray", "pickle", "bytes", "block"}

execution = Execution()
Hooks.runtime = execution
