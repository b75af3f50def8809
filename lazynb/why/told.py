"""What is told of the difference of two programs: its causes, in the user's terms."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from lazynb.config import config
from lazynb.execute.misses import Miss
from lazynb.source import Place
from lazynb.why.causes import CAUSES
from lazynb.why.sides import Change

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


def shown(causes: Sequence[Cause]) -> list[Cause]:
    """The most important of ``causes``, which are in their order."""
    told = _once(causes)
    if len(told) > _SHOWN:
        text = CAUSES["more"].text.format(count=len(told) - _SHOWN + 1)
        told[_SHOWN - 1 :] = [Cause("more", text, None, "")]
    return told


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


def _words(change: Change) -> tuple[str, str]:
    """Text and cure of a change."""
    kind, fields, inner = CAUSES[change.kind], change.fields, change.fields.get("change")
    if inner is None:
        return kind.text.format(**fields), kind.cure.format(**fields)
    text, cure = _words(inner)
    return kind.text.format(function=fields["function"], text=text), cure


def cause_of(change: Change) -> Cause:
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


def divided_cause(miss: Miss) -> Cause:
    """It is a piece of a loop."""
    assert miss.cut is not None
    cause, at = CAUSES["divided"], miss.cut.spot.place
    return Cause("divided", f"{cause.text}: {at.label}", at, cause.cure)


def new_cause(miss: Miss, earlier: Sequence[Miss]) -> Cause:
    """Nothing is like it, as far as is remembered."""
    among = "" if len(earlier) == miss.number else f", among the {len(earlier):,} programs remembered"
    return Cause("new", CAUSES["new"].text.format(among=among), None, "")


def unnamed_cause(other: Miss, miss: Miss) -> Cause:
    """The same program was made again because of a part of JAX's configuration that has no name: a mesh in
    force, a setting that came with an import."""
    kind = "unknown" if other.summary.root is miss.summary.root else "context"
    cause = CAUSES[kind]
    return Cause(kind, cause.text.format(name="the program"), None, cause.cure)


def forgotten_cause(other: Miss, earlier: Iterable[Miss]) -> Cause:
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
