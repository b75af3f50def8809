"""Landings: runs from the moment that XLA has the inputs until the waiting tensors have the results.

A run may consume the memory of its inputs, and an interrupt may arrive whenever Python code runs. So the
results go into a list within one call of C, in which Python handles no signal. After an interrupt the
:class:`Landing` remains, and the next request for a value of the trace completes it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from itertools import starmap
from typing import Any

from lazynb import _jax as jc


@dataclasses.dataclass(slots=True, eq=False)
class Landing:
    """A run of a pending trace and its results.

    Attributes:
      binding: the executable and the inputs that it takes.
      tensors: the tensors that wait, in the order of the results.
      kind, spot: why it was run, and the user's line.
      miss: why the program had to be made; None for a hit.
      recorded: seconds from the beginning of the trace to its end.
      seconds: time to hand the run over to XLA.
      noted: whether the run was counted.
    """

    binding: Any = None
    tensors: Sequence[Any] = ()
    kind: str = ""
    spot: Any = None
    miss: Any = None
    recorded: float = 0.0
    seconds: float = 0.0
    noted: bool = False
    _got: list[Any] = dataclasses.field(default_factory=list)
    _kept: list[Any] = dataclasses.field(default_factory=list)
    _placed: list[Any] | None = None

    def take(self, call: Callable[..., Any], arguments: Sequence[Any]) -> None:
        """Calls the program with ``arguments`` and keeps its results."""
        jc.captured.into = self._kept
        try:
            # Python handles no signal before the list has the result.
            self._got.extend(starmap(call, (arguments,)))
        finally:
            jc.captured.into = None

    def drop(self) -> None:
        """Forgets the results, which cannot be used."""
        self._got.clear()
        self._kept.clear()

    @property
    def results(self) -> Any:
        """The results of the call."""
        return self._got[0]

    def placed(self) -> list[Any]:
        """The results as the user gets them."""
        if self._placed is None:
            self._placed = self.binding.executable.placed(self._got[0])
        return self._placed

    def arrived(self) -> bool:
        """Whether the run took place."""
        if not self._got:
            kept = jc.recovered(self.binding.executable.compiled, self._kept)
            if kept is not None:
                self._got.append(kept)
        return bool(self._got)
