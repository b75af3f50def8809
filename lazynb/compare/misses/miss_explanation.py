"""Explains a miss by comparing it with earlier programs and choosing the nearest one."""

from __future__ import annotations

import dataclasses
import functools
import linecache
import re
from collections import Counter
from collections.abc import Callable, Sequence

from lazynb.compare.misses import change_attribution
from lazynb.compare.misses.change_attribution import attribute_to_edits, is_edit
from lazynb.compare.misses.loop_recurrence import fold_recurrences
from lazynb.compare.misses.miss_causes import (
    RANKS,
    TURN_ENDS,
    Cause,
    Difference,
    cause_of,
    forgotten_cause,
    loop_piece_cause,
    most_important,
    new_cause,
    unnamed_cause,
)
from lazynb.compare.misses.program_sides import ProgramChange
from lazynb.compare.misses.run_coverage import RunCoverage
from lazynb.compare.misses.source_pair import SourcePair
from lazynb.compare.misses.trace_bounds import TraceBoundaries, TraceBoundary
from lazynb.compare.misses.trace_difference import TraceDifference
from lazynb.compare.program_graph import ProgramGraph, ProgramStep, graph_of_miss
from lazynb.recording.break_reasons import REASONS
from lazynb.recording.loops.trace_growth import CUT
from lazynb.running.miss_log import Miss
from lazynb.user_code.source_lines import CodePosition, line_of

# ---- Word overlap of two sources --------------------------------------------------------------------------

_WORD = re.compile(r"\w+")


def word_overlap(miss: Miss, other: Miss) -> float:
    """Share of names and numbers that the recording cells of two programs have in common, from 0 to 1."""
    own, theirs = ("\n".join(each.sources.values()) for each in (miss, other))
    shared = (_words_in(own) & _words_in(theirs)).total()
    return shared / max(_words_in(own).total(), _words_in(theirs).total(), 1)


@functools.lru_cache(maxsize=256)
def _words_in(text: str) -> Counter[str]:
    return Counter(_WORD.findall(text))


_ALIKE = 0.5
"""Minimum share of the cell that is unchanged if an edit of it is the cause."""

_RESULTS = frozenset(("alive", "not_alive"))

SAME_WORDS = 0.3
"""Minimum share of names and numbers in both cells if one is an edit of the other."""

_UNLIKE = 0.75
"""Minimum share of paired operations in programs whose sources are not alike."""


class Candidate:
    """An earlier trace, compared with the miss.

    Attributes:
      changes: the differences.
      is_same: whether both are the same program.
    """

    def __init__(self, other: Miss, miss: Miss, comparable: ProgramGraph):
        self.other, self.miss, self.comparable = other, miss, comparable
        self.old_comparable = graph_of_miss(other)
        self.settings = change_attribution.differing_settings(other, miss)
        comparables = self.old_comparable, comparable
        self.sources = SourcePair(other, miss)
        reached = RunCoverage(self.sources, comparables, (other, miss))
        trace_bounds = TraceBoundaries(other, miss, comparables, reached)
        self.comparison = TraceDifference(
            *comparables,
            settings_explained=bool(self.settings),
            outside=trace_bounds.outside,
            sources=trace_bounds.sources,
            key=self._key,
            is_same_function=self.sources.is_same_function,
        )
        self.bounds = trace_bounds.bounds
        operations = reached.report_exceptions(self.comparison.changes)
        operations = attribute_to_edits(operations, self.sources, comparables, self.comparison.different)
        operations = reached.told(change_attribution.attribute_to_settings(operations, other, miss))
        if any(map(is_edit, operations)):
            operations = [change for change in operations if not self._is_read(change)]
        operations = [self._between_breaks(change) for change in operations]
        self.changes = [*self.settings, *map(_bound_change, self.bounds), *operations]
        if not self.changes or all(change.kind in _LEAVES_RESULTS for change in self.changes):
            self.changes += self._donation()
        self.is_same = not self.changes
        self.changes = [change for change in self.changes if not _says_nothing(change)]

    def _between_breaks(self, change: ProgramChange) -> ProgramChange:
        """The change, with another cure if it is about turns of a loop that a trace break ends."""
        cut = self.miss.cut
        if change.kind != "repeats" or cut is None or cut.spot.identity != self.miss.spot.identity:
            return change
        return dataclasses.replace(change, fields={**change.fields, "cure": TURN_ENDS})

    def _is_read(self, change: ProgramChange) -> bool:
        """Whether a value that only one program returns is read by an edited line."""
        if change.kind not in ("alive", "not_alive") or change.at is None or change.at.line is None:
            return False
        if change.fields["name"].startswith("the variable"):
            return False
        spot = (self.miss if change.kind == "alive" else self.other).spot
        return change.at.line == (spot.file, line_of(spot.code, spot.lasti))

    @property
    def _is_of_one_place(self) -> bool:
        """Whether both programs are known to be of one cell, or of one function."""
        return self.other.spot.identity_in_cell[0] == self.miss.spot.identity_in_cell[0]

    def _key(self, side: int, step: ProgramStep) -> str:
        """Key that is equal for steps of corresponding statements."""
        text = (self.old_comparable, self.comparable)[side].text(step)
        return text if step.line is None else self.sources.key(side, step.line, text)

    @functools.cached_property
    def is_related(self) -> bool:
        """Whether the two have enough in common for a meaningful difference."""
        if not self.changes:
            return False  # the reason for the separate compilation is unknown
        is_elsewhere = self.sources.is_one_text and self.end_rank > 0
        if is_elsewhere and any(change.kind in _EDITS for change in self.changes):
            return False  # two lines of one text: nothing was edited
        likeness: dict[object, list[float]] = {}
        for step in self.comparable.operations:
            if step.needed and not self._is_asked(step):
                likeness.setdefault(_unit(step), []).append(self._likeness(step))
        units = {_unit(step) for step in self.old_comparable.operations if step.needed}
        if any(change.kind in _PARTIAL for change in self.changes) and (
            self.has_like_source or self.end_rank < _SAME_FUNCTION or not self._ends_differ
        ):
            size = min(len(units), len(likeness))
        else:
            size = max(len(units), len(likeness))
        if self.has_like_source and any(map(is_edit, self.changes)):
            return True  # the user's edit is known
        same_end = self.end_rank < _SAME_FUNCTION and not REASONS[self.miss.kind].barrier
        share = 0.3 if same_end else 0.5 if self.has_like_source else _UNLIKE
        return sum(sum(unit) / len(unit) for unit in likeness.values()) >= share * size

    @functools.cached_property
    def has_like_source(self) -> bool:
        """Whether one source may be an edit of the other, by its structure and its words. For programs from
        one text: whether most of their statements are the same."""
        if self.sources.likeness < _ALIKE or word_overlap(self.miss, self.other) < SAME_WORDS:
            return False
        if not self.sources.is_one_text:
            return True
        comparables = self.old_comparable, self.comparable
        lines = [
            {step.line for step in program.operations if step.needed and step.line is not None}
            for program in comparables
        ]
        return self.sources.likeness_of_lines(*lines) >= _ALIKE

    @functools.cached_property
    def end_rank(self) -> int:
        """How near the ends of the two programs are in the source: 0 for one line with the same callers, then
        one line, one function, and neither."""
        before, now = self.other.spot, self.miss.spot
        if not self._is_one_line(before, now):
            code = now.code.co_qualname
            is_one = code == before.code.co_qualname and not code.startswith("<")
            return _SAME_FUNCTION if is_one else _SAME_FUNCTION + 1
        callers = zip(before.callers, now.callers, strict=False)
        same = len(before.callers) == len(now.callers) and all(self._is_one_line(*pair) for pair in callers)
        return 0 if same else 1

    def _is_one_line(self, before: CodePosition, now: CodePosition) -> bool:
        """Whether the statements at two positions correspond."""
        lines = [(spot.code.co_filename, line_of(spot.code, spot.lasti)) for spot in (before, now)]
        if self.sources.is_one_text and lines[0][0] == lines[1][0]:
            return lines[0] == lines[1]
        return before.place.text == now.place.text or self.sources.is_partner(*lines)

    def _is_asked(self, step: ProgramStep) -> bool:
        """Whether the line of a trace break that the other program lacks recorded an operation."""
        if step.number in self.comparison.alignment.old or step.line is None:
            return False
        spot = self.miss.spot
        line = spot.file, line_of(spot.code, spot.lasti)
        return step.line == line and any(bound.kind == "broke" for bound in self.bounds)

    def _likeness(self, step: ProgramStep) -> float:
        """Similarity of the operation ``step`` and its partner, from 0 to 1."""
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
    def _ends_differ(self) -> bool:
        return any(bound.kind in ("broke", "goes_on") for bound in self.bounds)

    @property
    def distance(self) -> float:
        """Number of differences; operations that only one program has count each."""
        return sum(
            max(1, len(change.now), len(change.before)) if change.kind in _ONE_SIDED else 1
            for change in self.changes
        )

    def _donation(self) -> list[ProgramChange]:
        """Changes for inputs that only one of the two donates."""
        alignment = self.comparison.alignment
        old = _given(self.old_comparable, self.other)
        new = _given(self.comparable, self.miss)
        taken = [number for number in new if number in alignment.old and alignment.old[number] not in old]
        partners = [alignment.new[number] for number in old if number in alignment.new]
        kept = [number for number in partners if number not in new]
        changes = [self._memory("donated", number) for number in taken]
        return changes + [self._memory("not_donated", number) for number in kept]

    def _memory(self, kind: str, number: int) -> ProgramChange:
        """The change for an input whose donation differs."""
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
        return ProgramChange(kind, {"name": name}, (number,), (before.number,), user)

    def same_program(self, cause: Cause) -> Difference:
        """The difference if both are one program that was compiled again because of ``cause``."""
        return Difference([cause], self.other, self.comparison.alignment.old)

    def difference(self, changes: Sequence[ProgramChange]) -> Difference:
        """The difference as reported to the user."""
        alignment = self.comparison.alignment
        ordered = sorted(changes, key=lambda change: RANKS[change.kind])
        causes = most_important([cause_of(change) for change in ordered])
        if not self._is_of_one_place:  # the earlier program wanted other results
            causes = [
                dataclasses.replace(cause, cure="") if cause.kind in _RESULTS else cause for cause in causes
            ]
        changed: set[int] = set()
        for change in changes:
            if change.kind not in ("added", "repeats"):
                changed.update(change.now)
        added = _needed_without(self.comparable, alignment.old)
        removed = _needed_without(self.old_comparable, alignment.new)
        unlike = frozenset(changed - set(added))
        return Difference(causes, self.other, dict(alignment.old), unlike, added, removed)


_SAME_FUNCTION = 2
"""See :attr:`Candidate.end_rank`."""


def _says_nothing(change: ProgramChange) -> bool:
    """Whether a function took the place of one of its name, on other lines of both sources."""
    return change.kind == "replaced" and change.fields["now"] == change.fields["before"]


_PARTIAL = frozenset(
    (
        "broke goes_on begins_later begins_earlier turn repeats cell_split cell_merged reached not_reached"
    ).split()
)
"""Kinds of which one program may be a part of the other."""

_EDITS = frozenset(("added", "removed", "replaced"))
"""Kinds that only an edit of the source can cause, unless the programs are of different lines."""

_ONE_SIDED = _EDITS | {"not_run", "not_reached", "reached"}
"""Kinds whose operations are in one program only."""


def _given(comparable: ProgramGraph, miss: Miss) -> set[int]:
    """The needed inputs that the program donates."""
    inputs = [comparable.inputs[number] for number in miss.donated]
    return {step.number for step in inputs if step.needed}


def _needed_without(comparable: ProgramGraph, partner: dict[int, int]) -> tuple[int, ...]:
    return tuple(step.number for step in comparable.steps if step.needed and step.number not in partner)


def _unit(step: ProgramStep) -> object:
    """Key that is equal for the operations of one function call of the user."""
    return step.number if step.call is None else (step.call, step.line)


_LEAVES_RESULTS = frozenset(
    "literal nested parameter identity number constant configuration context dtype".split()
)
"""Kinds that do not affect which results there are, so that donation may differ independently."""


def _bound_change(bound: TraceBoundary) -> ProgramChange:
    fields = {"at": bound.place.label, "break_kind": bound.reason, "place": bound.place}
    fields.update(operation=bound.operations, stand="stand" if " and " in bound.operations else "stands")
    return ProgramChange(bound.kind, fields, bound.now, bound.before)


# ---- Choice of the nearest cached trace -------------------------------------------------------------------

_EXACT = 4
"""Number of earlier traces compared step by step; chosen by the operations that they contain."""

_LOOKED_AT = 200
"""Number of the latest earlier traces whose operations are counted."""


def difference(miss: Miss, earlier: Sequence[Miss], runs: Callable[[], Sequence[Miss]]) -> Difference:
    """The difference between ``miss`` and the nearest trace that was cached then. Runs and compiles nothing.

    Arguments:
      runs: returns the programs that ran at the miss's line, in order, each as the miss that compiled it.

    Time is proportional to the trace length and the number of differences, for :data:`_EXACT` earlier traces.
    """
    linecache.checkcache()
    if miss.cut is not None and miss.cut.kind == CUT:
        return Difference([loop_piece_cause(miss)], None)
    comparable = graph_of_miss(miss)
    ranked = _by_likeness(miss, earlier)
    forgotten = [other for other in ranked if _was_forgotten(other, miss)]
    for other in forgotten[:_EXACT]:
        candidate = Candidate(other, miss, comparable)
        if candidate.is_same:
            return candidate.same_program(forgotten_cause(candidate.other))
    remembered = [other for other in ranked if not _was_forgotten(other, miss)]
    candidates = _candidates(remembered, miss, comparable)
    related = [candidate for candidate in candidates if candidate.is_related]
    if related:
        best = min(related, key=_nearness)
        return best.difference(fold_recurrences(best.changes, miss, comparable, earlier, runs()))
    for candidate in candidates:
        if candidate.is_same:
            return candidate.same_program(unnamed_cause(candidate.other, miss))
    return Difference([new_cause(miss, earlier)], None)


def _nearness(candidate: Candidate) -> tuple[bool, int, float, int]:
    """Sort key; candidates with a similar source, then a near end, then few differences come first."""
    number = candidate.other.number
    return not candidate.has_like_source, candidate.end_rank, candidate.distance, -number


def _candidates(ranked: Sequence[Miss], miss: Miss, comparable: ProgramGraph) -> list[Candidate]:
    """Compares the first of ``ranked`` with the miss, until one differs in exactly one change."""
    candidates: list[Candidate] = []
    for other in ranked[:_EXACT]:
        candidate = Candidate(other, miss, comparable)
        candidates.append(candidate)
        if candidate.distance <= 1 and candidate.end_rank == 0 and candidate.is_related:
            break  # no other can be nearer
    return candidates


def _was_forgotten(other: Miss, miss: Miss) -> bool:
    # A program that the miss itself evicted was cached at the lookup, but then it is not the same program.
    return other.forgotten is not None and other.forgotten.number <= miss.number


def _by_likeness(miss: Miss, earlier: Sequence[Miss]) -> list[Miss]:
    """The possibly related earlier misses, most similar first, then latest first."""
    own, asked = miss.made_of, miss.spot.place.text
    size = sum(own.values())
    scored = []
    for other in earlier[-_LOOKED_AT:]:
        theirs = other.made_of
        shared = sum((own & theirs).values())
        others = sum(theirs.values())
        score = shared / max(size, others, 1) + 0.3 * shared / max(1, min(size, others))
        if other.spot.place.text == asked:
            score += 0.2
        words = word_overlap(miss, other)
        if words >= SAME_WORDS:
            score += 0.3 * words
        if score > 0:
            scored.append((score, other.number, other))
    return [other for *_, other in sorted(scored, key=lambda entry: entry[:2], reverse=True)]
