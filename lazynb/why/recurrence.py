"""Programs that loop: a difference that comes again at each step is told as what it is."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Sequence
from itertools import pairwise

from lazynb.execute.misses import Miss
from lazynb.why.comparable import Comparable, comparable_of
from lazynb.why.comparison import Change, Comparison

_BACK = 5
"""Earlier steps that are looked at."""

_STEPS = 3
"""Steps from which something is a series."""


def as_recurrence(
    changes: Sequence[Change], miss: Miss, form: Comparable, earlier: Sequence[Miss], runs: Sequence[Miss]
) -> list[Change]:
    """``changes``, with those that came at each of the earlier steps told as a series.

    Arguments:
      runs: the programs that were run at the miss's line, in order, by the miss that made each.
    """
    alike = [other for other in earlier if other.spot.identity == miss.spot.identity][-_BACK:]
    told = list(changes)
    if len(alike) + 1 >= _STEPS and any(
        change.kind in ("shape", "parameter", "added", "repeats") for change in changes
    ):
        forms = [comparable_of(other) for other in alike]
        steps = [Comparison(other, form).changes for other in forms]
        told = [_recurrence(change, steps) or change for change in told]
        told = _longer(told, [*forms, form])
    return _alternating(told, miss, runs)


def _recurrence(change: Change, steps: Sequence[Sequence[Change]]) -> Change | None:
    """``change`` as one of a series; None where it is none."""
    if change.kind not in ("shape", "parameter"):
        return None
    named = "name" if change.kind == "shape" else "operation"
    values = [str(change.fields["now"])]
    for step in reversed(steps):
        same = [
            one
            for one in step
            if one.kind == change.kind
            and one.fields["name"] == change.fields["name"]
            and one.fields[named] == change.fields[named]
        ]
        if not same or str(same[0].fields["before"]) in values:
            break
        values.insert(0, str(same[0].fields["before"]))
    if len(values) < _STEPS:
        return None
    if change.kind == "parameter":
        return _as(change, "counter", values)
    kind, shown = _shapes(values)
    return _as(change, kind, shown)


def _shapes(values: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Whether a series of shapes grows along one axis, and how to show it."""
    shapes = [ast.literal_eval(value) for value in values]
    axes = {axis for one in shapes for axis in range(len(one)) if one[axis] != shapes[0][axis]}
    if len(axes) == 1:
        (axis,) = axes
        sizes = [one[axis] for one in shapes]
        if all(b > a for a, b in pairwise(sizes)):
            return "grows", [str(size) for size in sizes] if len(shapes[0]) == 1 else values
    return "varies", values


def _as(change: Change, kind: str, values: Sequence[str]) -> Change:
    fields = dict(change.fields, series=(" and " if kind == "alternates" else ", ").join(values[-_BACK:]))
    return dataclasses.replace(change, kind=kind, fields=fields)


def _longer(changes: list[Change], forms: Sequence[Comparable]) -> list[Change]:
    """Operations that were added at each step are one cause: the trace is longer each time."""
    lengths = [sum(step.needed for step in form.operations) for form in forms]
    grown = [change for change in changes if change.kind in ("added", "repeats")]
    if not grown or any(b <= a for a, b in pairwise(lengths)):
        return changes
    one = grown[0]
    now = tuple(number for change in grown for number in change.now)
    told = Change("longer", {"series": ", ".join(map(str, lengths[-_BACK:]))}, now, (), one.at)
    return [change for change in changes if change not in grown] + [told]


def _alternating(changes: list[Change], miss: Miss, runs: Sequence[Miss]) -> list[Change]:
    """A shape that comes and goes between two, as the runs at this line say."""
    if all(change.kind != "shape" for change in changes):
        return changes
    others = {ran for ran in runs if ran is not miss}
    if len(others) != 1 or sum(a is not b for a, b in pairwise(runs)) < _STEPS:
        return changes
    return [
        _as(change, "alternates", [str(change.fields["before"]), str(change.fields["now"])])
        if change.kind == "shape"
        else change
        for change in changes
    ]
