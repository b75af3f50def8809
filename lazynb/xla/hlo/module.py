"""Parser of XLA's HLO text into module, computations and instructions.

XLA dumps every module in this form, on each backend and in each supported release. The objects of ``jaxlib``
differ between releases, and some releases lack shapes or called computations.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from functools import cached_property, lru_cache

from lazynb.xla.hlo.opcodes import Trait, opcodes_of
from lazynb.xla.hlo.shapes import shape_bytes as shape_bytes, tuple_parts

Mark = tuple[int, ...]
"""Identifies a recorded operation: the number of its step (see :mod:`lazynb.running.jaxpr_program`), then two
numbers for each call around it (see :mod:`lazynb.recording.jaxpr_structure`). Outside loops, the mark of an
operation is higher than the marks of its operands."""


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One HLO instruction.

    Attributes:
      name: unique within the module.
      opcode: as in the text, for example ``add``, ``fusion``.
      shape: of the result, with its layout, for example ``f32[128,64]{1,0}``; a tuple in parentheses.
      operands: names of instructions of the same computation.
      computation: name of the computation that contains it.
      root: whether its value is the result of the computation.
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
        """The name scope (``op_name``) that JAX wrote for it; empty if XLA kept none."""
        match = _SCOPE.search(self.text)
        return match[1] if match else ""

    @cached_property
    def mark(self) -> Mark | None:
        """The recorded operation that it was made from; None if its scope names none."""
        match = _MARK.match(self.scope)
        if match is None:
            return None
        # When XLA inlines a call it may write the scope twice, the second time behind the scope of a loop.
        own, _, _ = self.scope[match.end() :].partition(_PROGRAM)
        return int(match[1]), *_positions(own)

    @cached_property
    def path(self) -> Mark:
        """Position inside a called function, for an instruction without a mark.
        XLA's first module contains functions that are called; scopes inside them start at the function."""
        return _positions(self.scope)

    @cached_property
    def plain(self) -> str:
        """The line without name and metadata: what describes the computation."""
        return _METADATA.sub("", self.text.removeprefix("ROOT ").partition(" = ")[2])

    @cached_property
    def bytes(self) -> int:
        """Size of the result in bytes; for a tuple, the sum of its parts."""
        return shape_bytes(self.shape)

    def attribute(self, name: str) -> str:
        """Return an attribute such as ``kind`` or ``custom_call_target``; empty if there is none."""
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
      instructions: by name, in the order of the text; in a scheduled module that is the execution order.
    """

    name: str
    instructions: dict[str, Instruction]

    @cached_property
    def root(self) -> Instruction:
        """The instruction whose value is the result."""
        return next(instruction for instruction in reversed(self.instructions.values()) if instruction.root)

    @cached_property
    def parameters(self) -> list[Instruction]:
        """The parameters, ordered by number."""
        parameters = [each for each in self.instructions.values() if each.opcode == "parameter"]
        return sorted(parameters, key=parameter_number)

    @cached_property
    def users(self) -> dict[str, list[Instruction]]:
        """By name of an instruction, its users."""
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
        """All instructions by name."""
        return {instruction.name: instruction for instruction in self}

    @cached_property
    def order(self) -> dict[str, int]:
        """By name, the position of an instruction in the text."""
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
        """The computations that run with the entry; a pass may leave unused ones behind."""
        reached = {self.entry}
        for name, computation in reversed(self.computations.items()):  # XLA prints callees first
            if name in reached:
                reached.update(called for one in computation.instructions.values() for called in one.calls)
        return frozenset(reached)

    def is_applied(self, computation: str) -> bool:
        """Return whether a computation is applied to each element, as in ``reduce`` or ``sort``."""
        caller = self.callers.get(computation)
        return caller is not None and caller.opcode not in _RUNNING

    def __iter__(self) -> Iterator[Instruction]:
        for computation in self.computations.values():
            yield from computation.instructions.values()


_RUNNING = opcodes_of(Trait.RUNS)
_HEADER = re.compile(r"^(ENTRY )?%?([\w.\-]+)\s*\(.*\{$")
_MODULE = re.compile(r"^HloModule ([^\s,]+)", re.MULTILINE)


def parse(text: str) -> Module:
    """Parse the text of an HLO module.

    Raises:
      ValueError: ``text`` is not a complete HLO module.
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
    """Raises ValueError if the text was cut off: a root or a referenced name is missing."""
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
    instruction = _instruction(line, computation.name)
    if instruction is None:
        return
    for name in instruction.operands:
        if "#" in name and name not in computation.instructions:
            _add_tuple_part(computation, name)
    computation.instructions[instruction.name] = instruction


def _add_tuple_part(computation: Computation, name: str) -> None:
    """Adds a ``get-tuple-element`` for ``%sort.1#1``: newer XLA's name for part 1 of ``sort.1``."""
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


@lru_cache(maxsize=16384)  # most lines of a module occur again in the module after the next pass
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
    depth = 0
    for bracket in _BRACKETS.finditer(line, at):
        depth += 1 if bracket[0] == "(" else -1
        if depth == 0:
            return bracket.end()
    return len(line)


_BRACKETS = re.compile(r"[()]")
_PARAMETER = re.compile(r"parameter\((\d+)\)")


def parameter_number(parameter: Instruction) -> int:
    """Return the argument number of a ``parameter`` instruction."""
    match = _PARAMETER.search(parameter.text)
    if match is None:
        raise ValueError(f"{parameter.name} is no parameter")
    return int(match[1])
