"""The cost of a trace break, measured against a program compiled without the break.

The runs that a break separates are joined into one program. Values that Python read, or that were still
reachable, stay results; values that only fed the next program become internal. The breaks of a loop are one
row: some iterations are joined, and the rest is inferred.
"""

from __future__ import annotations

import collections
import dataclasses
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from lazynb.compare.costs.joint_program import (
    CannotJoin,
    JointProgram,
    SeparateRuns,
    Spread,
    joinable,
    measure,
)
from lazynb.config import config
from lazynb.recording.break_reasons import ASKED_FOR, REASONS
from lazynb.running.run_recorder import RecordedBreak
from lazynb.running.trace_executable import Executable
from lazynb.user_code.source_lines import Place
from lazynb.xla.cost.kernel_cost import kernel_costs
from lazynb.xla.cost.total_cost import program_total
from lazynb.xla.hlo.clusters import find_clusters
from lazynb.xla.hlo.module import parse
from lazynb.xla.program_interface import InputsGone


class BeforeAfter(NamedTuple):
    """A figure with and without the breaks; None if unknown."""

    now: float | None
    then: float | None


_UNKNOWN = BeforeAfter(None, None)


@dataclasses.dataclass(frozen=True, slots=True)
class Counterfactual:
    """The breaks of one kind at one line, and the program without them.

    Attributes:
      code, kind, location: of the breaks, as in ``lazynb.breaks()``.
      count: number of breaks.
      followed: number of breaks after which another program ran.
      joined: number of breaks left out in the compiled program.
      operations: recorded operations in that program.
      programs: number of programs run.
      compiles: number of different programs, each compiled once.
      compile_seconds: time to compile them.
      kernels: number of kernels run (clusters of XLA); None if the backend returns no HLO.
      bytes: bytes read and written, by XLA's analysis, one iteration of each loop; None if unknown.
      now, then: measured seconds of the separate programs, with the waits that the breaks require, and of the
        one program. Recording is not included. None if not measured.
      saved: seconds that one break costs: measured difference divided by the number of breaks left out.
      total: cost of all ``followed`` breaks; inferred from ``saved`` if not all were left out.
      inferred: whether ``total`` is inferred.
      inputs: which inputs the measurement used.
      assumptions: conditions for the figures to hold.
      problem: why figures are missing; empty if none is.
    """

    code: str
    kind: str
    location: Place
    count: int
    followed: int
    joined: int = 0
    operations: int = 0
    programs: BeforeAfter = _UNKNOWN
    compiles: BeforeAfter = _UNKNOWN
    compile_seconds: BeforeAfter = _UNKNOWN
    kernels: BeforeAfter = _UNKNOWN
    bytes: BeforeAfter = _UNKNOWN
    now: Spread | None = None
    then: Spread | None = None
    saved: float | None = None
    total: float | None = None
    inferred: bool = False
    inputs: str = ""
    assumptions: tuple[str, ...] = ()
    problem: str = ""

    @property
    def clear(self) -> bool:
        """Whether the measured times differ by more than their spread: their middle halves do not overlap."""
        if self.now is None or self.then is None:
            return False
        return self.now.low > self.then.high or self.now.high < self.then.low


_NEEDS = {
    "bool": (
        "the branch that was taken is taken again (jnp.where, jax.lax.cond or jax.lax.while_loop "
        "leaves it to the program)"
    ),
    "contains": "the branch that was taken is taken again",
    "int": "the number that Python got is the same",
    "index": "the number that Python got is the same",
    "static": "the number that Python got is the same",
    "effect": "the operation with a side effect, which ran in between, is left out",
    "unrecordable": "the operation that cannot be recorded, which ran in between, is left out",
    "device_put": "the move, which ran in between, is left out",
    "devices": "the eager operations in between are left out",
    "eager": "the eager operations in between are left out",
}
"""Kind of break → additional assumption, beyond that the program takes the same path."""


def counterfactuals(breaks: Sequence[RecordedBreak]) -> list[Counterfactual]:
    """One row for each kind and line of ``breaks``, largest saving first.

    Compiles and runs programs, outside all caches, for the ``MOST`` most expensive rows.
    """
    rows: dict[Any, list[RecordedBreak]] = {}
    for trace_break in breaks:
        if trace_break.kind != ASKED_FOR:
            rows.setdefault(trace_break.identity, []).append(trace_break)
    ranked = sorted(rows.values(), key=lambda row: -sum(trace_break.seconds for trace_break in row))
    figures, start = [], time.perf_counter()
    for number, row in enumerate(ranked):
        if number >= MOST:
            problem = f"not worked out: there are {MOST} costlier ones"
            figures.append(_row(row, breaks, problem=problem))
        elif number and time.perf_counter() - start > PATIENCE:
            problem = f"not worked out: costlier ones took {PATIENCE} seconds already"
            figures.append(_row(row, breaks, problem=problem))
        else:
            figures.append(_of_row(row, breaks))
    return sorted(figures, key=lambda row: -1.0 if row.total is None else row.total, reverse=True)


def without_all_breaks(breaks: Sequence[RecordedBreak]) -> Counterfactual | None:
    """The program without all ``breaks``, as a row of kind ``all``; None if all have one line and kind."""
    row = [trace_break for trace_break in breaks if trace_break.kind != ASKED_FOR]
    if len({trace_break.identity for trace_break in row}) < 2:
        return None
    return dataclasses.replace(_of_row(row, breaks), code="", kind="all")


MOST = 8
"""Maximum number of computed rows; each compiles a program."""
PATIENCE = 30
"""Seconds after which no further row is started."""


def _row(row: Sequence[RecordedBreak], breaks: Sequence[RecordedBreak], **figures: Any) -> Counterfactual:
    kind = row[0].kind
    return Counterfactual(
        code=REASONS[kind].code,
        kind=kind,
        location=row[0].spot.place,
        count=len(row),
        followed=_followed(row, breaks),
        **figures,
    )


def _followed(row: Sequence[RecordedBreak], breaks: Sequence[RecordedBreak]) -> int:
    """Number of breaks of ``row`` after which another break occurred."""
    return sum(trace_break is not breaks[-1] for trace_break in row)


def _of_row(row: Sequence[RecordedBreak], breaks: Sequence[RecordedBreak]) -> Counterfactual:
    window = _typical(list(_joinable_sequences(row, breaks)))
    if not window:
        return _row(row, breaks, problem=_alone(row, breaks))
    try:
        joinable(window)
        apart = SeparateRuns(window)
        apart.find_values()
        joined = JointProgram(apart)
    except (CannotJoin, InputsGone) as error:
        return _row(row, breaks, problem=str(error))
    except Exception as error:
        return _row(row, breaks, problem=f"the program without it cannot be compiled: {first_line(error)}")
    return _figures(row, breaks, apart, joined)


def _alone(row: Sequence[RecordedBreak], breaks: Sequence[RecordedBreak]) -> str:
    """Why there is nothing to join at the breaks of ``row``."""
    if not _followed(row, breaks):
        return "nothing ran after it: without it the same program runs once, whenever its value is needed"
    return (
        f"the programs before and after it have more than {config.max_program:,} operations together "
        "(lazynb.config.max_program): lazynb would keep them apart"
    )


# ---- Choice of the runs to join ----------------------------------------------------------------------------


def _joinable_sequences(
    row: Sequence[RecordedBreak], breaks: Sequence[RecordedBreak]
) -> Iterator[list[RecordedBreak]]:
    """Yields limited sequences of consecutive breaks in which all but the last are in ``row``."""
    numbers = {trace_break.number for trace_break in row}
    window: list[RecordedBreak] = []
    for trace_break in breaks:
        if window and not _fits(window, trace_break):
            last = window[-1:]
            goes_on = len(window) > 1 and last[0].number in numbers and _fits(last, trace_break)
            if len(window) > 1:
                yield window
            window = last if goes_on else []
        window.append(trace_break)
        if trace_break.number not in numbers:
            if len(window) > 1:
                yield window
            window = []
    if len(window) > 1:
        yield window


def _fits(window: Sequence[RecordedBreak], trace_break: RecordedBreak) -> bool:
    operations = _operations(window) + _operations([trace_break])
    most = config.max_program
    if len(window) > 1:
        most = min(JOINED, most)
    return len(window) <= BREAKS and operations <= most


def _operations(window: Sequence[RecordedBreak]) -> int:
    return sum(seen.operations for trace_break in window for seen in trace_break.runs)


JOINED = 300
"""Limit on joined operations, for more than one break: XLA's compile time grows faster than their number."""
BREAKS = 32
"""Maximum number of breaks left out in one program."""


def _typical(windows: Sequence[list[RecordedBreak]]) -> list[RecordedBreak]:
    """The longest of the sequences whose programs occur most often."""
    counts = collections.Counter(map(_programs, windows))
    return max(windows, key=lambda window: (len(window) * counts[_programs(window)], len(window)), default=[])


def _programs(window: Sequence[RecordedBreak]) -> tuple[int, ...]:
    runs = [seen.run for trace_break in window for seen in trace_break.runs]
    return tuple([id(run.binding.executable) for run in runs])


# ---- Figures -----------------------------------------------------------------------------------------------


def _figures(
    row: Sequence[RecordedBreak], breaks: Sequence[RecordedBreak], apart: SeparateRuns, joined: JointProgram
) -> Counterfactual:
    executables = [seen.run.binding.executable for seen in apart.runs]
    different = list(dict.fromkeys(executables))
    sizes = {executable: _size(executable) for executable in different}
    size = _size(joined.executable)
    count, followed = len(apart.breaks) - 1, _followed(row, breaks)
    now, then, problem = _times(apart, joined)
    saved = total = None
    if now is not None and then is not None:
        saved = (now.median - then.median) / count
        total = saved * followed
    compile_seconds = sum(executable.compile_seconds for executable in different)
    return _row(
        row,
        breaks,
        joined=count,
        operations=sum(seen.operations for seen in apart.runs),
        programs=BeforeAfter(len(executables), 1),
        compiles=BeforeAfter(len(different), 1),
        compile_seconds=BeforeAfter(compile_seconds, joined.executable.compile_seconds),
        kernels=BeforeAfter(_sum(sizes[executable].kernels for executable in executables), size.kernels),
        bytes=BeforeAfter(_sum(sizes[executable].bytes for executable in executables), size.bytes),
        now=now,
        then=then,
        saved=saved,
        total=total,
        inferred=count < followed,
        inputs=apart.measured_on() if now is not None else "",
        assumptions=tuple(_assumptions(apart)),
        problem=problem,
    )


class _Size(NamedTuple):
    """Kernels and bytes of a program; None if unknown."""

    kernels: int | None
    bytes: float | None


def _size(executable: Executable) -> _Size:
    try:
        text = executable.compiled.as_text()
    except Exception:  # the error for missing HLO depends on the backend
        text = ""
    if not text:
        return _Size(None, None)
    module = parse(text)
    clusters = find_clusters(module)
    costs = kernel_costs(module, [cluster.name for cluster in clusters])
    return _Size(len(clusters), program_total(module, costs).bytes.exact)


def _sum(figures: Iterable[float | None]) -> float | None:
    total: float = 0
    for figure in figures:
        if figure is None:
            return None
        total += figure
    return total


def _times(apart: SeparateRuns, joined: JointProgram) -> tuple[Spread | None, Spread | None, str]:
    """Measured times of both variants, or why there are none."""
    if any(seen.run.binding.executable.may_fail for seen in apart.runs):
        return None, None, "not measured: the program calls Python back, which lazynb does not do unasked"
    try:
        now, then = measure(apart.run, joined.run)
    except Exception as error:  # a synthetic input may be invalid for the program
        return None, None, f"not measured: {first_line(error)}"
    return now, then, ""


def first_line(error: BaseException) -> str:
    """An error as one line."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


def _assumptions(apart: SeparateRuns) -> Iterator[str]:
    kinds = [trace_break.kind for trace_break in apart.breaks[:-1]]
    yield "the program takes the same path"
    yield from dict.fromkeys(_NEEDS[kind] for kind in kinds if kind in _NEEDS)
    if _numbers_after(apart):
        yield "the numbers that Python put in after the break are the same"


def _numbers_after(apart: SeparateRuns) -> bool:
    """Whether Python numbers are inputs after the first break; they may depend on the values read."""
    steps = [step for seen in apart.runs[1:] for step in seen.end.path()]
    return any(step.is_host_scalar and step.constant is None for step in steps)
