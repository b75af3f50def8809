"""Failures: runs the sound part of a pending trace when not all of it can run.

Eager JAX raises at the operation that fails, and every other value exists. So when a program cannot be
compiled or run, the tensors that do not depend on the failing operations are computed without them. The other
tensors stay pending, and reading one raises the error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lazynb.execute.error_notes import is_refusal, to_blame
from lazynb.execute.program import needed_steps
from lazynb.record.pending import Pending
from lazynb.record.tensor import LazyTensor
from lazynb.record.trie import State

Attempt = Callable[[Pending, list[LazyTensor]], None]
"""A function that runs a pending trace for some tensors and donates nothing; raises the error of the run."""


class Trouble:
    """The reason that not all of a pending trace can run.

    Attributes:
      steps: the steps that failed, or that may be the one that failed.
      reported: slots whose error the user has seen.
      refused: the steps whose check failed, and what makes their errors. (An error that was raised holds,
        with its traceback, the tensors that it is about.) What depends on them is never computed again.
    """

    def __init__(self) -> None:
        self.steps: set[State] = set()
        self.reported: set[int] = set()
        self.refused: list[tuple[State, Callable[[], Exception]]] = []

    def refuse(self, step: State, make: Callable[[], Exception]) -> None:
        """Notes that the check of ``step`` failed; ``make`` makes the error."""
        self.refused.append((step, make))
        self.steps.add(step)

    def refusal(self, pending: Pending, tensor: LazyTensor) -> Exception | None:
        """The error of the first failed check that ``tensor`` depends on, without a traceback."""
        if not self.refused:
            return None
        needed = needed_steps(pending.state.path(), (tensor._slot,))
        make = next((make for step, make in self.refused if step in needed), None)
        return None if make is None else make()

    def reaches(self, pending: Pending, tensor: LazyTensor) -> bool:
        """Whether ``tensor`` depends on one of the steps, or on an input that could not be computed."""
        steps = needed_steps(pending.state.path(), (tensor._slot,))
        if not self.steps.isdisjoint(steps):
            return True
        return any(map(_is_missing, _inputs(pending, steps)))

    def learn(self, error: Exception) -> bool:
        """Adds the steps that ``error`` blames; returns whether any of them was new."""
        before = len(self.steps)
        self.steps.update(to_blame(error))
        return len(self.steps) > before


def obtain(tensor: LazyTensor, order: Sequence[Pending], attempt: Attempt) -> None:
    """Gives ``tensor`` its value, and also gives values to the tensors that are known to be sound.

    Arguments:
      order: the pending traces that ``tensor`` needs, in the order in which they run.

    Raises the error of an operation that ``tensor`` needs.
    """
    wanted = _needed(tensor, order)
    for pending in order:
        if wanted[id(pending)]:
            _obtain_here(pending, wanted[id(pending)], attempt)


def _needed(tensor: LazyTensor, order: Sequence[Pending]) -> dict[int, list[LazyTensor]]:
    """The tensors that ``tensor`` needs, by the id of their pending trace."""
    needed: dict[int, list[LazyTensor]] = {id(pending): [] for pending in order}
    needed[id(tensor._pending)].append(tensor)
    for pending in reversed(order):
        slots = [other._slot for other in needed[id(pending)]]
        steps = needed_steps(pending.state.path(), slots)
        for value in filter(_is_missing, _inputs(pending, steps)):
            needed[id(value._pending)].append(value)
    return needed


def _obtain_here(pending: Pending, wanted: Sequence[LazyTensor], attempt: Attempt) -> None:
    """Runs ``pending`` for its sound tensors together, then for each of ``wanted`` that still waits."""
    if pending.trouble is None:
        pending.trouble = Trouble()
    trouble = pending.trouble
    while len(sound := _sound(pending, trouble)) > 1:
        try:
            attempt(pending, sound)
            break
        except Exception as error:
            if is_refusal(error):
                raise
            if not trouble.learn(error):
                break
    for tensor in wanted:
        if tensor._pending is pending:
            refusal = trouble.refusal(pending, tensor)
            if refusal is not None:
                raise refusal
            attempt(pending, [tensor])


def _sound(pending: Pending, trouble: Trouble) -> list[LazyTensor]:
    return [tensor for tensor in pending.live() if not trouble.reaches(pending, tensor)]


def _inputs(pending: Pending, steps: Sequence[State]) -> list[Any]:
    return [pending.inputs[step.inputs - 1] for step in steps if step.operation is None]


def _is_missing(value: Any) -> bool:
    return value.__class__ is LazyTensor and value._pending is not None
