"""The difference of a trace to the nearest one that was cached: why it was compiled, in the user's terms."""

from __future__ import annotations

import dataclasses
import functools
import linecache
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from lazynb.config import config
from lazynb.execute.misses import Miss
from lazynb.reasons import REASONS
from lazynb.record.loops.growth import CUT
from lazynb.source import Place, line_of
from lazynb.why import settings
from lazynb.why.attribution import attributed, is_edit
from lazynb.why.causes import CAUSES, RANKS
from lazynb.why.comparable import Comparable, ProgramStep, comparable_of
from lazynb.why.comparison import Comparison
from lazynb.why.reached import Reached
from lazynb.why.recurrence import as_recurrence
from lazynb.why.sides import Change
from lazynb.why.source_pair import SourcePair
from lazynb.why.trace_bounds import Bound, TraceBounds

_EXACT = 4
"""Earlier traces that are laid beside a miss step by step; which, is decided by what they are made of."""

_LOOKED_AT = 200
"""The latest earlier traces, of which what they are made of is compared."""

_ALIKE = 0.5
"""Share of the cell that must be left for an edit of it to be the cause."""

_WORD = re.compile(r"\w+|[^\w\s]")

_SHOWN = 8
"""Causes told of one miss."""


@dataclasses.dataclass(frozen=True, slots=True)
class Cause:
    """One difference to the nearest cached trace.

    Attributes:
      kind: see ``lazynb.why.causes.CAUSES``.
      text: in the user's terms, with the line.
      place: the user's line; None if there is none.
      cure: the edit that would make it a hit; empty if there is none.
      steps: numbers of the steps of the miss that it is about.
      before: those of the nearest cached trace.
    """

    kind: str
    text: str
    place: Place | None
    cure: str
    steps: tuple[int, ...] = ()
    before: tuple[int, ...] = ()

    @property
    def code(self) -> str:
        """Stable identifier, such as ``LNB432``."""
        return CAUSES[self.kind].code


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """How a miss differs from the nearest trace that was cached then.

    Attributes:
      causes: the most important first.
      nearest: None if nothing was like it.
      pairs: by step of the miss, that of ``nearest`` which corresponds.
      unlike: steps of the miss that correspond to one and are a cause; those that differ in consequence are
        not among them.
      added: steps of the miss that nothing corresponds to.
      removed: the reverse, steps of ``nearest``.
    """

    causes: Sequence[Cause]
    nearest: Miss | None
    pairs: dict[int, int] = dataclasses.field(default_factory=dict)
    unlike: frozenset[int] = frozenset()
    added: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()


def difference(miss: Miss, earlier: Sequence[Miss], runs: Callable[[], Sequence[Miss]]) -> Difference:
    """The difference of ``miss`` to the nearest of the ``earlier`` ones that was cached then. Runs and
    compiles nothing.

    Arguments:
      runs: gives the programs that were run at the miss's line, in order, by the miss that made each.

    Time: in proportion to the trace's length and to the number of differences, for :data:`_EXACT` earlier
    traces.
    """
    linecache.checkcache()
    if miss.cut is not None and miss.cut.kind == CUT:
        return Difference([_divided(miss)], None)
    comparable = comparable_of(miss)
    ranked = _by_likeness(miss, earlier)
    forgotten = [other for other in ranked if _was_forgotten(other, miss)]
    for other in forgotten[:_EXACT]:
        candidate = _Candidate(other, miss, comparable)
        if candidate.is_same:
            return candidate.same_program(_forgotten(candidate.other, earlier))
    remembered = [other for other in ranked if not _was_forgotten(other, miss)]
    candidates = _candidates(remembered, miss, comparable)
    related = [candidate for candidate in candidates if candidate.is_related]
    if related:
        best = min(related, key=lambda candidate: (candidate.distance, -candidate.other.number))
        return best.difference(as_recurrence(best.changes, miss, comparable, earlier, runs()))
    for candidate in candidates:
        if candidate.is_same:
            return candidate.same_program(_unnamed(candidate.other, miss))
    return Difference([_new(miss, earlier)], None)


def _candidates(ranked: Sequence[Miss], miss: Miss, comparable: Comparable) -> list[_Candidate]:
    """The first of ``ranked``, laid beside the miss, until one differs in one thing alone."""
    candidates: list[_Candidate] = []
    for other in ranked[:_EXACT]:
        candidate = _Candidate(other, miss, comparable)
        candidates.append(candidate)
        if len(candidate.changes) == 1 and candidate.is_related:
            break  # nothing is nearer
    return candidates


# ---- which trace is near -----------------------------------------------------------------------------------


def _was_forgotten(other: Miss, miss: Miss) -> bool:
    # What was pushed out by the miss itself was there when it was looked for, but then it is not the same
    # program.
    return other.forgotten is not None and other.forgotten <= miss.number


def _by_likeness(miss: Miss, earlier: Sequence[Miss]) -> list[Miss]:
    """Those of ``earlier`` that may be related, the most alike first, then the latest."""
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
        if not score and _words_alike(miss, other) >= _ALIKE:
            score = 0.1
        if score > 0:
            scored.append((score, other.number, other))
    return [other for *_, other in sorted(scored, key=lambda entry: entry[:2], reverse=True)]


def _words_alike(miss: Miss, other: Miss) -> float:
    """The share of the words that the sources of two programs have in common, from 0 to 1."""
    own, theirs = ("\n".join(each.sources.values()) for each in (miss, other))
    shared = (_words_in(own) & _words_in(theirs)).total()
    return shared / max(_words_in(own).total(), _words_in(theirs).total(), 1)


@functools.lru_cache(maxsize=256)
def _words_in(text: str) -> Counter[str]:
    return Counter(_WORD.findall(text))


class _Candidate:
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
        if self.sources.likeness >= _ALIKE and any(map(is_edit, self.changes)):
            return True  # what the user edited is known
        same_line = self.other.spot.place.text == self.miss.spot.place.text
        same_end = same_line and not REASONS[self.miss.kind].barrier
        share = 0.3 if same_end else 0.5
        return sum(sum(unit) / len(unit) for unit in likeness.values()) >= share * size

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
        causes = _once([_cause(change) for change in ordered])
        if len(causes) > _SHOWN:
            text = CAUSES["more"].text.format(count=len(causes) - _SHOWN + 1)
            causes[_SHOWN - 1 :] = [Cause("more", text, None, "")]
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


_LEAVES_RESULTS = frozenset("literal nested parameter identity number configuration context dtype".split())
"""Kinds that say nothing of which results there are, so that whose memory is taken may differ as well."""


def _once(causes: Sequence[Cause]) -> list[Cause]:
    """Causes that read the same (an edited line in a loop) as one."""
    once: dict[tuple[str, str], Cause] = {}
    for cause in causes:
        known = once.get((cause.kind, cause.text))
        if known is not None:
            steps, before = known.steps + cause.steps, known.before + cause.before
            cause = dataclasses.replace(known, steps=steps, before=before)
        once[cause.kind, cause.text] = cause
    return list(once.values())


# ---- what is told ------------------------------------------------------------------------------------------


def _bound_change(bound: Bound) -> Change:
    fields = {"at": bound.place.label, "break_kind": bound.reason, "place": bound.place}
    fields.update(operation=bound.operations, stand="stand" if " and " in bound.operations else "stands")
    return Change(bound.kind, fields, bound.now, bound.before)


def _words(change: Change) -> tuple[str, str]:
    """Text and cure of a change."""
    kind, fields, inner = CAUSES[change.kind], change.fields, change.fields.get("change")
    if inner is None:
        return kind.text.format(**fields), kind.cure.format(**fields)
    text, cure = _words(inner)
    return kind.text.format(function=fields["function"], text=text), cure


def _cause(change: Change) -> Cause:
    """A change as the user is told it."""
    text, cure = _words(change)
    if change.at is None:
        place = change.fields.get("place")
    else:
        place = change.at.place
    if change.at is not None and place is not None:
        if change.kind in _LOST:
            text += f": {change.fields.get('it', 'it was')} at {place.label}"
        else:
            text += f": {place.label}"
    return Cause(change.kind, text, place, cure, change.now, change.before)


_LOST = frozenset(("removed", "not_alive"))
"""Kinds whose line is one of the earlier program."""


def _divided(miss: Miss) -> Cause:
    """It is a piece of a loop."""
    assert miss.cut is not None
    cause, at = CAUSES["divided"], miss.cut.spot.place
    return Cause("divided", f"{cause.text}: {at.label}", at, cause.cure)


def _new(miss: Miss, earlier: Sequence[Miss]) -> Cause:
    """Nothing is like it, as far as is remembered."""
    among = "" if len(earlier) == miss.number else f", among the {len(earlier):,} programs remembered"
    return Cause("new", CAUSES["new"].text.format(among=among), None, "")


def _unnamed(other: Miss, miss: Miss) -> Cause:
    """The same program was made again because of a part of JAX's configuration that has no name: a mesh in
    force, a setting that came with an import."""
    kind = "unknown" if other.summary.root is miss.summary.root else "context"
    cause = CAUSES[kind]
    return Cause(kind, cause.text.format(name="the program"), None, cause.cure)


def _forgotten(other: Miss, earlier: Iterable[Miss]) -> Cause:
    """The same program was made before, and pushed out of the cache since."""
    assert other.forgotten is not None
    kept = sum(_was_kept(miss, other.forgotten) for miss in earlier)
    setting = "max_executables" if kept >= config.max_executables else "max_recorded"
    fields = {"setting": setting, "limit": getattr(config, setting)}
    cause = CAUSES["forgotten"]
    return Cause("forgotten", cause.text.format(**fields), None, cause.cure.format(**fields))


def _was_kept(miss: Miss, number: int) -> bool:
    """Whether the cache held the program of ``miss`` when that of the miss ``number`` was made."""
    return miss.number <= number and (miss.forgotten is None or miss.forgotten >= number)
