"""HLO as the front end gets it: lines with their nodes and clusters, and what each pass changed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from lazynb.view.inspection.index import Index
from lazynb.view.inspection.schema import Change, HloLine, PassInfo, Stage
from lazynb.xla.hlo.module import Module, parse
from lazynb.xla.hlo.passes import Pass

NONE: Stage = {"text": None, "lines": []}
_INSTRUCTION = re.compile(r"(ROOT )?(%?)([\w.\-]+) = ")
_HEAD = 400  # characters of the module's first line: it may list thousands of arguments


def stage(index: Index, number: int, text: str, module: Module | None, limit: int | None = None) -> Stage:
    """A module's text without metadata, each line with what it was made from.

    Arguments:
      module: what ``text`` says, where it is parsed already.
      limit: characters; of a longer module there is no text.
    """
    if not text or (limit is not None and len(text) > 4 * limit):  # metadata is most of a text
        return NONE
    lines = list(_lines(index, number, text, module if module is not None else parse(text)))
    if limit is not None and sum(len(line["text"]) + 1 for line in lines) > limit:
        return NONE
    return {"text": "\n".join(line["text"] for line in lines), "lines": lines}


def _lines(index: Index, number: int, text: str, module: Module) -> Iterator[HloLine]:
    computation, trace = "", index.traces[number]
    for line in text.splitlines():
        if line.startswith("HloModule "):
            yield _line(line[:_HEAD] + ("…" if len(line) > _HEAD else ""))
        elif line.startswith("  ") and computation:
            found = _INSTRUCTION.match(line.strip())
            one = module.by_name.get(found[3]) if found else None
            if found is None or one is None:
                continue
            # A name says nothing about another module: XLA gives it away again.
            last = module is trace.module
            yield {
                "text": f"  {found[1] or ''}{found[2]}{one.name} = {one.plain}",
                "name": one.name,
                "nodes": trace.nodes_behind(one) if last else index.node(number, one.mark),
                "cluster": index.home(number, one.name) if last else None,
                "computation": computation,
            }
        elif line.startswith("}") and computation:
            computation = ""
            yield _line("}")
        elif line.endswith("{"):
            computation = line.removeprefix("ENTRY ").lstrip("%").partition(" ")[0]
            yield _line("")
            yield _line(line)


def _line(text: str) -> HloLine:
    return {"text": text, "name": "", "nodes": [], "cluster": None, "computation": ""}


def pass_info(one: Pass) -> PassInfo:
    """A pass of which nobody has counted the changes."""
    return {
        "index": one.index,
        "pipeline": one.pipeline,
        "name": one.name,
        "added": None,
        "removed": None,
        "rewritten": None,
        "fused": None,
        "changes": None,
    }


def counted(index: Index, number: int, one: Pass, most: int) -> PassInfo:
    """A pass with the number of its changes, and the changes themselves where there are at most ``most``."""
    counts = Counter(change.kind for change in one.changes)
    info = pass_info(one)
    return {
        **info,
        "added": counts["added"],
        "removed": counts["removed"],
        "rewritten": counts["rewritten"],
        "fused": counts["fused"],
        "changes": changes(index, number, one) if len(one.changes) <= most else None,
    }


def changes(index: Index, number: int, one: Pass) -> list[Change]:
    """What a pass changed; an instruction that was fused into several clusters stands once for each."""
    return [
        {
            "kind": change.kind,  # type: ignore[typeddict-item]
            "name": change.name,
            "before": change.before,
            "after": change.after,
            "nodes": [node for mark in change.marks for node in index.node(number, mark)],
            "into": into,
        }
        for change in one.changes
        for into in change.into or ("",)
    ]


def formed(number: int, passes: Sequence[Pass]) -> dict[tuple[int, str], list[str]]:
    """By program and fusion, the passes that made it or put something into it."""
    found: dict[tuple[int, str], dict[str, None]] = {}
    for one in passes:
        for change in one.changes:
            for name in change.into or ((change.name,) if change.kind == "added" else ()):
                found.setdefault((number, name), {})[one.name] = None
    return {key: list(names) for key, names in found.items()}
