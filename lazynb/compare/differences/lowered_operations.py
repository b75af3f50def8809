"""The HLO that JAX lowers each operation to, in a form that can be compared between two programs."""

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
"""Opcodes that structure a module and compute nothing."""


OF_A_NUMBER = re.compile(r"broadcast .* dimensions=\{\}")
"""Matches the text in :class:`LoweredOperation` of an instruction that broadcasts a number."""


class LoweredOperation(NamedTuple):
    """The HLO that JAX lowered an operation to.

    Attributes:
      instructions: opcode, type and defining attributes of each instruction, in order.
      numbers: the numbers in the code of functions, loops and branches. Elsewhere a number is an input.
    """

    instructions: tuple[str, ...]
    numbers: frozenset[str]

    @property
    def work(self) -> list[str]:
        """The instructions, sorted. Broadcasts of a number are left out if there are other instructions: JAX
        writes one for several operations, or one for each."""
        return sorted(text for text in self.instructions if not OF_A_NUMBER.fullmatch(text)) or sorted(
            self.instructions
        )


class ProgramBeforePasses(NamedTuple):
    """A program before XLA's passes.

    Attributes:
      module: its HLO module.
      nodes: instruction name → nodes that the instruction comes from.
    """

    module: Module
    nodes: dict[str, frozenset[int]]

    def said(self, instruction: Instruction) -> str:
        """The computation of an instruction, in a form that can be compared between two programs."""
        return _said(instruction)

    def asking(self) -> set[str]:
        """The condition computations of ``while`` loops."""
        return {
            name
            for each in self.module
            if each.opcode == "while"
            for name in each.calls
            if f"condition=%{name}," in f"{each.text},"
        }


def before_passes(data: Inspection) -> list[ProgramBeforePasses]:
    """The programs whose text before XLA's passes is kept completely."""
    return [before for program in data["programs"] if (before := _before(program)) is not None]


def _before(program: Program) -> ProgramBeforePasses | None:
    lines = program["hlo"]["before"]["lines"]
    try:
        module = parse("\n".join(line["text"] for line in lines))
    except ValueError:  # the text is missing or incomplete
        return None
    own = {name[1]: line["nodes"] for line in lines if (name := _NAME.match(line["text"])) is not None}
    return ProgramBeforePasses(module, _nodes(module, own))


def lowered(data: Inspection, programs: Iterable[ProgramBeforePasses]) -> dict[int, LoweredOperation]:
    """The HLO of each node before XLA's passes, in those programs. The trip count of a JAX loop is left out,
    because the figures of its kernels contain it."""
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
    """The nodes of each instruction. An instruction of a function that has no nodes gets the nodes of the
    callers: JAX lowers the function once for all calls, and only the calls have the scopes of operations."""
    nodes: dict[str, frozenset[int]] = {}
    inherited: dict[str, frozenset[int]] = {}
    for name, computation in reversed(module.computations.items()):  # callers come after their callees
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
