"""The explanation of a budget that was exceeded, as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from lazynb.execute.breaks import TraceBreak
from lazynb.session.compiled import Compiled
from lazynb.session.launches import Launched
from lazynb.source import Place
from lazynb.units import duration

if TYPE_CHECKING:
    from lazynb.session.budget import Limits, Used

T = TypeVar("T")
_LINES = 8  # rows of each kind
_CAUSES = 3  # of a compilation


def explain(used: Used, limits: Limits) -> str:
    """Which limits ``used`` is over, by how much, and for each what to do."""
    over, asked = used.over(limits), limits.asked()
    heads, parts = [], []
    if "breaks" in over:
        heads.append(_head(used.broken, "trace break", asked["breaks"]))
        parts.append(_part("Trace breaks, the costliest first:", used.breaks, _break))
    if "compiles" in over:
        heads.append(_head(used.compiles, "compilation", asked["compiles"]))
        parts.append(_part("Compilations:", used.compilations, _compilation))
    if "kernels" in over and used.kernels is not None:
        heads.append(_head(used.kernels.total, "kernel", asked["kernels"]))
        parts.append(_part("Kernels, by the last line of each program:", used.kernels.programs, _program))
        if used.kernels.unknown:
            parts.append(f"XLA gives no HLO of {count(used.kernels.unknown, 'program')}: there may be more.")
    return "\n".join([f"over budget: {'; '.join(heads)}", *parts])


def _head(number: int, noun: str, limit: int) -> str:
    return f"{count(number, noun)} where {limit:,} {'is' if limit == 1 else 'are'} allowed"


def _part(title: str, rows: Sequence[T], text: Callable[[T], list[str]]) -> str:
    lines = [title]
    for row in rows[:_LINES]:
        first, *rest = text(row)
        lines += [f"  {first}", *(f"      {line}" for line in rest if line)]
    if len(rows) > _LINES:
        lines.append(f"  ... {len(rows) - _LINES:,} more")
    return "\n".join(lines)


def _break(row: TraceBreak) -> list[str]:
    cost = [count(row.ops, "operation")]
    if row.compiles:
        cost.append(f"compiled {_times(row.compiles)}")
    cost.append(duration(row.seconds))
    line = where(row.location)
    if row.library is not None:
        line += f" (through {row.library.label})"
    return [
        line,
        f"{row.code} {row.kind}, {_times(row.count)}: {row.text} ({_listed(cost)})",
        f"instead: {row.hint}",
    ]


def _compilation(row: Compiled) -> list[str]:
    cost = [count(row.operations, "operation")]
    if row.loaded == row.count:
        cost.append("loaded from disk")
    cost.append(duration(row.seconds))
    lines = [where(row.location), f"compiled {_times(row.count)}: {_listed(cost)}"]
    if not row.causes:
        return [*lines, "why cannot be told"]
    because = "the first because" if row.count > 1 else "because"
    cures: set[str] = set()
    for cause in row.causes[:_CAUSES]:
        lines.append(f"{because}: {cause.text}")
        because = "because"
        if cause.cure and cause.cure not in cures:
            lines.append(f"instead: {cause.cure}")
        cures.add(cause.cure)
    if len(row.causes) > _CAUSES:
        lines.append(f"... and {count(len(row.causes) - _CAUSES, 'difference')} more")
    return lines


def _listed(texts: Sequence[str]) -> str:
    return ", ".join(filter(None, texts))


def _program(row: Launched) -> list[str]:
    kernels = "XLA gives no HLO" if row.kernels is None else count(row.kernels, "kernel")
    operations = count(row.operations, "operation")
    return [where(row.location), f"{kernels} for {operations}, run {_times(row.runs)}"]


def where(place: Place) -> str:
    """The line and its text."""
    return f"{place.label}: {place.text}" if place.text else place.label


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"


def count(number: int, noun: str) -> str:
    """``1 kernel``, ``12 kernels``."""
    return f"{number:,} {noun}{'s' * (number != 1)}"
