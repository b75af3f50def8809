"""References that objects gain while something is repeated, on any CPython.

The counts of all objects that the garbage collector knows, and of those to which they refer, are compared one
by one, which also tells what leaks. What nobody refers to any more is found by the number of allocated blocks.
The sum that a debug build keeps (``sys.gettotalrefcount``) is of no use here: NumPy and jaxlib are not compiled
for it, and each reference that they take and Python gives back, or the reverse, moves it.
"""

from __future__ import annotations

import gc
import reprlib
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

LEAST = 0.5
"""What is cached now and then grows by less than this at each repetition, and a leak by one or more."""

WINDOWS = 3

_NUMBERS = (int, float, bool, bytes)
"""What this module, too, has many of."""

_clear_caches = getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache
"""The cache of attributes of types has names that were made for one look-up."""


class Growth(NamedTuple):
    """What one repetition leaves behind, on average.

    Attributes:
      gained: the objects with more references, and how many.
      objects: objects that the garbage collector knows.
      blocks: blocks of memory.
    """

    gained: dict[str, float]
    objects: float
    blocks: float

    @property
    def leaks(self) -> bool:
        return bool(self.gained) or self.objects > LEAST or self.blocks > LEAST

    def __str__(self) -> str:
        lines = [f"{self.objects:+.2f} objects, {self.blocks:+.2f} blocks"]
        lines += [f"{more:+.2f} references to {one}" for one, more in self.gained.items()]
        return "\n    ".join(lines)


def growth(work: Callable[[], object], times: int, settle: Callable[[], object]) -> Growth:
    """What ``work`` leaves behind at each of ``times`` repetitions: the least of several times so many, because
    caches grow now and then, and a leak always.

    The count itself leaves something: as much as where nothing was done in between, which is taken off.

    Arguments:
      settle: frees what may be left, before anything is counted.
    """
    idle, sums, counts = [_sums(settle)], [], []
    for _ in range(WINDOWS):
        idle.append(_sums(settle))
    sums.append(idle[-1])
    for _ in range(WINDOWS):
        _repeat(work, times)
        sums.append(_sums(settle))
    for _ in range(WINDOWS):  # afterwards, because the counts are blocks too
        counts.append(_counts(settle))
        _repeat(work, times)
    gained = _gained([*counts, _counts(settle)], times)
    objects, blocks = [
        (grown - max(alone, 0)) / times for grown, alone in zip(_least(sums), _least(idle), strict=True)
    ]
    return Growth(gained, objects, blocks)


def _least(sums: list[tuple[int, int]]) -> list[int]:
    """How much both sums grow from one time to the next, at least."""
    steps = [[after - before for before, after in zip(*pair, strict=True)] for pair in pairwise(sums)]
    return list(map(min, zip(*steps, strict=True)))


def _repeat(work: Callable[[], object], times: int) -> None:
    for _ in range(times):
        work()


def _collect(settle: Callable[[], object]) -> None:
    settle()
    _clear_caches()
    for _ in range(3):  # finalizers may leave more to collect
        gc.collect()


def _sums(settle: Callable[[], object]) -> tuple[int, int]:
    _collect(settle)
    return len(gc.get_objects()), sys.getallocatedblocks()


def _everything() -> dict[int, Any]:
    """The objects that the garbage collector knows and those to which they refer, by their ids."""
    known = gc.get_objects()
    found = {id(one): one for one in known}
    found.update((id(one), one) for one in gc.get_referents(*known))
    return {key: one for key, one in found.items() if type(one) not in _NUMBERS and not _of_nanobind(one)}


def _of_nanobind(one: Any) -> bool:
    """Whether it is a type of nanobind's, of which each bound method keeps a reference on Python 3.11."""
    return issubclass(type(one), type) and str(one.__module__).startswith("nanobind")


def _counts(settle: Callable[[], object]) -> dict[int, int]:
    _collect(settle)
    return {key: sys.getrefcount(one) for key, one in _everything().items()}


def _gained(counts: list[dict[int, int]], times: int) -> dict[str, float]:
    """The objects that have more references in each of ``counts`` than in that before, and how many at least."""
    own = {*map(id, counts), id(counts)}
    least = {
        key: min(after.get(key, 0) - before.get(key, 0) for before, after in pairwise(counts)) / times
        for key in counts[-1].keys() - own
    }
    grown = {key for key in least if least[key] > LEAST}
    return {
        _described(one): least[key] for key, one in (_everything() if grown else {}).items() if key in grown
    }


def _described(one: Any) -> str:
    return f"{type(one).__name__} at {id(one):#x} {reprlib.repr(one) if isinstance(one, str | type) else ''}"
