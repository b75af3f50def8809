"""What the user edited, and what JAX makes of it before XLA sees it."""

from __future__ import annotations

from collections import Counter, defaultdict
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
            said[pair_of(matching, node["id"], True)].append(text)
    for node in matching.before.nodes:
        if node["id"] not in matching.now_of and (text := _lone(node, "gone")):
            said[pair_of(matching, node["id"], False)].append(text)
    for pair, texts in said.items():
        yield Change(
            "operations", (pair,) if pair is not None else (), listed_texts(texts), amount=len(texts)
        )


def pair_of(matching: Matching, node: int, is_now: bool) -> LinePair | None:
    """The line of a node of one side; None if it stands on none."""
    line = (matching.now if is_now else matching.before).lines[node]
    if line is None:
        return None
    return matching.of_now(line) if is_now else matching.of_before(line)


def same_types(matching: Matching, before: int, now: int) -> bool:
    """Whether two nodes give values of the same types."""
    return matching.before.nodes[before]["avals"] == matching.now.nodes[now]["avals"]


_PRIMITIVES = {
    "absolute": "abs", "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "divide": "div",
    "equal": "eq", "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le",
    "maximum": "max", "minimum": "min", "multiply": "mul", "negative": "neg", "not_equal": "ne",
    "power": "pow", "subtract": "sub", "true_divide": "div", "where": "select_n",
}  # fmt: skip
"""Names of jax.numpy, by which an operation on its own is called, and of JAX's primitives, by which it is
called inside of the user's jax.jit."""


def same_operation(matching: Matching, before: int, now: int) -> bool:
    """Whether two nodes are the same operation, with values of the same types. One that JAX makes the same
    HLO of is the same, however it is called."""
    if not same_types(matching, before, now):
        return False
    first, second = matching.before.nodes[before]["name"], matching.now.nodes[now]["name"]
    if _PRIMITIVES.get(first, first) == _PRIMITIVES.get(second, second):
        return True
    old, new = matching.before.lowered.get(before), matching.now.lowered.get(now)
    return old is not None and new is not None and sorted(old.instructions) == sorted(new.instructions)


_LISTED = 6


def listed_texts(texts: list[str]) -> str:
    """What is said of one line."""
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
    is_renamed = node["kind"] == "op" and old["name"] != node["name"]
    if is_renamed and not same_operation(matching, before, node["id"]):
        return f"`{old['name']}` is now `{node['name']}`"
    if old["avals"] != node["avals"] and not _follows(matching, node):
        return f"{_called(node)} is {_types(node)} instead of {_types(old)}"
    if old["output"] != node["output"] and node["kind"] == "op" and node["output"] is _are_more(matching):
        return f"what `{node['name']}` gives is {'now a result' if node['output'] else 'no result now'}"
    return _number(matching, old, node) or _operand(matching, old, node)


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


_COMMUTES = frozenset(
    "add mul multiply max maximum min minimum eq equal ne not_equal and or xor add_any".split()
)


def _operand(matching: Matching, old: Node, node: Node) -> str:
    """That an operation takes another value, of those that both sides have."""
    pairs = list(zip(old["operands"], node["operands"], strict=False))
    taken = [
        ((matching.now_of.get(first), part), (second, other)) for (first, part), (second, other) in pairs
    ]
    if node["kind"] != "op" or len(old["operands"]) != len(node["operands"]):
        return ""
    is_same = Counter(a for a, _ in taken) == Counter(b for _, b in taken)
    if is_same and (node["name"] in _COMMUTES or all(a == b for a, b in taken)):
        return ""
    if is_same:
        return f"`{node['name']}` takes its operands in another order"
    for (first, _), (second, _) in pairs:
        was, now = matching.now_of.get(first), matching.before_of.get(second)
        ends = matching.before.nodes[first], matching.now.nodes[second]
        if was == second or (None in (was, now) and not _is_input(was, now, *ends)):
            continue
        was_called, called = _called(ends[0]), _called(ends[1])
        if None in (ends[0]["value"], ends[1]["value"]) and was_called != called:
            return f"`{node['name']}` takes {called} instead of {was_called}"
    return ""


def _is_input(was: int | None, now: int | None, first: Node, second: Node) -> bool:
    """Whether an input took the place of a value that both sides have, or the reverse. If an operation did,
    it is said to be new or gone."""
    if was is None and now is None:
        return False
    return (first if was is None else second)["kind"] == "input"


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
    return f"`{named}`" if named else node["value"] or "an input"
