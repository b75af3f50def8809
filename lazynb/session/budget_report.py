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


def _head(there: int, noun: str, limit: int) -> str:
    return f"{count(there, noun)} where {limit:,} {'is' if limit == 1 else 'are'} allowed"


def _part(title: str, rows: Sequence[T], text: Callable[[T], list[str]]) -> str:
    lines = [title]
    for row in rows[:_LINES]:
        first, *rest = text(row)
        lines += [f"  {first}", *(f"      {line}" for line in rest if line)]
    if len(rows) > _LINES:
        lines.append(f"  ... {len(rows) - _LINES:,} more")
    return "\n".join(lines)


def _break(one: TraceBreak) -> list[str]:
    through = f" (through {one.library.label})" if one.library is not None else ""
    cost = [
        count(one.ops, "operation"),
        f"compiled {_times(one.compiles)}" if one.compiles else "",
        duration(one.seconds),
    ]
    return [
        f"{where(one.location)}{through}",
        f"{one.code} {one.kind}, {_times(one.count)}: {one.text} ({', '.join(filter(None, cost))})",
        f"instead: {one.hint}",
    ]


def _compilation(one: Compiled) -> list[str]:
    cost = [
        count(one.operations, "operation"),
        "loaded from disk" if one.loaded == one.count else "",
        duration(one.seconds),
    ]
    lines = [where(one.location), f"compiled {_times(one.count)}: {', '.join(filter(None, cost))}"]
    if not one.causes:
        return [*lines, "why cannot be told"]
    told: set[str] = set()
    for number, cause in enumerate(one.causes[:_CAUSES]):
        lines.append(f"{'the first because: ' if one.count > 1 and not number else 'because: '}{cause.text}")
        if cause.cure and cause.cure not in told:
            lines.append(f"instead: {cause.cure}")
        told.add(cause.cure)
    if len(one.causes) > _CAUSES:
        lines.append(f"... and {count(len(one.causes) - _CAUSES, 'difference')} more")
    return lines


def _program(one: Launched) -> list[str]:
    kernels = "XLA gives no HLO" if one.kernels is None else count(one.kernels, "kernel")
    return [
        where(one.location),
        f"{kernels} for {count(one.operations, 'operation')}, run {_times(one.runs)}",
    ]


def where(place: Place) -> str:
    """The line and its text."""
    return f"{place.label}: {place.text}" if place.text else place.label


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"


def count(number: int, noun: str) -> str:
    """``1 kernel``, ``12 kernels``."""
    return f"{number:,} {noun}{'s' * (number != 1)}"
