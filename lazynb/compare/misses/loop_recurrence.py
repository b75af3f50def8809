"""Folds differences that recur at each step of a loop into one cause."""

from __future__ import annotations

import ast
import collections
import dataclasses
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from lazynb.compare.misses.program_sides import ProgramChange
from lazynb.compare.misses.trace_difference import TraceDifference
from lazynb.compare.program_graph import ProgramGraph, graph_of_miss
from lazynb.running.jaxpr_program import needed_steps
from lazynb.running.miss_log import Miss

_SIZES = re.compile(r"[-\d(), ]+")
"""An integer, or a tuple of integers, as text."""

_BACK = 5
"""Number of earlier steps that are compared."""

_STEPS = 3
"""Minimum number of steps of a series."""

_RECURRING = frozenset(("shape", "parameter", "argument", "operand", "added", "repeats"))
"""Kinds of differences that can recur at each step of a loop."""


def fold_recurrences(
    changes: Sequence[ProgramChange],
    miss: Miss,
    comparable: ProgramGraph,
    earlier: Sequence[Miss],
    runs: Sequence[Miss],
) -> list[ProgramChange]:
    """Replaces the changes that occurred at each of the earlier steps by a series.

    Arguments:
      runs: the programs that ran at the miss's line, in order, each as the miss that compiled it.
    """
    same_line = [other for other in earlier if other.spot.identity == miss.spot.identity][-_BACK:]
    series = list(changes)
    if len(same_line) + 1 >= _STEPS and any(change.kind in _RECURRING for change in changes):
        comparables = [graph_of_miss(other) for other in same_line]
        steps = [TraceDifference(other, comparable).changes for other in comparables]
        series = [_recurrence(change, steps) or change for change in changes]
        series = _longer(series, same_line, miss, runs)
    return _alternating(series, miss, runs)


def _recurrence(change: ProgramChange, steps: Sequence[Sequence[ProgramChange]]) -> ProgramChange | None:
    """``change`` as part of a series; None if it is not part of one."""
    if change.kind == "argument" and "now" in change.fields:
        change = dataclasses.replace(change, fields={**change.fields, "name": "the shape"})
    elif "counts" in change.fields:
        return _more_arrays(change, steps)
    elif change.kind not in ("shape", "parameter"):
        return None
    values = [str(change.fields["now"])]
    for step in reversed(steps):
        same = next((other for other in step if _is_same(change, other)), None)
        if same is None or str(same.fields["before"]) in values:
            break
        values.insert(0, str(same.fields["before"]))
    if len(values) < _STEPS:
        return None
    if change.kind != "shape":
        is_number = all(_SIZES.fullmatch(value) for value in values)
        return _series(change, "counter", values) if is_number else None
    kind, shown = _shapes(values)
    return _series(change, kind, shown)


def _more_arrays(change: ProgramChange, steps: Sequence[Sequence[ProgramChange]]) -> ProgramChange | None:
    """A change of the number of arrays that a function takes, as part of a series that grows; otherwise
    None."""
    counts = [change.fields["counts"][1]]
    for step in reversed(steps):
        found = [
            other.fields["counts"][0]
            for other in step
            if "counts" in other.fields and other.fields["operation"] == change.fields["operation"]
        ]
        if not found or found[0] >= counts[0]:
            break
        counts.insert(0, found[0])
    if len(counts) < _STEPS:
        return None
    name = f"the number of arrays that {change.fields['operation']} takes"
    named = dataclasses.replace(change, fields={**change.fields, "name": name, "whole": "one array"})
    return _series(named, "grows", [str(count) for count in counts])


def _is_same(change: ProgramChange, other: ProgramChange) -> bool:
    """Whether ``other`` concerns the same input, or the same parameter of the same operation."""
    if other.kind != change.kind or ("before" in change.fields) != ("before" in other.fields):
        return False
    if change.kind != "argument" and other.fields["name"] != change.fields["name"]:
        return False
    return change.kind == "shape" or other.fields["operation"] == change.fields["operation"]


def _shapes(values: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Whether a series of shapes grows along one axis, and its text."""
    shapes = [ast.literal_eval(value) for value in values]
    rank = len(shapes[0])
    changing = [axis for axis in range(rank) if any(shape[axis] != shapes[0][axis] for shape in shapes)]
    if len(changing) != 1:
        return "varies", values
    sizes = [shape[changing[0]] for shape in shapes]
    if not _increases(sizes):
        return "varies", values
    if rank == 1:
        return "grows", [str(size) for size in sizes]
    return "grows", values


def _increases(numbers: Sequence[int]) -> bool:
    return all(after > before for before, after in pairwise(numbers))


def _series(change: ProgramChange, kind: str, values: Sequence[str]) -> ProgramChange:
    separator = " and " if kind == "alternates" else ", "
    fields = dict({"whole": "it once"} | change.fields, series=separator.join(values[-_BACK:]))
    return dataclasses.replace(change, kind=kind, fields=fields)


def _longer(
    changes: list[ProgramChange], same_line: Sequence[Miss], miss: Miss, runs: Sequence[Miss]
) -> list[ProgramChange]:
    """Folds operations added at each step into one cause, if each step adds the same operations.

    ``same_line`` has the earlier programs of the miss's line, ``runs`` the programs that ran there, in order.
    """
    grown = [change for change in changes if change.kind in ("added", "repeats")]
    if not grown:
        return changes
    lengths = _lengths([*_in_a_row(same_line, runs), miss])
    if len(lengths) < _STEPS:
        return changes
    rest = [change for change in changes if change not in grown]
    now = tuple(number for change in grown for number in change.now)
    series = ", ".join(map(str, lengths[-_BACK:]))
    return [*rest, ProgramChange("longer", {"series": series}, now, (), grown[0].at)]


def _in_a_row(same_line: Sequence[Miss], runs: Sequence[Miss]) -> list[Miss]:
    """The last of ``same_line`` that ran once each, consecutively."""
    row: list[Miss] = []
    earlier = [run for run in runs if run in same_line or run.number > same_line[-1].number]
    for run in reversed(earlier):
        if run not in same_line:
            continue
        if row and run is row[0]:
            return row[1:]  # it ran again, so the loop did not grow there
        row.insert(0, run)
    return row


def _lengths(misses: Sequence[Miss]) -> list[int]:
    """Numbers of operations of the last ``misses``, as far back as each grew by the same operations."""
    contents = [_operations(miss) for miss in misses]
    body: collections.Counter[Any] | None = None
    lengths = [contents[-1].total()]
    for before, after in reversed(list(pairwise(contents))):
        added = after - before
        if before - after or not added or (body is not None and added != body):
            break
        body = added
        lengths.insert(0, before.total())
    return lengths


def _operations(miss: Miss) -> collections.Counter[Any]:
    """Number of occurrences of each operation in the needed part of a program."""
    needed = needed_steps(miss.summary.end.path(), miss.wanted)
    return collections.Counter(step.operation for step in needed if step.operation is not None)


def _alternating(changes: list[ProgramChange], miss: Miss, runs: Sequence[Miss]) -> list[ProgramChange]:
    """Reports shapes as alternating if the runs at this line alternated between two programs."""
    if not _alternates(miss, runs):
        return changes
    alternating = []
    for change in changes:
        if change.kind == "shape":
            change = _series(change, "alternates", [str(change.fields["before"]), str(change.fields["now"])])
        alternating.append(change)
    return alternating


def _alternates(miss: Miss, runs: Sequence[Miss]) -> bool:
    """Whether the runs alternated between ``miss`` and one other program."""
    others = {run for run in runs if run is not miss}
    return len(others) == 1 and sum(before is not after for before, after in pairwise(runs)) >= _STEPS
