"""Where hosts differ: the first step that is not the same in what they have recorded."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from lazynb import _jax as jc
from lazynb.errors import HostsDifferError
from lazynb.execute.hosts.numbers import other_number
from lazynb.execute.hosts.proposal import Proposal, Recorded
from lazynb.execute.hosts.store import Store

_ANSWER = 1.0
"""Seconds for which a host waits for the others' steps; without them it says what it knows."""


def differing(store: Store, turn: int, said: dict[int, Proposal], mine: Recorded) -> HostsDifferError:
    """The error for hosts that are about to run different programs, the same on all of them."""
    store.say(turn, "steps", {"rolling": list(mine.rolling), "steps": list(mine.steps)})
    steps = {host: Recorded(**one) for host, one in _answers(store, turn, "steps", len(said)).items()}
    step = first_difference([one.rolling for one in steps.values()])
    number = other_number(list(said.values()))
    step = step if number is None else min(step, number)
    lines = {host: _asks(one) for host, one in said.items()}
    recorded = {host: _step(steps[host].steps, step) if host in steps else "" for host in said}
    if len(set(recorded.values())) == 1:
        recorded = _closer(store, turn, recorded, mine.inside(step))
    return HostsDifferError(jc.host_number(), lines, step, recorded)


def _answers(store: Store, turn: int, part: str, hosts: int) -> dict[int, dict[str, Any]]:
    end = time.monotonic() + _ANSWER
    while True:
        answers = store.said(turn, part)
        if len(answers) == hosts or time.monotonic() > end:
            return answers
        time.sleep(0.01)


def _closer(store: Store, turn: int, recorded: dict[int, str], mine: Sequence[str]) -> dict[int, str]:
    """``recorded``, where a step has the same words on all hosts, with the first line of what it is made of
    that differs."""
    store.say(turn, "inside", {"lines": list(mine)})
    inside = {host: one["lines"] for host, one in _answers(store, turn, "inside", len(recorded)).items()}
    for line in range(max(map(len, inside.values()), default=0)):
        found = {host: _step(lines, line) for host, lines in inside.items()}
        if len(set(found.values())) > 1:
            return {
                host: f"{words}, inside: {found[host]}" if host in found else words
                for host, words in recorded.items()
            }
    return recorded


def first_difference(rolling: Sequence[Sequence[str]]) -> int:
    """The number of the first step that not all have recorded, from 0, by a binary search.

    Arguments:
      rolling: the fingerprints of the trace up to each step, by host. Equal ones mean that all steps up to
        there are equal.
    """
    low, high = 0, min(map(len, rolling))
    alike: Callable[[int], bool] = lambda step: len({one[step] for one in rolling}) == 1  # noqa: E731
    while low < high:
        middle = (low + high) // 2
        if alike(middle):
            low = middle + 1
        else:
            high = middle
    return low


def _asks(proposal: Proposal) -> str:
    count = f"{proposal.operations:,} operation{'s' * (proposal.operations != 1)}"
    return f"{proposal.kind} at {proposal.line}, {count} recorded"


def _step(steps: Sequence[str], step: int) -> str:
    return steps[step] if step < len(steps) else "nothing more"
