"""Inspections in a file: what a chip measured is opened where the chip is not."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from lazynb.execute.dumps import DumpUnavailable
from lazynb.plain import plain
from lazynb.record.snapshot.snapshot import Call, Node, Snapshot
from lazynb.source import Place
from lazynb.version import __version__
from lazynb.view.graph.boxes import build
from lazynb.view.graph.mermaid import to_mermaid
from lazynb.view.inspection.contents import inspection
from lazynb.view.inspection.html import to_html
from lazynb.view.inspection.model_explorer import explorer_file, model_explorer
from lazynb.view.inspection.page import page_of
from lazynb.view.inspection.schema import VERSION, Inspection
from lazynb.view.inspection.tables import EMPTY
from lazynb.view.inspection.text import to_text
from lazynb.view.inspection.whole import check_whole
from lazynb.xla.compilation import Compilation
from lazynb.xla.flag_texts import process_flags, written as written_flags


class NotSaved(ValueError):
    """The file holds no inspection that this lazynb can show; the text says why."""


NOT_WHOLE = (LookupError, TypeError, AttributeError, ValueError)
"""What showing an inspection raises of which a part is missing, or is something else."""


class Entry(NamedTuple):
    """One inspection, and the graph that it draws.

    Attributes:
      flags: of XLA's, that it was compiled with; None if nobody noted them.
    """

    data: Inspection
    graph: Snapshot
    flags: Mapping[str, str] | None = None


class Saved:
    """Inspections from a file; displays as text and as HTML.

    Attributes:
      entries: one for each program, in the order in which they first ran.
      made_by: the JAX that the program was compiled with, such as ``JAX 0.10.2``; empty if nobody noted it.
    """

    def __init__(self, entries: Sequence[Entry], name: str = "", above: str = "", made_by: str = ""):
        """
        Arguments:
          above: HTML that stands before them on a page.
        """
        self.entries = tuple(entries)
        self.made_by = made_by
        self._name = name
        self._above = above

    @property
    def inspections(self) -> list[Inspection]:
        """The plain data of each."""
        return [entry.data for entry in self.entries]

    @property
    def flags(self) -> dict[str, str] | None:
        """XLA's flags that all of the programs were compiled with; None if nobody noted those of one."""
        noted = [entry.flags for entry in self.entries if entry.flags is not None]
        if len(noted) < len(self.entries):
            return None
        first, *others = noted
        return {name: value for name, value in first.items() if all(one.get(name) == value for one in others)}

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes them as JSON, with the JAX and the flags of XLA's that they were compiled with.

        Raises:
          OSError: the file cannot be written.
        """
        target = Path(path)
        entries = [written_form(entry) for entry in self.entries]
        written = {
            "lazynb": __version__,
            "version": VERSION,
            "made_by": self.made_by or here(),
            "inspections": entries,
        }
        target.write_text(json.dumps(written, separators=(",", ":")), encoding="utf-8")
        return target

    def save_html(self, path: str | os.PathLike[str], *, title: str = "") -> Path:
        """Writes them as one HTML page that works offline.

        Raises:
          OSError: the file cannot be written.
        """
        target, shown = Path(path), [(entry.data, entry.graph) for entry in self.entries]
        target.write_text(
            page_of(shown, title or self._name, self._above), encoding="utf-8", errors="replace"
        )
        return target

    def save_mermaid(self, path: str | os.PathLike[str]) -> Path:
        """Writes the graph of each as Mermaid in Markdown.

        Raises:
          OSError: the file cannot be written.
        """
        parts = []
        for entry in self.entries:
            title = plain(entry.data["title"]) or "Graph"
            parts.append(f"### {title}\n\n```mermaid\n{to_mermaid(build(entry.graph))}```\n")
        target = Path(path)
        target.write_text("\n".join(parts), encoding="utf-8", errors="replace")
        return target

    def save_model_explorer(self, path: str | os.PathLike[str]) -> Path:
        """Writes the graphs of each as JSON that Model Explorer opens.

        Raises:
          OSError: the file cannot be written.
        """
        graphs = [graph for entry in self.entries for graph in model_explorer(entry.data, entry.graph)]
        target = Path(path)
        target.write_text(json.dumps(explorer_file(self._name, graphs)), encoding="utf-8")
        return target

    def __repr__(self) -> str:
        return self.text()

    def text(self, times: bool = False) -> str:
        """What is shown of each.

        Arguments:
          times: all that is known of what compiling took, rather than a glance.
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


def entry_of(compilation: Compilation, *, ran: bool = False, title: str = "") -> Entry:
    """All that is known of ``compilation``, with the changes of each pass. What XLA did not write down when
    it compiled, or is gone, is written down now: a program that ran in a script is compiled once more.

    Arguments:
      ran: whether it was run.
    """
    write_down(compilation)
    data = inspection(compilation, ran=ran, full=True, title=title)
    flags, of_process = compilation.all_flags, process_flags()
    if flags is not None and of_process:
        data["notes"].append(f"XLA_FLAGS of the process that compiled it: {written_flags(of_process)}.")
    return Entry(data, compilation.snapshot, flags)


def write_down(compilation: Compilation) -> None:
    """Has XLA write its passes and live ranges of each program down, where it did not or they are gone. Where
    there is no place to write to they stay unknown."""
    for trace in compilation.traces:
        with contextlib.suppress(DumpUnavailable):
            trace.write_down()


def written_form(entry: Entry) -> dict[str, Any]:
    """An inspection as :meth:`Saved.save` writes it."""
    graph = [dataclasses.asdict(node) for node in entry.graph.nodes]
    return {"inspection": entry.data, "graph": graph, "flags": entry.flags}


def read_form(written: dict[str, Any]) -> Entry:
    """The opposite of :func:`written_form`."""
    return Entry(written["inspection"], _graph(written["graph"]), _flags(written.get("flags")))


def opened(path: str | os.PathLike[str]) -> Saved:
    """The inspections of a file that :meth:`Saved.save` wrote.

    Raises:
      OSError: it cannot be read.
      NotSaved: it is no such file, or one of a later lazynb.
    """
    name = os.fspath(path)
    try:
        written = _json_of(Path(path).read_bytes(), name)
        entries, version = written["inspections"], written["version"]
    except (KeyError, TypeError):
        raise NotSaved(f"{name} holds no inspection: {_WRITERS}") from None
    if version != VERSION:
        raise NotSaved(
            f"{name} was written by lazynb {written.get('lazynb', '?')}, in version {version} of the form; "
            f"lazynb {__version__} reads version {VERSION}"
        )
    try:
        found = [read_form(entry) for entry in entries]
        for entry in found:
            entry.data.setdefault("collectives", {**EMPTY})  # an earlier lazynb wrote none of these
            entry.data.setdefault("shardings", {**EMPTY})
            for part in ("layouts", "tiles", "reshardings"):
                entry.data.setdefault(part, [])  # type: ignore[misc]
            to_text(entry.data)  # whether it can be shown
            check_whole(entry.data)
    except NOT_WHOLE:
        raise NotSaved(f"{name} holds an inspection that is not whole") from None
    if not found:
        raise NotSaved(f"{name} holds no inspection: nothing was compiled in the program that wrote it")
    return Saved(found, Path(path).name, made_by=str(written.get("made_by", "")))


_WRITERS = "lazynb run --save and lazynb inspect --json write one"


def _json_of(content: bytes, name: str) -> Any:
    """
    Raises:
      NotSaved: it is no JSON; the text says what is wrong with it.
    """
    if not content.strip():
        raise NotSaved(f"{name} holds no inspection, it is empty: {_WRITERS}")
    try:
        return json.loads(content)
    except json.JSONDecodeError as error:
        is_cut = error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated")
        what = (
            "ends in the middle: it was not written or copied as a whole" if is_cut else "holds no inspection"
        )
        raise NotSaved(f"{name} {what} ({error.msg}, line {error.lineno}); {_WRITERS}") from None
    except (ValueError, RecursionError):
        raise NotSaved(f"{name} holds no inspection, it is no JSON: {_WRITERS}") from None


def here() -> str:
    """The JAX that compiles here."""
    return f"JAX {jax.__version__}"


def _flags(written: Any) -> dict[str, str] | None:
    """The flags of an entry; one of an earlier lazynb has none."""
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
