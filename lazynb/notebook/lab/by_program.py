"""The kernels of a line by the program that they are in: a loop's first turn may run another program than the
others, and one line may have a hundred kernels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from lazynb.view.inspection.schema import Cluster, Inspection, Program
from lazynb.view.words import plural

PROGRAMS = 4
"""The most programs of which a line's card tells."""

KERNELS = 8
"""The most kernels of which it tells, of all programs together."""


class InProgram(NamedTuple):
    """Kernels that are told of, by id, and the heading above them: the program, how often it ran, and all of
    the line's kernels in it. The heading is empty where it would say nothing new."""

    ids: Sequence[int]
    heading: str


def by_program(ids: Sequence[int], clusters: Mapping[int, Cluster], data: Inspection) -> Iterator[InProgram]:
    """The kernels ``ids`` of a line, in their order."""
    groups: dict[int, list[int]] = {}
    for id_ in ids:
        groups.setdefault(clusters[id_]["program"], []).append(id_)
    told = list(groups.items())[:PROGRAMS]
    left = len(groups) - len(told)
    programs = {program["number"]: program for program in data["programs"]}
    share = KERNELS // max(1, len(told))
    for number, members in told:
        is_last = number == told[-1][0]
        if len(groups) == 1 and len(members) <= share:
            yield InProgram(members, "")
            continue
        labels = [clusters[id_]["label"] for id_ in members]
        heading = f"{plural(len(members), 'kernel')}: {ranges(labels)}"
        if len(groups) > 1:
            heading = f"{_program(programs.get(number), number, data)}, {heading}"
        if left and is_last:
            heading += f" (and {plural(left, 'more program')})"
        yield InProgram(members[:share], heading)


def _program(program: Program | None, number: int, data: Inspection) -> str:
    """``program 2, run 11×``; how often is left out where it is not known or never."""
    times = program["runs"] if program is not None else 0
    if not times and data["ran"]:
        times = 1  # by what showed it
    return f"program {number + 1}" + (f", run {times:,}×" if times else "")


def ranges(labels: Sequence[str]) -> str:
    """``c0–c4, c7``: labels that follow each other as one."""
    parts: list[tuple[str, str]] = []
    for label in labels:
        if parts and _next(parts[-1][1]) == label:
            parts[-1] = parts[-1][0], label
        else:
            parts.append((label, label))
    return ", ".join(_range(first, last) for first, last in parts)


def _next(label: str) -> str | None:
    """The label after ``c4``; None after one of another form."""
    found = re.fullmatch(r"c(\d+)", label)
    return f"c{int(found[1]) + 1}" if found else None


def _range(first: str, last: str) -> str:
    if first == last:
        return first
    return f"{first}, {last}" if _next(first) == last else f"{first}–{last}"
