"""The rows of programs that had to be made: those of one line with causes of the same kinds are one."""

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
      cure: the edit that would make it a hit; empty if there is none.
    """

    text: str
    cure: str


@dataclasses.dataclass(frozen=True, slots=True)
class Compiled:
    """One or several programs that had to be made for one line.

    Attributes:
      location: the user's line that asked for the run.
      count: how many.
      causes: how the first of them differed from the nearest cached trace, the most important first; empty if
        that cannot be told.
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
    for program in programs:
        # A forgotten miss can no longer be held against what was cached then: ``lazynb.clear_cache()``, or a
        # very long log.
        kinds, causes = _causes(program.miss, id(program.miss) in remembered or is_answered(program.miss))
        groups.setdefault((program.miss.spot.identity, kinds), []).append((program, causes))
    return Records([_merged(group) for group in groups.values()], "no compilations", _row, ranked=True)


def _causes(miss: Miss, can_tell: bool) -> tuple[tuple[str, ...], tuple[Told, ...]]:
    """The kinds of the causes, and the causes; none if working out the difference fails, which must not hide
    the miss."""
    if not can_tell:
        return (), ()
    try:
        causes = list(causes_of(miss))
    except Exception:
        return (), ()
    return tuple(cause.kind for cause in causes), tuple(Told(cause.text, cause.cure) for cause in causes)


def _merged(group: list[tuple[Made, tuple[Told, ...]]]) -> Compiled:
    first, causes = group[0]
    misses = [program.miss for program, _ in group]
    return Compiled(
        location=first.miss.place,
        count=len(group),
        causes=causes,
        operations=first.operations,
        loaded=sum(miss.origin == "disk" for miss in misses),
        seconds=sum(miss.seconds for miss in misses),
    )


def _row(compiled: Compiled) -> dict[str, str]:
    line = compiled.location.label
    if compiled.location.text:
        line = f"{line}: {compiled.location.text}"
    return {
        "line": line,
        "times": f"{compiled.count:,}",
        "operations": f"{compiled.operations:,}",
        "time": duration(compiled.seconds),
        "why": compiled.reason,
        "instead": compiled.cure,
    }
