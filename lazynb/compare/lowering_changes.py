"""What JAX makes of the same operations before XLA sees them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from lazynb.compare.change import Change
from lazynb.compare.lowered import OF_A_NUMBER, Made
from lazynb.compare.matching import LinePair, Matching
from lazynb.compare.program_changes import listed_texts, pair_of
from lazynb.compare.same_operation import same_operation
from lazynb.compare.side import Side


def lowering_changes(matching: Matching) -> Iterator[Change]:
    """The operations that are the same, and of which JAX makes other HLO; by line."""
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
        yield Change("lowering", (pair,) if pair is not None else (), listed_texts(texts), amount=len(texts))


def _instructions(made: Iterable[Made]) -> Counter[str]:
    return Counter(instruction for one in made for instruction in one.instructions)


def _differs(name: str, old: Made, new: Made, only_old: Counter[str], only_new: Counter[str]) -> str:
    """What is other HLO of an operation; empty if it is the same.

    Arguments:
      only_old: the HLO of operations that have some before and none now. JAX lowers the body of a loop as a
        function or in its place, so that it belongs to the loop, or to the operations in it: 0.10 does the
        one on a TPU, 0.12 the other.
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


def _listed(lone: Counter[str]) -> str:
    """The instructions that only one side has, or has more often."""
    said = [
        f"`{text}`" if times == 1 else f"`{text}` ({times} times)"
        for text, times in lone.items()
        if not OF_A_NUMBER.fullmatch(text)
    ]
    return ", ".join(said[:_SHOWN]) + (" and more" if len(said) > _SHOWN else "")


_SHOWN = 3
