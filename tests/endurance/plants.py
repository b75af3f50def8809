"""Cures taken back, and other faults put into lazynb on purpose, so that the campaign can be seen to find
such.

``LAZYNB_ENDURANCE_PLANT`` names one of :data:`PLANTS`.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Callable
from typing import Any

from lazynb import jax_compat as jc
from lazynb.recording import input_protection, lazy_mode
from lazynb.recording.external_arrays import SharedMemory
from lazynb.recording.lazy_blocks import Blocks
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.runtime_interface import runtime
from lazynb.recording.trace_inputs import TraceInputs
from lazynb.running import run_delivery, trace_launch
from lazynb.running.flush import Execution
from lazynb.running.run_delivery import InFlightRun
from lazynb.running.trace_executable import Executable


def _interrupts() -> None:
    """An interrupt after the run loses what was given away: the inputs are gone, the results too."""

    def take(self: Any, call: Any, arguments: Any) -> None:
        found = call(*arguments)
        len(arguments)  # a call: here Python looks for signals
        self._got.append(found)

    take.__code__ = take.__code__.replace(
        co_filename=run_delivery.__file__, co_qualname="InFlightRun.take"
    )  # signals are aimed so
    InFlightRun.take = take  # type: ignore[method-assign]


def _failures() -> None:
    """Where a program fails, all of it does, each time that a value of it is asked for."""

    def run(_self: Any, traces: Any, kind: Any, spot: Any, _targets: Any, awaited: bool) -> Any:
        runs: list[Any] = []
        for one in traces:
            trace_launch.run_trace(one, None, kind, spot, runs, awaited and one is traces[-1])
        return runs

    Execution._run = run  # type: ignore[method-assign]


def _memory_of_others() -> None:
    """Nobody notes that JAX shares an array's memory with NumPy."""
    SharedMemory._note = lambda *_arguments: None  # type: ignore[method-assign]


def _deleted_elsewhere() -> None:
    """A pending trace holds an array that others hold too as if it were its own."""
    TraceInputs._protected = lambda self, value: value  # type: ignore[method-assign]
    TraceInputs.protect_input = lambda self, value: None  # type: ignore[method-assign]
    input_protection.protect_inputs = lambda *_arguments: None


def _operators() -> None:
    """NumPy's arrays take their operators with a lazy tensor to be ufuncs."""

    def array_ufunc(tensor: Any, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return runtime().numpy_protocols.array_ufunc(ufunc, method, inputs, kwargs)

    LazyTensor.__array_ufunc__ = array_ufunc  # type: ignore


def _modes() -> None:
    """What ends brings back what was current before it, though that have ended."""

    def leave(self: Any, block: Any) -> None:
        self._refs.pop(block.key, None)
        jc.set_trace(block.before)
        self.substitute()

    Blocks.leave = leave  # type: ignore[method-assign]
    Blocks._repair = lambda self: None  # type: ignore[method-assign]


def _other_values() -> None:
    """Now and then a result is another one of the same type."""
    plain, count = Executable.placed, itertools.count(1)

    def placed(self: Any, found: Any) -> Any:
        results = plain(self, found)
        with lazy_mode.eager():
            return [results[0] + 1, *results[1:]] if next(count) % 5 == 0 else results

    Executable.placed = placed  # type: ignore[method-assign]


def _crash() -> None:
    """The thirtieth run ends the process."""
    plain, count = Executable.start, itertools.count(1)

    def start(self: Any, *arguments: Any) -> Any:
        if next(count) == 30:
            os.abort()
        return plain(self, *arguments)

    Executable.start = start  # type: ignore[method-assign]


@dataclasses.dataclass(frozen=True)
class Plant:
    """A fault.

    Attributes:
      put: puts it in.
      kinds: of statements that show it.
      found: what the campaign calls what it finds then.
    """

    put: Callable[[], None]
    kinds: tuple[str, ...]
    found: frozenset[str]


def _plant(put: Callable[[], None], kinds: str, found: str) -> Plant:
    return Plant(put, tuple(kinds.split(", ")), frozenset(found.split(", ")))


PLANTS = {
    "interrupts": _plant(_interrupts, "training", "raises, deleted array, lost after an interrupt"),
    "failures": _plant(_failures, "failing host, not_numbers", "raises, error, another error"),
    "memory of others": _plant(_memory_of_others, "written_later", "value"),
    "deleted elsewhere": _plant(
        _deleted_elsewhere, "deleted while needed, deleted elsewhere", "raises, error, deleted array"
    ),
    "operators": _plant(_operators, "operators", "numpy, value, array, another error"),
    "modes": _plant(_modes, "held over, tasks, left in another order", "mode"),
    "other values": _plant(_other_values, "trees", "value"),
    "crash": _plant(_crash, "trees", "crash"),
}
"""By name. The first six take back what keeps something from being lost."""


def plant() -> None:
    """Puts the fault in that the environment names, if it names one."""
    if name := os.environ.get("LAZYNB_ENDURANCE_PLANT"):
        PLANTS[name].put()
