"""Differences between kernels: their number, how work is divided among them, and their cost, with reasons."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from lazynb.compare.differences.compilation_match import CompilationChange, CompilationMatch, LinePair, Reason
from lazynb.compare.differences.compilation_side import CompilationSide, Kernel, KernelFigures, MeasuredTime
from lazynb.compare.differences.kernel_groups import KernelGroup
from lazynb.user_code.text_format import duration_range, number, short_duration, size

if TYPE_CHECKING:
    from lazynb.xla.inspection_schema import Boundary

# ---- Why one side has more kernels ------------------------------------------------------------------------
# The reasons come from the inspection: the boundaries between kernels, and the fates of operations.

_ALIVE = ("kept-alive", "returned")
_SAY_NOTHING = ("unknown", "refuted", "silent", "no-rules", "result")
_MOST = 3


def reasons(group: KernelGroup, matching: CompilationMatch) -> tuple[Reason, ...]:
    """Reasons why one side of a group has more kernels; empty if no rule and no compiler output gives one."""
    more = len(group.now) - len(group.before)
    found: list[Reason] = []
    for is_now in [side for side, counts in ((True, more >= 0), (False, more <= 0)) if counts]:
        cut, whole = (group.now, group.before) if is_now else (group.before, group.now)
        found += _cuts(cut, whole, matching, is_now) or _results(cut, matching, is_now)
    if not found and not (group.now and group.before):
        found += _fates(group, matching)
    return tuple(dict.fromkeys(found))[:_MOST]


def _cuts(
    cut: tuple[Kernel, ...], whole: tuple[Kernel, ...], matching: CompilationMatch, is_now: bool
) -> list[Reason]:
    """Reasons of boundaries between two kernels of one side that are one kernel on the other side. Reasons
    that cannot apply to the other side come first: a value that is alive on one side only."""
    side, other = (matching.now, matching.before) if is_now else (matching.before, matching.now)
    partner = matching.before_of if is_now else matching.now_of
    kernels = {kernel.id: kernel for kernel in cut}
    found: list[tuple[tuple[bool, int], Reason]] = []
    for boundary in side.boundaries:
        ends = kernels.get(boundary["producer"]), kernels.get(_number(boundary["consumer"]))
        if None in ends or boundary["code"] in _SAY_NOTHING or boundary["label"] == "not known":
            continue
        if not _together(ends, whole, partner):
            continue
        alive = boundary["code"] in _ALIVE and _only_here(boundary["producer"], side, other, partner)
        reason = Reason(
            _phrase(boundary, side), boundary["label"], is_now, boundary["said"], boundary["verdict"]
        )
        found.append(((not alive, -boundary["bytes"]), reason))
    return [reason for _, reason in sorted(found, key=lambda each: each[0])]


def _number(consumer: int | None) -> int:
    return -1 if consumer is None else consumer


def _results(kernels: tuple[Kernel, ...], matching: CompilationMatch, is_now: bool) -> list[Reason]:
    """Reasons for kernels that write a value that is a program result on one side only."""
    side, other = (matching.now, matching.before) if is_now else (matching.before, matching.now)
    partner = matching.before_of if is_now else matching.now_of
    own = {kernel.id for kernel in kernels}
    found = []
    for boundary in side.boundaries:
        producer = boundary["producer"]
        is_result = boundary["consumer"] is None and producer in own
        if is_result and _only_here(producer, side, other, partner):
            said = _result(producer, side) or "a value"
            found.append(Reason(f"{said} is a result of the program", boundary["label"], is_now))
    return found


def _together(ends: Iterable[Kernel | None], whole: Iterable[Kernel], partner: Mapping[int, int]) -> bool:
    """Whether one kernel of the other side does work of both ends, ignoring an end without known work."""
    works = [{partner[node] for node in end.nodes if node in partner} for end in ends if end is not None]
    known = [work for work in works if work]
    return bool(known) and any(all(kernel.nodes & work for work in known) for kernel in whole)


def _only_here(
    producer: int, side: CompilationSide, other: CompilationSide, partner: Mapping[int, int]
) -> bool:
    """Whether a kernel writes an additional result of the program, which the other side does not return."""
    if _results_of(side) <= _results_of(other):
        return False
    nodes = [node for node in side.data["clusters"][producer]["nodes"] if side.nodes[node]["output"]]
    return any(node in partner and not other.nodes[partner[node]]["output"] for node in nodes)


def _results_of(side: CompilationSide) -> int:
    return sum(node["output"] for node in side.nodes if node["kind"] == "op")


def _phrase(boundary: Boundary, side: CompilationSide) -> str:
    """The reason of a boundary, as a phrase that follows "because"."""
    names = " and ".join(f"`{name}`" for name in boundary["variables"]) or _result(boundary["producer"], side)
    if boundary["code"] == "returned" and names:
        return f"the function returns {names}"
    if boundary["code"] == "kept-alive" and names:
        return f"{names} {'are' if ' and ' in names else 'is'} alive"
    return boundary["text"]


def _result(producer: int, side: CompilationSide) -> str:
    """A phrase for the single program result that a kernel writes; empty if there is not exactly one."""
    nodes = [side.nodes[node] for node in side.data["clusters"][producer]["nodes"]]
    given = [node for node in nodes if node["output"]]
    if len(given) != 1:
        return ""
    names = given[0]["names"]
    return f"`{names[0]}`" if names else f"what `{given[0]['name']}` gives"


def _fates(group: KernelGroup, matching: CompilationMatch) -> list[Reason]:
    """Fates of operations whose kernels the other side lacks."""
    is_now = not group.now  # the side that has no kernel
    side = matching.now if is_now else matching.before
    partner = matching.now_of if is_now else matching.before_of
    nodes = sorted({node for kernel in (*group.before, *group.now) for node in kernel.nodes})
    found = []
    for node in nodes:
        fate = side.fates.get(partner.get(node, -1))
        if fate is not None and fate["kind"] in ("folded", "merged", "cancelled"):
            name = side.nodes[partner[node]]["name"]
            found.append(Reason(f"`{name}`: {fate['text']}", fate["label"], is_now))
    return found


_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def kernel_changes(found: Sequence[KernelGroup], matching: CompilationMatch) -> Iterator[CompilationChange]:
    """Differences between the kernels of both sides: at most one change for each group, one for each loop
    whose trip count changed, and one for each group whose time changed."""
    turned: dict[tuple[LinePair, ...], list[KernelGroup]] = defaultdict(list)
    for group in found:
        before, now = group.figures
        if _only_turns(group):
            turned[group.lines].append(group)
        elif said := [*_divided(group), *_library(group), *_iteration_change([group]), *_costs(group)]:
            many = len(group.before) != 1 or len(group.now) != 1
            why = reasons(group, matching) if many else ()
            amount = now.written - before.written
            yield CompilationChange(
                "kernels" if many else "kernel", group.lines, "; ".join(said), why, before, now, amount
            )
        yield from _timed(group, before, now)
    for lines, loop in turned.items():
        before = KernelFigures.of([kernel for group in loop for kernel in group.before])
        now = KernelFigures.of([kernel for group in loop for kernel in group.now])
        amount = now.written - before.written
        yield CompilationChange("kernel", lines, "; ".join(_iteration_change(loop)), (), before, now, amount)


def _per_run(kernel: Kernel) -> Kernel:
    return dataclasses.replace(kernel, id=0, label="", nodes=frozenset(), times=1, time=None)


def _only_turns(group: KernelGroup) -> bool:
    """Whether the only difference is how often the kernel runs."""
    if len(group.before) != 1 or len(group.now) != 1:
        return False
    [old], [new] = group.before, group.now
    return old.times != new.times and _per_run(old) == _per_run(new)


def _iteration_change(loop: Sequence[KernelGroup]) -> list[str]:
    """A phrase on how often the kernels run, taken from the kernel that moves most bytes."""
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


def _timed(group: KernelGroup, before: KernelFigures, now: KernelFigures) -> Iterator[CompilationChange]:
    """A change in measured time, if both sides were measured and every run differs."""
    old, new = before.seconds, now.seconds
    if old is None or new is None or not old.differs(new):
        return
    text = f"takes {_spread(new)} instead of {_spread(old)}"
    yield CompilationChange("time", group.lines, text, (), before, now, new.median - old.median)


def _spread(seconds: MeasuredTime) -> str:
    return f"{short_duration(seconds.median)} (runs of {duration_range(seconds.low, seconds.high)})"


def count(kernels: int) -> str:
    """``two kernels``."""
    word = _WORDS[kernels] if kernels < len(_WORDS) else f"{kernels:,}"
    return f"{word} kernel{'s' * (kernels != 1)}"


def _divided(group: KernelGroup) -> list[str]:
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


def _library(group: KernelGroup) -> list[str]:
    """A phrase on the libraries that do the work, if they differ."""
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


def _costs(group: KernelGroup) -> list[str]:
    """Phrases on differences in bytes and operations; for a pair of single kernels, per execution."""
    before, now = group.figures
    if len(group.before) == len(group.now) == 1:
        before, now = (
            KernelFigures.of([_per_run(group.before[0])]),
            KernelFigures.of([_per_run(group.now[0])]),
        )
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
"""Bytes. A program's numbers are one array, and each kernel that reads one of them reads the whole array."""
_LEAST = 1e-4
"""Share of the operations. A kernel that also computes with Python's numbers has a few more."""


def _more(amount: float) -> str:
    return "more" if amount > 0 else "less"
