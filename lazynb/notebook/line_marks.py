"""Line marks for the editor: by line, the kernels that contain its operations, and its trace breaks."""

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
from lazynb.user_code.cells import cell_number
from lazynb.user_code.source_lines import CodePosition
from lazynb.user_code.text_format import escape_invisible_in, number, size
from lazynb.xla.inspection_schema import Cluster, Fate, Inspection, Node, Program

# ---- Kernels of a line, grouped by program ----------------------------------------------------------------
# The first iteration of a loop may run another program than the rest, and a line may have a hundred kernels.

PROGRAMS = 4
"""Limit of programs on the hover card of a line."""

KERNELS = 8
"""Limit of kernels on the hover card, for all programs together."""


class ProgramKernels(NamedTuple):
    """Ids of a line's kernels in one program. The heading names the program, its number of runs, and all of
    the line's kernels in it; it is empty if the card already shows all of that."""

    ids: Sequence[int]
    heading: str


def kernels_by_program(
    ids: Sequence[int], clusters: Mapping[int, Cluster], data: Inspection
) -> Iterator[ProgramKernels]:
    """Groups the kernels ``ids`` of a line by program, in their order."""
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
    """``program 2, run 11×``; without the count if it is 0 or unknown."""
    times = program["runs"] if program is not None else 0
    if not times and data["ran"]:
        times = 1  # displaying the inspection ran it
    return f"program {number + 1}" + (f", run {times:,}×" if times else "")


def ranges(labels: Sequence[str]) -> str:
    """``c0–c4, c7``: consecutive labels become a range."""
    parts: list[tuple[str, str]] = []
    for label in labels:
        if parts and _next(parts[-1][1]) == label:
            parts[-1] = parts[-1][0], label
        else:
            parts.append((label, label))
    return ", ".join(_range(first, last) for first, last in parts)


def _next(label: str) -> str | None:
    """``c5`` for ``c4``; None for a label of another form."""
    found = re.fullmatch(r"c(\d+)", label)
    return f"c{int(found[1]) + 1}" if found else None


def _range(first: str, last: str) -> str:
    if first == last:
        return first
    return f"{first}, {last}" if _next(first) == last else f"{first}–{last}"


class CellIndex:
    """Maps the user's code to cells of the page.

    The front end identifies a cell by its id, the recorder by the file name under which IPython compiled the
    cell. The execution count links the two.
    """

    def __init__(self) -> None:
        self._ids: dict[int, str] = {}
        self._newest: dict[str, int] = {}
        self._lines: dict[str, list[str]] = {}
        self._files: dict[str, str] = {}

    def runs(self, number: int, cell: str, text: str, file: str) -> None:
        """Registers execution ``number`` of ``cell``, whose source ``text`` is compiled as ``file``."""
        self._files[cell] = file
        self._ids[number] = cell
        self._newest[cell] = number
        self._lines[cell] = text.splitlines()

    def named(self, number: int, cell: str, file: str) -> None:
        """Registers the file name of a part (a magic's body) of execution ``number`` of ``cell``."""
        if self._newest.get(cell) == number:
            self._files[cell] = file

    def of(self, file: str) -> str | None:
        """The cell whose newest run compiled ``file``; None for other files and for code of earlier runs."""
        number = cell_number(file)
        if number is None:
            return None
        cell = self._ids.get(number)
        if cell is None or self._newest[cell] != number:
            return None
        return cell

    def of_spot(self, spot: CodePosition) -> str | None:
        """The cell whose newest run compiled the code of ``spot``, or None. Running the same text again
        creates new code objects with the same file name."""
        cell = self.of(spot.file)
        if cell is None or spot.cell is None:
            return cell
        return cell if self._newest[cell] == spot.cell[0] else None

    def number(self, cell: str) -> int | None:
        """The execution count of the newest run of ``cell``; None if it has not run."""
        return self._newest.get(cell)

    def file(self, cell: str) -> str:
        """The file name under which ``cell`` was last compiled; empty if it has not run."""
        return self._files.get(cell, "")

    def lines(self, cell: str) -> list[str]:
        """The source lines of the newest run of ``cell``."""
        return self._lines.get(cell, [])

    def label(self, cell: str) -> str:
        """``cell 4``."""
        return f"cell {self._newest[cell]}" if cell in self._newest else "a cell"


def break_lines(cells: CellIndex) -> dict[str, dict[int, list[Break]]]:
    """By cell and line, the trace breaks in the newest run of each cell and in the functions it calls."""
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
    """The break ``broken`` with the cost ``sums``: of all of it, or of one line that calls its function."""
    record, cost = broken.record(), sums.newest
    called = f", in {record.location.label}, called here" if sums is not broken else ""
    return {
        "code": record.code,
        "kind": record.kind,
        "text": record.text + called,
        "hint": record.hint,
        "count": cost.count,
        "operations": cost.ops,
        "compiles": cost.compiles,
        "seconds": cost.seconds,
        "rank": rank,
    }


LineKernels = tuple[list[Kernel], list[str]]
"""The kernels with operations of a line, and phrases for its operations in no kernel."""


class _NamedFate(NamedTuple):
    name: str
    fate: Fate


def kernel_lines(cells: CellIndex, data: Inspection) -> dict[str, dict[int, LineKernels]]:
    """By cell and line, the kernels with operations of the line, and phrases for operations in no kernel."""
    clusters = {cluster["id"]: cluster for cluster in data["clusters"] if is_kernel(cluster)}
    by_cell: dict[str, dict[int, LineKernels]] = {}
    for (cell, line), fates in _fates_by_line(cells, data).items():
        by_cell.setdefault(cell, {})[line] = _kernels(fates, clusters, data), _fates_in_none(fates)
    return by_cell


def _fates_by_line(cells: CellIndex, data: Inspection) -> dict[tuple[str, int], list[_NamedFate]]:
    """By cell and line, the fates of operations. Operations of other code are left out."""
    fates: dict[tuple[str, int], list[_NamedFate]] = {}
    for fate in data["fates"]:
        node = data["nodes"][fate["node"]]
        for cell, line in dict.fromkeys(_lines(cells, data, node)):
            fates.setdefault((cell, line), []).append(_NamedFate(node["name"], fate))
    return fates


def _lines(cells: CellIndex, data: Inspection, node: Node) -> Iterator[tuple[str, int]]:
    """The cell lines of an operation: its own line, and the lines that called the enclosing jitted
    functions."""
    for place in (node["place"], *node["callers"]):
        if place is not None and place["source"] is not None:
            cell = cells.of(data["sources"][place["source"]]["file"])
            if cell is not None:
                yield cell, place["line"]


def _kernels(fates: list[_NamedFate], clusters: Mapping[int, Cluster], data: Inspection) -> list[Kernel]:
    """The kernels with operations of a line, up to :data:`KERNELS`."""
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
    """A phrase for each operation in no kernel."""
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
    """XLA's cost estimate of a kernel; empty if there is none."""
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
    """The ``marks`` message of one cell."""
    text = cells.lines(cell)
    marked: list[Line] = []
    for line in sorted({*lines, *breaks}):
        kernels, fates = lines.get(line, ([], []))
        raw = text[line - 1] if line <= len(text) else ""  # unescaped, because the page compares it
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
