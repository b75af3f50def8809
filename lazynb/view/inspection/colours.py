"""Which cluster has which look: a colour, and a pattern where the colours are used up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from lazynb.view.style import CLUSTERS, PATTERNS

GREY = 7
"""The colour of what runs other clusters (a loop, a branch), in each pattern; kernels have it only where
nothing else is left."""

LOOKS = tuple(look for look in range(len(CLUSTERS) * PATTERNS) if look % len(CLUSTERS) != GREY)
"""Looks of kernels, in the order in which they are given away."""

_GREYS = tuple(look for look in range(len(CLUSTERS) * PATTERNS) if look % len(CLUSTERS) == GREY)


def looks(controls: Sequence[bool], pairs: Iterable[tuple[int, int]]) -> list[int]:
    """The look of each cluster, its own while there are enough; then neighbours differ.

    Arguments:
      controls: by cluster, in the order in which they run: whether it only runs others.
      pairs: neighbours; clusters that run one after the other are neighbours too.
    """
    beside = _neighbours(len(controls), pairs)
    uses = dict.fromkeys(LOOKS, 0)
    look_of: dict[int, int] = {}
    kernels = [id_ for id_, control in enumerate(controls) if not control]
    # A kernel with fewer neighbours than there are looks always finds a free one: the others come first.
    for id_ in sorted(kernels, key=lambda id_: len(beside[id_]) < len(LOOKS)):
        taken = {look_of.get(other) for other in beside[id_]}
        free = [look for look in LOOKS if look not in taken]
        look_of[id_] = min(free, key=lambda look: (uses[look], look), default=GREY)
        if free:
            uses[look_of[id_]] += 1
    others = [id_ for id_, control in enumerate(controls) if control]
    for number, id_ in enumerate(others):
        look_of[id_] = _GREYS[number % len(_GREYS)]
    return [look_of[id_] for id_ in range(len(controls))]


def _neighbours(count: int, pairs: Iterable[tuple[int, int]]) -> list[set[int]]:
    beside: list[set[int]] = [set() for _ in range(count)]
    for first, second in (*pairs, *pairwise(range(count))):
        if first != second:
            beside[first].add(second)
            beside[second].add(first)
    return beside
