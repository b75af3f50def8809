"""Faults put into lazynb on purpose, so that the campaign can be seen to find such: ``LAZYNB_ENDURANCE_PLANT`` names one."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any

from lazynb.execute.executable import Executable
from lazynb.execute.flush import Execution
from lazynb.record import mode


def _given_away_too_early() -> None:
    """An interrupt after the run loses what was given away: the inputs are gone, the results too."""
    plain = Execution._settle

    def settle(pending: Any, tensors: Any, results: Any) -> None:
        doomed = [one for one in pending.inputs if hasattr(one, "delete") and hasattr(one, "_arrays")]
        try:
            len(tensors)  # a call: here Python looks for signals
        except KeyboardInterrupt:
            for one in doomed:
                one.delete()
            raise
        plain(pending, tensors, results)

    Execution._settle = staticmethod(settle)  # type: ignore[method-assign]


def _other_values() -> None:
    """Now and then a result is another one of the same type."""
    plain, count = Executable.run, itertools.count(1)

    def run(self: Any, inputs: Any, *more: Any) -> Any:
        results = plain(self, inputs, *more)
        with mode.eager():
            return [results[0] + 1, *results[1:]] if next(count) % 5 == 0 else results

    Executable.run = run  # type: ignore[method-assign]


def _never_left() -> None:
    """A body that is left by an error leaves the names of JAX as they are in one."""
    plain = mode.patches.leave

    def leave() -> None:
        import sys

        if sys.exc_info()[0] is None:
            plain()

    mode.patches.leave = leave  # type: ignore[method-assign]


def _crash() -> None:
    """The thirtieth run ends the process."""
    plain, count = Executable.run, itertools.count(1)

    def run(self: Any, inputs: Any, *more: Any) -> Any:
        if next(count) == 30:
            os.abort()
        return plain(self, inputs, *more)

    Executable.run = run  # type: ignore[method-assign]


PLANTS: dict[str, Callable[[], None]] = {
    "given away too early": _given_away_too_early, "other values": _other_values, "never left": _never_left, "crash": _crash}
"""By name."""


def plant() -> None:
    """Puts the fault in that the environment names, if it names one."""
    if name := os.environ.get("LAZYNB_ENDURANCE_PLANT"):
        PLANTS[name]()
