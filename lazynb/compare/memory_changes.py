"""The peak of memory, and who holds more of it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from lazynb.compare.change import Change
from lazynb.compare.matching import LinePair, Matching
from lazynb.compare.side import Side
from lazynb.units import apart, size

if TYPE_CHECKING:
    from lazynb.view.inspection.schema import Buffer, Memory

_HOLDERS = 3
_LITTLE = 0.01  # of what the peak changed by: a value that takes less of it is not named


class _Holder(NamedTuple):
    """A value that lies in memory at the peak: what it is called, its line, and the bytes that it takes."""

    name: str
    pair: LinePair | None
    bytes: int


def peak(side: Side) -> Memory | None:
    """The memory of the program of a side that takes most; None if it is not known of one of them, which may
    be that one."""
    known = [program["memory"] for program in side.data["programs"]]
    measured = [memory for memory in known if memory is not None and memory["peak_bytes"] is not None]
    if len(measured) < len(known):
        return None
    return max(measured, key=lambda memory: memory["peak_bytes"] or 0, default=None)


def memory_changes(matching: Matching) -> Iterator[Change]:
    """That the peak is another, with the values that take more or less of it; nothing if it is not known of
    both sides."""
    old, new = peak(matching.before), peak(matching.now)
    if old is None or new is None:
        return
    before, now = old["peak_bytes"] or 0, new["peak_bytes"] or 0
    if before == now:
        return
    first, second = _held(matching, old, False), _held(matching, new, True)
    _cancel(first, second)
    least, grows = _LITTLE * abs(now - before), now > before
    both = {**first, **second}
    named: list[str] = []
    lines: list[LinePair | None] = []
    for key, amount in _amounts(second, first):
        if (amount > 0) == grows and abs(amount) >= least and len(named) < _HOLDERS:
            named.append(f"{both[key].name} takes {size(abs(amount))} {'more' if grows else 'less'} of it")
            lines.append(both[key].pair)
    pairs = tuple(dict.fromkeys(pair for pair in lines if pair is not None))
    text = f"peak memory is {apart(before, now)}"
    yield Change("memory", pairs, "; ".join([text, *named]), amount=now - before)


def _cancel(first: dict[Hashable, _Holder], second: dict[Hashable, _Holder]) -> None:
    """Leaves out values of only one side, as long as the other has one of the same size: it came in the
    place of it."""
    for key in [key for key in first if key not in second]:
        same = next(
            (other for other in second if other not in first and second[other].bytes == first[key].bytes),
            None,
        )
        if same is not None:
            del first[key], second[same]


def _amounts(
    own: Mapping[Hashable, _Holder], other: Mapping[Hashable, _Holder]
) -> list[tuple[Hashable, int]]:
    """By value, how many bytes more it takes than on the other side, the largest difference first."""
    amounts = {
        key: (own[key].bytes if key in own else 0) - (other[key].bytes if key in other else 0)
        for key in (*own, *other)
    }
    return sorted(
        ((key, amount) for key, amount in amounts.items() if amount), key=lambda each: -abs(each[1])
    )


def _held(matching: Matching, memory: Memory, is_now: bool) -> dict[Hashable, _Holder]:
    """The values in the device's own memory at the peak, those that lie in the same place once. The peak is
    of that memory alone: what a TPU holds in VMEM is no part of it."""
    step = memory["peak_step"]
    if step is None:
        return {}
    places: set[tuple[int, int]] = set()
    held: dict[Hashable, _Holder] = {}
    for buffer in memory["buffers"]:
        place = buffer["allocation"], buffer["offset"]
        alive = buffer["start"] <= step <= buffer["end"] and buffer["kind"] != "constant"
        if buffer["space"] or not alive or place in places:
            continue
        places.add(place)
        key, name, pair = _identity(matching, buffer, is_now)
        known = held.get(key)
        held[key] = _Holder(name, pair, buffer["bytes"] + (known.bytes if known is not None else 0))
    return held


def _identity(matching: Matching, buffer: Buffer, is_now: bool) -> tuple[Hashable, str, LinePair | None]:
    """Who a value is, on both sides; what it is called; and its line."""
    side = matching.now if is_now else matching.before
    nodes = buffer["nodes"] or _cluster_nodes(side, buffer["cluster"])
    if buffer["kind"] == "argument" and buffer["variables"]:
        name = buffer["variables"][0]
        what = f"the number {name}" if _is_number(name) else f"the argument `{name}`"
        return tuple(buffer["variables"]), what, None
    if not nodes:
        return (buffer["kind"], buffer["shape"]), f"`{buffer['name']}`", None
    node = max(nodes)
    line = side.lines[node]
    pair = None if line is None else matching.of_now(line) if is_now else matching.of_before(line)
    shared = node if is_now else matching.now_of.get(node, ("before", node))
    names = buffer["variables"]
    name = f"`{names[0]}`" if names else f"what `{side.nodes[node]['name']}` gives"
    return shared, name, pair


def _is_number(name: str) -> bool:
    """Whether what stands for an argument is a number of the code, and no variable or part of one."""
    try:
        complex(name)
    except ValueError:
        return name in ("True", "False")
    return True


def _cluster_nodes(side: Side, cluster: int | None) -> list[int]:
    return [] if cluster is None else list(side.data["clusters"][cluster]["nodes"])
