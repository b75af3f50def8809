"""An earlier program laid beside a miss: how they differ, and whether they have enough in common."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from lazynb.execute.misses import Miss
from lazynb.reasons import REASONS
from lazynb.source import line_of
from lazynb.why import settings
from lazynb.why.attribution import attributed, is_edit
from lazynb.why.causes import RANKS
from lazynb.why.comparable import Comparable, ProgramStep, comparable_of
from lazynb.why.comparison import Comparison
from lazynb.why.reached import Reached
from lazynb.why.sides import Change
from lazynb.why.source_pair import SourcePair
from lazynb.why.told import Cause, Difference, cause_of, shown
from lazynb.why.trace_bounds import Bound, TraceBounds
from lazynb.why.words import words_alike

_ALIKE = 0.5
"""Share of the cell that must be left for an edit of it to be the cause."""

SAME_WORDS = 0.3
"""Share of the names and numbers of the cells that must be in both, if one is an edit of the other."""

_UNLIKE = 0.75
"""Share of the operations that must correspond in programs whose sources are not alike."""


class Candidate:
    """An earlier trace laid beside the miss."""

    def __init__(self, other: Miss, miss: Miss, comparable: Comparable):
        self.other, self.miss, self.comparable = other, miss, comparable
        self.old_comparable = comparable_of(other)
        self.settings = settings.traced(other, miss)
        comparables = self.old_comparable, comparable
        self.sources = SourcePair(other, miss)
        reached = Reached(self.sources, comparables, (other, miss))
        trace_bounds = TraceBounds(other, miss, comparables, reached)
        self.comparison = Comparison(
            *comparables,
            settings_explained=bool(self.settings),
            outside=trace_bounds.outside,
            sources=trace_bounds.sources,
            key=self._key,
        )
        self.bounds = trace_bounds.bounds
        operations = reached.unreached(self.comparison.changes)
        operations = attributed(operations, self.sources, comparables, self.comparison.different)
        operations = reached.told(settings.explained(operations, other, miss))
        if any(map(is_edit, operations)):
            operations = [change for change in operations if not self._is_read(change)]
        self.changes = [*self.settings, *map(_bound_change, self.bounds), *operations]
        if not self.changes or all(change.kind in _LEAVES_RESULTS for change in self.changes):
            self.changes += self._donation()

    def _is_read(self, change: Change) -> bool:
        """Whether a value that only one program returns is what an edited line reads."""
        if change.kind not in ("alive", "not_alive") or change.at is None or change.at.line is None:
            return False
        if change.fields["name"].startswith("the variable"):
            return False
        spot = (self.miss if change.kind == "alive" else self.other).spot
        return change.at.line == (spot.code.co_filename, line_of(spot.code, spot.lasti))

    def _key(self, side: int, step: ProgramStep) -> str:
        """Equal for steps whose statements correspond."""
        text = (self.old_comparable, self.comparable)[side].text(step)
        return text if step.line is None else self.sources.key(side, step.line, text)

    @property
    def is_same(self) -> bool:
        """Whether both are one program."""
        return not self.changes

    @functools.cached_property
    def is_related(self) -> bool:
        """Whether enough of the two is alike for a difference to mean something."""
        if self.is_same:
            return False  # what made a program of its own of it is not known
        likeness: dict[object, list[float]] = {}
        for step in self.comparable.operations:
            if step.needed and not self._is_asked(step):
                likeness.setdefault(_unit(step), []).append(self._likeness(step))
        units = {_unit(step) for step in self.old_comparable.operations if step.needed}
        if self.bounds or any(change.kind in ("not_reached", "reached") for change in self.changes):
            size = min(len(units), len(likeness))
        else:
            size = max(len(units), len(likeness))
        if self.has_like_source and any(map(is_edit, self.changes)):
            return True  # what the user edited is known
        same_line = self.other.spot.place.text == self.miss.spot.place.text
        same_end = same_line and not REASONS[self.miss.kind].barrier
        share = 0.3 if same_end else 0.5 if self.has_like_source else _UNLIKE
        return sum(sum(unit) / len(unit) for unit in likeness.values()) >= share * size

    @property
    def has_like_source(self) -> bool:
        """Whether the one source may be an edit of the other: in its form, and in its words."""
        return self.sources.likeness >= _ALIKE and words_alike(self.miss, self.other) >= SAME_WORDS

    def _is_asked(self, step: ProgramStep) -> bool:
        """Whether the line of a trace break that the other program does not have recorded an operation."""
        if step.number in self.comparison.alignment.old or step.line is None:
            return False
        spot = self.miss.spot
        line = spot.code.co_filename, line_of(spot.code, spot.lasti)
        return step.line == line and any(bound.kind == "broke" for bound in self.bounds)

    def _likeness(self, step: ProgramStep) -> float:
        """How much the operation ``step`` is like the one it corresponds to: from 0 to 1."""
        match = self.comparison.alignment.old.get(step.number)
        if match is None:
            return 0.0
        old = self.old_comparable.steps[match]
        if not self.bounds and not old.needed:
            return 0.0
        if old.name != step.name:
            return 0.25
        if self.old_comparable.text(old) == self.comparable.text(step):
            return 1.0
        if step.line is None or old.line is None:
            return 0.5
        return 0.5 + 0.5 * self.sources.statement_likeness(old.line, step.line)

    @property
    def distance(self) -> float:
        """How much there is to tell: the fewer differences, the nearer."""
        touched = sum(
            len(change.now) + len(change.before)
            for change in self.changes
            if change.kind in ("added", "removed")
        )
        return len(self.changes) + 0.01 * touched

    def _donation(self) -> list[Change]:
        """The inputs whose memory only one of the two takes."""
        alignment = self.comparison.alignment
        old = _given(self.old_comparable, self.other)
        new = _given(self.comparable, self.miss)
        taken = [number for number in new if number in alignment.old and alignment.old[number] not in old]
        partners = [alignment.new[number] for number in old if number in alignment.new]
        kept = [number for number in partners if number not in new]
        changes = [self._memory("donated", number) for number in taken]
        return changes + [self._memory("not_donated", number) for number in kept]

    def _memory(self, kind: str, number: int) -> Change:
        """Whether the memory of an input of the miss is taken differs."""
        step = self.comparable.steps[number]
        before = self.old_comparable.steps[self.comparison.alignment.old[number]]
        user = next(iter(self.comparable.users().get((number, 0), ())), None)
        if step.name:
            name = step.label
        elif before.name:
            name = before.label
        elif user is not None:
            name = f"an array that {user.label} takes"
        else:
            name = "an input"
        return Change(kind, {"name": name}, (number,), (before.number,), user)

    def same_program(self, cause: Cause) -> Difference:
        """The difference if both are one program, made again because of ``cause``."""
        return Difference([cause], self.other, self.comparison.alignment.old)

    def difference(self, changes: Sequence[Change]) -> Difference:
        """The difference that the user is told."""
        alignment = self.comparison.alignment
        ordered = sorted(changes, key=lambda change: RANKS[change.kind])
        causes = shown([cause_of(change) for change in ordered])
        changed: set[int] = set()
        for change in changes:
            if change.kind not in ("added", "repeats"):
                changed.update(change.now)
        added = _needed_without(self.comparable, alignment.old)
        removed = _needed_without(self.old_comparable, alignment.new)
        unlike = frozenset(changed - set(added))
        return Difference(causes, self.other, dict(alignment.old), unlike, added, removed)


def _given(comparable: Comparable, miss: Miss) -> set[int]:
    """The needed inputs whose memory the program takes."""
    inputs = [comparable.inputs[number] for number in miss.donated]
    return {step.number for step in inputs if step.needed}


def _needed_without(comparable: Comparable, partner: dict[int, int]) -> tuple[int, ...]:
    """The needed steps that nothing corresponds to."""
    return tuple(step.number for step in comparable.steps if step.needed and step.number not in partner)


def _unit(step: ProgramStep) -> object:
    """The same for the operations of one function that the user called."""
    return step.number if step.call is None else (step.call, step.line)


_LEAVES_RESULTS = frozenset(
    "literal nested parameter identity number constant configuration context dtype".split()
)
"""Kinds that say nothing of which results there are, so that whose memory is taken may differ as well."""


def _bound_change(bound: Bound) -> Change:
    fields = {"at": bound.place.label, "break_kind": bound.reason, "place": bound.place}
    fields.update(operation=bound.operations, stand="stand" if " and " in bound.operations else "stands")
    return Change(bound.kind, fields, bound.now, bound.before)
