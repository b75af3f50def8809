"""The difference of a trace to the nearest one that was cached: why it was compiled, in the user's terms."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence

from lazynb.execute.misses import Miss
from lazynb.record.loops.growth import CUT
from lazynb.why.candidate import SAME_WORDS, Candidate
from lazynb.why.comparable import Comparable, comparable_of
from lazynb.why.recurrence import as_recurrence
from lazynb.why.told import Difference, divided_cause, forgotten_cause, new_cause, unnamed_cause
from lazynb.why.words import words_alike

_EXACT = 4
"""Earlier traces that are laid beside a miss step by step; which, is decided by what they are made of."""

_LOOKED_AT = 200
"""The latest earlier traces, of which what they are made of is compared."""


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
        return Difference([divided_cause(miss)], None)
    comparable = comparable_of(miss)
    ranked = _by_likeness(miss, earlier)
    forgotten = [other for other in ranked if _was_forgotten(other, miss)]
    for other in forgotten[:_EXACT]:
        candidate = Candidate(other, miss, comparable)
        if candidate.is_same:
            return candidate.same_program(forgotten_cause(candidate.other, earlier))
    remembered = [other for other in ranked if not _was_forgotten(other, miss)]
    candidates = _candidates(remembered, miss, comparable)
    related = [candidate for candidate in candidates if candidate.is_related]
    if related:
        best = min(related, key=_nearness)
        return best.difference(as_recurrence(best.changes, miss, comparable, earlier, runs()))
    for candidate in candidates:
        if candidate.is_same:
            return candidate.same_program(unnamed_cause(candidate.other, miss))
    return Difference([new_cause(miss, earlier)], None)


def _nearness(candidate: Candidate) -> tuple[bool, float, int]:
    """Least for the nearest: its source may be an edit of the other, and there is least to tell."""
    return not candidate.has_like_source, candidate.distance, -candidate.other.number


def _candidates(ranked: Sequence[Miss], miss: Miss, comparable: Comparable) -> list[Candidate]:
    """The first of ``ranked``, laid beside the miss, until one differs in one thing alone."""
    candidates: list[Candidate] = []
    for other in ranked[:_EXACT]:
        candidate = Candidate(other, miss, comparable)
        candidates.append(candidate)
        if len(candidate.changes) == 1 and candidate.is_related:
            break  # nothing is nearer
    return candidates


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
        words = words_alike(miss, other)
        if words >= SAME_WORDS:
            score += 0.3 * words
        if score > 0:
            scored.append((score, other.number, other))
    return [other for *_, other in sorted(scored, key=lambda entry: entry[:2], reverse=True)]
