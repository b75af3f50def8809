"""Differences between the user's operations, and between the HLO that JAX lowers equal operations to."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from lazynb.compare.differences.compilation_match import CompilationChange, CompilationMatch, LinePair
from lazynb.compare.differences.compilation_side import CompilationSide
from lazynb.compare.differences.lowered_operations import OF_A_NUMBER, LoweredOperation
from lazynb.compare.differences.operation_equivalence import OperationEquivalence, same_operation
from lazynb.running.record_table import plural

if TYPE_CHECKING:
    from lazynb.xla.inspection_schema import Node


def operation_changes(
    matching: CompilationMatch, regrouping: OperationEquivalence
) -> Iterator[CompilationChange]:
    """Yields, by line, operations that are new, gone or different, and inputs of different type or value.

    The same computation under other names is not a difference.
    """
    said: dict[LinePair | None, list[str]] = defaultdict(list)
    for node in matching.now.nodes:
        other = matching.before_of.get(node["id"])
        if other is None:
            text = "" if regrouping.covers(node["id"], True) else _lone(node, "new")
        else:
            text = _changed(matching, regrouping, other, node)
        if text:
            said[pair_of(matching, node["id"], True)].append(text)
    for node in matching.before.nodes:
        if node["id"] in matching.now_of or regrouping.covers(node["id"], False):
            continue
        if text := _lone(node, "gone"):
            said[pair_of(matching, node["id"], False)].append(text)
    for pair, texts in said.items():
        yield CompilationChange(
            "operations", (pair,) if pair is not None else (), listed_texts(texts), amount=len(texts)
        )


def pair_of(matching: CompilationMatch, node: int, is_now: bool) -> LinePair | None:
    """The line of a node of one side; None if it has no line."""
    line = (matching.now if is_now else matching.before).lines[node]
    if line is None:
        return None
    return matching.of_now(line) if is_now else matching.of_before(line)


_LISTED = 6


def listed_texts(texts: list[str]) -> str:
    """A list of the differences of one line, as a phrase."""
    counted = {text: texts.count(text) for text in texts}
    shown = [text if times == 1 else f"{text} ({times} times)" for text, times in counted.items()]
    rest = len(shown) - _LISTED
    return ", ".join(shown[:_LISTED]) + (f", and {plural(rest, 'other difference')}" if rest > 0 else "")


def _lone(node: Node, what: str) -> str:
    if node["dead"] or node["kind"] != "op":
        return ""
    return f"`{node['name']}` is {what}"


def _changed(matching: CompilationMatch, regrouping: OperationEquivalence, before: int, node: Node) -> str:
    """The phrase for a node that differs from its partner in more than values; empty if it does not."""
    old = matching.before.nodes[before]
    if node["dead"] and old["dead"]:
        return ""
    if regrouping.covers(before, False) and regrouping.covers(node["id"], True):
        return ""
    is_renamed = node["kind"] == "op" and old["name"] != node["name"]
    if is_renamed and not same_operation(matching, before, node["id"]):
        return _renamed(regrouping, old, node)
    if old["avals"] != node["avals"] and not _follows(matching, node):
        if None not in (node["value"], old["value"]) and node["value"] != old["value"]:
            return f"{node['value']}, {_types(node)}, is taken instead of {old['value']}, {_types(old)}"
        return f"{_called(node)} is {_types(node)} instead of {_types(old)}"
    if old["output"] != node["output"] and node["kind"] == "op" and node["output"] is _are_more(matching):
        return f"what `{node['name']}` gives is {'now a result' if node['output'] else 'no result now'}"
    return _number(matching, old, node) or _operand(matching, old, node) or _other_part(matching, old, node)


def _other_part(matching: CompilationMatch, old: Node, node: Node) -> str:
    """The phrase for an argument that is another part of the same variable and that the other side lacks,
    such as ``p['b'][1]`` instead of ``p['b'][0]``. Another variable counts as renamed."""
    names, was = node["names"], old["names"]
    if node["kind"] != "input" or not names or not was or set(names) & set(was):
        return ""
    if _root(names[0]) != _root(was[0]) or {names[0], was[0]} & {_root(names[0])}:
        return ""
    sides = (matching.before, names[0]), (matching.now, was[0])
    if any(
        name in other["names"] for side, name in sides for other in side.nodes if other["kind"] == "input"
    ):
        return ""
    return f"`{names[0]}` is taken instead of `{was[0]}`"


def _root(name: str) -> str:
    return re.split(r"[.\[]", name, maxsplit=1)[0]


def _renamed(regrouping: OperationEquivalence, old: Node, node: Node) -> str:
    """The phrase for two paired operations with different names."""
    if regrouping.covers(old["id"], False):
        return _lone(node, "new")
    if regrouping.covers(node["id"], True):
        return _lone(old, "gone")
    return f"`{old['name']}` is now `{node['name']}`"


def _are_more(matching: CompilationMatch) -> bool | None:
    """Whether there are more results now; None if their numbers are equal."""
    old, new = (
        sum(node["output"] for node in side.nodes if node["kind"] == "op")
        for side in (matching.before, matching.now)
    )
    return None if old == new else new > old


def _number(matching: CompilationMatch, old: Node, node: Node) -> str:
    """The phrase for an edited line with another number, or a number that is an argument of one program and a
    constant in the other. Otherwise a changed value of a variable does not count."""
    for first, second in changed_roles(matching, old, node):
        before, now = matching.before.nodes[first]["value"], matching.now.nodes[second]["value"]
        roles = "an argument of the program", "a constant in it"
        was, now_is = roles if matching.before.is_argument(first) else roles[::-1]
        return f"`{node['name']}` takes {now}, {now_is}, instead of {before}, {was}"
    a, b = matching.before.lines[old["id"]], matching.now.lines[node["id"]]
    if node["kind"] != "op" or a is None or b is None or a.text == b.text:
        return ""
    for (first, _), (second, _) in zip(old["operands"], node["operands"], strict=False):
        values = matching.before.nodes[first]["value"], matching.now.nodes[second]["value"]
        if None not in values and values[0] != values[1]:
            return f"`{node['name']}` takes {values[1]} instead of {values[0]}"
    return ""


def changed_roles(matching: CompilationMatch, old: Node, node: Node) -> list[tuple[int, int]]:
    """The numbers that two operations take and that are an argument of one program and a constant in the
    other, as nodes."""
    found = []
    for (first, _), (second, _) in zip(old["operands"], node["operands"], strict=False):
        before, now = matching.before.is_argument(first), matching.now.is_argument(second)
        if None not in (before, now) and before != now:
            found.append((first, second))
    return found


_COMMUTES = frozenset(
    "add mul multiply max maximum min minimum eq equal ne not_equal and or xor add_any".split()
)


def _operand(matching: CompilationMatch, old: Node, node: Node) -> str:
    """The phrase for an operation that reads a different value, where both sides have the values."""
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
    """Whether an input replaced a value that both sides have, or the reverse. A replacing operation is
    reported as new or gone."""
    if was is None and now is None:
        return False
    return (first if was is None else second)["kind"] == "input"


def _follows(matching: CompilationMatch, node: Node) -> bool:
    """Whether the type of a node changed because the type of an operand changed."""
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


# ---- Lowering of the same operations ----------------------------------------------------------------------


def lowering_changes(matching: CompilationMatch) -> Iterator[CompilationChange]:
    """Yields, by line, operations that are equal but that JAX lowers to different HLO."""
    old, new = matching.before.lowered, matching.now.lowered
    if not (old and new):
        return
    said: dict[LinePair | None, list[str]] = defaultdict(list)
    pairs = matching.now_of.items()
    only_old = _instructions(old[before] for before, now in pairs if before in old and now not in new)
    only_new = _instructions(new[now] for before, now in pairs if before not in old and now in new)
    for before, now in pairs:
        node = matching.now.nodes[now]
        if not (before in old and now in new) or node["kind"] != "op" or node["dead"]:
            continue
        if not same_operation(matching, before, now) or _inputs_differ(matching, now):
            continue
        if text := _differs(node["name"], old[before], new[now], only_old, only_new):
            said[pair_of(matching, now, True)].append(text)
    for pair, texts in said.items():
        yield CompilationChange(
            "lowering", (pair,) if pair is not None else (), listed_texts(texts), amount=len(texts)
        )


def _instructions(made: Iterable[LoweredOperation]) -> Counter[str]:
    return Counter(instruction for one in made for instruction in one.instructions)


def _differs(
    name: str, old: LoweredOperation, new: LoweredOperation, only_old: Counter[str], only_new: Counter[str]
) -> str:
    """The phrase for the difference in HLO of an operation; empty if there is none.

    Arguments:
      only_old: the HLO of operations that have HLO before and none now. JAX lowers the body of a loop as a
        function or in place, so that the HLO belongs to the loop or to the operations in it: on a TPU, JAX
        0.10 does the first and 0.12 the second.
      only_new: the reverse.
    """
    were, are = Counter(old.instructions), Counter(new.instructions)
    gone, come = _listed(were - are - only_new), _listed(are - were - only_old)
    if gone and come:
        return f"JAX makes {come} of `{name}` instead of {gone}"
    if come or gone:
        return f"JAX makes {come} of `{name}` as well" if come else f"JAX makes no {gone} of `{name}` now"
    if were != are:
        return ""
    numbers = sorted(old.numbers - new.numbers), sorted(new.numbers - old.numbers)
    if all(numbers):
        return f"`{name}` computes with {', '.join(numbers[1])} instead of {', '.join(numbers[0])}"
    return ""


def _inputs_differ(matching: CompilationMatch, now: int) -> bool:
    """Whether an operand is a different operation or has a different type, which changes the HLO. The parts
    of a loop, branch or function also come before it and have no HLO under their own names."""
    first, second = _taken(matching.before, matching.before_of[now]), _taken(matching.now, now)
    if len(first) == len(second) and first != second:
        return True
    seen: set[int] = set()
    waiting = [now]
    while waiting:
        for operand, _ in matching.now.nodes[waiting.pop()]["operands"]:
            if operand in seen:
                continue
            seen.add(operand)
            partner = matching.before_of.get(operand)
            if matching.now.nodes[operand]["kind"] != "op":
                continue
            if partner is None:
                return True
            if operand not in matching.now.lowered:
                if not same_operation(matching, partner, operand):
                    return True
                waiting.append(operand)
    return False


def _taken(side: CompilationSide, node: int) -> list[str]:
    return [side.nodes[operand]["avals"][part] for operand, part in side.nodes[node]["operands"]]


def _listed(lone: Counter[str]) -> str:
    """The instructions that one side has more often, as a phrase."""
    said = [
        f"`{text}`" if times == 1 else f"`{text}` ({times} times)"
        for text, times in lone.items()
        if not OF_A_NUMBER.fullmatch(text)
    ]
    return ", ".join(said[:_SHOWN]) + (" and more" if len(said) > _SHOWN else "")


_SHOWN = 3
