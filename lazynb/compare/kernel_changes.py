"""The kernels that are more, fewer, divided otherwise, or cost another amount."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from lazynb.compare.change import Change
from lazynb.compare.figures import Figures, Kernel, Seconds
from lazynb.compare.groups import Group
from lazynb.compare.matching import LinePair, Matching
from lazynb.compare.reasons import reasons
from lazynb.units import milliseconds, number, short_duration, size

_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def kernel_changes(found: Sequence[Group], matching: Matching) -> Iterator[Change]:
    """What differs between the kernels of both sides: at most one change for each group, one for each loop
    that turns more or less often, and one for each group that only took another time."""
    turned: dict[tuple[LinePair, ...], list[Group]] = defaultdict(list)
    for group in found:
        before, now = group.figures
        if _only_turns(group):
            turned[group.lines].append(group)
        elif said := [*_divided(group), *_library(group), *_turns([group]), *_costs(group)]:
            many = len(group.before) != 1 or len(group.now) != 1
            why = reasons(group, matching) if many else ()
            amount = now.written - before.written
            yield Change(
                "kernels" if many else "kernel", group.lines, "; ".join(said), why, before, now, amount
            )
        yield from _timed(group, before, now)
    for lines, loop in turned.items():
        before = Figures.of([kernel for group in loop for kernel in group.before])
        now = Figures.of([kernel for group in loop for kernel in group.now])
        amount = now.written - before.written
        yield Change("kernel", lines, "; ".join(_turns(loop)), (), before, now, amount)


def _once(kernel: Kernel) -> Kernel:
    return dataclasses.replace(kernel, id=0, label="", nodes=frozenset(), times=1, time=None)


def _only_turns(group: Group) -> bool:
    """Whether the same kernel runs more or less often."""
    if len(group.before) != 1 or len(group.now) != 1:
        return False
    [old], [new] = group.before, group.now
    return old.times != new.times and _once(old) == _once(new)


def _turns(loop: Sequence[Group]) -> list[str]:
    """How often kernels run, by the one of them that moves most."""
    pairs = [(group.before[0], group.now[0]) for group in loop if len(group.before) == len(group.now) == 1]
    if not pairs:
        return []
    old, new = max(pairs, key=lambda pair: pair[1].moved)
    if old.times == new.times or None in (old.times, new.times):
        return []
    return [
        f"runs {_often(new.times)} instead of {_often(old.times) if old.times == 1 else f'{old.times:,}'}"
    ]


def _often(times: int | None) -> str:
    return "once" if times == 1 else f"{times:,} times"


def _timed(group: Group, before: Figures, now: Figures) -> Iterator[Change]:
    """That the kernels took longer or shorter, if both sides were measured, in every run."""
    old, new = before.seconds, now.seconds
    if old is None or new is None or not old.differs(new):
        return
    text = f"takes {_spread(new)} instead of {_spread(old)}"
    yield Change("time", group.lines, text, (), before, now, new.median - old.median)


def _spread(seconds: Seconds) -> str:
    """A measured time with its noise."""
    return f"{short_duration(seconds.median)} (runs of {milliseconds(seconds.low, seconds.high)})"


def count(kernels: int) -> str:
    """``two kernels``."""
    word = _WORDS[kernels] if kernels < len(_WORDS) else f"{kernels:,}"
    return f"{word} kernel{'s' * (kernels != 1)}"


def _divided(group: Group) -> list[str]:
    old, new = len(group.before), len(group.now)
    if old == new == 1:
        return []
    if old == new:
        return [f"{count(new)}, divided otherwise"]
    if not old:
        return [f"{count(new)} more"]
    if not new:
        return [f"{count(old)} less"]
    return [f"{count(new)} instead of {_WORDS[old] if old < len(_WORDS) else old}"]


def _library(group: Group) -> list[str]:
    """Which libraries do the work, if that is another answer."""
    if not (group.before and group.now):
        return []
    old, new = _libraries(group.before), _libraries(group.now)
    if old.keys() == new.keys():
        return []
    return [f"done by {_named(new)} instead of {_named(old)}"]


def _libraries(kernels: Sequence[Kernel]) -> Counter[str]:
    return Counter(kernel.library or "XLA's own code" for kernel in kernels)


def _named(libraries: Counter[str]) -> str:
    return " and ".join(sorted(libraries))


def _costs(group: Group) -> list[str]:
    """How the bytes and operations differ; of a kernel that runs more often, those of one run."""
    before, now = group.figures
    if len(group.before) == len(group.now) == 1:
        before, now = Figures.of([_once(group.before[0])]), Figures.of([_once(group.now[0])])
    said = []
    written, moved = now.written - before.written, now.moved - before.moved
    if written:
        said.append(f"{size(abs(written))} {_more(written)} written to memory")
    elif abs(moved) > _NUMBERS_OF_PYTHON:
        said.append(f"{size(abs(moved))} {_more(moved)} read from memory")
    for name, old, new in (
        ("FLOPs", before.flops, now.flops),
        ("transcendental operations", before.transcendentals, now.transcendentals),
    ):
        if old is not None and new is not None and abs(new - old) > _LEAST * max(old, new):
            said.append(f"{number(abs(new - old))} {_more(new - old)} {name}")
    return said


_NUMBERS_OF_PYTHON = 512
"""Bytes: the numbers of a program are one array, and each kernel that reads one of them reads that."""
_LEAST = 1e-4
"""Of the operations: a kernel that computes with Python's numbers as well has a few more."""


def _more(amount: float) -> str:
    return "more" if amount > 0 else "less"
