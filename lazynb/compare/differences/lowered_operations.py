"""The HLO that JAX made of each operation, in a form that two programs can share."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from lazynb.xla.hlo.module import Instruction, Module, parse

if TYPE_CHECKING:
    from lazynb.xla.inspection_schema import Inspection, Program

_NAME = re.compile(r"\s*(?:ROOT )?%?([\w.\-]+) = ")
_NUMBER = re.compile(r" constant\(([^(){}]+)\)")
_LAYOUT = re.compile(r"(?<=\])\{[^}]*\}")
_SAYS_WHAT = re.compile(
    r"\b(?:(?!num_batch_dims)\w*dim\w*|padding|slice|window|direction|\w*slice_sizes|\w+_precision|algorithm|fft_\w+|\w+_bits|"
    r"\w+_group_count|is_stable|lower|left_side|unit_diagonal|transpose_a|custom_call_target|distribution"
    r")=(?:\{[^}]*\}|\w+|\"[^\"]*\")"
)
_CONFIGURED = re.compile(r"\bbackend_config=\{[^}]*\}")
STRUCTURAL_OPCODES = frozenset(
    "parameter constant tuple get-tuple-element call bitcast copy while conditional".split()
)
"""Opcodes that say how a module is put together and not what is computed."""


OF_A_NUMBER = re.compile(r"broadcast .* dimensions=\{\}")
"""What gives a number the shape of an array, in the form of :class:`Made`."""


class LoweredOperation(NamedTuple):
    """What JAX made of an operation.

    Attributes:
      instructions: opcodes with types and what else says what they compute, in their order.
      numbers: those in the code of functions, loops and branches. Elsewhere a number is an input.
    """

    instructions: tuple[str, ...]
    numbers: frozenset[str]

    @property
    def work(self) -> list[str]:
        """The instructions, sorted, without those that only give a number the shape of an array, if there are
        others: JAX writes one of them for several operations, or one for each."""
        return sorted(text for text in self.instructions if not OF_A_NUMBER.fullmatch(text)) or sorted(
            self.instructions
        )


class ProgramBeforePasses(NamedTuple):
    """A program before XLA's passes.

    Attributes:
      module: its HLO.
      nodes: by instruction, those that it is made of.
    """

    module: Module
    nodes: dict[str, frozenset[int]]

    def said(self, instruction: Instruction) -> str:
        """What an instruction computes, in a form that two programs can share."""
        return _said(instruction)

    def asking(self) -> set[str]:
        """The computations that ask whether a loop goes on."""
        return {
            name
            for each in self.module
            if each.opcode == "while"
            for name in each.calls
            if f"condition=%{name}," in f"{each.text},"
        }


def before_passes(data: Inspection) -> list[ProgramBeforePasses]:
    """The programs of which the text before XLA's passes is kept whole."""
    return [before for program in data["programs"] if (before := _before(program)) is not None]


def _before(program: Program) -> ProgramBeforePasses | None:
    lines = program["hlo"]["before"]["lines"]
    try:
        module = parse("\n".join(line["text"] for line in lines))
    except ValueError:  # nothing is kept, or not all
        return None
    own = {name[1]: line["nodes"] for line in lines if (name := _NAME.match(line["text"])) is not None}
    return ProgramBeforePasses(module, _nodes(module, own))


def lowered(data: Inspection, programs: Iterable[ProgramBeforePasses]) -> dict[int, LoweredOperation]:
    """By node, what it is made of before XLA's passes, in those programs. How often a loop of JAX's turns is
    said of its kernels."""
    instructions: dict[int, list[str]] = defaultdict(list)
    numbers: dict[int, set[str]] = defaultdict(set)
    loops = {node["id"] for node in data["nodes"] if node["primitive"] == "scan"}
    for program in programs:
        asking = program.asking()
        for instruction in program.module:
            nodes = program.nodes[instruction.name]
            if instruction.opcode not in STRUCTURAL_OPCODES:
                for node in nodes:
                    instructions[node].append(program.said(instruction))
            elif number := _NUMBER.search(instruction.text):
                for node in nodes - loops if instruction.computation in asking else nodes:
                    numbers[node].add(number[1])
    return {
        node: LoweredOperation(tuple(said), frozenset(numbers[node])) for node, said in instructions.items()
    }


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
