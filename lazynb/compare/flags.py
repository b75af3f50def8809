"""The flags of XLA's that one of two compilations has and the other has not, or has otherwise."""

from __future__ import annotations

import dataclasses

from lazynb.compare.side import Side
from lazynb.execute.records import Records
from lazynb.xla.flags import told


@dataclasses.dataclass(frozen=True, slots=True)
class FlagDifference:
    """A flag with another value on each side.

    Attributes:
      name: of the flag.
      before, now: its values as they are written; None where it is not set, or where it is not known with
        which flags that side was compiled.
    """

    name: str
    before: str | None
    now: str | None


def flag_differences(before: Side, now: Side) -> Records[FlagDifference]:
    """The flags that differ."""
    old, new = before.flags or {}, now.flags or {}
    found = [
        FlagDifference(name, old.get(name), new.get(name))
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    ]
    return Records(found, "no flag differs", _row)


def own_flags(side: Side, other: Side) -> str:
    """The flags of a side that the other has not, or has otherwise, in a phrase; empty if there are none."""
    theirs = other.flags or {}
    return told({name: value for name, value in (side.flags or {}).items() if theirs.get(name) != value})


def sentence(before: Side, now: Side) -> str:
    """With which flags each side was compiled, as far as they differ; empty where none does."""
    both = ((before, now), (now, before))
    said = [f"{side.name} {own}" for side, other in both if (own := own_flags(side, other))]
    if not said:
        return ""
    said += [f"with which {side.name} was compiled is not known" for side, _ in both if side.flags is None]
    return f"Compiled with other flags: {'; '.join(said)}."


def _row(one: FlagDifference) -> dict[str, str]:
    return {"flag": one.name, "before": _value(one.before), "now": _value(one.now)}


def _value(value: str | None) -> str:
    return "" if value is None else value or "(empty)"
