"""Saved inspections: writing, reading and checking files, so that another machine can show them."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax

from lazynb.recording.snapshot.snapshot_nodes import Call, Node, Snapshot
from lazynb.report.inspection.inspection_data import inspection
from lazynb.report.inspection.inspection_html import to_html
from lazynb.report.inspection.inspection_page import render_inspections
from lazynb.report.inspection.inspection_text import to_text
from lazynb.report.inspection.session_tables import EMPTY
from lazynb.running.compiler_dump import DumpUnavailable
from lazynb.user_code.source_lines import Place
from lazynb.version import __version__
from lazynb.xla.compilation import Compilation
from lazynb.xla.flag_text import format_flags as written_flags, process_flags
from lazynb.xla.inspection_schema import VERSION, Inspection

if TYPE_CHECKING:
    from lazynb.xla.inspection_schema import Cluster, Inspection, Program, Value

# ---- Validity of the ids in an inspection ------------------------------------------------------------------


def check_references(data: Inspection) -> None:
    """Checks that all ids of nodes, kernels, programs, sources and layouts in ``data`` are valid.

    Raises:
      LookupError: an id is invalid. Missing keys and wrong types raise other :data:`INVALID_DATA_ERRORS`.
    """
    nodes, clusters = len(data["nodes"]), len(data["clusters"])
    if clusters and not data["programs"]:
        raise LookupError("kernels of no program")
    _check_numbering(node["id"] for node in data["nodes"])
    _check_numbering(cluster["id"] for cluster in data["clusters"])
    for node in data["nodes"]:
        _check_range((operand for operand, _ in node["operands"]), node["id"])
    _check_range(_sources(data), len(data["sources"]))
    _check_range(_nodes(data), nodes)
    _check_range(_clusters(data), clusters)
    _check_range((tile["layout"] for tile in data["tiles"]), len(data["layouts"]))
    _check_range((cluster["program"] for cluster in data["clusters"]), len(data["programs"]))


def _check_numbering(numbers: Iterable[int]) -> None:
    if any(place != number for place, number in enumerate(numbers)):
        raise LookupError("not in order")


def _check_range(numbers: Iterable[int], count: int) -> None:
    if any(not 0 <= number < count for number in numbers):
        raise LookupError("a number of nothing")


def _values(cluster: Cluster) -> list[Value]:
    return [*cluster["inputs"], *cluster["outputs"]]


def _sources(data: Inspection) -> Iterator[int]:
    callers = [place for node in data["nodes"] for place in node["callers"]]
    for place in (*callers, *(part["place"] for part in (*data["nodes"], *data["clusters"]))):
        if place is not None and place["source"] is not None:
            yield place["source"]


def _nodes(data: Inspection) -> Iterator[int]:
    for finding in data.get("findings", ()):  # missing in data of older versions
        yield from finding["nodes"]
    for fate in data["fates"]:
        yield fate["node"]
        if fate["with"] is not None:
            yield fate["with"]
    for cluster in data["clusters"]:
        yield from (value["node"] for value in _values(cluster) if value["node"] is not None)
        yield from cluster["nodes"]
        yield from cluster["duplicated"]
    for program in data["programs"]:
        yield from _nodes_of(program)
    yield from (part["node"] for part in (*data["tiles"], *data["reshardings"]))


def _nodes_of(program: Program) -> Iterator[int]:
    memory = program["memory"]
    hlo = program["hlo"]
    lines = [*hlo["before"]["lines"], *hlo["after"]["lines"]]
    for part in [*lines, *(memory["buffers"] if memory is not None else ())]:
        yield from part["nodes"]
    for step in program["hlo"]["passes"]:
        for change in step["changes"] or ():
            yield from change["nodes"]
    formation = hlo.get("formation")  # missing in files of older versions
    for box in formation["boxes"] if formation is not None else ():
        for stand in box["stands"]:
            yield from stand["nodes"]


def _clusters(data: Inspection) -> Iterator[int]:
    for fate in data["fates"]:
        yield from fate["clusters"]
    for cluster in data["clusters"]:
        if cluster["inside"] is not None:
            yield cluster["inside"]
        yield from (value["from"] for value in _values(cluster) if value["from"] is not None)
    for finding in data.get("findings", ()):  # missing in data of older versions
        yield from finding["clusters"]
    for boundary in data["boundaries"]:
        yield boundary["producer"]
        if boundary["consumer"] is not None:
            yield boundary["consumer"]
    for program in data["programs"]:
        lines = program["hlo"]["after"]["lines"]
        yield from (line["cluster"] for line in lines if line["cluster"] is not None)
        if program["memory"] is not None:
            yield from (b["cluster"] for b in program["memory"]["buffers"] if b["cluster"] is not None)


class InspectionFileError(ValueError):
    """The file has no inspection that this version of lazynb can show; the message says why."""


INVALID_DATA_ERRORS = (LookupError, TypeError, AttributeError, ValueError)
"""Exceptions from displaying an inspection with missing or malformed parts."""


class Entry(NamedTuple):
    """An inspection with its graph.

    Attributes:
      flags: XLA flags of the compilation; None if unknown.
    """

    data: Inspection
    graph: Snapshot
    flags: Mapping[str, str] | None = None


class SavedInspections:
    """Inspections from a file; displays as text and as HTML.

    Attributes:
      entries: one for each program, in the order of their first runs.
      made_by: the JAX version that compiled the programs, such as ``JAX 0.10.2``; empty if unknown.
    """

    def __init__(self, entries: Sequence[Entry], name: str = "", above: str = "", made_by: str = ""):
        """``name`` is the default title of the page, ``above`` the HTML before the inspectors on it."""
        self.entries = tuple(entries)
        self.made_by = made_by
        self._name = name
        self._above = above

    @property
    def inspections(self) -> list[Inspection]:
        """The plain data of each entry."""
        return [entry.data for entry in self.entries]

    @property
    def flags(self) -> dict[str, str] | None:
        """The XLA flags common to all programs; None if unknown for one of them."""
        noted = [entry.flags for entry in self.entries if entry.flags is not None]
        if len(noted) < len(self.entries):
            return None
        first, *others = noted
        return {name: value for name, value in first.items() if all(one.get(name) == value for one in others)}

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the inspections as JSON, with the JAX version and XLA flags of their compilation.

        Raises:
          OSError: the file cannot be written.
        """
        target = Path(path)
        entries = [entry_to_json(entry) for entry in self.entries]
        written = {
            "lazynb": __version__,
            "version": VERSION,
            "made_by": self.made_by or jax_version_text(),
            "inspections": entries,
        }
        target.write_text(json.dumps(written, separators=(",", ":")), encoding="utf-8")
        return target

    def save_html(self, path: str | os.PathLike[str], *, title: str = "") -> Path:
        """Writes the inspections as one HTML page that works offline.

        Raises:
          OSError: the file cannot be written.
        """
        target, shown = Path(path), [(entry.data, entry.graph) for entry in self.entries]
        target.write_text(
            render_inspections(shown, title or self._name, self._above), encoding="utf-8", errors="replace"
        )
        return target

    def __repr__(self) -> str:
        return self.text()

    def text(self, times: bool = False) -> str:
        """The inspections as text.

        Arguments:
          times: whether to list all compile times instead of a summary.
        """
        texts = [to_text(entry.data, times=times) for entry in self.entries]
        if len(texts) == 1:
            return texts[0]
        numbered = [f"Program {number} of {len(texts)}\n{text}" for number, text in enumerate(texts, 1)]
        return "\n\n".join(numbered)

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        html = "\n".join(to_html(entry.data, entry.graph) for entry in self.entries)
        return {"text/plain": repr(self), "text/html": html}


def inspection_entry(compilation: Compilation, *, ran: bool = False, title: str = "") -> Entry:
    """The full inspection of ``compilation``, with the changes of each pass.

    Compiles a program again if its dump is missing, such as a program that ran in a script.

    Arguments:
      ran: whether the compilation was run.
    """
    dump_passes(compilation)
    data = inspection(compilation, ran=ran, full=True, title=title)
    flags, of_process = compilation.all_flags, process_flags()
    if flags is not None and of_process:
        data["notes"].append(f"XLA_FLAGS of the process that compiled it: {written_flags(of_process)}.")
    return Entry(data, compilation.snapshot, flags)


def dump_passes(compilation: Compilation) -> None:
    """Makes XLA dump the passes and live ranges of each program whose dump is missing.

    Does nothing if no folder for the dump is available."""
    for trace in compilation.traces:
        with contextlib.suppress(DumpUnavailable):
            trace.ensure_dump()


def entry_to_json(entry: Entry) -> dict[str, Any]:
    """An entry as :meth:`SavedInspections.save` writes it."""
    graph = [dataclasses.asdict(node) for node in entry.graph.nodes]
    return {"inspection": entry.data, "graph": graph, "flags": entry.flags}


def entry_from_json(written: dict[str, Any]) -> Entry:
    """The inverse of :func:`entry_to_json`."""
    return Entry(written["inspection"], _graph(written["graph"]), _flags(written.get("flags")))


def read_inspections(path: str | os.PathLike[str]) -> SavedInspections:
    """Reads a file that :meth:`SavedInspections.save` wrote.

    Raises:
      OSError: the file cannot be read.
      InspectionFileError: the file has another format, or is from a newer lazynb.
    """
    name = os.fspath(path)
    try:
        written = _json_of(Path(path).read_bytes(), name)
        entries, version = written["inspections"], written["version"]
    except (KeyError, TypeError):
        raise InspectionFileError(f"{name} holds no inspection: {_WRITERS}") from None
    if version != VERSION:
        raise InspectionFileError(
            f"{name} was written by lazynb {written.get('lazynb', '?')}, in version {version} of the form; "
            f"lazynb {__version__} reads version {VERSION}"
        )
    try:
        found = [entry_from_json(entry) for entry in entries]
        for entry in found:
            entry.data.setdefault("collectives", {**EMPTY})  # missing in files of older versions
            entry.data.setdefault("shardings", {**EMPTY})
            for part in ("layouts", "tiles", "reshardings"):
                entry.data.setdefault(part, [])  # type: ignore[misc]
            to_text(entry.data)  # raises if the data cannot be shown
            check_references(entry.data)
    except INVALID_DATA_ERRORS:
        raise InspectionFileError(f"{name} holds an inspection that is not whole") from None
    if not found:
        raise InspectionFileError(
            f"{name} holds no inspection: nothing was compiled in the program that wrote it"
        )
    return SavedInspections(found, Path(path).name, made_by=str(written.get("made_by", "")))


_WRITERS = "lazynb run --save and lazynb inspect --json write one"


_BEGUN = re.compile(r"[-+.eE\d]*|t(ru?)?|f(a(ls?)?)?|n(ul?)?|N|Na|-?I\w*|\\(u\w*)?")
"""What is left of a number, a literal or an escape where the text was cut."""


def _json_of(content: bytes, name: str) -> Any:
    if not content.strip():
        raise InspectionFileError(f"{name} holds no inspection, it is empty: {_WRITERS}")
    try:
        return json.loads(content)
    except json.JSONDecodeError as error:
        rest = error.doc[error.pos :].rstrip()
        is_cut = error.msg.startswith("Unterminated") or _BEGUN.fullmatch(rest) is not None
        what = (
            "ends in the middle: it was not written or copied as a whole" if is_cut else "holds no inspection"
        )
        raise InspectionFileError(f"{name} {what} ({error.msg}, line {error.lineno}); {_WRITERS}") from None
    except (ValueError, RecursionError):
        raise InspectionFileError(f"{name} holds no inspection, it is no JSON: {_WRITERS}") from None


def jax_version_text() -> str:
    """The version of the imported JAX, such as ``JAX 0.10.2``."""
    return f"JAX {jax.__version__}"


def _flags(written: Any) -> dict[str, str] | None:
    if not isinstance(written, dict):
        return None
    return {str(name): str(value) for name, value in written.items()}


def _graph(nodes: Sequence[dict[str, Any]]) -> Snapshot:
    return Snapshot(tuple([_node(node) for node in nodes]))


def _node(written: dict[str, Any]) -> Node:
    return Node(
        **{
            **written,
            "place": _place(written["place"]),
            "calls": tuple([Call(**{**call, "place": _place(call["place"])}) for call in written["calls"]]),
            "operands": tuple([(node, result) for node, result in written["operands"]]),
            "avals": tuple(written["avals"]),
            "names": tuple(written["names"]),
            "result_names": tuple(map(tuple, written["result_names"])),
        }
    )


def _place(written: dict[str, Any] | None) -> Place | None:
    return Place(**written) if written is not None else None
