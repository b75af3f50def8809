"""Why a trace was not in the cache: its difference to the nearest trace that was, in the user's terms."""

from __future__ import annotations

import dataclasses
import linecache
from collections.abc import Iterable, Sequence
from functools import cached_property

from lazynb import _jax as jc
from lazynb.config import config
from lazynb.execute.misses import Miss
from lazynb.reasons import REASONS
from lazynb.source import Place
from lazynb.why.causes import CAUSES, RANKS
from lazynb.why.comparable import Comparable, Step, comparable_of
from lazynb.why.comparison import Change, Comparison
from lazynb.why.recurrence import as_recurrence
from lazynb.why.trace_bounds import Bound, TraceBounds

_EXACT = 4
"""Earlier traces that are laid beside a miss step by step; which, is decided by what they are made of."""

_LOOKED_AT = 200
"""The latest earlier traces, of which what they are made of is compared."""

_SHOWN = 8
"""Causes told of one miss."""


@dataclasses.dataclass(frozen=True, slots=True)
class Cause:
    """One difference to the nearest cached trace.

    Attributes:
      kind: see ``lazynb.why.causes.CAUSES``.
      text: in the user's terms, with the line.
      place: the user's line; None where it has none.
      cure: the edit that would make it a hit; empty where there is none.
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
      nearest: None where nothing was like it.
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


def difference(miss: Miss, earlier: Sequence[Miss], runs: Sequence[Miss]) -> Difference:
    """The difference of ``miss`` to the nearest of the ``earlier`` ones that was cached then. Runs and
    compiles nothing.

    Arguments:
      runs: the programs that were run at the miss's line, in order, by the miss that made each.

    Time: in proportion to the trace's length and to the number of differences, for :data:`_EXACT` earlier
    traces.
    """
    linecache.checkcache()
    form = comparable_of(miss)
    ranked = _by_likeness(miss, earlier)
    gone = [_Candidate(other, miss, form) for other in ranked if _was_forgotten(other, miss)][:_EXACT]
    for candidate in gone:
        if candidate.is_same:
            return Difference(
                [_forgotten(candidate.other, earlier)], candidate.other, candidate.comparison.alignment.old
            )
    near = [other for other in ranked if not _was_forgotten(other, miss)][:_EXACT]
    tried: list[_Candidate] = []
    for other in near:
        tried.append(_Candidate(other, miss, form))
        if len(tried[-1].changes) == 1 and tried[-1].is_related:
            break  # nothing is nearer
    found = [candidate for candidate in tried if candidate.is_related]
    if not found:
        same = next((candidate for candidate in tried if candidate.is_same), None)
        if same is None:
            return Difference([_new(miss, earlier)], None)
        # JAX's configuration has parts without a name: a mesh in force, settings that came with an import.
        kind = "unknown" if same.other.summary.root is miss.summary.root else "context"
        told = CAUSES[kind]
        return Difference(
            [Cause(kind, told.text.format(name="the program"), None, told.cure)],
            same.other,
            same.comparison.alignment.old,
        )
    best = min(found, key=lambda candidate: (candidate.distance, -candidate.other.number))
    return best.difference(as_recurrence(best.changes, miss, form, earlier, runs))


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
        if score > 0 or other.spot.place.text == asked:
            scored.append((score + 0.2 * (other.spot.place.text == asked), other.number, other))
    return [other for *_, other in sorted(scored, key=lambda entry: entry[:2], reverse=True)]


class _Candidate:
    """An earlier trace laid beside the miss."""

    def __init__(self, other: Miss, miss: Miss, form: Comparable):
        self.other, self.miss, self.form = other, miss, form
        self.old_form = comparable_of(other)
        self.settings = _settings(other, miss)
        trace_bounds = TraceBounds(other, miss, (self.old_form, form))
        self.comparison = Comparison(
            self.old_form,
            form,
            settings_explained=bool(self.settings),
            outside=trace_bounds.outside,
            sources=trace_bounds.sources,
        )
        self.bounds = trace_bounds.bounds
        self.changes = [*self.settings, *map(_bound_change, self.bounds), *self.comparison.changes]
        if not self.changes or all(change.kind in _LEAVES_RESULTS for change in self.changes):
            self.changes += self._donation()

    @property
    def is_same(self) -> bool:
        """Whether both are one program."""
        return not self.changes

    @cached_property
    def is_related(self) -> bool:
        """Whether enough of the two is alike for a difference to mean something."""
        if self.is_same:
            return False  # what made a program of its own of it is not known
        old = self.comparison.alignment.old
        likeness: dict[object, list[float]] = {}
        for step in self.form.operations:
            if step.needed:
                match = old.get(step.number)
                alike = (
                    self._alike(match, step.number)
                    if match is not None and (self.bounds or self.old_form.steps[match].needed)
                    else 0.0
                )
                likeness.setdefault(_unit(step), []).append(alike)
        units = {_unit(step) for step in self.old_form.operations if step.needed}
        size = (min if self.bounds else max)(len(units), len(likeness))
        same_end = (
            not REASONS[self.miss.kind].barrier and self.other.spot.place.text == self.miss.spot.place.text
        )
        return sum(sum(unit) / len(unit) for unit in likeness.values()) >= (0.3 if same_end else 0.5) * size

    def _alike(self, old: int, new: int) -> float:
        a, b = self.old_form.steps[old], self.form.steps[new]
        if a.name != b.name:
            return 0.25
        return 1.0 if self.old_form.text(a) == self.form.text(b) else 0.5

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
        found = []
        old, new = (
            self._given(form, miss) for form, miss in ((self.old_form, self.other), (self.form, self.miss))
        )
        match = self.comparison.alignment
        for kind, numbers in (
            ("donated", [n for n in new if match.old.get(n) is not None and match.old[n] not in old]),
            ("not_donated", [match.new[n] for n in old if n in match.new and match.new[n] not in new]),
        ):
            for number in numbers:
                step = self.form.steps[number]
                user = next(iter(self.form.users().get((number, 0), ())), None)
                before = self.old_form.steps[match.old[number]]
                name = step.label if step.name else before.label if before.name else "an input"
                if name == "an input" and user is not None:
                    name = f"an array that {user.label} takes"
                found.append(Change(kind, {"name": name}, (number,), (before.number,), user))
        return found

    @staticmethod
    def _given(form: Comparable, miss: Miss) -> set[int]:
        inputs = [step.number for step in form.steps if not step.is_operation]
        return {inputs[number] for number in miss.donated if form.steps[inputs[number]].needed}

    def difference(self, changes: Sequence[Change]) -> Difference:
        """What is told of it."""
        alignment = self.comparison.alignment
        told = sorted(changes, key=lambda change: RANKS[change.kind])
        found = _once([_cause(change) for change in told])
        if len(found) > _SHOWN:
            found[_SHOWN - 1 :] = [
                Cause("more", CAUSES["more"].text.format(count=len(found) - _SHOWN + 1), None, "")
            ]
        changed = {
            number for change in changes if change.kind not in ("added", "repeats") for number in change.now
        }
        added = tuple(
            step.number for step in self.form.steps if step.needed and step.number not in alignment.old
        )
        removed = tuple(
            step.number for step in self.old_form.steps if step.needed and step.number not in alignment.new
        )
        return Difference(
            found, self.other, dict(alignment.old), frozenset(changed - set(added)), added, removed
        )


def _unit(step: Step) -> object:
    """The same for the operations of one function that the user called."""
    return step.number if step.call is None else (step.call, step.line)


_LEAVES_RESULTS = frozenset("literal nested parameter identity number configuration context dtype".split())
"""Kinds that say nothing of which results there are, so that whose memory is taken may differ as well."""


def _once(found: Sequence[Cause]) -> list[Cause]:
    """Causes that read the same (an edited line in a loop) as one."""
    told: dict[tuple[str, str], Cause] = {}
    for cause in found:
        known = told.get((cause.kind, cause.text))
        told[cause.kind, cause.text] = (
            cause
            if known is None
            else dataclasses.replace(
                known, steps=known.steps + cause.steps, before=known.before + cause.before
            )
        )
    return list(told.values())


# ---- what is told ------------------------------------------------------------------------------------------


def _settings(other: Miss, miss: Miss) -> list[Change]:
    """JAX's settings that differ."""
    old, new = other.summary.root, miss.summary.root
    if old is new:
        return []
    before, now = jc.traced_settings(old.config), jc.traced_settings(new.config)
    return [
        Change("configuration", {"setting": name, "before": before[name], "now": value})
        for name, value in now.items()
        if name in before and before[name] != value
    ]


def _bound_change(bound: Bound) -> Change:
    fields = {"at": bound.place.label, "break_kind": bound.reason, "place": bound.place}
    return Change(bound.kind, fields, bound.now, bound.before)


def _words(change: Change) -> tuple[str, str]:
    """Text and cure of a change."""
    told, fields, inner = CAUSES[change.kind], change.fields, change.fields.get("change")
    if inner is None:
        return told.text.format(**fields), told.cure.format(**fields)
    text, cure = _words(inner)
    return told.text.format(function=fields["function"], text=text), cure


def _cause(change: Change) -> Cause:
    """A change as the user is told it."""
    text, cure = _words(change)
    place = change.at.place if change.at is not None else change.fields.get("place")
    if change.at is not None and place is not None:
        text += (
            f": {change.fields.get('it', 'it was')} at {place.label}"
            if change.kind in _GONE
            else f": {place.label}"
        )
    return Cause(change.kind, text, place, cure, change.now, change.before)


_GONE = frozenset(("removed", "not_alive"))


def _new(miss: Miss, earlier: Sequence[Miss]) -> Cause:
    """Nothing is like it, as far as is remembered."""
    among = "" if len(earlier) == miss.number else f", among the {len(earlier):,} programs remembered"
    return Cause("new", CAUSES["new"].text.format(among=among), None, "")


def _forgotten(other: Miss, earlier: Iterable[Miss]) -> Cause:
    assert other.forgotten is not None
    kept = sum(
        one.number <= other.forgotten and (one.forgotten is None or one.forgotten >= other.forgotten)
        for one in earlier
    )
    setting = "max_executables" if kept >= config.max_executables else "max_recorded"
    fields = {"setting": setting, "limit": getattr(config, setting)}
    told = CAUSES["forgotten"]
    return Cause("forgotten", told.text.format(**fields), None, told.cure.format(**fields))
