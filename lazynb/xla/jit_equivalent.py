"""The program that ``jax.jit`` of the user's code would compile, built from lazynb's recording.

Under ``jax.jit`` only the return values of a function are results. Arrays from outside are arguments; numbers
and arrays that the code itself creates are constants. ``Counterpart`` pairs this program with lazynb's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from lazynb import jax_compat as jc
from lazynb.errors import LazynbError
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.snapshot.nested_nodes import OperationNodes
from lazynb.recording.snapshot.snapshot_nodes import Node, Snapshot
from lazynb.recording.trie import Root, State, detached_step
from lazynb.running.executable_variants import JitExecutable
from lazynb.running.jaxpr_program import ArgumentPacking
from lazynb.running.record_table import plural
from lazynb.running.trace_executable import Executable
from lazynb.user_code.text_format import join_words
from lazynb.xla.compilation import Compilation
from lazynb.xla.compiled_program import CompiledProgram
from lazynb.xla.cost.out_of_memory import explain_out_of_memory
from lazynb.xla.program_interface import Inputs, weak_getter
from lazynb.xla.program_origins import ProgramOrigins, program_origins
from lazynb.xla.recorded_operations import (
    RecordedInput,
    RecordedOperation,
    RecordedOperations,
    RecordedTrace,
    Value,
    external_input,
    values_read,
)
from lazynb.xla.targets.target_chip import Target
from lazynb.xla.targets.target_compilation import OutOfMemory
from lazynb.xla.targets.target_executable import TargetExecutable


class NotOneFunction(LazynbError):
    """The code cannot be one jitted function; the message says why."""


@dataclasses.dataclass(frozen=True)
class JitSignature:
    """Signature of a program that was compiled as ``jax.jit`` of the user's code would be.

    Attributes:
      results: the user's name of each result; empty for an unnamed one.
      arguments: number of arrays from outside.
      constants: number of numbers and arrays embedded in the program.
    """

    results: tuple[str, ...]
    arguments: int
    constants: int

    def __str__(self) -> str:
        named = [f"`{name}`" for name in dict.fromkeys(self.results) if name]
        unnamed = self.results.count("")
        if unnamed:
            named.append(plural(unnamed, "other value") if named else plural(unnamed, "value"))
        return (
            f"returns {', '.join(named) or 'nothing'}; {plural(self.arguments, 'argument')}, "
            f"{plural(self.constants, 'constant')}"
        )


@dataclasses.dataclass(frozen=True)
class ReturnedLeaf:
    """A leaf of the return value of a function.

    Attributes:
      value: its value in the graph; None if no operation reads or computes it.
      given: in that case the number or the array's type.
    """

    value: Value | None
    given: Any = None


def leaves_of(value: Any) -> list[Any]:
    """The leaves of a return value. Raises NotOneFunction if there are none, or one is not an array or
    number."""
    leaves = jax.tree.leaves(value)
    for leaf in leaves:
        if not isinstance(leaf, jax.Array | np.ndarray | np.generic | bool | int | float | complex):
            raise NotOneFunction(
                f"it gives something of type {type(leaf).__name__}, and a jitted function returns arrays "
                "and numbers alone"
            )
    if not leaves:
        raise NotOneFunction("it gives no array, so a jitted function of it would return nothing")
    return leaves


class JitProgram:
    """The program that ``jax.jit`` would compile from recorded code.

    Arguments:
      sources: the recorded traces, at least one.
      snapshot: the graph of ``sources``.
      returned: the leaves that the function returns.
      is_constant: whether the code itself creates an array that the operations read.
      first: values of the leading arguments, in their order.

    Attributes:
      snapshot: the graph, in which only the function's results are outputs.
      users_arrays: the user's array of an argument that shares its memory, by ``id`` of the argument.

    Raises:
      NotOneFunction: JAX's configuration changes within the code.
    """

    def __init__(
        self,
        sources: Sequence[RecordedTrace],
        snapshot: Snapshot,
        returned: Sequence[ReturnedLeaf],
        is_constant: Callable[[Any], bool],
        first: Sequence[Value] = (),
    ):
        recorded = RecordedOperations(sources)
        if recorded.root is None:
            raise NotOneFunction("JAX's configuration changes in it, so it is no single program")
        self._root = recorded.root
        self.users_arrays: dict[int, Any] = {}
        self._nodes = list(snapshot.nodes)
        wanted, given = [], recorded.inputs
        for leaf in returned:
            own = leaf.value if leaf.value is not None else self._add_passthrough_input(leaf.given, given)
            wanted.append(recorded.known(own))
        self._wanted = tuple(wanted)
        self._operations = recorded.needed(wanted)
        self._first = frozenset(first)
        self._arguments = _external_values(self._operations, wanted, first)
        self._taken = [given[value] for value in self._arguments]
        self._constants = _constants(self._taken, is_constant)
        self.snapshot = self._graph()

    def _add_passthrough_input(self, given: Any, inputs: dict[Value, RecordedInput]) -> Value:
        """Adds a result that comes from outside as an input of the graph."""
        node = _new_input_node(len(self._nodes), given)
        self._nodes.append(node)
        inputs[node.id, 0] = external_input(given)
        return node.id, 0

    def _graph(self) -> Snapshot:
        wanted = {node for node, _ in self._wanted}
        needed = {node for node, _ in self._arguments}
        needed.update(node for each in self._operations for node in each.made.nodes.values())
        nodes = []
        for node in self._nodes:
            nodes.append(dataclasses.replace(node, output=node.id in wanted, dead=node.id not in needed))
        return Snapshot(tuple(nodes))

    def compile(self, target: Target | None = None) -> Compilation:
        """Compiles the program, bypassing all caches of lazynb. Runs nothing.

        Arguments:
          target: compile for this chip.

        Raises JAX's error if it cannot be lowered or compiled; for a target, like
        :meth:`TargetExecutable.compile`.
        """
        path = _OperationPath(self._root)
        for value, taken in zip(self._arguments, self._taken, strict=True):
            path.take(value, taken.step)
        for applied in self._operations:
            path.append(applied)
        wanted = tuple([path.slots[value] for value in self._wanted])
        packing = ArgumentPacking([taken.step for taken in self._taken], self._constants, packs=False)
        executable: Executable
        if target is None:
            executable = JitExecutable(path.end, wanted, self._root.config, packing)
        else:
            target, shardings = self._place_on_target(target)
            executable = TargetExecutable(path.end, wanted, self._root.config, target, packing, shardings)
        try:
            executable.compile([taken.type for taken in self._taken])
        except OutOfMemory as error:
            raise explain_out_of_memory(error, self._origins(path), self.snapshot) from None
        trace = CompiledProgram(executable, True, self._origins(path), self.snapshot, self._inputs(), True)
        form, notes = self._signature(), self._several_names()
        return Compilation([trace], self.snapshot, target=target, form=form, notes=notes)

    def _inputs(self) -> Inputs:
        held = [taken.held() for taken in self._taken]
        users = [weak_getter(self.users_arrays.get(id(array), array)) for array in held]
        return Inputs([(taken.step.avals[0], own) for taken, own in zip(self._taken, users, strict=True)])

    def _several_names(self) -> list[str]:
        """Notes on arrays that are several variables. The recording has one value for each array."""
        outside = [
            [name for name in self._nodes[node].names if name.isidentifier()]
            for number, (node, _) in enumerate(self._arguments)
            if number not in self._constants and (node, 0) not in self._first
        ]
        return [
            f"{join_words([f'`{name}`' for name in names])} are one array and one argument here. A jitted "
            f"function that takes each of them has {len(names)} arguments."
            for names in outside
            if len(names) > 1
        ]

    def _place_on_target(self, target: Target) -> tuple[Target, list[Any]]:
        values, names = [], {}
        for (node, _), taken in zip(self._arguments, self._taken, strict=True):
            held = taken.held()
            values.append(held if held is not None else taken.type)
            names[id(values[-1])] = self._nodes[node].names
        target = target.for_inputs(values, names)
        if target.layout is None:
            return target, []
        place = target.layout.sharding
        return target, [place(value, names.get(id(value), ())) for value in values]

    def _origins(self, path: _OperationPath) -> ProgramOrigins:
        inputs = {number: node for number, (node, _) in enumerate(self._arguments)}
        return program_origins(path.made, inputs, self._wanted)

    def _signature(self) -> JitSignature:
        names = []
        for node, result in self._wanted:
            found = self._nodes[node]
            own = found.result_names[result] if found.result_names else found.names
            names.append(own[0] if own else "")
        constants = len(self._constants)
        return JitSignature(tuple(names), len(self._taken) - constants, constants)


class _OperationPath:
    """Operations as one path outside any trie, inputs first.

    Attributes:
      end: the last state of the path.
      slots: slot by value.
      made: the nodes of each operation, by the number of the step.
    """

    def __init__(self, root: Root):
        self.end: State = Root(root.placement, root.config)
        self.slots: dict[Value, int] = {}
        self.made: dict[int, OperationNodes] = {}

    def take(self, value: Value, step: State) -> None:
        self.slots[value] = self.end.slots
        self.end = detached_step(self.end, step, step.key, ())

    def append(self, applied: RecordedOperation) -> None:
        step, operands = applied.step, tuple([self.slots[value] for value in applied.operands])
        assert step.operation is not None
        given = enumerate(applied.results, self.end.slots)
        self.slots.update({value: slot for slot, value in given if value is not None})
        self.end = detached_step(self.end, step, (step.operation.canonical, operands), operands)
        self.made[self.end.depth - 1] = applied.made


def _external_values(
    operations: Sequence[RecordedOperation], wanted: Sequence[Value], first: Sequence[Value]
) -> list[Value]:
    """The external values that ``operations`` and results read: those in ``first``, then in reading order."""
    made = {value for applied in operations for value in applied.results}
    used = [value for value in dict.fromkeys([*values_read(operations), *wanted]) if value not in made]
    return list(dict.fromkeys([*[value for value in first if value in used], *used]))


def _constants(taken: Sequence[RecordedInput], is_constant: Callable[[Any], bool]) -> dict[int, Any]:
    """By number of the input, the constants of the program."""
    constants = {}
    for number, one in enumerate(taken):
        value = one.held()
        if one.step.is_host_scalar or (isinstance(value, jax.Array) and is_constant(value)):
            constants[number] = value
    return constants


def _new_input_node(number: int, given: Any) -> Node:
    return Node(
        id=number,
        kind="input",
        name="input",
        primitive="",
        operands=(),
        avals=(jc.typeof(given).str_short(),),
        place=None,
        call=None,
        call_id=None,
        scope="",
        names=(),
        value=None if isinstance(given, jax.ShapeDtypeStruct) else str(given),
        output=True,
    )


# ---- The counterpart program -------------------------------------------------------------------------------


class Counterpart:
    """The counterpart of a program (lazynb's or that of ``jax.jit``), compiled on first use. Runs nothing.

    Arguments:
      make: compiles it; None if it is compiled already, or cannot be.

    Attributes:
      compilation: the counterpart; None before it is compiled.
      why: the reason why there is none; empty if there is one, or may be.
    """

    def __init__(
        self,
        make: Callable[[], Compilation] | None = None,
        *,
        compilation: Compilation | None = None,
        why: str = "",
    ):
        self._make = make
        self.compilation = compilation
        self.why = why

    def __repr__(self) -> str:
        known = self.compilation if self.compilation is not None else self.why or "not compiled yet"
        return f"Counterpart({known})"

    def compile(self) -> Compilation | None:
        """Compiles the counterpart on the first call. Returns None if there is none, with the reason in
        ``why``.

        Raises what JAX raises for a program that cannot be lowered or compiled.
        """
        if self._make is not None:
            try:
                self.compilation = self._make()
            except NotOneFunction as error:
                self.why = f"{error}."
            self._make = None
        return self.compilation


# ---- Constants kept for a later compilation ----------------------------------------------------------------

INPUT_GONE = (
    "an array that it took is gone by now, and lazynb keeps no large arrays alive: %%compile --as-jit "
    "compiles both programs at once"
)
_MAX_KEPT_BYTES = 1 << 20  # bytes


class KeptConstants:
    """The arrays among the inputs that the code itself created.

    Arguments:
      is_constant: whether an input is such an array; called once for each while its trace is pending.
    """

    def __init__(self, is_constant: Callable[[Any], bool]):
        self._is_constant = is_constant
        self._held: list[Callable[[], Any]] = []
        self._bytes = 0

    def getter(self, value: Any) -> Callable[[], Any]:
        """A function that returns an input while it exists. It keeps a small constant alive."""
        held: Callable[[], Any] = weak_getter(value)
        if isinstance(value, jax.Array) and not isinstance(value, LazyTensor) and self._is_constant(value):
            self._bytes += value.nbytes
            if self._bytes <= _MAX_KEPT_BYTES:
                held = lambda: value  # noqa: E731
            self._held.append(held)
        return held

    def result_getter(self, given: Any) -> Callable[[], Any]:
        """As :meth:`getter`, for a result that no operation computes: an array, a type or a number."""
        return self.getter(given) if isinstance(given, jax.Array) else lambda: given

    def values(self) -> dict[int, Any]:
        """The constants, by id. Raises NotOneFunction if one no longer exists."""
        values = [held() for held in self._held]
        if any(value is None or value.is_deleted() for value in values):
            raise NotOneFunction(INPUT_GONE)
        return {id(value): value for value in values}
