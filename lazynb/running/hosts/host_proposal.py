"""Proposals of what a host is about to run, their differences, and agreed constants.

Whether a number written in the code is a constant of the program depends on the numbers that a host has seen
at that place before (:mod:`lazynb.recording.python_numbers`). These may differ: one host has run a cell
alone, or has evicted its executables. Then all hosts take the number as an input, as each does from the
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
from lazynb.recording.input_key import HOST
from lazynb.recording.pending_trace import PendingTrace
from lazynb.recording.trie import State, Trie, detached_step
from lazynb.running.hosts.coordination_store import Store
from lazynb.user_code.code_ownership import is_user_file
from lazynb.user_code.source_lines import CodePosition

# ---- Proposals ------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Proposal:
    """A program that a host is about to run together with others.

    Attributes:
      program: the fingerprint of the program as hexadecimal text: its operations and results.
      trace: the fingerprint of the whole trace, with dead operations.
      wanted: slots of the trace that are results.
      donated: numbers of the trace's donated inputs.
      alike: the fingerprint of the trace with each Python number as an input.
      numbers: for each Python number the step, the value as text, and whether it is a constant of the
        program. The latter depends on the numbers that a host has seen before.
      made: whether the host has the program already.
      operations: number of recorded operations.
      kind: the reason of the run, see ``break_reasons.REASONS``.
      line: the user's line, with its text.
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
    """The steps of a proposal, sent to the others only if it differs from theirs.

    Attributes:
      rolling: the fingerprint of the trace up to each step, as text, with each number as an input.
      steps: each step in words, with the user's line.
      inside: returns all details of a step as lines, for steps whose words are equal.
    """

    rolling: Sequence[str]
    steps: Sequence[str]
    inside: Callable[[int], Sequence[str]] = _no_more


Describe = Callable[[], tuple[Proposal, Callable[[], Recorded]]]
"""Returns the proposal and a function for its steps; called if the hosts did not meet at the barrier."""


def line_of(spot: CodePosition) -> str:
    """The user's line with its text."""
    place = spot.place
    if place.cell is None and not is_user_file(place.file):
        return "the end of the program"  # the stack has no user frame
    return place.in_full


def with_numbers_as_inputs(state: State) -> State:
    """The trace that ends in ``state`` with each of its numbers as an input, outside of the trie."""
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
    """Whether the traces differ only in numbers that are constants on some hosts and inputs on others. A
    number that is a constant on one host must have the same value on all."""
    if len({one.alike for one in proposals}) > 1 or not proposals[0].alike:
        return False
    return other_number(proposals) is None


def other_number(proposals: Sequence[Proposal]) -> int | None:
    """The first step whose number is a constant on one host and differs between hosts; None if there is none.
    The traces are equal up to there."""
    for same in zip(*[one.numbers for one in proposals], strict=False):
        if any(constant for _, _, constant in same) and len({text for _, text, _ in same}) > 1:
            return same[0][0]
    return None


def with_common_constants(mine: Proposal, proposals: Sequence[Proposal]) -> tuple[tuple[int, str, bool], ...]:
    """The numbers of this host's proposal; only numbers that are constants on all hosts stay constants."""
    inputs = {step for one in proposals for step, _, constant in one.numbers if not constant}
    return tuple([(step, text, constant and step not in inputs) for step, text, constant in mine.numbers])


class AgreedConstants:
    """The agreed traces, with constants as inputs, by the end of the original trace."""

    def __init__(self) -> None:
        self._ends: weakref.WeakKeyDictionary[State, State] = weakref.WeakKeyDictionary()

    def apply(self, pending: PendingTrace) -> None:
        """Replaces a sealed trace by the agreed one, if there is one."""
        end = self._ends.get(pending.state)
        if end is not None:
            pending.replace_end(end)

    def take(self, pending: PendingTrace, trie: Trie, numbers: frozenset[int]) -> None:
        """Replaces the constants at the steps ``numbers`` of a sealed trace by inputs, also in later runs."""
        before, path = pending.state, pending.state.path()
        end = path[0].parent
        assert end is not None
        for step in path:
            end = trie.step_like(end, step, _key(step, numbers), step.operands)
        self._ends[before] = end
        trie.keep_path(before)  # keeps it alive; otherwise the hosts renegotiate at every run
        pending.replace_end(end)


def _key(step: State, numbers: frozenset[int] | None) -> Any:
    """The key of a step; the key of an input if it is a constant among ``numbers`` (None: any constant)."""
    if step.constant is None or (numbers is not None and step.depth - 1 not in numbers):
        return step.key
    return (step.avals[0], HOST)


def _text(value: Any) -> str:
    content = np.asarray(value)
    return f"{content.dtype.name} {content.tobytes().hex()}" if content.size == 1 else ""


agreed_constants = AgreedConstants()


# ---- Differences between hosts --------------------------------------------------------------------------

_ANSWER = 1.0
"""Seconds for which a host waits for the others' steps. After that it reports what it has."""


def differing(store: Store, turn: int, said: dict[int, Proposal], mine: Recorded) -> HostsDifferError:
    """The error for hosts that are about to run different programs, equal on all of them."""
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
    """``recorded``; if the words are equal on all hosts, with the first line of the details that differs."""
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
    """The number of the first step that differs between hosts, from 0, by binary search.

    Arguments:
      rolling: the fingerprints of the trace up to each step, by host. Equal fingerprints mean that all steps
        up to there are equal.
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
