"""Proposals: what one host is about to run, as the others are told it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from lazynb.source import Spot, is_user_file


@dataclasses.dataclass(frozen=True)
class Proposal:
    """A program that a host is about to run together with others.

    Attributes:
      program: the fingerprint of what runs, as text: the operations that its results need, and which these
        are.
      trace: that of all that was recorded, with operations that led to nothing.
      wanted: slots of the trace that are results.
      donated: numbers of the trace's inputs that give their memory.
      alike: the fingerprint of all that was recorded with each of Python's numbers as an input.
      numbers: of each of them the step, the value as text, and whether it is a constant of the program, which
        depends on the numbers that a host has seen before.
      made: whether the host has the program already.
      operations: how many were recorded.
      kind: why it runs, see ``reasons.REASONS``.
      line: the user's line that asked, with its text.
    """

    program: str
    trace: str
    wanted: tuple[int, ...]
    donated: tuple[int, ...]
    operations: int
    kind: str
    line: str
    alike: str = ""
    numbers: tuple[tuple[int, str, bool], ...] = ()
    made: bool = True

    def plain(self) -> dict[str, Any]:
        """As plain data."""
        return dataclasses.asdict(self)

    @classmethod
    def of(cls, data: dict[str, Any]) -> Proposal:
        """From plain data."""
        numbers = tuple([tuple(one) for one in data["numbers"]])
        return cls(
            **{
                **data,
                "wanted": tuple(data["wanted"]),
                "donated": tuple(data["donated"]),
                "numbers": numbers,
            }
        )


def _no_more(step: int) -> Sequence[str]:
    return ()


@dataclasses.dataclass(frozen=True)
class Recorded:
    """The steps of a proposal, which the others are told only if it differs from theirs.

    Attributes:
      rolling: the fingerprint of the trace up to each step, as text, with each number as an input.
      steps: each step in words, with the user's line.
      inside: gives all that is known of a step, as lines, for steps whose words are the same.
    """

    rolling: Sequence[str]
    steps: Sequence[str]
    inside: Callable[[int], Sequence[str]] = _no_more


Describe = Callable[[], tuple[Proposal, Callable[[], Recorded]]]
"""Gives the proposal, and what gives its steps; called where a short agreement did not do."""


def line_of(spot: Spot) -> str:
    """The user's line with its text."""
    place = spot.place
    if place.cell is None and not is_user_file(place.file):
        return "the end of the program"  # no line of the user's runs
    return place.in_full
