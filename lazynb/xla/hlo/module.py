"""XLA's HLO text as objects: module, computations, instructions.

XLA writes every module that it dumps in this one form, on each backend and in each release that lazynb
serves, while the objects that ``jaxlib`` offers differ between releases and do not know shapes or called
computations in some of them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from functools import cached_property, lru_cache

from lazynb.xla.hlo.opcodes import Trait, opcodes_of
from lazynb.xla.hlo.shapes import parts, shape_bytes as shape_bytes


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One HLO instruction.

    Attributes:
      name: unique within the module.
      opcode: as in the text, for example ``add``, ``fusion``.
      shape: result with its layout, for example ``f32[128,64]{1,0}``; a tuple in parentheses.
      operands: names of instructions of the same computation.
      computation: name of the computation that it stands in.
      root: whether its value is the computation's.
      text: the line, without its indent.
    """

    name: str
    opcode: str
    shape: str
    operands: tuple[str, ...]
    computation: str
    root: bool
    text: str

    @cached_property
    def calls(self) -> tuple[str, ...]:
        """Names of the computations that it calls or applies."""
        return tuple(name for match in _CALLS.finditer(self.text) for name in _NAME.findall(match[1]))

    @cached_property
    def scope(self) -> str:
        """The name scope that JAX gave what it was made from; empty where XLA kept none."""
        found = _SCOPE.search(self.text)
        return found[1] if found else ""

    @cached_property
    def mark(self) -> int | None:
        """Number of the recorded operation that it was made from (see :mod:`lazynb.execute.program`)."""
        found = _MARK.match(self.scope)
        return int(found[1]) if found else None

    @cached_property
    def plain(self) -> str:
        """The line without what says nothing about the computation: metadata and the name."""
        return _METADATA.sub("", self.text.removeprefix("ROOT ").partition(" = ")[2])

    @cached_property
    def bytes(self) -> int:
        """Size of the result; of a tuple, of all its parts."""
        return shape_bytes(self.shape)

    def attribute(self, name: str) -> str:
        """Value of an attribute such as ``kind`` or ``custom_call_target``; empty where it has none."""
        found = re.search(rf'\b{name}=(?:"([^"]*)"|(\{{[^}}]*\}}|[^\s,]+))', _METADATA.sub("", self.text))
        return (found[1] or found[2] or "") if found else ""


_CALLS = re.compile(
    r"\b(?:calls|to_apply|condition|body|true_computation|false_computation|branch_computations|"
    r"called_computations|select|scatter)=(%[\w.\-]+|\{[^}]*\})"
)
_NAME = re.compile(r"%([\w.\-]+(?:#\d+)*)")
_SCOPE = re.compile(r'\bop_name="((?:[^"\\]|\\.)*)"')
_MARK = re.compile(r"(?:jit\(lazynb\)/)?n(\d+)(?=/|$)")
_METADATA = re.compile(r', metadata=\{(?:[^{}"]|"(?:[^"\\]|\\.)*")*\}')


@dataclasses.dataclass(frozen=True)
class Computation:
    """A named sequence of instructions, operands before their users.

    Attributes:
      name: unique within the module.
      instructions: by name, in the order of the text; that of a scheduled module is the order of execution.
    """

    name: str
    instructions: dict[str, Instruction]

    @cached_property
    def root(self) -> Instruction:
        """The instruction whose value the computation has."""
        return next(one for one in reversed(self.instructions.values()) if one.root)

    @cached_property
    def parameters(self) -> list[Instruction]:
        """The parameters, by number."""
        found = [one for one in self.instructions.values() if one.opcode == "parameter"]
        return sorted(found, key=parameter_number)

    @cached_property
    def users(self) -> dict[str, list[Instruction]]:
        """By name of an instruction, those that have it as an operand."""
        found: dict[str, list[Instruction]] = {name: [] for name in self.instructions}
        for user in self.instructions.values():
            for operand in dict.fromkeys(user.operands):
                found[operand].append(user)
        return found


@dataclasses.dataclass(frozen=True)
class Module:
    """An HLO module.

    Attributes:
      name: of the module.
      computations: by name.
      entry: name of the computation that runs.
    """

    name: str
    computations: dict[str, Computation]
    entry: str

    @cached_property
    def by_name(self) -> dict[str, Instruction]:
        """All instructions."""
        return {one.name: one for one in self}

    @cached_property
    def order(self) -> dict[str, int]:
        """By name, the place of an instruction in the text."""
        return {one.name: number for number, one in enumerate(self)}

    @cached_property
    def callers(self) -> dict[str, Instruction]:
        """By name of a computation, an instruction that calls it."""
        return {called: one for one in self for called in one.calls}

    @cached_property
    def all_callers(self) -> dict[str, list[Instruction]]:
        """By name of a computation, the instructions that call it, in the order of the text."""
        found: dict[str, list[Instruction]] = {}
        for one in self:
            for called in one.calls:
                found.setdefault(called, []).append(one)
        return found

    def is_applied(self, computation: str) -> bool:
        """Whether it only says what to do with each element, as that of a ``reduce`` or ``sort``: it has no
        values of its own."""
        caller = self.callers.get(computation)
        return caller is not None and caller.opcode not in _RUNNING

    def __iter__(self) -> Iterator[Instruction]:
        for computation in self.computations.values():
            yield from computation.instructions.values()


_RUNNING = opcodes_of(Trait.RUNS)
_HEADER = re.compile(r"^(ENTRY )?%?([\w.\-]+)\s*\(.*\{$")
_MODULE = re.compile(r"^HloModule ([^\s,]+)", re.MULTILINE)


def parse(text: str) -> Module:
    """The module that ``text`` describes.

    Raises:
      ValueError: ``text`` is no HLO module, or only a part of one.
    """
    named = _MODULE.search(text)
    computations: dict[str, Computation] = {}
    entry, current = "", None
    for line in text.splitlines():
        if line.startswith("  ") and current is not None:
            _add(current, line.strip())
        elif header := _HEADER.match(line):
            current = computations[header[2]] = Computation(header[2], {})
            entry = header[2] if header[1] else entry
        elif line.startswith("}"):
            current = None
    if named is None or not entry:
        raise ValueError("this is no HLO module: it has no ENTRY computation")
    module = Module(named[1], computations, entry)
    _check(module, current)
    return module


def _check(module: Module, unfinished: Computation | None) -> None:
    """Raises ValueError where the text was cut off: everything that is named must be there."""
    for computation in module.computations.values():
        if computation is unfinished or not any(one.root for one in computation.instructions.values()):
            raise ValueError(f"this HLO module is cut off: computation {computation.name} has no end")
    for computation in module.computations.values():
        there = computation.instructions.keys()
        for one in computation.instructions.values():
            if not (there >= set(one.operands) and module.computations.keys() >= set(one.calls)):
                missing = sorted((set(one.operands) - there) | (set(one.calls) - module.computations.keys()))
                raise ValueError(
                    f"this HLO module is not whole: {one.name} uses {missing[0]}, which is not in it"
                )


_START = re.compile(r"(ROOT )?%?([\w.\-]+) = ")


def _add(computation: Computation, line: str) -> None:
    one = _instruction(line, computation.name)
    if one is None:
        return
    for name in one.operands:
        if "#" in name and name not in computation.instructions:
            _add_part(computation, name)
    computation.instructions[one.name] = one


def _add_part(computation: Computation, name: str) -> None:
    """Newer releases of XLA write ``%sort.1#1`` for part 1 of what ``sort.1`` gives: here an instruction like
    any other."""
    source, _, number = name.rpartition("#")
    if "#" in source and source not in computation.instructions:
        _add_part(computation, source)
    if source in computation.instructions:
        whole = computation.instructions[source]
        shape = (parts(whole.shape) or [whole.shape])[int(number)]
        metadata = _METADATA.search(whole.text)
        text = (
            f"%{name} = {shape} get-tuple-element(%{source}), index={number}{metadata[0] if metadata else ''}"
        )
        computation.instructions[name] = Instruction(
            name, "get-tuple-element", shape, (source,), computation.name, False, text
        )


@lru_cache(maxsize=16384)  # a module after a pass has most lines of the module before it
def _instruction(line: str, computation: str) -> Instruction | None:
    start = _START.match(line)
    if start is None:
        return None
    at = start.end()
    end = _closing(line, at) if line[at : at + 1] == "(" else line.find(" ", at)
    bracket = line.find("(", end)
    if end < 0 or bracket < 0:
        raise ValueError(f"this HLO module is cut off: {start[2]} has no operands")
    operands = tuple(_NAME.findall(line, bracket, _closing(line, bracket)))
    return Instruction(
        start[2], line[end:bracket].strip(), line[at:end], operands, computation, bool(start[1]), line
    )


def _closing(line: str, at: int) -> int:
    """Behind the parenthesis that closes the one at ``at``."""
    depth = 0
    for found in _BRACKETS.finditer(line, at):
        depth += 1 if found[0] == "(" else -1
        if depth == 0:
            return found.end()
    return len(line)


_BRACKETS = re.compile(r"[()]")
_PARAMETER = re.compile(r"parameter\((\d+)\)")


def parameter_number(one: Instruction) -> int:
    """Which argument a ``parameter`` instruction stands for."""
    found = _PARAMETER.search(one.text)
    if found is None:
        raise ValueError(f"{one.name} is no parameter")
    return int(found[1])
