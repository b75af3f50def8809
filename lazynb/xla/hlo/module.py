"""The objects that XLA's HLO text describes: module, computations, instructions.

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
from lazynb.xla.hlo.shapes import shape_bytes as shape_bytes, tuple_parts

Mark = tuple[int, ...]
"""A recorded operation: the number of its step (see :mod:`lazynb.running.jaxpr_program`); then, inside of
that, two numbers for each call around it (see :mod:`lazynb.recording.jaxpr_structure`). An operation has a
higher mark than those that it reads, but in loops."""


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
        """The name scope that JAX gave what it was made from; empty if XLA kept none."""
        match = _SCOPE.search(self.text)
        return match[1] if match else ""

    @cached_property
    def mark(self) -> Mark | None:
        """The recorded operation that it was made from."""
        match = _MARK.match(self.scope)
        if match is None:
            return None
        # XLA may write the scope of a call twice when it resolves it: once behind that of a loop in it.
        own, _, _ = self.scope[match.end() :].partition(_PROGRAM)
        return int(match[1]), *_positions(own)

    @cached_property
    def path(self) -> Mark:
        """Where it stands in the function that it is a part of, of an instruction without a mark: XLA's first
        module has functions that are called, and their scopes begin there."""
        return _positions(self.scope)

    @cached_property
    def plain(self) -> str:
        """The line without what says nothing about the computation: metadata and the name."""
        return _METADATA.sub("", self.text.removeprefix("ROOT ").partition(" = ")[2])

    @cached_property
    def bytes(self) -> int:
        """Size of the result; of a tuple, of all its parts."""
        return shape_bytes(self.shape)

    def attribute(self, name: str) -> str:
        """Value of an attribute such as ``kind`` or ``custom_call_target``; empty if there is none."""
        pattern = rf'\b{name}=(?:"([^"]*)"|(\{{[^}}]*\}}|[^\s,]+))'
        match = re.search(pattern, _METADATA.sub("", self.text))
        if match is None:
            return ""
        return match[1] or match[2] or ""


_CALLS = re.compile(
    r"\b(?:calls|to_apply|condition|body|true_computation|false_computation|branch_computations|"
    r"called_computations|select|scatter)=(%[\w.\-]+|\{[^}]*\})"
)
_NAME = re.compile(r"%([\w.\-]+(?:#\d+)*)")
_SCOPE = re.compile(r'\bop_name="((?:[^"\\]|\\.)*)"')
_MARK = re.compile(r"(?:jit\(lazynb\)/)?n(\d+)(?=/|$)")
_PROGRAM = "jit(lazynb)"
_POSITION = re.compile(r"(?:^|/)i(\d+)\.(\d+)(?=/|$)")
_METADATA = re.compile(r', metadata=\{(?:[^{}"]|"(?:[^"\\]|\\.)*")*\}')


def _positions(scope: str) -> Mark:
    return tuple(int(number) for pair in _POSITION.findall(scope) for number in pair)


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
        return next(instruction for instruction in reversed(self.instructions.values()) if instruction.root)

    @cached_property
    def parameters(self) -> list[Instruction]:
        """The parameters, by number."""
        parameters = [each for each in self.instructions.values() if each.opcode == "parameter"]
        return sorted(parameters, key=parameter_number)

    @cached_property
    def users(self) -> dict[str, list[Instruction]]:
        """By name of an instruction, those that have it as an operand."""
        users: dict[str, list[Instruction]] = {name: [] for name in self.instructions}
        for user in self.instructions.values():
            for operand in dict.fromkeys(user.operands):
                users[operand].append(user)
        return users


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
        return {instruction.name: instruction for instruction in self}

    @cached_property
    def order(self) -> dict[str, int]:
        """By name, the place of an instruction in the text."""
        return {instruction.name: number for number, instruction in enumerate(self)}

    @cached_property
    def callers(self) -> dict[str, Instruction]:
        """By name of a computation, the last instruction that calls it."""
        return {called: callers[-1] for called, callers in self.all_callers.items()}

    @cached_property
    def all_callers(self) -> dict[str, list[Instruction]]:
        """By name of a computation, the instructions that call it, in the order of the text."""
        callers: dict[str, list[Instruction]] = {}
        for instruction in self:
            for called in instruction.calls:
                callers.setdefault(called, []).append(instruction)
        return callers

    @cached_property
    def reached(self) -> frozenset[str]:
        """The computations that run when the entry does: a pass may leave others behind."""
        reached = {self.entry}
        for name, computation in reversed(self.computations.items()):  # XLA prints what is called first
            if name in reached:
                reached.update(called for one in computation.instructions.values() for called in one.calls)
        return frozenset(reached)

    def is_applied(self, computation: str) -> bool:
        """Whether a computation only says what to do with each element, as that of a ``reduce`` or ``sort``:
        it has no values of its own."""
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
    title = _MODULE.search(text)
    computations: dict[str, Computation] = {}
    entry, current = "", None
    for line in text.splitlines():
        if line.startswith("  ") and current is not None:
            _add(current, line.strip())
        elif header := _HEADER.match(line):
            current = computations[header[2]] = Computation(header[2], {})
            if header[1]:
                entry = header[2]
        elif line.startswith("}"):
            current = None
    if title is None or not entry:
        raise ValueError("this is no HLO module: it has no ENTRY computation")
    module = Module(title[1], computations, entry)
    _check(module, current)
    return module


def _check(module: Module, unfinished: Computation | None) -> None:
    """Raises ValueError if the text was cut off: everything that is named must be in it."""
    for computation in module.computations.values():
        instructions = computation.instructions.values()
        if computation is unfinished or not any(instruction.root for instruction in instructions):
            raise ValueError(f"this HLO module is cut off: computation {computation.name} has no end")
    for computation in module.computations.values():
        known = computation.instructions
        for instruction in known.values():
            missing = [name for name in instruction.operands if name not in known]
            missing += [name for name in instruction.calls if name not in module.computations]
            if missing:
                name = instruction.name
                raise ValueError(
                    f"this HLO module is not whole: {name} uses {min(missing)}, which is not in it"
                )


_START = re.compile(r"(ROOT )?%?([\w.\-]+) = ")


def _add(computation: Computation, line: str) -> None:
    """Adds the instruction that a line describes, if it describes one."""
    instruction = _instruction(line, computation.name)
    if instruction is None:
        return
    for name in instruction.operands:
        if "#" in name and name not in computation.instructions:
            _add_tuple_part(computation, name)
    computation.instructions[instruction.name] = instruction


def _add_tuple_part(computation: Computation, name: str) -> None:
    """Adds an instruction for part 1 of what ``sort.1`` gives, which newer releases of XLA call
    ``%sort.1#1``."""
    source, _, number = name.rpartition("#")
    if "#" in source and source not in computation.instructions:
        _add_tuple_part(computation, source)
    if source in computation.instructions:
        whole = computation.instructions[source]
        shape = (tuple_parts(whole.shape) or [whole.shape])[int(number)]
        opcode = "get-tuple-element"
        text = f"%{name} = {shape} {opcode}(%{source}), index={number}"
        metadata = _METADATA.search(whole.text)
        if metadata is not None:
            text += metadata[0]
        part = Instruction(name, opcode, shape, (source,), computation.name, False, text)
        computation.instructions[name] = part


@lru_cache(maxsize=16384)  # a module after a pass has most lines of the module before it
def _instruction(line: str, computation: str) -> Instruction | None:
    start = _START.match(line)
    if start is None:
        return None
    at = start.end()
    if line.startswith("(", at):
        end = _closing_parenthesis(line, at)
    else:
        end = line.find(" ", at)
    bracket = line.find("(", end)
    if end < 0 or bracket < 0:
        raise ValueError(f"this HLO module is cut off: {start[2]} has no operands")
    opcode, shape = line[end:bracket].strip(), line[at:end]
    operands = tuple(_NAME.findall(line, bracket, _closing_parenthesis(line, bracket)))
    return Instruction(start[2], opcode, shape, operands, computation, bool(start[1]), line)


def _closing_parenthesis(line: str, at: int) -> int:
    """The position behind the parenthesis that closes the one at ``at``."""
    depth = 0
    for bracket in _BRACKETS.finditer(line, at):
        depth += 1 if bracket[0] == "(" else -1
        if depth == 0:
            return bracket.end()
    return len(line)


_BRACKETS = re.compile(r"[()]")
_PARAMETER = re.compile(r"parameter\((\d+)\)")


def parameter_number(parameter: Instruction) -> int:
    """Which argument a ``parameter`` instruction stands for."""
    match = _PARAMETER.search(parameter.text)
    if match is None:
        raise ValueError(f"{parameter.name} is no parameter")
    return int(match[1])
