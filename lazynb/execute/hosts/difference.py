"""Where hosts differ: the first step that is not the same in what they have recorded."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence

from lazynb import _jax as jc
from lazynb.errors import HostsDifferError
from lazynb.execute.hosts.proposal import Proposal, Recorded
from lazynb.execute.hosts.store import Store

_ANSWER = 1.0
"""Seconds for which a host waits for the others' steps; without them it says what it knows."""


def differing(store: Store, turn: int, said: dict[int, Proposal], mine: Recorded) -> HostsDifferError:
    """The error for hosts that are about to run different programs, the same on all of them."""
    store.say(turn, "steps", dataclasses.asdict(mine))
    steps = _answers(store, turn, len(said))
    step = first_difference([one.rolling for one in steps.values()])
    lines = {host: _asks(one) for host, one in said.items()}
    recorded = {host: _step(steps[host].steps, step) if host in steps else "" for host in said}
    return HostsDifferError(jc.host_number(), lines, step, recorded)


def _answers(store: Store, turn: int, hosts: int) -> dict[int, Recorded]:
    end = time.monotonic() + _ANSWER
    while True:
        answers = {host: Recorded(**one) for host, one in store.said(turn, "steps").items()}
        if len(answers) == hosts or time.monotonic() > end:
            return answers
        time.sleep(0.01)


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
