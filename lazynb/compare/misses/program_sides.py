"""The data of a comparison of two programs: both sides, their pairing, and the changes found so far."""

from __future__ import annotations

import bisect
import dataclasses
from collections import Counter
from collections.abc import Hashable, Iterator
from typing import Any

from lazynb import jax_compat as jc
from lazynb.compare.matching import Alignment
from lazynb.compare.program_graph import ProgramGraph, ProgramStep, Value, is_number, is_users
from lazynb.jax_compat.jax_names import DERIVATIVE_FUNCTIONS


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class ProgramChange:
    """One difference.

    Attributes:
      kind: see ``lazynb.compare.misses.miss_causes.CAUSES``.
      fields: values for the placeholders of its text.
      now, before: affected steps of the two programs.
      at: the step whose line is reported, of either program; None if there is none.
    """

    kind: str
    fields: dict[str, Any]
    now: tuple[int, ...] = ()
    before: tuple[int, ...] = ()
    at: ProgramStep | None = None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class ProgramSide:
    """One of the two programs, prepared for comparison with the other.

    Attributes:
      number: 0 before, 1 now.
      program: its steps.
      partner: number of a step → number of its partner in the other program.
      other: the other program.
      back: the reverse of ``partner``.
      outside: steps that the other program lacks because the traces begin or end elsewhere.
      lines: the source lines of its operations.
      explained: operations without partner that a change already covers.
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
        """The steps of this program that a change affects."""
        return change.now if self.number else change.before

    def change(
        self, kind: str, fields: dict[str, Any], numbers: tuple[int, ...], at: ProgramStep
    ) -> ProgramChange:
        """Creates a change that affects steps of this program only."""
        if self.number:
            return ProgramChange(kind, fields, now=numbers, at=at)
        return ProgramChange(kind, fields, before=numbers, at=at)

    def partner_of(self, step: ProgramStep) -> ProgramStep | None:
        """The partner of ``step`` in the other program; None if there is none."""
        partner = self.partner.get(step.number)
        return None if partner is None else self.other.steps[partner]

    def without_partner(self) -> list[ProgramStep]:
        """The needed operations without partner that no change explains yet."""
        skip = self.outside | self.explained | self.partner.keys()
        return [step for step in self.program.operations if step.needed and step.number not in skip]

    def surrounding_matches(self, step: ProgramStep) -> tuple[int, int]:
        """The paired operations before and after ``step``; -1 if there is none."""
        paired = [other.number for other in self.program.operations if other.number in self.partner]
        paired = [-1, *paired, -1]
        at = bisect.bisect(paired, step.number, 1, len(paired) - 1)
        return paired[at - 1], paired[at]

    def called(self, step: ProgramStep) -> list[int]:
        """The operations of the call of ``step`` if no other one has a partner; otherwise only ``step``."""
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
        """The operations that depend on a value whose type differs in the other program."""
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
        """Instruction → counts of recorded operations, without derivatives, because one call records many."""
        counts: dict[Hashable, Counter[str]] = {}
        for step in self.program.operations:
            if step.number in self.outside or is_derivative(step):
                continue
            instruction = self.program.instruction(step)
            if instruction is not None:
                counts.setdefault(instruction, Counter())[step.name] += 1
        return counts


class ProgramPair:
    """The two programs of a comparison.

    Arguments:
      outside: for each side, the steps that only exist because the traces begin or end elsewhere.
      functions: whether the two are functions that JAX called; their argument types are explained elsewhere.
      settings: whether JAX's configuration differs, so that types and parameters may differ too.

    Attributes:
      before, now: the sides.
      changes: the differences found so far.
      dimensions: pairs of sizes, before and now, that the changes report.
      explained_calls: calls of library functions for which a change reports a parameter.
      loops: instruction of either program → iteration counts before and now, where they differ.
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
        """The opposite side."""
        return self.both[1 - side.number]

    def add_pair(self, kind: str, old: ProgramStep, new: ProgramStep, **fields: Any) -> None:
        """Adds a change that affects two corresponding operations."""
        self.changes.append(ProgramChange(kind, fields, (new.number,), (old.number,), new))

    def needed_pairs(self) -> Iterator[tuple[ProgramStep, ProgramStep]]:
        """Pairs of corresponding operations that are both needed, in the order of the present program."""
        for step in self.now.program.operations:
            old = self.now.partner_of(step)
            if old is not None and step.needed and old.needed:
                yield old, step

    def same_line(self, old: ProgramStep, new: ProgramStep) -> bool:
        """Whether two operations are on lines with the same text."""
        return self.before.program.text(old) == self.now.program.text(new)

    def follows_type_change(self, step: ProgramStep, side: ProgramSide) -> bool:
        """Whether an operation on a common line exists in one program only because operand types differ."""
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
    """Whether JAX derived the operation's function from another one, such as ``grad``'s backward pass."""
    if step.origin is None or step.origin.callee is None:
        return False
    return step.origin.callee.co_name in DERIVATIVE_FUNCTIONS


def names_joined(first: str, second: str) -> str:
    """Joins two phrases that list operations, each name once."""
    names = dict.fromkeys(
        [*first.replace(" and ", ", ").split(", "), *second.replace(" and ", ", ").split(", ")]
    )
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def called_name(step: ProgramStep) -> str:
    """The library function that the user called, in backquotes; otherwise the operation."""
    return f"`{step.call[0]}`" if step.call is not None else step.label


def argument_names(step: ProgramStep) -> list[str | None]:
    """For each operand of a call of a user's function its argument; empty for other operations."""
    params = (step.origin.inside if step.origin is not None else None) or step.params
    jaxprs = jc.jaxprs_in(params) if "name" in step.params else []
    if len(jaxprs) != 1 or not is_users(jaxprs[0]):
        return []
    names = jc.argument_names(jaxprs[0])
    return names if len(names) == len(step.operands) else []


def _argument_of(new: ProgramStep, user: ProgramStep) -> str | None:
    """The argument of a user's function that an input is; None if there is none."""
    names = argument_names(user)
    places = [place for place, (number, _) in enumerate(user.operands) if number == new.number]
    name = names[places[0]] if names and len(places) == 1 else None
    return None if name is None else f"`{name}` of {user.label}"


def input_name(new: ProgramStep, user: ProgramStep | None) -> str:
    """A phrase for an input: the user's name, the argument that it is, or the function that reads it."""
    if new.name:
        return new.label
    argument = _argument_of(new, user) if user is not None else None
    if argument is not None:
        return argument
    if is_number(new):
        return "a number" if user is None else f"the number that {called_name(user)} takes"
    return "an input" if user is None else f"an array that {called_name(user)} takes"


def shape_change(
    before: Any, now: Any, old: Value, new: ProgramStep, user: ProgramStep
) -> ProgramChange | None:
    """The change that an array has another shape; None if it has the same.

    Arguments:
      before, now: its types.
      old, new: the earlier value, and the step that gives the present one.
      user: the operation that reads it.
    """
    if before.shape == now.shape:
        return None
    kind = "shape" if len(before.shape) == len(now.shape) else "rank"
    fields = {"name": input_name(new, user), "it": new.label if new.name else "it"}
    fields.update(before=str(before.shape), now=str(now.shape))
    return ProgramChange(kind, fields, (new.number,), (old[0],), user)


def _lines(program: ProgramGraph) -> set[str]:
    return {program.text(step) for step in program.operations} - {""}
