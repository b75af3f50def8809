"""What of a pending trace can run when not all of it can.

Eager JAX raises at the operation that fails, and everything else keeps its value. So when a program cannot be
compiled or run, what does not depend on the operations to blame is computed without them; these stay pending
and raise for whoever asks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lazynb.execute.error_notes import to_blame
from lazynb.execute.program import needed_steps
from lazynb.record.pending import Pending
from lazynb.record.tensor import LazyTensor
from lazynb.record.trie import State

Attempt = Callable[[Pending, list[LazyTensor]], None]
"""Runs a pending trace for some tensors, with nothing donated; raises what fails."""


class Trouble:
    """Why not all of a pending trace can run.

    Attributes:
      steps: that failed, or that could not be told from the one that did.
      told: slots whose error the user has seen.
    """

    def __init__(self) -> None:
        self.steps: set[State] = set()
        self.told: set[int] = set()

    def reaches(self, pending: Pending, tensor: LazyTensor) -> bool:
        """Whether ``tensor`` depends on one of the steps, or on an input that could not be computed."""
        steps = needed_steps(pending.state.path(), (tensor._slot,))
        return any(step in self.steps for step in steps) or any(map(_is_missing, _inputs(pending, steps)))

    def learn(self, error: Exception) -> bool:
        """Notes whom ``error`` puts the blame on; whether somebody was new."""
        before = len(self.steps)
        self.steps.update(to_blame(error))
        return len(self.steps) > before


def obtain(tensor: LazyTensor, order: Sequence[Pending], attempt: Attempt) -> None:
    """Gives ``tensor`` its value, and others that are known to be sound.

    Arguments:
      order: the pending traces that it needs, in the order in which they run.

    Raises what an operation that it needs raises.
    """
    wanted = _needed(tensor, order)
    for pending in order:
        if wanted[id(pending)]:
            _obtain_here(pending, wanted[id(pending)], attempt)


def _needed(tensor: LazyTensor, order: Sequence[Pending]) -> dict[int, list[LazyTensor]]:
    """By the id of a pending trace, the tensors of it that ``tensor`` needs."""
    needed: dict[int, list[LazyTensor]] = {id(pending): [] for pending in order}
    needed[id(tensor._pending)].append(tensor)
    for pending in reversed(order):
        steps = needed_steps(pending.state.path(), [one._slot for one in needed[id(pending)]])
        for value in filter(_is_missing, _inputs(pending, steps)):
            needed[id(value._pending)].append(value)
    return needed


def _obtain_here(pending: Pending, wanted: Sequence[LazyTensor], attempt: Attempt) -> None:
    trouble = pending.trouble = pending.trouble or Trouble()
    while len(sound := [one for one in pending.live() if not trouble.reaches(pending, one)]) > 1:
        try:
            attempt(pending, sound)
            break
        except Exception as error:
            if not trouble.learn(error):
                break
    for one in wanted:
        if one._pending is pending:
            attempt(pending, [one])


def _inputs(pending: Pending, steps: Sequence[State]) -> list[Any]:
    return [pending.inputs[step.inputs - 1] for step in steps if step.operation is None]


def _is_missing(value: Any) -> bool:
    return value.__class__ is LazyTensor and value._pending is not None
