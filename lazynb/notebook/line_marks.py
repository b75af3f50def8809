"""Line marks for the editor: the clusters that a line's operations ended in, and the trace breaks on it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from lazynb.notebook.lab_messages import Break, Kernel, Line, Marks
from lazynb.report.inspection.inspection_phrases import is_kernel, kind_text as kind_words
from lazynb.report.inspection.source_data import file_key
from lazynb.report.short_text import counts_text
from lazynb.running.break_log import BreakCost, Tally, break_log
from lazynb.running.record_table import plural
from lazynb.user_code import call_stack
from lazynb.user_code.call_stack import CodePosition
from lazynb.user_code.text_format import escape_invisible_in, number, size
from lazynb.xla.inspection_schema import Cluster, Fate, Inspection, Node, Program

# ---- The kernels of a line by the program that they are in: a loop's first turn may run another program than
# the
# others, and one line may have a hundred kernels.

PROGRAMS = 4
"""The most programs of which a line's card tells."""

KERNELS = 8
"""The most kernels of which it tells, of all programs together."""


class ProgramKernels(NamedTuple):
    """Kernels that are told of, by id, and the heading above them: the program, how often it ran, and all of
    the line's kernels in it. The heading is empty where it would say nothing new."""

    ids: Sequence[int]
    heading: str


def kernels_by_program(
    ids: Sequence[int], clusters: Mapping[int, Cluster], data: Inspection
) -> Iterator[ProgramKernels]:
    """The kernels ``ids`` of a line, in their order."""
    groups: dict[int, list[int]] = {}
    for id_ in ids:
        groups.setdefault(clusters[id_]["program"], []).append(id_)
    told = list(groups.items())[:PROGRAMS]
    left = len(groups) - len(told)
    programs = {program["number"]: program for program in data["programs"]}
    share = KERNELS // max(1, len(told))
    for index, members in told:
        is_last = index == told[-1][0]
        if len(groups) == 1 and len(members) <= share:
            yield ProgramKernels(members, "")
            continue
        labels = [clusters[id_]["label"] for id_ in members]
        heading = f"{plural(len(members), 'kernel')}: {ranges(labels)}"
        if len(groups) > 1:
            heading = f"{_program(programs.get(index), index, data)}, {heading}"
        if left and is_last:
            heading += f" (and {plural(left, 'more program')})"
        yield ProgramKernels(members[:share], heading)


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


class CellIndex:
    """Which cell of the page each piece of the user's code came from.

    The front end knows a cell by its id, the recorder by the name under which IPython compiled its code;
    between the two stands the execution count.
    """

    def __init__(self) -> None:
        self._ids: dict[int, str] = {}
        self._newest: dict[str, int] = {}
        self._lines: dict[str, list[str]] = {}
        self._files: dict[str, str] = {}

    def runs(self, number: int, cell: str, text: str, file: str) -> None:
        """Execution ``number`` runs ``cell``, which reads ``text`` and is compiled as ``file``."""
        self._files[cell] = file
        self._ids[number] = cell
        self._newest[cell] = number
        self._lines[cell] = text.splitlines()

    def named(self, number: int, cell: str, file: str) -> None:
        """A part of execution ``number`` of ``cell`` is compiled as ``file``."""
        if self._newest.get(cell) == number:
            self._files[cell] = file

    def of(self, file: str) -> str | None:
        """The cell whose newest run compiled ``file``; None for files, and for code that was edited since."""
        number = call_stack.cell_number(file)
        if number is None:
            return None
        cell = self._ids.get(number)
        if cell is None or self._newest[cell] != number:
            return None
        return cell

    def of_spot(self, spot: CodePosition) -> str | None:
        """The cell whose newest run made the code of ``spot``, or None.

        The same text run again is other code in the same file.
        """
        cell = self.of(spot.code.co_filename)
        if cell is None or spot.cell is None:
            return cell
        return cell if self._newest[cell] == spot.cell[0] else None

    def number(self, cell: str) -> int | None:
        """The execution count of the newest run of ``cell``; None if it has not run."""
        return self._newest.get(cell)

    def file(self, cell: str) -> str:
        """The name under which ``cell`` was compiled last; empty if it has not run."""
        return self._files.get(cell, "")

    def lines(self, cell: str) -> list[str]:
        """The lines of ``cell`` as they were run."""
        return self._lines.get(cell, [])

    def label(self, cell: str) -> str:
        """``cell 4``."""
        return f"cell {self._newest[cell]}" if cell in self._newest else "a cell"


def break_lines(cells: CellIndex) -> dict[str, dict[int, list[Break]]]:
    """By cell and line, the breaks so far of the code that the cells hold now, and of what it calls."""
    ranked = sorted(break_log.tallies(), key=lambda broken: -broken.seconds)
    by_cell: dict[str, dict[int, list[Break]]] = {}
    for rank, broken in enumerate(ranked, 1):
        for sums in (broken, *broken.calling.values()):
            cell = cells.of_spot(sums.spot)
            if cell is not None:
                by_line = by_cell.setdefault(cell, {})
                by_line.setdefault(sums.spot.place.line, []).append(_break(broken, sums, rank))
    return by_cell


def _break(broken: Tally, sums: BreakCost, rank: int) -> Break:
    """The break ``broken``, or the share ``sums`` of a line that calls the function in which it lies."""
    record = broken.record()
    called = f", in {record.location.label}, called here" if sums is not broken else ""
    return {
        "code": record.code,
        "kind": record.kind,
        "text": record.text + called,
        "hint": record.hint,
        "count": sums.count,
        "operations": sums.ops,
        "compiles": sums.compiles,
        "seconds": sums.seconds,
        "rank": rank,
    }


LineKernels = tuple[list[Kernel], list[str]]
"""The kernels that the operations of a line went to, and what became of those that went to none."""


class _NamedFate(NamedTuple):
    """What became of an operation, and the operation's name."""

    name: str
    fate: Fate


def kernel_lines(cells: CellIndex, data: Inspection) -> dict[str, dict[int, LineKernels]]:
    """By cell and line, the kernels that the line's operations went to, and the fates of those in none."""
    clusters = {cluster["id"]: cluster for cluster in data["clusters"] if is_kernel(cluster)}
    by_cell: dict[str, dict[int, LineKernels]] = {}
    for (cell, line), fates in _fates_by_line(cells, data).items():
        by_cell.setdefault(cell, {})[line] = _kernels(fates, clusters, data), _fates_in_none(fates)
    return by_cell


def _fates_by_line(cells: CellIndex, data: Inspection) -> dict[tuple[str, int], list[_NamedFate]]:
    """By cell and line; operations of other code are left out."""
    fates: dict[tuple[str, int], list[_NamedFate]] = {}
    for fate in data["fates"]:
        node = data["nodes"][fate["node"]]
        for cell, line in dict.fromkeys(_lines(cells, data, node)):
            fates.setdefault((cell, line), []).append(_NamedFate(node["name"], fate))
    return fates


def _lines(cells: CellIndex, data: Inspection, node: Node) -> Iterator[tuple[str, int]]:
    """The lines of the cells on which an operation stands: its own, and those that called the jitted
    functions that it is inside of."""
    for place in (node["place"], *node["callers"]):
        if place is not None and place["source"] is not None:
            cell = cells.of(data["sources"][place["source"]]["file"])
            if cell is not None:
                yield cell, place["line"]


def _kernels(fates: list[_NamedFate], clusters: Mapping[int, Cluster], data: Inspection) -> list[Kernel]:
    """The kernels that a line's operations went to, with the operations of each; of many, some."""
    by_cluster: dict[int, list[_NamedFate]] = {}
    for named in fates:
        for id_ in dict.fromkeys(named.fate["clusters"]):
            if id_ in clusters:
                by_cluster.setdefault(id_, []).append(named)
    return [
        _kernel(clusters[id_], by_cluster[id_], heading)
        for ids, heading in kernels_by_program(sorted(by_cluster), clusters, data)
        for id_ in ids
    ]


def _fates_in_none(fates: list[_NamedFate]) -> list[str]:
    """A phrase for each operation that went to no kernel."""
    phrases = []
    for name, fate in fates:
        if not fate["clusters"] or fate["kind"] == "transfer":
            phrases.append(f"{name}: {fate['text'] or fate['kind']}")
    return list(dict.fromkeys(phrases))


def _kernel(cluster: Cluster, fates: list[_NamedFate], heading: str) -> Kernel:
    by_kind: dict[str, list[str]] = {}
    for name, fate in fates:
        by_kind.setdefault(fate["kind"], []).append(name)
    return {
        "id": cluster["id"],
        "chip": cluster["label"],
        "colour": cluster["colour"],
        "name": cluster["name"],
        "kind": kind_words(cluster),
        "fates": [f"{counts_text(names)}: {kind}" for kind, names in by_kind.items()],
        "cost": _cost(cluster),
        "heading": heading,
    }


def _cost(cluster: Cluster) -> str:
    """What XLA says that a kernel costs; empty if it says nothing."""
    cost = cluster["cost"]
    if cost is None:
        return ""
    figures = []
    if cost["flops"]:
        figures.append(f"{number(cost['flops'])} FLOP")
    if cost["bytes"]:
        figures.append(f"{size(cost['bytes'])} moved")
    return " · ".join(figures)


def line_marks(
    cell: str,
    cells: CellIndex,
    lines: Mapping[int, LineKernels],
    breaks: Mapping[int, list[Break]],
    compilation: int | None,
) -> Marks:
    """The message for one cell."""
    text = cells.lines(cell)
    marked: list[Line] = []
    for line in sorted({*lines, *breaks}):
        kernels, fates = lines.get(line, ([], []))
        raw = text[line - 1] if line <= len(text) else ""  # as it is: the page compares it
        marked.append(
            {
                "line": line,
                "text": raw,
                "kernels": escape_invisible_in(kernels),
                "fates": escape_invisible_in(fates),
                "breaks": escape_invisible_in(breaks.get(line, [])),
            }
        )
    return {
        "type": "marks",
        "cell": cell,
        "file": file_key(cells.file(cell)),
        "run": cells.number(cell),
        "lines": marked,
        "compilation": compilation,
    }
