"""Differences in donated arguments and in peak memory, with the values that take more or less of the peak."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from lazynb.compare.differences.compilation_match import CompilationChange, CompilationMatch, LinePair
from lazynb.compare.differences.compilation_side import CompilationSide
from lazynb.compare.differences.operation_changes import changed_roles
from lazynb.user_code.text_format import join_words, size, size_difference

if TYPE_CHECKING:
    from lazynb.xla.inspection_schema import Program
if TYPE_CHECKING:
    from lazynb.xla.inspection_schema import Buffer, Memory

# ---- Donated arguments (``donate_argnums``) ---------------------------------------------------------------

_ALIASES = re.compile(r"input_output_alias=\{(.*?\)) \}")
_PARAMETER = re.compile(r"\((\d+), \{")


def donation_changes(matching: CompilationMatch) -> Iterator[CompilationChange]:
    """Yields arguments that are donated on one side only.

    Arguments that exist on one side only do not count. Yields nothing if the donations of a side are unknown.
    """
    old, new = _donated(matching.before), _donated(matching.now)
    if old is None or new is None:
        return
    gained, lost = _alone(new, old, matching.before_of), _alone(old, new, matching.now_of)
    for names, what in ((gained, "donated: {its} memory holds a result"), (lost, "donated no more")):
        if names:
            are, its = ("is", "its") if len(names) == 1 else ("are", "their")
            text = f"{join_words([f'`{name}`' for name in names])} {are} {what.format(its=its)}"
            yield CompilationChange("donation", (), text, amount=len(names))


_Donated = dict[str, int | None]
"""Name of an argument → its node; None if it has no node."""


def _alone(own: _Donated, other: _Donated, partner_of: Mapping[int, int]) -> list[str]:
    """The arguments that both sides have and the other side does not donate."""
    nodes = set(other.values())
    return [
        name
        for name, node in own.items()
        if (name not in other if node is None else node in partner_of and partner_of[node] not in nodes)
    ]


def _donated(side: CompilationSide) -> _Donated | None:
    """The donated arguments; None if they are unknown for a program."""
    node_of = {name: n["id"] for n in reversed(side.nodes) if n["kind"] == "input" for name in n["names"]}
    donated: _Donated = {}
    for program in side.data["programs"]:
        names = _donated_of(side, program)
        if names is None:
            return None
        donated.update((name, node_of.get(name)) for name in names)
    return donated


def _donated_of(side: CompilationSide, program: Program) -> list[str] | None:
    memory = program["memory"]
    if memory is not None and memory["buffers"]:
        return [b["variables"][0] for b in memory["buffers"] if b["donated"] and b["variables"]]
    # An imported compiled program has no buffer records. The first line of its text has the aliases, unless
    # truncated, and its inputs are its parameters, in order
    lines = program["hlo"]["after"]["lines"]
    if not lines or len(side.data["programs"]) > 1:
        return None
    aliases = _ALIASES.search(lines[0]["text"])
    if aliases is None:
        return None if "input_output_alias=" in lines[0]["text"] else []
    inputs = [node["names"] for node in side.nodes if node["kind"] == "input"]
    return [
        inputs[number][0] if number < len(inputs) and inputs[number] else f"argument {number}"
        for number in dict.fromkeys(map(int, _PARAMETER.findall(aliases[1])))
    ]


_HOLDERS = 3
_LITTLE = 0.01  # share of the change of the peak below which a value is not named


class _Holder(NamedTuple):
    """A value in memory at the peak: its name, its line and its bytes."""

    name: str
    pair: LinePair | None
    bytes: int


def peak(side: CompilationSide) -> Memory | None:
    """Memory of the program with the highest peak on a side; None if the peak of any program is unknown."""
    known = [program["memory"] for program in side.data["programs"]]
    measured = [memory for memory in known if memory is not None and memory["peak_bytes"] is not None]
    if len(measured) < len(known):
        return None
    return max(measured, key=lambda memory: memory["peak_bytes"] or 0, default=None)


def memory_changes(matching: CompilationMatch) -> Iterator[CompilationChange]:
    """Yields a change of the peak, with the values that take more or less of it.

    Yields nothing if the peak of a side is unknown.
    """
    old, new = peak(matching.before), peak(matching.now)
    if old is None or new is None:
        return
    before, now = old["peak_bytes"] or 0, new["peak_bytes"] or 0
    if before == now:
        return
    first, second = _held(matching, old, False), _held(matching, new, True)
    _cancel(first, second)
    if now - before == _bytes_of_numbers(matching, first, second):
        return  # told where the numbers are taken
    least, grows = _LITTLE * abs(now - before), now > before
    both = {**first, **second}
    named: list[str] = []
    lines: list[LinePair | None] = []
    for key, amount in _amounts(second, first):
        if (amount > 0) == grows and abs(amount) >= least and len(named) < _HOLDERS:
            named.append(f"{both[key].name} takes {size(abs(amount))} {'more' if grows else 'less'} of it")
            lines.append(both[key].pair)
    pairs = tuple(dict.fromkeys(pair for pair in lines if pair is not None))
    text = f"peak memory is {size_difference(before, now)}"
    yield CompilationChange("memory", pairs, "; ".join([text, *named]), amount=now - before)


def _bytes_of_numbers(
    matching: CompilationMatch, first: Mapping[Hashable, _Holder], second: Mapping[Hashable, _Holder]
) -> int:
    """The bytes of the numbers that are arguments now only, minus those of arguments before only."""
    pairs = [
        pair
        for node in matching.now.nodes
        if (partner := matching.before_of.get(node["id"])) is not None
        for pair in changed_roles(matching, matching.before.nodes[partner], node)
    ]
    before = {(matching.before.nodes[old]["value"],) for old, _ in pairs}
    now = {(matching.now.nodes[new]["value"],) for _, new in pairs}
    more = sum(second[key].bytes for key in now if key in second)
    return more - sum(first[key].bytes for key in before if key in first)


def _cancel(first: dict[Hashable, _Holder], second: dict[Hashable, _Holder]) -> None:
    """Removes pairs of equally large values that exist on one side each: one replaced the other."""
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
    """For each value, its bytes minus its bytes on the other side, the largest difference first."""
    amounts = {
        key: (own[key].bytes if key in own else 0) - (other[key].bytes if key in other else 0)
        for key in (*own, *other)
    }
    return sorted(
        ((key, amount) for key, amount in amounts.items() if amount), key=lambda each: -abs(each[1])
    )


def _held(matching: CompilationMatch, memory: Memory, is_now: bool) -> dict[Hashable, _Holder]:
    """The values in device memory at the peak; each memory location counts once. On-chip memory, such as VMEM
    on a TPU, is not part of the peak."""
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


def _identity(
    matching: CompilationMatch, buffer: Buffer, is_now: bool
) -> tuple[Hashable, str, LinePair | None]:
    """Identity of a value that both sides share, its name, and its line."""
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
    """Whether the name of an argument is a number from the code, not a variable or part of one."""
    try:
        complex(name)
    except ValueError:
        return name in ("True", "False")
    return True


def _cluster_nodes(side: CompilationSide, cluster: int | None) -> list[int]:
    return [] if cluster is None else list(side.data["clusters"][cluster]["nodes"])
