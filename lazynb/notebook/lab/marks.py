"""Marks for the lines of cells: the clusters that a line's operations ended in, and the trace breaks on
it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lazynb import source
from lazynb.execute.breaks import Tally, break_log
from lazynb.notebook.lab.messages import Break, Kernel, Line, Marks
from lazynb.plain import plain_data
from lazynb.units import number, size
from lazynb.view.inspection.schema import Cluster, Inspection
from lazynb.view.inspection.words import kind as kind_words
from lazynb.view.words import tally

_KERNELS = 8  # of one line


class Cells:
    """Which cell of the page each piece of the user's code came from.

    The front end knows a cell by its id, the recorder by the name under which IPython compiled its code;
    between the two stands the execution count.
    """

    def __init__(self) -> None:
        self._ids: dict[int, str] = {}
        self._newest: dict[str, int] = {}
        self._lines: dict[str, list[str]] = {}

    def runs(self, number: int, cell: str, text: str) -> None:
        """Execution ``number`` runs ``cell``, which reads ``text``."""
        self._ids[number] = cell
        self._newest[cell] = number
        self._lines[cell] = text.splitlines()

    def of(self, file: str) -> str | None:
        """The cell whose newest run compiled ``file``; None for code that has been edited since, and for
        files."""
        found = source.cell_number(file)
        cell = self._ids.get(found) if found is not None else None
        return cell if cell is not None and self._newest[cell] == found else None

    def made(self, one: Tally) -> str | None:
        """The cell whose newest run made the code that broke: the same text run again is other code in the
        same file."""
        cell, then = self.of(one.spot.code.co_filename), one.spot.cell
        return cell if cell is not None and (then is None or self._newest[cell] == then[0]) else None

    def lines(self, cell: str) -> list[str]:
        """The lines of ``cell`` as they were run."""
        return self._lines.get(cell, [])

    def label(self, cell: str) -> str:
        """``cell 4``."""
        return f"cell {self._newest[cell]}" if cell in self._newest else "a cell"


def break_lines(cells: Cells) -> dict[str, dict[int, list[Break]]]:
    """By cell and line, the breaks so far of the code that the cells hold now."""
    ranked = sorted(break_log.tallies(), key=lambda one: -one.seconds)
    found: dict[str, dict[int, list[Break]]] = {}
    for rank, one in enumerate(ranked, 1):
        cell = cells.made(one)
        if cell is not None:
            found.setdefault(cell, {}).setdefault(one.spot.place.line, []).append(_break(one, rank))
    return found


def _break(one: Tally, rank: int) -> Break:
    said = one.record()
    return {
        "code": said.code,
        "kind": said.kind,
        "text": said.text,
        "hint": said.hint,
        "count": said.count,
        "operations": said.ops,
        "compiles": said.compiles,
        "seconds": said.seconds,
        "rank": rank,
    }


def kernel_lines(cells: Cells, data: Inspection) -> dict[str, dict[int, tuple[list[Kernel], list[str]]]]:
    """By cell and line, the kernels that the line's operations went to, and the fates of those in none."""
    fates: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for fate in data["fates"]:
        place = data["nodes"][fate["node"]]["place"]
        if place is not None and place["source"] is not None:
            cell = cells.of(data["sources"][place["source"]]["file"])
            if cell is not None:
                fates.setdefault((cell, place["line"]), []).append(
                    {**fate, "name": data["nodes"][fate["node"]]["name"]}
                )
    clusters = {cluster["id"]: cluster for cluster in data["clusters"] if cluster["kind"] != "control"}
    found: dict[str, dict[int, tuple[list[Kernel], list[str]]]] = {}
    for (cell, line), own in fates.items():
        ids = sorted({id_ for fate in own for id_ in fate["clusters"] if id_ in clusters})
        kernels = [
            _kernel(clusters[id_], [fate for fate in own if id_ in fate["clusters"]])
            for id_ in ids[:_KERNELS]
        ]
        rest = [f"{fate['name']}: {fate['text'] or fate['kind']}" for fate in own if not fate["clusters"]]
        found.setdefault(cell, {})[line] = kernels, list(dict.fromkeys(rest))
    return found


def _kernel(cluster: Cluster, fates: list[dict[str, Any]]) -> Kernel:
    cost = cluster["cost"]
    figures = (
        []
        if cost is None
        else [
            f"{number(cost['flops'])} FLOP" if cost["flops"] else "",
            f"{size(cost['bytes'])} moved" if cost["bytes"] else "",
        ]
    )
    by_kind: dict[str, list[str]] = {}
    for fate in fates:
        by_kind.setdefault(fate["kind"], []).append(fate["name"])
    return {
        "id": cluster["id"],
        "chip": f"c{cluster['id']}",
        "colour": cluster["colour"],
        "name": cluster["name"],
        "kind": kind_words(cluster),
        "fates": [f"{tally(names)}: {kind}" for kind, names in by_kind.items()],
        "cost": " · ".join(filter(None, figures)),
    }


def marks(
    cell: str,
    lines: Mapping[int, tuple[list[Kernel], list[str]]],
    breaks: Mapping[int, list[Break]],
    text: list[str],
    compilation: int | None,
) -> Marks:
    """The message for one cell; ``text``: its lines as they were run."""
    found: list[Line] = []
    for line in sorted({*lines, *breaks}):
        kernels, fates = lines.get(line, ([], []))
        raw = text[line - 1] if line <= len(text) else ""  # as it is: the page compares it
        found.append(
            {
                "line": line,
                "text": raw,
                "kernels": plain_data(kernels),
                "fates": plain_data(fates),
                "breaks": plain_data(breaks.get(line, [])),
            }
        )
    return {"type": "marks", "cell": cell, "lines": found, "compilation": compilation}
