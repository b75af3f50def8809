"""What ``lazynb run`` says on stderr when the program has ended."""

from __future__ import annotations

from lazynb.execute.flush import executables
from lazynb.session.budget import Used
from lazynb.session.budget_report import count, where
from lazynb.session.run_counter import RunCounter
from lazynb.units import duration

_BREAKS = 5


def summary(counter: RunCounter, used: Used, breaks_follow: bool = False) -> str:
    """The figures in a line, and the costliest trace breaks with what to write instead; without them where
    ``breaks_follow``."""
    made = f"{counter.loaded:,} loaded from disk, " if counter.loaded else "compiling "
    compiling = f" ({made}{duration(counter.compile_seconds)})" if counter.misses else ""
    figures = [
        count(counter.operations, "operation"),
        count(len(executables.order), "executable"),
        count(counter.hits, "hit"),
        f"{counter.misses:,} miss{'es' * (counter.misses != 1)}{compiling}",
    ]
    if used.kernels is not None:
        figures.append(f"{count(used.kernels.total, 'kernel')} launched")
    breaks = count(used.broken, "trace break") + (
        f" ({duration(used.breaks.seconds)})" if used.broken else ""
    )
    lines = [f"lazynb: {' · '.join([*figures, breaks])}"]
    if breaks_follow:
        return lines[0]
    for one in used.breaks[:_BREAKS]:
        lines += [
            f"  {one.code} {one.kind} ×{one.count:,}  {where(one.location)}  ({duration(one.seconds)})",
            f"      instead: {one.hint}",
        ]
    if len(used.breaks) > _BREAKS:
        lines.append(f"  ... {len(used.breaks) - _BREAKS:,} more; --report lists them")
    return "\n".join(lines)
