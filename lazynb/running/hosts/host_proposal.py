"""Numbers that are constants of the program on one host and inputs of it on another.

Whether a number that is written in the code is a constant depends on the numbers that a host has seen at that
place before (:mod:`lazynb.recording.python_numbers`). Hosts need not have seen the same: one has run a cell
alone, or has forgotten its executables. Then all hosts take the number as an input, as each does from a
second number on.
"""

from __future__ import annotations

import dataclasses
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lazynb import jax_compat as jc
from lazynb.errors import HostsDifferError
from lazynb.recording.pending_trace import PendingTrace
from lazynb.recording.trie import HOST, State, Trie, detached_step
from lazynb.running.hosts.coordination_store import Store
from lazynb.user_code.call_stack import CodePosition, is_user_file

# ---- Proposals: what one host is about to run, as the others are told it ----------------------------------


@dataclasses.dataclass(frozen=True)
class Proposal:
    """A program that a host is about to run together with others.

    Attributes:
      program: the fingerprint of what runs, as text: the operations that its results need, and which these
        are.
      trace: that of all that was recorded, with operations that led to nothing.
      wanted: slots of the trace that are results.
      donated: numbers of the trace's inputs that give their memory.
      alike: the fingerprint of all that was recorded with each of Python's numbers as an input.
      numbers: of each of them the step, the value as text, and whether it is a constant of the program, which
        depends on the numbers that a host has seen before.
      made: whether the host has the program already.
      operations: how many were recorded.
      kind: why it runs, see ``reasons.REASONS``.
      line: the user's line that asked, with its text.
    """

    program: str
    trace: str
    wanted: tuple[int, ...]
    donated: tuple[int, ...]
    operations: int
    kind: str
    line: str
    alike: str = ""
    numbers: tuple[tuple[int, str, bool], ...] = ()
    made: bool = True

    def plain(self) -> dict[str, Any]:
        """As plain data."""
        return dataclasses.asdict(self)

    @classmethod
    def of(cls, data: dict[str, Any]) -> Proposal:
        """From plain data."""
        numbers = tuple([tuple(one) for one in data["numbers"]])
        return cls(
            **{
                **data,
                "wanted": tuple(data["wanted"]),
                "donated": tuple(data["donated"]),
                "numbers": numbers,
            }
        )


def _no_more(step: int) -> Sequence[str]:
    return ()


@dataclasses.dataclass(frozen=True)
class Recorded:
    """The steps of a proposal, which the others are told only if it differs from theirs.

    Attributes:
      rolling: the fingerprint of the trace up to each step, as text, with each number as an input.
      steps: each step in words, with the user's line.
      inside: gives all that is known of a step, as lines, for steps whose words are the same.
    """

    rolling: Sequence[str]
    steps: Sequence[str]
    inside: Callable[[int], Sequence[str]] = _no_more


Describe = Callable[[], tuple[Proposal, Callable[[], Recorded]]]
"""Gives the proposal, and what gives its steps; called where a short agreement did not do."""


def line_of(spot: CodePosition) -> str:
    """The user's line with its text."""
    place = spot.place
    if place.cell is None and not is_user_file(place.file):
        return "the end of the program"  # no line of the user's runs
    return place.in_full


def with_numbers_as_inputs(state: State) -> State:
    """The trace that ends in ``state`` with each of its numbers as an input, in no trie."""
    path = state.path()
    end = path[0].parent if path else state
    for step in path:
        assert end is not None
        end = detached_step(end, step, _key(step, None), step.operands)
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


def with_common_constants(mine: Proposal, proposals: Sequence[Proposal]) -> tuple[tuple[int, str, bool], ...]:
    """The numbers of this host's proposal; constants are those that are constants on all hosts."""
    inputs = {step for one in proposals for step, _, constant in one.numbers if not constant}
    return tuple([(step, text, constant and step not in inputs) for step, text, constant in mine.numbers])


class AgreedConstants:
    """What the hosts have agreed on before: by the end of a trace the same trace with constants as inputs."""

    def __init__(self) -> None:
        self._ends: weakref.WeakKeyDictionary[State, State] = weakref.WeakKeyDictionary()

    def apply(self, pending: PendingTrace) -> None:
        """Takes the constants of a sealed trace as inputs on which the hosts agreed."""
        end = self._ends.get(pending.state)
        if end is not None:
            pending.replace_end(end)

    def take(self, pending: PendingTrace, trie: Trie, numbers: frozenset[int]) -> None:
        """Takes the constants at the steps ``numbers`` of a sealed trace as inputs, now and later."""
        before, path = pending.state, pending.state.path()
        end = path[0].parent
        assert end is not None
        for step in path:
            end = trie.step_like(end, step, _key(step, numbers), step.operands)
        self._ends[before] = end
        trie.keep_path(before)  # it runs no more, so nothing else would: each run would agree on it anew
        pending.replace_end(end)


def _key(step: State, numbers: frozenset[int] | None) -> Any:
    """The key of a step; that of an input if it is a constant and one of ``numbers`` (None: any constant)."""
    if step.constant is None or (numbers is not None and step.depth - 1 not in numbers):
        return step.key
    return (step.avals[0], HOST)


def _text(value: Any) -> str:
    content = np.asarray(value)
    return f"{content.dtype.name} {content.tobytes().hex()}" if content.size == 1 else ""


agreed_constants = AgreedConstants()


# ---- Where hosts differ: the first step that is not the same in what they have recorded -------------------

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
    return HostsDifferError(jc.host_index(), lines, step, recorded)


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
