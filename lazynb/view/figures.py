"""The kernels and bytes of a compilation, in words."""

from __future__ import annotations

from collections.abc import Callable

from lazynb.execute.records import plural
from lazynb.session.side_by_side import Figure, Made, made
from lazynb.units import size
from lazynb.xla.compilation import Compilation


def kernels(one: Made) -> str:
    """How many kernels there are, and how often they run if that is another figure."""
    if one.runs == one.kernels:
        return f"{one.kernels:,}"
    runs = "how often they run is not known" if one.runs is None else plural(one.runs, "run")
    return f"{one.kernels:,} ({runs})"


def with_turns(once: Figure, in_all: Figure | None, written: Callable[[Figure], str]) -> str:
    """A figure with each kernel as often as it runs, and once if that is another."""
    if once == in_all:
        return written(once)
    if in_all is None:
        return f"{written(once)}, each kernel once"
    return f"{written(in_all)} ({written(once)} with each kernel once)"


def figures(compilation: Compilation) -> str:
    """The kernels of a compilation and the bytes that go through memory."""
    one = made(compilation)
    count, _, turns = kernels(one).partition(" ")
    named = f"{count} kernel{'s' * (one.kernels != 1)}{turns and f' {turns}'}"
    return f"{named}, {with_turns(one.moved, one.moved_in_all, size)} through memory"
