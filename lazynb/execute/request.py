"""Requests: the wanted results of a pending trace, its input values and the inputs to donate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazynb.execute.program import needed_steps
from lazynb.record.pending import Pending
from lazynb.record.trie import State
from lazynb.source import Origin


class Request:
    """The wanted results of a pending trace. The request stays the same when the trace grows.

    Attributes:
      pending: the trace.
      state: the end of the trace.
      wanted: slots of the results.
      values: the values of the trace's inputs, in order. The caller must not hold them in another list while
        donation is decided, because that counts references.
      donated: numbers of the inputs whose memory the results may take; None if only waiting could tell.
    """

    __slots__ = ("_origins", "_path", "_steps", "donated", "pending", "state", "values", "wanted")

    def __init__(
        self,
        pending: Pending,
        wanted: tuple[int, ...],
        values: Sequence[Any],
        donated: tuple[int, ...] | None = (),
    ):
        self.pending = pending
        self.state = pending.state
        self.wanted = wanted
        self.values = values
        self.donated = donated
        self._path: list[State] | None = None
        self._steps: list[State] | None = None
        self._origins: list[Origin | None] | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """The key under which the end of the trace keeps the binding for the request."""
        return key_of(self.wanted, self.donated or ())

    @property
    def path(self) -> list[State]:
        """All steps of the trace."""
        if self._path is None:
            self._path = self.state.path()
        return self._path

    @property
    def steps(self) -> list[State]:
        """The steps that the results need."""
        if self._steps is None:
            self._steps = needed_steps(self.path, self.wanted)
        return self._steps

    @property
    def origins(self) -> list[Origin | None]:
        """The user's line of each step; None for an input."""
        if self._origins is None:
            self._origins = self.pending.origins()
        return self._origins

    def numbers(self) -> dict[int, int]:
        """The number of each input, by its slot."""
        slots = [step.first for step in self.path if step.operation is None]
        return {slot: number for number, slot in enumerate(slots)}


def key_of(wanted: tuple[int, ...], donated: tuple[int, ...]) -> tuple[Any, ...]:
    """The key of a program that gives ``wanted`` and takes the memory of ``donated``."""
    return (wanted, donated) if donated else wanted
