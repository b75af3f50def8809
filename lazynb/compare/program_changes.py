"""What the user edited, and what JAX makes of it before XLA sees it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from lazynb.compare.change import Change
from lazynb.compare.matching import LinePair, Matching
from lazynb.execute.records import plural

if TYPE_CHECKING:
    from lazynb.view.inspection.schema import Node


def operation_changes(matching: Matching) -> Iterator[Change]:
    """The operations that came, went, or are others, by line; and inputs of another type or value."""
    said: dict[LinePair | None, list[str]] = defaultdict(list)
    for node in matching.now.nodes:
        other = matching.before_of.get(node["id"])
        text = _changed(matching, other, node) if other is not None else _lone(node, "new")
        if text:
            said[_pair(matching, node["id"], True)].append(text)
    for node in matching.before.nodes:
        if node["id"] not in matching.now_of and (text := _lone(node, "gone")):
            said[_pair(matching, node["id"], False)].append(text)
    for pair, texts in said.items():
        yield Change("operations", (pair,) if pair is not None else (), _listed(texts), amount=len(texts))


def _pair(matching: Matching, node: int, is_now: bool) -> LinePair | None:
    line = (matching.now if is_now else matching.before).lines[node]
    if line is None:
        return None
    return matching.of_now(line) if is_now else matching.of_before(line)


_LISTED = 6


def _listed(texts: list[str]) -> str:
    counted = {text: texts.count(text) for text in texts}
    shown = [text if times == 1 else f"{text} ({times} times)" for text, times in counted.items()]
    rest = len(shown) - _LISTED
    return ", ".join(shown[:_LISTED]) + (f", and {plural(rest, 'other difference')}" if rest > 0 else "")


def _lone(node: Node, what: str) -> str:
    """What is said of a node without partner."""
    if node["dead"] or node["kind"] != "op":
        return ""
    return f"`{node['name']}` is {what}"


def _changed(matching: Matching, before: int, node: Node) -> str:
    """What is said of a node that is another than its partner; empty if it is the same, or only takes other
    values."""
    old = matching.before.nodes[before]
    if node["dead"] and old["dead"]:
        return ""
    if node["kind"] == "op" and old["name"] != node["name"]:
        return f"`{old['name']}` is now `{node['name']}`"
    if old["avals"] != node["avals"] and not _follows(matching, node):
        return f"{_called(node)} is {_types(node)} instead of {_types(old)}"
    if old["output"] != node["output"] and node["kind"] == "op" and node["output"] is _are_more(matching):
        return f"what `{node['name']}` gives is {'now a result' if node['output'] else 'no result now'}"
    return _number(matching, old, node)


def _are_more(matching: Matching) -> bool | None:
    """Whether there are more results now; None if there are as many."""
    old, new = (
        sum(node["output"] for node in side.nodes if node["kind"] == "op")
        for side in (matching.before, matching.now)
    )
    return None if old == new else new > old


def _number(matching: Matching, old: Node, node: Node) -> str:
    """That a line was edited and takes another number. A variable that holds another number is no
    difference."""
    a, b = matching.before.lines[old["id"]], matching.now.lines[node["id"]]
    if node["kind"] != "op" or a is None or b is None or a.text == b.text:
        return ""
    for (first, _), (second, _) in zip(old["operands"], node["operands"], strict=False):
        values = matching.before.nodes[first]["value"], matching.now.nodes[second]["value"]
        if None not in values and values[0] != values[1]:
            return f"`{node['name']}` takes {values[1]} instead of {values[0]}"
    return ""


def _follows(matching: Matching, node: Node) -> bool:
    """Whether a node has another type because an operand has."""
    for operand, _ in node["operands"]:
        partner = matching.before_of.get(operand)
        new = matching.now.nodes[operand]
        if partner is not None and matching.before.nodes[partner]["avals"] != new["avals"]:
            return True
    return False


def _types(node: Node) -> str:
    return ", ".join(node["avals"])


def _called(node: Node) -> str:
    if node["kind"] == "op":
        return f"what `{node['name']}` gives"
    named = next(iter(node["names"]), "")
    return f"`{named}`" if named else "an input"


def lowering_changes(matching: Matching) -> Iterator[Change]:
    """The operations that are the same, and of which JAX makes other HLO; by line."""
    old, new = matching.before.lowered, matching.now.lowered
    if not (old and new):
        return
    said: dict[LinePair | None, list[str]] = defaultdict(list)
    for before, now in matching.now_of.items():
        node, other = matching.now.nodes[now], matching.before.nodes[before]
        same = node["name"] == other["name"] and node["avals"] == other["avals"]
        first, second = old.get(before, ()), new.get(now, ())
        if not (same and first and second) or node["kind"] != "op" or node["dead"]:
            continue
        if sorted(first) != sorted(second) and not _inputs_differ(matching, node):
            text = f"JAX makes {_hlo(second, first)} of `{node['name']}` instead of {_hlo(first, second)}"
            said[_pair(matching, now, True)].append(text)
    for pair, texts in said.items():
        yield Change("lowering", (pair,) if pair is not None else (), _listed(texts), amount=len(texts))


def _inputs_differ(matching: Matching, node: Node) -> bool:
    """Whether an operand is another operation, or one of another type: then the HLO follows it."""
    for operand, _ in node["operands"]:
        partner = matching.before_of.get(operand)
        if partner is None:
            return True
        if matching.before.nodes[partner]["avals"] != matching.now.nodes[operand]["avals"]:
            return True
    return False


def _hlo(own: tuple[str, ...], other: tuple[str, ...]) -> str:
    """The instructions that only one side has; all of them if the other has them too."""
    left = list(other)
    lone = []
    for said in own:
        if said in left:
            left.remove(said)
        else:
            lone.append(said)
    shown = lone or list(own)
    return ", ".join(f"`{said}`" for said in shown[:3]) + (" and more" if len(shown) > 3 else "")
