"""The graph that is being traced in this thread, and what it takes and gives beside its tensors.

What an operation asks for outside of its arguments has to come from outside of the graph, too, and anew at
each call: the number of a draw, whether an input's numbers are in range.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from lazynb.torch.dispatch.lines import Lines


class Untraceable(Exception):
    """An operation needs something that no traced graph has."""


class Demanded(NamedTuple):
    """What an operation in a graph demands of the numbers of an input, or of a view of one.

    Attributes:
      number: of the input.
      layout, steps: of the view, from the input on.
      demand: see :class:`lazynb.torch.dispatch.demands.Within`.
      lines: where the operation is written.
    """

    number: int
    layout: Any
    steps: tuple[Any, ...]
    demand: Any
    lines: Lines


class Traced:
    """A graph that is being traced.

    Arguments:
      words: the key from which it draws, an array.
      first: the number of its first draw, an array.
      inputs: its inputs; None for one that is no tensor.
      assumes: whether the inputs' numbers are in range, as is seen before each call.

    Attributes:
      draws: how many numbers of draws it has taken.
      demanded: what is demanded of the inputs.
      lines: where the operation is written that is being traced.
    """

    def __init__(self, words: Any, first: Any, inputs: Sequence[Any], assumes: bool) -> None:
        self.draws = 0
        self.demanded: list[Demanded] = []
        self.lines = Lines(())
        self._words, self._first = words, first
        self._assumes = assumes
        self._numbers = {id(x._storage): number for number, x in enumerate(inputs) if x is not None}

    def key(self) -> Any:
        """A key for one draw: the same as the device's generator gives at this place."""
        base = jax.random.wrap_key_data(self._words, impl="threefry2x32")
        self.draws += 1
        return jax.random.fold_in(base, self._first + np.uint32(self.draws - 1))

    def assume(self, x: Any, demand: Any) -> bool:
        """Whether ``demand`` of the numbers of ``x`` is looked at before each call: they are an input's."""
        number = self._numbers.get(id(x._storage))
        if number is None or x._storage.version or not self._assumes:
            return False
        self.demanded.append(Demanded(number, x._layout, x._steps, demand, self.lines))
        return True


class _Here(threading.local):
    """Attributes:
    graph: the graph that is being traced in this thread; None if there is none.
    """

    graph: Traced | None = None


here = _Here()
