"""The text of a budget error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from lazynb.compare.costs.program_usage import Contribution, Footprint, Footprints, ProgramLaunches
from lazynb.compare.misses.compilation_causes import Compiled
from lazynb.running.break_log import TraceBreak
from lazynb.user_code.source_lines import Place
from lazynb.user_code.text_format import duration, size

if TYPE_CHECKING:
    from lazynb.compare.costs.budget import Limits, Used

T = TypeVar("T")
_LINES = 8  # limit on rows of each kind
_CAUSES = 3  # limit on causes of a compilation


def explain(used: Used, limits: Limits) -> str:
    """Lists the exceeded limits with the excess, and for each what to do."""
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
    if used.footprints is not None:
        heads += _heads_of_bytes(used.footprints, over, asked)
        parts += _parts_of_bytes(used.footprints, over)
    return "\n".join([f"over budget: {'; '.join(heads)}", *parts])


def _head(number: int, noun: str, limit: int) -> str:
    return f"{count(number, noun)} where {limit:,} {'is' if limit == 1 else 'are'} allowed"


def _heads_of_bytes(footprints: Footprints, over: Sequence[str], asked: dict[str, int]) -> list[str]:
    """The excess over a limit on bytes or memory."""
    heads = []
    if "bytes" in over:
        moved = footprints.moved
        least = "" if moved.exact is not None else "at least "
        heads.append(f"{least}{_bytes(moved.low)} through memory where {_limit(asked['bytes'])} allowed")
    if "peak_memory" in over:
        limit = _limit(asked["peak_memory"])
        heads.append(f"a program takes {_bytes(footprints.largest)} of memory where {limit} allowed")
    return heads


def _parts_of_bytes(footprints: Footprints, over: Sequence[str]) -> list[str]:
    """The programs that moved or used the bytes, and their main contributions."""
    parts = []
    if "bytes" in over:
        rows = sorted(footprints.programs, key=lambda row: -(row.moved.low * row.runs if row.moved else 0))
        parts.append(_part("Bytes through memory, by the last line of each program:", rows, _moved))
        parts += [f"Not all is known: {why}." for why in footprints.unknown]
    if "peak_memory" in over:
        rows = sorted(footprints.programs, key=lambda row: -(row.allocated or 0))[:1]
        parts.append(_part("The program that takes most, by its last line:", rows, _taken))
    return parts


def _moved(row: Footprint) -> list[str]:
    moved = "XLA gives no HLO" if row.moved is None else f"{_bytes(row.moved.low)} a run"
    own = [f"{_bytes(part.bytes)} by {part.text}{_at(part)}" for part in row.kernels]
    return [where(row.location), f"{moved}, run {_times(row.runs)}", *own]


def _taken(row: Footprint) -> list[str]:
    own = [f"{_bytes(part.bytes)} held by {part.text}{_at(part)}" for part in row.holders]
    return [where(row.location), f"{_bytes(row.allocated or 0)}, of which at the peak", *own]


def _at(part: Contribution) -> str:
    return f" ({part.where})" if part.where else ""


def _limit(number: int) -> str:
    return f"{_bytes(number)} {'is' if number == 1 else 'are'}"


def _bytes(number: float) -> str:
    """``1,536 bytes (1.5 KiB)``: exact, because a limit is exact."""
    short = size(number)
    return f"{count(round(number), 'byte')}" + (f" ({short})" if not short.endswith(" B") else "")


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


def _program(row: ProgramLaunches) -> list[str]:
    kernels = "XLA gives no HLO" if row.kernels is None else count(row.kernels, "kernel")
    operations = count(row.operations, "operation")
    return [where(row.location), f"{kernels} for {operations}, run {_times(row.runs)}"]


def where(place: Place) -> str:
    """The line and its text."""
    return place.in_full


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"


def count(number: int, noun: str) -> str:
    """``1 kernel``, ``12 kernels``."""
    return f"{number:,} {noun}{'s' * (number != 1)}"
