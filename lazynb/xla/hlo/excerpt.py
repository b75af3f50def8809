"""Excerpts: a part of a module as a module of its own."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from lazynb.xla.hlo.module import Computation, Instruction, Module


class NoExcerpt(ValueError):
    """The part cannot stand alone; the message says why."""


def excerpt(module: Module, wanted: Collection[str], results: Sequence[str]) -> str:
    """The text of a module that computes ``results`` by the instructions ``wanted``; whatever else they read
    is an argument.

    Arguments:
      wanted, results: names of instructions of one computation.

    Raises:
      NoExcerpt: an argument would be a tuple, or the instructions are of several computations.
    """
    computations = {module.by_name[name].computation for name in [*wanted, *results]}
    if len(computations) != 1:
        raise NoExcerpt("they are parts of different loops or branches")
    computation = module.computations[computations.pop()]
    kept = [each for each in computation.instructions.values() if each.name in wanted]
    arguments, constants = _outside(computation, kept)
    body = [*map(_argument, range(len(arguments)), arguments), *map(_line, [*constants, *kept])]
    texts = [_written(module.computations[name]) for name in _called(module, kept)]
    shapes = ", ".join(module.by_name[name].shape for name in results)
    names = ", ".join(f"%{name}" for name in results)
    body.append(f"ROOT %results_ = ({shapes}) tuple({names})")
    head = _head("excerpt_", arguments, f"({shapes})")
    entry = "\n".join([f"ENTRY {head}", *(f"  {line}" for line in body), "}"])
    return _PART.sub("_part_", "\n\n".join(["HloModule excerpt", *texts, entry]) + "\n")


_PART = re.compile(r"(?<=[\w.\-])#(?=\d)")  # ``%sort.1#1``, as newer XLA calls a part of a result


def _outside(
    computation: Computation, kept: Sequence[Instruction]
) -> tuple[list[Instruction], list[Instruction]]:
    """What instructions read of others: values that become arguments, and constants."""
    inside = {each.name for each in kept}
    names = dict.fromkeys(name for each in kept for name in each.operands if name not in inside)
    read = [computation.instructions[name] for name in names]
    constants = [each for each in read if each.opcode == "constant"]
    values = [each for each in read if each.opcode != "constant"]
    if any(each.shape.startswith(("(", "token")) for each in values):
        raise NoExcerpt("it reads a tuple as a whole")
    return values, constants


def _argument(number: int, value: Instruction) -> str:
    known = f', metadata={{op_name="{value.scope}"}}' if value.opcode == "parameter" else ""
    return f"%{value.name} = {value.shape} parameter({number}){known}"


def _head(name: str, parameters: Sequence[Instruction], shape: str) -> str:
    written = ", ".join(f"{each.name}: {each.shape}" for each in parameters)
    return f"%{name} ({written}) -> {shape} {{"


def _called(module: Module, kept: Sequence[Instruction]) -> list[str]:
    """The computations that instructions call, callees first."""
    found: dict[str, None] = {}
    waiting = [name for each in kept for name in each.calls]
    while waiting:
        name = waiting.pop()
        found.pop(name, None)
        found[name] = None
        waiting += [inner for each in module.computations[name].instructions.values() for inner in each.calls]
    return list(reversed(found))


def _written(computation: Computation) -> str:
    lines = [f"  {each.text}" for each in computation.instructions.values()]
    head = _head(computation.name, computation.parameters, computation.root.shape)
    return "\n".join([head, *lines, "}"])


def _line(instruction: Instruction) -> str:
    return instruction.text.removeprefix("ROOT ")
