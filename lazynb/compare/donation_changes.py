"""Arguments whose memory holds a result on one side alone: donated, as ``donate_argnums`` says."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING

from lazynb.compare.change import Change
from lazynb.compare.matching import Matching
from lazynb.compare.side import Side

if TYPE_CHECKING:
    from lazynb.view.inspection.schema import Program

_ALIASES = re.compile(r"input_output_alias=\{(.*?\)) \}")
_PARAMETER = re.compile(r"\((\d+), \{")


def donation_changes(matching: Matching) -> Iterator[Change]:
    """That an argument is donated now, or no more; nothing of those that one side has alone."""
    old, new = _donated(matching.before), _donated(matching.now)
    first = {_identity(matching, name, False): name for name in old}
    second = {_identity(matching, name, True): name for name in new}
    gained = [name for key, name in second.items() if key not in first and _is_both(matching, name, True)]
    lost = [name for key, name in first.items() if key not in second and _is_both(matching, name, False)]
    for names, what in ((gained, "donated: {its} memory holds a result"), (lost, "donated no more")):
        if names:
            are, its = ("is", "its") if len(names) == 1 else ("are", "their")
            text = f"{_listed(names)} {are} {what.format(its=its)}"
            yield Change("donation", (), text, amount=len(names))


def _donated(side: Side) -> list[str]:
    """The names of the arguments that are donated."""
    return [name for program in side.data["programs"] for name in _donated_of(side, program)]


def _donated_of(side: Side, program: Program) -> Iterator[str]:
    memory = program["memory"]
    if memory is not None and memory["buffers"]:
        yield from (b["variables"][0] for b in memory["buffers"] if b["donated"] and b["variables"])
        return
    # Of a program that was given compiled no buffers are known. The first line of its text has the aliases,
    # and its inputs are its parameters, in their order
    lines = program["hlo"]["after"]["lines"]
    aliases = _ALIASES.search(lines[0]["text"]) if lines else None
    if aliases is None or len(side.data["programs"]) > 1:
        return
    inputs = [node["names"] for node in side.nodes if node["kind"] == "input"]
    for number in dict.fromkeys(map(int, _PARAMETER.findall(aliases[1]))):
        yield inputs[number][0] if number < len(inputs) and inputs[number] else f"argument {number}"


def _identity(matching: Matching, name: str, is_now: bool) -> Hashable:
    """Which argument it is, on both sides."""
    node = _node(matching.now if is_now else matching.before, name)
    if node is None:
        return name
    return node if is_now else matching.now_of.get(node, name)


def _is_both(matching: Matching, name: str, is_now: bool) -> bool:
    """Whether both sides have an argument; one that is not among the nodes is nowhere else known."""
    node = _node(matching.now if is_now else matching.before, name)
    return node is None or node in (matching.before_of if is_now else matching.now_of)


def _node(side: Side, name: str) -> int | None:
    return next((n["id"] for n in side.nodes if n["kind"] == "input" and name in n["names"]), None)


def _listed(names: list[str]) -> str:
    quoted = [f"`{name}`" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"
