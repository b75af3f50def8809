"""The summary that ``lazynb run`` writes to stderr when the program has ended."""

from __future__ import annotations

from lazynb.execute.flush import executables
from lazynb.session.budget import Used
from lazynb.session.budget_report import count, where
from lazynb.session.jax_compiled import in_a_line
from lazynb.session.run_counter import RunCounter
from lazynb.units import duration, size

_BREAKS = 5


def summary(counter: RunCounter, used: Used, breaks_follow: bool = False) -> str:
    """The figures in a line, and the costliest trace breaks with what to write instead.

    Arguments:
      breaks_follow: the trace breaks are listed elsewhere, and left out here.
    """
    lines = [f"lazynb: {' · '.join(_figures(counter, used))}"]
    jax_itself = in_a_line(counter.jax_log.rows())
    if jax_itself:
        lines.append(f"  {jax_itself}")
    if breaks_follow:
        return "\n".join(lines)
    for row in used.breaks[:_BREAKS]:
        lines += [
            f"  {row.code} {row.kind} ×{row.count:,}  {where(row.location)}  ({duration(row.seconds)})",
            f"      instead: {row.hint}",
        ]
    if len(used.breaks) > _BREAKS:
        lines.append(f"  ... {len(used.breaks) - _BREAKS:,} more; --report lists them")
    return "\n".join(lines)


def _figures(counter: RunCounter, used: Used) -> list[str]:
    breaks = count(used.broken, "trace break")
    if used.broken:
        breaks += f" ({duration(used.breaks.seconds)})"
    figures = [
        count(counter.operations, "operation"),
        count(len(executables.order), "executable"),
        count(counter.hits, "hit"),
        _misses(counter),
    ]
    if used.kernels is not None:
        figures.append(f"{count(used.kernels.total, 'kernel')} launched")
    if used.footprints is not None:
        moved = used.footprints.moved
        least = "" if moved.exact is not None else "at least "
        figures.append(f"{least}{size(moved.low)} through memory")
        figures.append(f"{size(used.footprints.largest)} taken at most")
    return [*figures, breaks]


def _misses(counter: RunCounter) -> str:
    if not counter.misses:
        return "0 misses"
    noun = "miss" if counter.misses == 1 else "misses"
    spent = f"compiling {duration(counter.compile_seconds)}"
    if counter.loaded:
        spent = f"{counter.loaded:,} loaded from disk, {duration(counter.compile_seconds)}"
    return f"{counter.misses:,} {noun} ({spent})"
