"""A run, from the moment that XLA has its inputs until the tensors that wait for it have its results.

A run may be given memory of its inputs, and an interrupt may arrive whenever Python code runs. So what XLA
gives goes into a list within one call of C, in which Python handles no signal; from there on an interrupt
leaves a :class:`Landing`, and whoever asks next for a value of the trace brings it to its end.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from itertools import starmap
from typing import Any

from lazynb import _jax as jc


@dataclasses.dataclass(slots=True, eq=False)
class Landing:
    """What a run of a pending trace gave.

    Attributes:
      binding: what ran it.
      tensors: those that wait, in the order of the results.
      kind, spot: why it was run, and the user's line.
      miss: why the program had to be made; None for a hit.
      recorded: seconds from the beginning of the trace to its end.
      seconds: handing it over.
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
        """Keeps what ``call`` of the program gives for ``arguments``."""
        jc.captured.into = self._kept
        try:
            self._got.extend(
                starmap(call, (arguments,))
            )  # no signal is handled before the list has the result
        finally:
            jc.captured.into = None

    def drop(self) -> None:
        """Forgets the results, which are no good."""
        self._got.clear()
        self._kept.clear()

    @property
    def results(self) -> Any:
        """What the call returned."""
        return self._got[0]

    def placed(self) -> list[Any]:
        """The results as the user gets them."""
        if self._placed is None:
            self._placed = self.binding.executable.placed(self.results)
        return self._placed

    def arrived(self) -> bool:
        """Whether the run took place."""
        if not self._got and (kept := jc.recovered(self.binding.executable.compiled, self._kept)) is not None:
            self._got.append(kept)
        return bool(self._got)
