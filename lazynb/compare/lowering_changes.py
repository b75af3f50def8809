"""What JAX makes of the same operations before XLA sees them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from lazynb.compare.change import Change
from lazynb.compare.lowered import Made
from lazynb.compare.matching import LinePair, Matching
from lazynb.compare.program_changes import listed_texts, pair_of, same_operation
from lazynb.compare.side import Side


def lowering_changes(matching: Matching) -> Iterator[Change]:
    """The operations that are the same, and of which JAX makes other HLO; by line."""
    old, new = matching.before.lowered, matching.now.lowered
    if not (old and new):
        return
    said: dict[LinePair | None, list[str]] = defaultdict(list)
    for before, now in matching.now_of.items():
        node = matching.now.nodes[now]
        if not (before in old and now in new) or node["kind"] != "op" or node["dead"]:
            continue
        if not same_operation(matching, before, now) or _inputs_differ(matching, now):
            continue
        if text := _differs(node["name"], old[before], new[now]):
            said[pair_of(matching, now, True)].append(text)
    for pair, texts in said.items():
        yield Change("lowering", (pair,) if pair is not None else (), listed_texts(texts), amount=len(texts))


def _differs(name: str, old: Made, new: Made) -> str:
    """What is other HLO of an operation; empty if it is the same."""
    if sorted(old.instructions) != sorted(new.instructions):
        gone, come = _lone(old.instructions, new.instructions), _lone(new.instructions, old.instructions)
        if gone and come:
            return f"JAX makes {come} of `{name}` instead of {gone}"
        return f"JAX makes {come} of `{name}` as well" if come else f"JAX makes no {gone} of `{name}` now"
    were, are = sorted(old.numbers - new.numbers), sorted(new.numbers - old.numbers)
    if were and are:
        return f"`{name}` computes with {', '.join(are)} instead of {', '.join(were)}"
    return ""


def _inputs_differ(matching: Matching, now: int) -> bool:
    """Whether an operand is another operation, or one of another type: then the HLO follows it. What a loop,
    a branch or a function is made of comes before it as well, and has no HLO under its own name."""
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


def _taken(side: Side, node: int) -> list[str]:
    """The types that an operation takes."""
    return [side.nodes[operand]["avals"][part] for operand, part in side.nodes[node]["operands"]]


def _lone(own: tuple[str, ...], other: tuple[str, ...]) -> str:
    """The instructions that only one side has, or has more often."""
    left = Counter(own) - Counter(other)
    lone = [f"`{said}`" if times == 1 else f"`{said}` ({times} times)" for said, times in left.items()]
    return ", ".join(lone[:_SHOWN]) + (" and more" if len(lone) > _SHOWN else "")


_SHOWN = 3
