"""The two sides of a comparison: both programs, what corresponds, and the changes found so far."""

from __future__ import annotations

import bisect
import dataclasses
from collections import Counter
from collections.abc import Hashable, Iterator
from typing import Any

from lazynb.compare.matching import Alignment
from lazynb.compare.program_graph import ProgramGraph, ProgramStep
from lazynb.jax_compat.jax_names import DERIVATIVE_FUNCTIONS


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class ProgramChange:
    """One difference.

    Attributes:
      kind: see ``lazynb.compare.misses.miss_causes.CAUSES``.
      fields: what its text is filled in with.
      now, before: steps of the two programs that it is about.
      at: the step of either whose line tells it; None if there is none.
    """

    kind: str
    fields: dict[str, Any]
    now: tuple[int, ...] = ()
    before: tuple[int, ...] = ()
    at: ProgramStep | None = None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class ProgramSide:
    """One of the two programs, as it is compared with the other.

    Attributes:
      number: 0 before, 1 now.
      program: its steps.
      partner: by number of a step, that of the other program's which corresponds.
      other: the other program.
      back: the reverse of ``partner``.
      outside: steps that are there because of where the traces begin and end.
      lines: the source lines of its operations.
      explained: operations without partner that a change is about already.
    """

    number: int
    program: ProgramGraph
    partner: dict[int, int]
    other: ProgramGraph
    back: dict[int, int]
    outside: set[int]
    lines: set[str]
    explained: set[int] = dataclasses.field(default_factory=set)

    def steps_of(self, change: ProgramChange) -> tuple[int, ...]:
        """The steps of this program that a change is about."""
        return change.now if self.number else change.before

    def change(
        self, kind: str, fields: dict[str, Any], numbers: tuple[int, ...], at: ProgramStep
    ) -> ProgramChange:
        """A change that is about steps of this program alone."""
        if self.number:
            return ProgramChange(kind, fields, now=numbers, at=at)
        return ProgramChange(kind, fields, before=numbers, at=at)

    def partner_of(self, step: ProgramStep) -> ProgramStep | None:
        """The step of the other program that corresponds to ``step``; None if there is none."""
        partner = self.partner.get(step.number)
        return None if partner is None else self.other.steps[partner]

    def without_partner(self) -> list[ProgramStep]:
        """The needed operations that nothing corresponds to, and that no change explains yet."""
        skip = self.outside | self.explained | self.partner.keys()
        return [step for step in self.program.operations if step.needed and step.number not in skip]

    def surrounding_matches(self, step: ProgramStep) -> tuple[int, int]:
        """The operations with a partner before and after ``step``; -1 if there is none."""
        paired = [other.number for other in self.program.operations if other.number in self.partner]
        paired = [-1, *paired, -1]
        at = bisect.bisect(paired, step.number, 1, len(paired) - 1)
        return paired[at - 1], paired[at]

    def called(self, step: ProgramStep) -> list[int]:
        """The operations of the call of ``step``, if no other of them has a partner; else ``step`` alone."""
        if step.call is None:
            return [step.number]
        group = []
        for other in self.program.operations:
            if not other.needed or other.call != step.call:
                continue
            if other.number in self.partner and other is not step:
                return [step.number]
            group.append(other.number)
        return group or [step.number]

    def reached(self) -> set[int]:
        """The operations that depend on a value which has another type in the other program."""
        changed: set[int] = set()
        for step in self.program.steps:
            partner = self.partner_of(step)
            if partner is not None and step.avals != partner.avals:
                changed.add(step.number)
        reached: set[int] = set()
        for step in self.program.operations:
            if any(source in changed or source in reached for source, _ in step.operands):
                reached.add(step.number)
        return reached

    def iteration_counts(self) -> dict[Hashable, Counter[str]]:
        """By instruction, how often it recorded each operation. Derivatives do not count: a call has many."""
        counts: dict[Hashable, Counter[str]] = {}
        for step in self.program.operations:
            if step.number in self.outside or is_derivative(step):
                continue
            instruction = self.program.instruction(step)
            if instruction is not None:
                counts.setdefault(instruction, Counter())[step.name] += 1
        return counts


class ProgramPair:
    """The two programs of a comparison, side by side.

    Arguments:
      outside: by side, the steps that are there because of where the traces begin and end.
      functions: the two are functions that JAX called, and what types their arguments have is explained
        elsewhere.
      settings: JAX's configuration differs, so that types and parameters may differ too.

    Attributes:
      before, now: the sides.
      alignment: which step is which.
      functions, settings: the arguments.
      changes: the differences found so far.
      dimensions: the pairs of sizes, before and now, that the changes tell of.
      explained_calls: the calls of library functions of which a change tells a parameter.
      loops: the instructions that ran another number of times: by that of either program, how often before
        and now.
    """

    def __init__(
        self, alignment: Alignment, outside: tuple[set[int], set[int]], *, functions: bool, settings: bool
    ):
        self.alignment = alignment
        self.functions = functions
        self.settings = settings
        before, now = alignment.before, alignment.now
        old, new = alignment.old, alignment.new
        self.before = ProgramSide(0, before, new, now, old, outside[0], _lines(before))
        self.now = ProgramSide(1, now, old, before, new, outside[1], _lines(now))
        self.both = self.before, self.now
        self.changes: list[ProgramChange] = []
        self.dimensions: set[tuple[int, int]] = set()
        self.explained_calls: set[tuple[str, int]] = set()
        self.loops = self._repeated()
        self._reached = self.before.reached(), self.now.reached()

    def other(self, side: ProgramSide) -> ProgramSide:
        """The side opposite to ``side``."""
        return self.both[1 - side.number]

    def add_pair(self, kind: str, old: ProgramStep, new: ProgramStep, **fields: Any) -> None:
        """Adds a change that is about two operations that correspond."""
        self.changes.append(ProgramChange(kind, fields, (new.number,), (old.number,), new))

    def needed_pairs(self) -> Iterator[tuple[ProgramStep, ProgramStep]]:
        """The operations that correspond and are both needed, in the order of the present program."""
        for step in self.now.program.operations:
            old = self.now.partner_of(step)
            if old is not None and step.needed and old.needed:
                yield old, step

    def same_line(self, old: ProgramStep, new: ProgramStep) -> bool:
        """Whether two operations stand in lines of the same text."""
        return self.before.program.text(old) == self.now.program.text(new)

    def follows_type_change(self, step: ProgramStep, side: ProgramSide) -> bool:
        """Whether an operation is in one program alone because the types of what it takes differ.

        Its line is in both programs then.
        """
        if side.program.text(step) not in self.other(side).lines:
            return False
        return self.settings or step.number in self._reached[side.number]

    def _repeated(self) -> dict[Hashable, tuple[int, int]]:
        before, now = self.before.program, self.now.program
        if len(before.operations) == len(now.operations):
            return {}
        counts_before, counts_now = self.before.iteration_counts(), self.now.iteration_counts()
        repeated: dict[Hashable, tuple[int, int]] = {}
        for step in now.operations:
            partner = self.now.partner_of(step)
            if partner is None:
                continue
            old, new = before.instruction(partner), now.instruction(step)
            names_before, names_now = counts_before.get(old), counts_now.get(new)
            if not names_before or not names_now or names_before.keys() != names_now.keys():
                continue
            turns = min(names_before.values()), min(names_now.values())
            if turns[0] != turns[1]:
                repeated[old] = repeated[new] = turns
        return repeated


def is_derivative(step: ProgramStep) -> bool:
    """Whether an operation belongs to a function that JAX made of another one, as the backward pass of
    ``grad`` does."""
    if step.origin is None or step.origin.callee is None:
        return False
    return step.origin.callee.co_name in DERIVATIVE_FUNCTIONS


def names_joined(first: str, second: str) -> str:
    """Two lists of operations in words as one, each name once."""
    names = dict.fromkeys(
        [*first.replace(" and ", ", ").split(", "), *second.replace(" and ", ", ").split(", ")]
    )
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def called_name(step: ProgramStep) -> str:
    """The library function that the user called, quoted; else the operation."""
    return f"`{step.call[0]}`" if step.call is not None else step.label


def _lines(program: ProgramGraph) -> set[str]:
    """The source lines of a program's operations."""
    return {program.text(step) for step in program.operations} - {""}
