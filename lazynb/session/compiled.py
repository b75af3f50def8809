"""Programs that had to be made, as rows: those of one line with causes of the same kinds are one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, NamedTuple

from lazynb.execute.misses import Miss, log
from lazynb.execute.records import Records
from lazynb.session.run_counter import Made
from lazynb.source import Place
from lazynb.units import duration
from lazynb.why.answer import causes_of, is_answered


class Told(NamedTuple):
    """One difference to the nearest cached trace.

    Attributes:
      text: in the user's terms.
      cure: the edit that would make it a hit; empty where there is none.
    """

    text: str
    cure: str


@dataclasses.dataclass(frozen=True, slots=True)
class Compiled:
    """One or several programs that had to be made for one line.

    Attributes:
      location: the user's line that asked for the run.
      count: how many.
      causes: how the first of them differed from the nearest cached trace, the most important first; empty
        where that cannot be told.
      operations: recorded operations in the first of them.
      loaded: how many of them came from the persistent cache.
      seconds: lowering, compiling and loading, all together.
    """

    location: Place
    count: int
    causes: tuple[Told, ...]
    operations: int
    loaded: int
    seconds: float

    @property
    def reason(self) -> str:
        """The causes in a line."""
        return "; ".join(cause.text for cause in self.causes)

    @property
    def cure(self) -> str:
        """What to do about them, in a line."""
        return "; ".join(dict.fromkeys(cause.cure for cause in self.causes if cause.cure))


def compiled(programs: Iterable[Made]) -> Records[Compiled]:
    """A row for each line and kind of cause, in the order in which each came first."""
    groups: dict[Any, list[tuple[Made, tuple[Told, ...]]]] = {}
    remembered = set(map(id, log.misses))
    for made in programs:
        # A forgotten miss can no longer be held against what was cached then: ``lazynb.clear_cache()``, or a
        # very long log.
        told = id(made.miss) in remembered or is_answered(made.miss)
        kinds, causes = _causes(made.miss) if told else ((), ())
        groups.setdefault((made.miss.spot.identity, kinds), []).append((made, causes))
    return Records([_merged(group) for group in groups.values()], "no compilations", _row, ranked=True)


def _causes(miss: Miss) -> tuple[tuple[str, ...], tuple[Told, ...]]:
    """The causes and their kinds; none where working out the difference fails: that must not hide what it
    belongs to."""
    try:
        causes = list(causes_of(miss))
    except Exception:
        return (), ()
    return tuple(cause.kind for cause in causes), tuple(Told(cause.text, cause.cure) for cause in causes)


def _merged(group: list[tuple[Made, tuple[Told, ...]]]) -> Compiled:
    first, causes = group[0]
    return Compiled(
        first.miss.place,
        len(group),
        causes,
        first.operations,
        sum(made.miss.origin == "disk" for made, _ in group),
        sum(made.miss.seconds for made, _ in group),
    )


def _row(one: Compiled) -> dict[str, str]:
    where = f"{one.location.label}: {one.location.text}" if one.location.text else one.location.label
    return {
        "line": where,
        "times": f"{one.count:,}",
        "operations": f"{one.operations:,}",
        "time": duration(one.seconds),
        "why": one.reason,
        "instead": one.cure,
    }
