"""What is a constant under ``jax.jit`` of code that has run by the time somebody asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from lazynb.record.tensor import LazyTensor
from lazynb.xla.as_jit import NotOneFunction
from lazynb.xla.inputs import hold

GONE = (
    "an array that it took is gone by now, and lazynb keeps no large arrays alive: %%compile --as-jit "
    "compiles both programs at once"
)
_KEPT = 1 << 20  # bytes of constants that are kept alive


class Constants:
    """The arrays among some inputs that the code itself made.

    Arguments:
      is_constant: whether an input is such an array, asked once for each, when its trace is pending.
    """

    def __init__(self, is_constant: Callable[[Any], bool]):
        self._is_constant = is_constant
        self._held: list[Callable[[], Any]] = []
        self._bytes = 0

    def holding(self, value: Any) -> Callable[[], Any]:
        """What gives an input while it exists; a small constant exists as long as this."""
        held: Callable[[], Any] = hold(value)
        if isinstance(value, jax.Array) and not isinstance(value, LazyTensor) and self._is_constant(value):
            self._bytes += value.nbytes
            if self._bytes <= _KEPT:
                held = lambda: value  # noqa: E731
            self._held.append(held)
        return held

    def values(self) -> dict[int, Any]:
        """The constants, by id.

        Raises:
          NotOneFunction: one is gone.
        """
        values = [held() for held in self._held]
        if any(value is None or value.is_deleted() for value in values):
            raise NotOneFunction(GONE)
        return {id(value): value for value in values}
