"""A request: which results of a pending trace somebody wants, from which values, and whose memory they may
take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazynb.execute.program import needed_steps
from lazynb.record.pending import Pending
from lazynb.record.trie import State
from lazynb.source import Origin


class Request:
    """What a flush asks for. The trace may grow afterwards; a request stays what it was.

    Attributes:
      pending: the trace.
      state: its end.
      wanted: slots of the results.
      values: of the trace's inputs, in order. No other list of the caller's may hold them while donation is
        decided: it counts references.
      donated: numbers of the inputs whose memory the results may take; None where that cannot be told without
        waiting.
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
        """Under which the trie keeps what answers it, at the end of the trace."""
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
        """By step, where the user asked for it; None for inputs."""
        if self._origins is None:
            self._origins = self.pending.origins()
        return self._origins

    def numbers(self) -> dict[int, int]:
        """By slot of each input, its number."""
        return {
            step.first: number
            for number, step in enumerate(step for step in self.path if step.operation is None)
        }


def key_of(wanted: tuple[int, ...], donated: tuple[int, ...]) -> tuple[Any, ...]:
    """The key of a program that gives ``wanted`` and takes the memory of ``donated``."""
    return (wanted, donated) if donated else wanted
