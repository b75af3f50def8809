"""The HLO that JAX made of each operation, in a form that two programs can share."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from lazynb.xla.hlo.module import Instruction, Module, parse

if TYPE_CHECKING:
    from lazynb.view.inspection.schema import Inspection, Program

_NAME = re.compile(r"\s*(?:ROOT )?%?([\w.\-]+) = ")
_NUMBER = re.compile(r" constant\(([^(){}]+)\)")
_LAYOUT = re.compile(r"(?<=\])\{[^}]*\}")
_SAYS_WHAT = re.compile(
    r"\b(?:(?!num_batch_dims)\w*dim\w*|padding|slice|window|direction|\w*slice_sizes|\w+_precision|algorithm|fft_\w+|\w+_bits|"
    r"\w+_group_count|is_stable|lower|left_side|unit_diagonal|transpose_a|custom_call_target|distribution"
    r")=(?:\{[^}]*\}|\w+|\"[^\"]*\")"
)
_CONFIGURED = re.compile(r"\bbackend_config=\{[^}]*\}")
_PLUMBING = frozenset(
    "parameter constant tuple get-tuple-element call bitcast copy while conditional".split()
)
"""Opcodes that say how a module is put together and not what is computed."""


class Made(NamedTuple):
    """What JAX made of an operation.

    Attributes:
      instructions: opcodes with types and what else says what they compute, in their order.
      numbers: those in the code of functions, loops and branches. Elsewhere a number is an input.
    """

    instructions: tuple[str, ...]
    numbers: frozenset[str]


def lowered(data: Inspection) -> dict[int, Made]:
    """By node, what it is made of before XLA's passes; nothing of a program of which the text is not kept
    whole."""
    instructions: dict[int, list[str]] = defaultdict(list)
    numbers: dict[int, set[str]] = defaultdict(set)
    loops = {node["id"] for node in data["nodes"] if node["primitive"] == "scan"}
    for program in data["programs"]:
        for instruction, nodes, counts in _instructions(program):
            if instruction.opcode not in _PLUMBING:
                for node in nodes:
                    instructions[node].append(_said(instruction))
            elif number := _NUMBER.search(instruction.text):
                for node in nodes - loops if counts else nodes:
                    numbers[node].add(number[1])
    return {node: Made(tuple(said), frozenset(numbers[node])) for node, said in instructions.items()}


def _instructions(program: Program) -> list[tuple[Instruction, frozenset[int], bool]]:
    """Each instruction with the nodes that it is made of, and whether it belongs to what asks if a loop goes
    on: how often a loop of JAX's turns is said of its kernels."""
    lines = program["hlo"]["before"]["lines"]
    try:
        module = parse("\n".join(line["text"] for line in lines))
    except ValueError:  # nothing is kept, or not all
        return []
    own = {name[1]: line["nodes"] for line in lines if (name := _NAME.match(line["text"])) is not None}
    asking = {
        name
        for each in module
        if each.opcode == "while"
        for name in each.calls
        if f"condition=%{name}," in f"{each.text},"
    }
    nodes = _nodes(module, own)
    return [(each, nodes[each.name], each.computation in asking) for each in module]


def _nodes(module: Module, own: dict[str, list[int]]) -> dict[str, frozenset[int]]:
    """By instruction, its nodes. One that has none and stands in a function belongs to those that call the
    function: JAX lowers it once for all calls, and only these bear the scopes of operations."""
    nodes: dict[str, frozenset[int]] = {}
    inherited: dict[str, frozenset[int]] = {}
    for name, computation in reversed(module.computations.items()):  # callers stand behind what they call
        callers = module.all_callers.get(name, [])
        inherited[name] = frozenset().union(*(nodes.get(caller.name, frozenset()) for caller in callers))
        for each in computation.instructions:
            nodes[each] = frozenset(own.get(each, ())) or inherited[name]
    return nodes


def _said(instruction: Instruction) -> str:
    rest = _SAYS_WHAT.findall(instruction.text)
    if instruction.opcode == "custom-call":
        rest += _CONFIGURED.findall(instruction.text)
    shape = _LAYOUT.sub("", instruction.shape)
    return " ".join([instruction.opcode, shape, *rest])
