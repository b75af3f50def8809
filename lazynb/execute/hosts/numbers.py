"""Numbers that are constants of the program on one host and inputs of it on another.

Whether a number that is written in the code is a constant depends on the numbers that a host has seen at that
place before (:mod:`lazynb.record.numbers`). Hosts need not have seen the same: one has run a cell alone, or
has forgotten its executables. Then all hosts take the number as an input, as each does from a second number
on.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from lazynb.execute.hosts.proposal import Proposal
from lazynb.record.pending import Pending
from lazynb.record.trie import HOST, State, Trie, apart


def alike(state: State) -> State:
    """The trace that ends in ``state`` with each of its numbers as an input, in no trie."""
    path = state.path()
    end = path[0].parent if path else state
    for step in path:
        assert end is not None
        end = apart(end, step, _key(step, None), step.operands)
    assert end is not None
    return end


def numbers_of(state: State, values: Sequence[Any]) -> tuple[tuple[int, str, bool], ...]:
    """The numbers of a trace, see :class:`Proposal`."""
    steps = [step for step in state.path() if step.is_host_scalar]
    return tuple(
        [(step.depth - 1, _text(values[step.inputs - 1]), step.constant is not None) for step in steps]
    )


def differ_in_constants_only(proposals: Sequence[Proposal]) -> bool:
    """Whether the hosts have recorded the same, but for what is a constant on some and an input on others.

    A number that is a constant on one of them must have the same value on all.
    """
    if len({one.alike for one in proposals}) > 1 or not proposals[0].alike:
        return False
    return other_number(proposals) is None


def other_number(proposals: Sequence[Proposal]) -> int | None:
    """The first step at which a number is a constant on one host, and not the same on all; None if there is
    none. The hosts have recorded the same up to there."""
    for same in zip(*[one.numbers for one in proposals], strict=False):
        if any(constant for _, _, constant in same) and len({text for _, text, _ in same}) > 1:
            return same[0][0]
    return None


def as_settled(mine: Proposal, proposals: Sequence[Proposal]) -> tuple[tuple[int, str, bool], ...]:
    """The numbers of this host's proposal; constants are those that are constants on all hosts."""
    inputs = {step for one in proposals for step, _, constant in one.numbers if not constant}
    return tuple([(step, text, constant and step not in inputs) for step, text, constant in mine.numbers])


class Known:
    """What the hosts have agreed on before: by the end of a trace the same trace with constants as inputs."""

    def __init__(self) -> None:
        self._ends: weakref.WeakKeyDictionary[State, State] = weakref.WeakKeyDictionary()

    def apply(self, pending: Pending) -> None:
        """Takes the constants of a sealed trace as inputs on which the hosts agreed."""
        end = self._ends.get(pending.state)
        if end is not None:
            pending.turn(end)

    def take(self, pending: Pending, trie: Trie, numbers: frozenset[int]) -> None:
        """Takes the constants at the steps ``numbers`` of a sealed trace as inputs, now and later."""
        before, path = pending.state, pending.state.path()
        end = path[0].parent
        assert end is not None
        for step in path:
            end = trie.same(end, step, _key(step, numbers), step.operands)
        self._ends[before] = end
        trie.keep(before)  # it runs no more, so nothing else would: each run would agree on it anew
        pending.turn(end)


def _key(step: State, numbers: frozenset[int] | None) -> Any:
    """The key of a step; that of an input if it is a constant and one of ``numbers`` (None: any constant)."""
    if step.constant is None or (numbers is not None and step.depth - 1 not in numbers):
        return step.key
    return (step.avals[0], HOST)


def _text(value: Any) -> str:
    content = np.asarray(value)
    return f"{content.dtype.name} {content.tobytes().hex()}" if content.size == 1 else ""


known = Known()
