"""The kernels that are more, fewer, divided otherwise, or cost another amount."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from lazynb.compare.change import Change
from lazynb.compare.figures import Figures, Kernel
from lazynb.compare.groups import Group
from lazynb.compare.matching import Matching
from lazynb.compare.reasons import reasons
from lazynb.units import number, short_duration, size

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def kernel_changes(found: Sequence[Group], matching: Matching) -> Iterator[Change]:
    """What differs between the kernels of both sides, at most one change for each group, and one for the
    times that differ though nothing else does."""
    for group in found:
        before, now = group.figures
        said = [*_divided(group), *_library(group), *_costs(before, now)]
        if said:
            many = len(group.before) != 1 or len(group.now) != 1
            yield Change(
                "kernels" if many else "kernel",
                group.lines,
                "; ".join(said),
                reasons(group, matching) if many else (),
                before,
                now,
                now.written - before.written,
            )
        yield from _timed(group, before, now)


def _timed(group: Group, before: Figures, now: Figures) -> Iterator[Change]:
    """That the kernels took longer or shorter, if both sides were measured, by more than noise."""
    old, new = before.seconds, now.seconds
    if old is None or new is None or not old.differs(new):
        return
    text = f"takes {short_duration(new.median)} instead of {short_duration(old.median)}, by more than noise"
    yield Change("time", group.lines, text, (), before, now, new.median - old.median)


def count(kernels: int) -> str:
    """``two kernels``."""
    word = _NUMBERS[kernels] if kernels < len(_NUMBERS) else f"{kernels:,}"
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
    return [f"{count(new)} instead of {_NUMBERS[old] if old < len(_NUMBERS) else old}"]


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


def _costs(before: Figures, now: Figures) -> list[str]:
    """How the bytes and operations differ."""
    said = []
    written, moved = now.written - before.written, now.moved - before.moved
    if written:
        said.append(f"{size(abs(written))} {_more(written)} written to memory")
    elif moved:
        said.append(f"{size(abs(moved))} {_more(moved)} read from memory")
    for name, old, new in (
        ("FLOPs", before.flops, now.flops),
        ("transcendental operations", before.transcendentals, now.transcendentals),
    ):
        if old is not None and new is not None and old != new:
            said.append(f"{number(abs(new - old))} {_more(new - old)} {name}")
    return said


def _more(amount: float) -> str:
    return "more" if amount > 0 else "less"
