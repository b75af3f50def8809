"""Arguments whose memory holds a result on one side alone: donated, as ``donate_argnums`` says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from lazynb.compare.change import Change
from lazynb.compare.matching import Matching
from lazynb.compare.side import Side
from lazynb.units import all_of

if TYPE_CHECKING:
    from lazynb.view.inspection.schema import Program

_ALIASES = re.compile(r"input_output_alias=\{(.*?\)) \}")
_PARAMETER = re.compile(r"\((\d+), \{")


def donation_changes(matching: Matching) -> Iterator[Change]:
    """That an argument is donated now, or no more; nothing of those that one side has alone, and nothing
    where it is not known of a side what it donates."""
    old, new = _donated(matching.before), _donated(matching.now)
    if old is None or new is None:
        return
    gained, lost = _alone(new, old, matching.before_of), _alone(old, new, matching.now_of)
    for names, what in ((gained, "donated: {its} memory holds a result"), (lost, "donated no more")):
        if names:
            are, its = ("is", "its") if len(names) == 1 else ("are", "their")
            text = f"{all_of([f'`{name}`' for name in names])} {are} {what.format(its=its)}"
            yield Change("donation", (), text, amount=len(names))


_Donated = dict[str, int | None]
"""By name of an argument, its node; None if it has none."""


def _alone(own: _Donated, other: _Donated, partner_of: Mapping[int, int]) -> list[str]:
    """The arguments that the other side has too, and does not donate."""
    nodes = set(other.values())
    return [
        name
        for name, node in own.items()
        if (name not in other if node is None else node in partner_of and partner_of[node] not in nodes)
    ]


def _donated(side: Side) -> _Donated | None:
    """The arguments that are donated; None if it is not known of a program."""
    node_of = {name: n["id"] for n in reversed(side.nodes) if n["kind"] == "input" for name in n["names"]}
    donated: _Donated = {}
    for program in side.data["programs"]:
        names = _donated_of(side, program)
        if names is None:
            return None
        donated.update((name, node_of.get(name)) for name in names)
    return donated


def _donated_of(side: Side, program: Program) -> list[str] | None:
    memory = program["memory"]
    if memory is not None and memory["buffers"]:
        return [b["variables"][0] for b in memory["buffers"] if b["donated"] and b["variables"]]
    # Of a program that was given compiled no buffers are known. The first line of its text has the aliases,
    # if it is not cut, and its inputs are its parameters, in their order
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
