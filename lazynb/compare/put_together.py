"""Operations of one side that are one operation of the other, by the kinds of the instructions alone.

What is computed from other values than before has other expressions; but if a line had a ``mean``, and has a
sum and a division of the same shapes now, these are the mean.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping

from lazynb.compare.matching import LinePair, Matching

Kinds = Counter[Hashable]
"""The instructions of an operation, without what they read but for numbers."""


def put_together(
    matching: Matching, before: Mapping[int, Kinds], now: Mapping[int, Kinds]
) -> Iterator[tuple[int, int]]:
    """Pairs of operations on lines that correspond: one operation of one side with each of those of the other
    side that are made of the same instructions together.

    Arguments:
      before, now: operations without an equal partner.
    """
    old, new = _by_line(matching, before, False), _by_line(matching, now, True)
    used: set[int] = set()
    for pair in old.keys() & new.keys():
        for whole in old[pair]:
            if parts := _parts(before[whole], [node for node in new[pair] if node not in used], now):
                used.update(parts)
                yield from ((whole, part) for part in parts)
    taken: set[int] = set()
    for pair in old.keys() & new.keys():
        for whole in new[pair]:
            left = [node for node in old[pair] if node not in taken]
            if whole not in used and (parts := _parts(now[whole], left, before)):
                taken.update(parts)
                yield from ((part, whole) for part in parts)


def _by_line(matching: Matching, nodes: Iterable[int], is_now: bool) -> dict[LinePair, list[int]]:
    side = matching.now if is_now else matching.before
    found: dict[LinePair, list[int]] = defaultdict(list)
    for node in sorted(nodes):
        line = side.lines[node]
        if line is not None:
            found[matching.of_now(line) if is_now else matching.of_before(line)].append(node)
    return found


def _parts(whole: Kinds, nodes: Iterable[int], kinds: Mapping[int, Kinds]) -> list[int]:
    """Those of ``nodes`` that are ``whole`` together; none if they are not all of it."""
    rest, parts = Counter(whole), []
    for node in nodes:
        if kinds[node] <= rest:
            rest -= kinds[node]
            parts.append(node)
    return parts if not rest and len(parts) > 1 else []
