"""Why some kernels are more on one side: what the inspection says of the boundaries between them, and of what
became of their operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from lazynb.compare.change import Reason
from lazynb.compare.figures import Kernel
from lazynb.compare.groups import Group
from lazynb.compare.matching import Matching
from lazynb.compare.side import Side

if TYPE_CHECKING:
    from lazynb.view.inspection.schema import Boundary

_ALIVE = ("kept-alive", "returned")
_SAY_NOTHING = ("unknown", "refuted", "silent", "no-rules", "result")
_MOST = 3


def reasons(group: Group, matching: Matching) -> tuple[Reason, ...]:
    """Why one side of a group has more kernels; nothing where no rule and no compiler says it."""
    more = len(group.now) - len(group.before)
    found: list[Reason] = []
    for is_now in [side for side, counts in ((True, more >= 0), (False, more <= 0)) if counts]:
        cut, whole = (group.now, group.before) if is_now else (group.before, group.now)
        found += _cuts(cut, whole, matching, is_now) or _results(cut, matching, is_now)
    if not found and not (group.now and group.before):
        found += _fates(group, matching)
    return tuple(dict.fromkeys(found))[:_MOST]


def _cuts(
    cut: tuple[Kernel, ...], whole: tuple[Kernel, ...], matching: Matching, is_now: bool
) -> list[Reason]:
    """The reasons of boundaries between kernels of one side, of which the other side has both ends in one
    kernel. First those that the other side cannot have: a value is alive that is not alive there."""
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


def _results(kernels: tuple[Kernel, ...], matching: Matching, is_now: bool) -> list[Reason]:
    """That kernels give what is a result on one side alone."""
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
    """Whether one kernel of the other side does work of both ends, or of the one of which it has any."""
    works = [{partner[node] for node in end.nodes if node in partner} for end in ends if end is not None]
    known = [work for work in works if work]
    return bool(known) and any(all(kernel.nodes & work for work in known) for kernel in whole)


def _only_here(producer: int, side: Side, other: Side, partner: Mapping[int, int]) -> bool:
    """Whether a result of a kernel is one more of the program's than on the other side, where it is none."""
    if _results_of(side) <= _results_of(other):
        return False
    nodes = [node for node in side.data["clusters"][producer]["nodes"] if side.nodes[node]["output"]]
    return any(node in partner and not other.nodes[partner[node]]["output"] for node in nodes)


def _results_of(side: Side) -> int:
    return sum(node["output"] for node in side.nodes if node["kind"] == "op")


def _phrase(boundary: Boundary, side: Side) -> str:
    """The reason of a boundary in a phrase that stands behind "because"."""
    names = " and ".join(f"`{name}`" for name in boundary["variables"]) or _result(boundary["producer"], side)
    if boundary["code"] == "returned" and names:
        return f"the function returns {names}"
    if boundary["code"] == "kept-alive" and names:
        return f"{names} {'are' if ' and ' in names else 'is'} alive"
    return boundary["text"]


def _result(producer: int, side: Side) -> str:
    """The result that a kernel gives, in words; empty if that is not one."""
    nodes = [side.nodes[node] for node in side.data["clusters"][producer]["nodes"]]
    given = [node for node in nodes if node["output"]]
    if len(given) != 1:
        return ""
    names = given[0]["names"]
    return f"`{names[0]}`" if names else f"what `{given[0]['name']}` gives"


def _fates(group: Group, matching: Matching) -> list[Reason]:
    """What became of the operations of kernels that the other side has not."""
    is_now = not group.now  # the side on which there is no kernel
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
