"""The graph nodes behind a program's marks, arguments and results; the graph of its operations by mark; and
the user's names of its arguments and results."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_

from lazynb.recording.pending_trace import PendingTrace
from lazynb.recording.snapshot.nested_nodes import OperationNodes
from lazynb.recording.snapshot.snapshot_nodes import Node, Snapshot
from lazynb.recording.snapshot.trace_description import SnapshotBuilder
from lazynb.running.jaxpr_program import ArgumentPacking, needed_steps
from lazynb.running.trace_executable import Executable
from lazynb.xla.hlo.clusters import tuple_leaves
from lazynb.xla.hlo.module import Computation, Instruction, Mark, Module
from lazynb.xla.hlo.shapes import tuple_parts

# ---- Origins of a compiled program -------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class ProgramOrigins:
    """The node numbers of a snapshot behind the parts of a program.

    Attributes:
      operations: node by mark. A mark is the number of a step in the program's own trace, followed by the
        position inside that step for nested operations.
      inputs: node by number of the program's input.
      results: for each result of the program, its node and the number of the node's result.
      loops: marks of the loops and branches with nested operations in ``operations``.
      constants: marks of calls of functions that return constants; these belong to the call itself.
      carried: by mark of an operation in loops, the marks of the loops that pass it its values.
    """

    operations: dict[Mark, int]
    inputs: dict[int, int]
    results: tuple[tuple[int, int], ...]
    loops: frozenset[Mark] = frozenset()
    constants: frozenset[Mark] = frozenset()
    carried: dict[Mark, tuple[Mark, ...]] = dataclasses.field(default_factory=dict)


def origins_of_executable(
    pending: PendingTrace, executable: Executable, wanted: tuple[int, ...], description: SnapshotBuilder
) -> ProgramOrigins:
    """The origins of the program ``executable``, which computes ``wanted`` of ``pending``.

    A program numbers its steps without the dead operations (``Trie.copy``).
    """
    steps = needed_steps(pending.state.path(), wanted)
    _, moved = pending.trie.copy(pending.root, steps)
    slots = {new: slot for slot, new in moved.items()}
    made: dict[int, OperationNodes] = {}
    inputs: dict[int, int] = {}
    for step in executable.state.path():
        if step.first not in slots:
            continue
        if step.operation is None:
            inputs[len(inputs)], _ = description.result(pending, slots[step.first])
        else:
            made[step.depth - 1] = description.made(pending, slots[step.first])
    results = [description.result(pending, wanted[at]) for at in executable.order]
    return program_origins(made, inputs, tuple(results))


def program_origins(
    made: Mapping[int, OperationNodes], inputs: dict[int, int], results: tuple[tuple[int, int], ...]
) -> ProgramOrigins:
    """The origins of a program; ``made`` has the nodes of each step, by the step's number."""
    operations: dict[Mark, int] = {}
    loops: set[Mark] = set()
    constants: set[Mark] = set()
    carried: dict[Mark, tuple[Mark, ...]] = {}
    for number, nodes in made.items():
        operations.update({(number, *path): node for path, node in nodes.nodes.items()})
        loops.update((number, *path) for path in nodes.loops)
        constants.update((number, *path) for path in nodes.constants)
        for path, around in nodes.carried.items():
            carried[number, *path] = tuple([(number, *loop) for loop in around])
    return ProgramOrigins(operations, inputs, results, frozenset(loops), frozenset(constants), carried)


_ARGUMENT = re.compile(r"args\[(\d+)\]")


def argument_number(scope: str) -> int | None:
    """The program's argument number of a parameter with this scope; None if it has none."""
    match = _ARGUMENT.match(scope)
    return int(match[1]) if match else None


@dataclasses.dataclass(frozen=True)
class OperationGraph:
    """The graph of the recorded operations of a program.

    Attributes:
      operands: by mark, the operations that it reads, without inputs of the program.
      arguments: by mark, the numbers of the program's arguments on which it depends, as a bit mask.
      results: for each result of the program the mark of its operation; None if it is an input.
      loops: by mark of an operation in a loop, the mark of the outermost loop. In a loop, an operation may
        read a later one's result of the previous iteration.
      constants: operations that are constants of a function.
    """

    operands: Mapping[Mark, Sequence[Mark]]
    arguments: Mapping[Mark, int] = dataclasses.field(default_factory=dict)
    results: Sequence[Mark | None] = ()
    loops: Mapping[Mark, Mark] = dataclasses.field(default_factory=dict)
    constants: Container[Mark] = frozenset()

    def without_arguments(self) -> frozenset[Mark]:
        """The marks of operations that depend on no argument of the program."""
        return frozenset(mark for mark, entering in self.arguments.items() if not entering)

    def shares(self, arguments: int, mark: Mark) -> bool:
        """Whether an operation depends on one of ``arguments``; true if there are none, or if unknown."""
        return not arguments or bool(arguments & self.arguments.get(mark, arguments))

    def has_all_arguments(self, arguments: int, mark: Mark) -> bool:
        """Whether an operation depends on all of ``arguments``; true if unknown."""
        return not arguments & ~self.arguments.get(mark, arguments)

    def depends_on(self, later: Mark, earlier: Mark, through: Container[Mark] | None = None) -> bool:
        """Whether ``later`` depends on ``earlier``, directly or through operations (in ``through``, if
        given)."""
        waiting, seen = [later], {later}
        begin = self.loops.get(earlier, earlier)
        while waiting:
            operands = self.operands.get(waiting.pop(), ())
            if earlier in operands:
                return True
            for mark in operands:
                if mark >= begin and mark not in seen and (through is None or mark in through):
                    seen.add(mark)
                    waiting.append(mark)
        return False

    def before(self, mark: Mark) -> set[Mark]:
        """The operations on which ``mark`` depends, directly or indirectly."""
        waiting, seen = [mark], set[Mark]()
        while waiting:
            new = [one for one in self.operands.get(waiting.pop(), ()) if one not in seen]
            seen.update(new)
            waiting += new
        return seen

    def related(self, one: Mark, other: Mark) -> bool:
        """Whether the two are the same, or one depends on the other."""
        return one == other or self.depends_on(one, other) or self.depends_on(other, one)

    def nearest(self, marks: Sequence[Mark], mark: Mark) -> list[Mark]:
        """The nearest of ``marks`` that depend on ``mark``; if none does, the nearest on which it depends. In
        a loop, operations may depend on each other and on themselves."""
        after = [other for other in marks if self.depends_on(other, mark)]
        if after:
            return [one for one in after if not any(self._strictly_depends_on(one, other) for other in after)]
        before = [other for other in marks if self.depends_on(mark, other)]
        return [one for one in before if not any(self._strictly_depends_on(other, one) for other in before)]

    def _strictly_depends_on(self, later: Mark, earlier: Mark) -> bool:
        """Whether ``later`` depends on ``earlier``, and not the reverse."""
        return self.depends_on(later, earlier) and not self.depends_on(earlier, later)


def operation_graph(origins: ProgramOrigins, snapshot: Snapshot, packing: ArgumentPacking) -> OperationGraph:
    """Builds the graph of the operations of a program.

    Arguments:
      packing: the inputs in each argument.
    """
    nodes = origins.operations
    mark_of = {node: mark for mark, node in nodes.items()}
    entering: dict[int, int] = {}  # by node
    for position in range(len(packing)):
        for number in packing.taken(position):
            entering[origins.inputs[number]] = 1 << position
    operands = {}
    for node, mark in sorted(mark_of.items()):
        read = list(dict.fromkeys(operand for operand, _ in snapshot.nodes[node].operands))
        marks = [mark_of[operand] for operand in read if operand in mark_of]
        operands[mark] = list(dict.fromkeys([*marks, *origins.carried.get(mark, ())]))
        entering[node] = reduce(or_, [entering.get(operand, 0) for operand in read], 0)
    loops = _loops(origins)
    arguments = {mark: entering[nodes[loops.get(mark, mark)]] for mark in nodes}
    results = [mark_of.get(node) for node, _ in origins.results]
    return OperationGraph(operands, arguments, results, loops, origins.constants)


def _loops(origins: ProgramOrigins) -> dict[Mark, Mark]:
    """By mark of an operation in a loop or branch, the mark of the outermost one."""
    outermost = {}
    for mark in origins.operations:
        around = [mark[:end] for end in range(1, len(mark), 2) if mark[:end] in origins.loops]
        if around:
            outermost[mark] = around[0]
    return outermost


# ---- User names of arguments and results -------------------------------------------------------------------


def nodes_of_parameter(
    module: Module, name: str, taken: Callable[[int], list[int]], origins: ProgramOrigins
) -> list[int]:
    """The input nodes of a parameter of the program: one array, or many scalars packed into one.

    The list is empty if ``name`` is not a parameter.

    Arguments:
      taken: returns the numbers of the inputs packed into an argument of the program.
    """
    instruction = module.by_name.get(name)
    if instruction is None or instruction.opcode != "parameter":
        return []
    position = argument_number(instruction.scope)
    if position is None:
        return []
    return [origins.inputs[input_] for input_ in taken(position) if input_ in origins.inputs]


def input_names(nodes: Sequence[Node]) -> tuple[str, ...]:
    """The user's names of the input ``nodes``; empty if unnamed."""
    if len(nodes) > 1:
        return (f"{len(nodes)} scalars",)
    names = [name for node in nodes for name in node.names or (node.value,)]
    return tuple(name for name in names if name is not None)


def value_names(
    module: Module, snapshot: Snapshot, taken: Callable[[int], list[int]], origins: ProgramOrigins
) -> dict[str, tuple[str, ...]]:
    """The user's names of arguments and results, by XLA's name of the value (``while.6{1}`` is element 1 of
    the result of ``while.6``)."""
    entry = module.computations[module.entry]
    names = {}
    for parameter in entry.parameters:
        nodes = nodes_of_parameter(module, parameter.name, taken, origins)
        names[parameter.name] = input_names([snapshot.nodes[node] for node in nodes])
    for result, written in zip(range(len(origins.results)), _result_value_names(module), strict=False):
        names[written] = (*names.get(written, ()), *result_names(snapshot, origins, result))
    return names


def result_names(snapshot: Snapshot, origins: ProgramOrigins, result: int) -> tuple[str, ...]:
    """The user's names of result number ``result`` of the program."""
    node, number = origins.results[result]
    found = snapshot.nodes[node]
    return found.result_names[number] if found.result_names else found.names


def _result_value_names(module: Module) -> Iterator[str]:
    """XLA's name for the value of each result of the program."""
    entry = module.computations[module.entry]
    root = entry.root
    if root.opcode == "tuple":
        for part in root.operands:
            yield _value_name(module, entry, next(iter(tuple_leaves(entry, part)), part))
    elif root.shape.startswith("("):
        for number in range(len(tuple_parts(root.shape))):
            yield f"{_callee_value(module, root).name}{{{number}}}"
    else:
        yield _value_name(module, entry, next(iter(tuple_leaves(entry, root.name)), root.name))


def _value_name(module: Module, computation: Computation, name: str) -> str:
    """XLA's name for the value of an instruction: ``while.6{1}`` for a tuple element."""
    instruction = computation.instructions[name]
    if instruction.opcode != "get-tuple-element":
        return _callee_value(module, instruction).name
    whole = _callee_value(module, computation.instructions[instruction.operands[0]])
    return f"{whole.name}{{{instruction.attribute('index')}}}"


def _callee_value(module: Module, instruction: Instruction) -> Instruction:
    """The instruction that computes the value, looking through calls."""
    while instruction.opcode == "call":
        instruction = module.computations[instruction.calls[0]].root
    return instruction
