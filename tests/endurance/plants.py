"""Faults put into lazynb on purpose, so that the campaign can be seen to find such: ``LAZYNB_ENDURANCE_PLANT`` names one."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any

from lazynb.execute.executable import Executable
from lazynb.execute.landing import Landing
from lazynb.record import blocks, mode


def _given_away_too_early() -> None:
    """An interrupt after the run loses what was given away: the inputs are gone, the results too."""
    def take(self: Any, call: Any, arguments: Any) -> None:
        found = call(*arguments)
        len(arguments)  # a call: here Python looks for signals
        self._got.append(found)

    Landing.take = take  # type: ignore[method-assign]


def _other_values() -> None:
    """Now and then a result is another one of the same type."""
    plain, count = Executable.placed, itertools.count(1)

    def placed(self: Any, found: Any) -> Any:
        results = plain(self, found)
        with mode.eager():
            return [results[0] + 1, *results[1:]] if next(count) % 5 == 0 else results

    Executable.placed = placed  # type: ignore[method-assign]


def _never_left() -> None:
    """The names of JAX stay as they are in a body."""
    plain = blocks.patches.switch

    def switch(on: bool) -> None:
        if on:
            plain(on)

    blocks.patches.switch = switch  # type: ignore[method-assign]


def _crash() -> None:
    """The thirtieth run ends the process."""
    plain, count = Executable.start, itertools.count(1)

    def start(self: Any, *arguments: Any) -> Any:
        if next(count) == 30:
            os.abort()
        return plain(self, *arguments)

    Executable.start = start  # type: ignore[method-assign]


PLANTS: dict[str, Callable[[], None]] = {
    "given away too early": _given_away_too_early, "other values": _other_values, "never left": _never_left, "crash": _crash}
"""By name."""


def plant() -> None:
    """Puts the fault in that the environment names, if it names one."""
    if name := os.environ.get("LAZYNB_ENDURANCE_PLANT"):
        PLANTS[name]()
