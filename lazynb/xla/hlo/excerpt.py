"""Excerpts: a part of a module as a module of its own."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

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
    body = [*_arguments(computation, kept), *map(_line, kept)]
    texts = [_written(module.computations[name]) for name in _called(module, kept)]
    shapes = ", ".join(module.by_name[name].shape for name in results)
    names = ", ".join(f"%{name}" for name in results)
    body.append(f"ROOT %results_ = ({shapes}) tuple({names})")
    entry = "\n".join(["ENTRY %excerpt_ {", *(f"  {line}" for line in body), "}"])
    return "\n\n".join(["HloModule excerpt", *texts, entry]) + "\n"


def _arguments(computation: Computation, kept: Sequence[Instruction]) -> Iterator[str]:
    """A parameter for each value from outside; a constant stays one."""
    inside = {each.name for each in kept}
    read = dict.fromkeys(name for each in kept for name in each.operands if name not in inside)
    number = 0
    for name in read:
        source = computation.instructions[name]
        if source.opcode == "constant":
            yield _line(source)
            continue
        if source.shape.startswith(("(", "token")):
            raise NoExcerpt("it reads a tuple as a whole")
        known = f', metadata={{op_name="{source.scope}"}}' if source.opcode == "parameter" else ""
        yield f"%{name} = {source.shape} parameter({number}){known}"
        number += 1


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
    return "\n".join([f"%{computation.name} {{", *lines, "}"])


def _line(instruction: Instruction) -> str:
    return instruction.text.removeprefix("ROOT ")
