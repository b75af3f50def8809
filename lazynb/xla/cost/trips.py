"""How often a loop turns: what XLA found out, or what is counted from the module."""

from __future__ import annotations

import math
import re

from lazynb.xla.hlo.module import Computation, Instruction, Module
from lazynb.xla.hlo.opcodes import Trait, opcodes_of


def trip_count(module: Module, loop: Instruction) -> int | None:
    """Iterations of a ``while``; returns None if that is not known.

    XLA:TPU does not write them down; they are counted where the loop turns while a number that begins and
    grows by constants is less than a third one.
    """
    match = _TRIPS.search(loop.text)
    if match is not None:
        return int(match[1])
    try:
        return _counted(module, loop)
    except _NotCounted:
        return None


class _NotCounted(Exception):
    """It is no loop that counts."""


def _counted(module: Module, loop: Instruction) -> int:
    around = module.computations[loop.computation]
    condition, body = (
        module.computations[loop.attribute(name).lstrip("%")] for name in ("condition", "body")
    )
    test = _behind(condition, condition.root.name)
    if test.opcode != "compare" or test.attribute("direction") != "LT":
        raise _NotCounted
    number = _carried(condition, test.operands[0])
    limit = _constant(condition, test.operands[1])
    first = _constant(around, _element(around, loop.operands[0], number))
    grown = _behind(body, _element(body, body.root.name, number))
    if grown.opcode != "add" or _carried(body, grown.operands[0]) != number:
        raise _NotCounted
    step = _constant(body, grown.operands[1])
    if step <= 0:
        raise _NotCounted
    return max(0, math.ceil((limit - first) / step))


def _behind(computation: Computation, name: str) -> Instruction:
    """What has the value of ``name``, behind copies of it."""
    instruction = computation.instructions[name]
    while instruction.opcode in _COPYING:
        instruction = computation.instructions[instruction.operands[0]]
    return instruction


def _carried(computation: Computation, name: str) -> int:
    """Which of the values that a loop carries ``name`` is."""
    element = _behind(computation, name)
    if element.opcode != "get-tuple-element":
        raise _NotCounted
    if computation.instructions[element.operands[0]].opcode != "parameter":
        raise _NotCounted
    return int(element.attribute("index"))


def _element(computation: Computation, name: str, number: int) -> str:
    """What a tuple has at place ``number``."""
    whole = computation.instructions[name]
    if whole.opcode != "tuple":
        raise _NotCounted
    return whole.operands[number]


def _constant(computation: Computation, name: str) -> int:
    match = _NUMBER.search(_behind(computation, name).text)
    if match is None:
        raise _NotCounted
    return int(match[1])


_COPYING = opcodes_of(Trait.SAME_VALUES)
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_NUMBER = re.compile(r" = [su]\d+\[\]\S* constant\((-?\d+)\)")
