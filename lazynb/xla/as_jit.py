"""The program that ``jax.jit`` of the user's code would compile, made of what lazynb recorded of it.

Under ``jax.jit`` only what a function returns is a result. Arrays from outside are its arguments; a number is
a constant, and so is an array that the code itself makes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from lazynb import _jax as jc
from lazynb.errors import LazynbError
from lazynb.execute.executable import Executable
from lazynb.execute.jitted import JitExecutable
from lazynb.execute.packing import Packing
from lazynb.record.snapshot.opened import Made
from lazynb.record.snapshot.snapshot import Node, Snapshot
from lazynb.record.trie import Root, State, apart
from lazynb.targets.executable import TargetExecutable
from lazynb.targets.target import Target
from lazynb.xla.compilation import Compilation, Form
from lazynb.xla.inputs import Inputs, hold
from lazynb.xla.origins import Origins, origins
from lazynb.xla.program import CompiledTrace
from lazynb.xla.recorded import Applied, Recorded, Source, Taken, Value, outside, values_read


class NotOneFunction(LazynbError):
    """Some code could not be one jitted function; the message says why."""


@dataclasses.dataclass(frozen=True)
class Returned:
    """A leaf of what a function returns.

    Attributes:
      value: in the graph; None for what no operation read or gave.
      given: what comes from outside then: a number, or an array's type.
    """

    value: Value | None
    given: Any = None


def leaves_of(value: Any) -> list[Any]:
    """The arrays and numbers of what a function returns.

    Raises:
      NotOneFunction: there are none, or there is something else.
    """
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


class Jitted:
    """What ``jax.jit`` would compile of code that was recorded.

    Arguments:
      sources: what was recorded, at least one.
      snapshot: the graph of ``sources``.
      returned: the leaves that the function returns.
      is_constant: whether an array that the operations take is made by the code itself.
      first: values that are the first arguments, in their order.

    Attributes:
      snapshot: the graph, with the function's results.

    Raises:
      NotOneFunction: JAX's configuration changes within the code.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        snapshot: Snapshot,
        returned: Sequence[Returned],
        is_constant: Callable[[Any], bool],
        first: Sequence[Value] = (),
    ):
        recorded = Recorded(sources)
        if recorded.root is None:
            raise NotOneFunction("JAX's configuration changes in it, so it is no single program")
        self._root = recorded.root
        self._nodes = list(snapshot.nodes)
        wanted, given = [], recorded.inputs
        for leaf in returned:
            own = leaf.value if leaf.value is not None else self._passed(leaf.given, given)
            wanted.append(recorded.known(own))
        self._wanted = tuple(wanted)
        self._operations = recorded.needed(wanted)
        self._outside = _used(self._operations, wanted, first)
        self._taken = [given[value] for value in self._outside]
        self._constants = _constants(self._taken, is_constant)
        self.snapshot = self._graph()

    def _passed(self, given: Any, inputs: dict[Value, Taken]) -> Value:
        """A result that comes from outside; it becomes an input in the graph."""
        node = _input_node(len(self._nodes), given)
        self._nodes.append(node)
        inputs[node.id, 0] = outside(given)
        return node.id, 0

    def _graph(self) -> Snapshot:
        """The graph, in which only the results are wanted."""
        wanted = {node for node, _ in self._wanted}
        needed = {node for node, _ in self._outside}
        needed.update(node for each in self._operations for node in each.made.nodes.values())
        nodes = []
        for node in self._nodes:
            nodes.append(dataclasses.replace(node, output=node.id in wanted, dead=node.id not in needed))
        return Snapshot(tuple(nodes))

    def compile(self, target: Target | None = None) -> Compilation:
        """The program, compiled beside every cache of lazynb's. Runs nothing.

        Arguments:
          target: compile for this chip.

        Raises JAX's error if it cannot be lowered or compiled; for a target as
        :meth:`TargetExecutable.compile` does.
        """
        path = _Path(self._root)
        for value, taken in zip(self._outside, self._taken, strict=True):
            path.take(value, taken.step)
        for applied in self._operations:
            path.append(applied)
        wanted = tuple([path.slots[value] for value in self._wanted])
        packing = Packing([taken.step for taken in self._taken], self._constants, packs=False)
        executable: Executable
        if target is None:
            executable = JitExecutable(path.end, wanted, self._root.config, packing)
        else:
            target, shardings = self._on(target)
            executable = TargetExecutable(path.end, wanted, self._root.config, target, packing, shardings)
        executable.compile([taken.type for taken in self._taken])
        inputs = Inputs([(taken.step.avals[0], hold(taken.held())) for taken in self._taken])
        trace = CompiledTrace(executable, True, self._origins(path), self.snapshot, inputs, True)
        return Compilation([trace], self.snapshot, target=target, form=self._form())

    def _on(self, target: Target) -> tuple[Target, list[Any]]:
        """The target with its mesh, and how the inputs lie on it."""
        values, names = [], {}
        for (node, _), taken in zip(self._outside, self._taken, strict=True):
            held = taken.held()
            values.append(held if held is not None else taken.type)
            names[id(values[-1])] = self._nodes[node].names
        target = target.for_inputs(values, names)
        if target.layout is None:
            return target, []
        place = target.layout.sharding
        return target, [place(value, names.get(id(value), ())) for value in values]

    def _origins(self, path: _Path) -> Origins:
        inputs = {number: node for number, (node, _) in enumerate(self._outside)}
        return origins(path.made, inputs, self._wanted)

    def _form(self) -> Form:
        names = []
        for node, result in self._wanted:
            found = self._nodes[node]
            own = found.result_names[result] if found.result_names else found.names
            names.append(own[0] if own else "")
        constants = len(self._constants)
        return Form(tuple(names), len(self._taken) - constants, constants)


class _Path:
    """Some operations as one path in no trie, the inputs first.

    Attributes:
      end: of the path.
      slots: by value.
      made: the nodes of each operation, by the number of the step.
    """

    def __init__(self, root: Root):
        self.end: State = Root(root.placement, root.config)
        self.slots: dict[Value, int] = {}
        self.made: dict[int, Made] = {}

    def take(self, value: Value, step: State) -> None:
        """Appends an input."""
        self.slots[value] = self.end.slots
        self.end = apart(self.end, step, step.key, ())

    def append(self, applied: Applied) -> None:
        """Appends an operation."""
        step, operands = applied.step, tuple([self.slots[value] for value in applied.operands])
        assert step.operation is not None
        given = enumerate(applied.results, self.end.slots)
        self.slots.update({value: slot for slot, value in given if value is not None})
        self.end = apart(self.end, step, (step.operation.nameless, operands), operands)
        self.made[self.end.depth - 1] = applied.made


def _used(operations: Sequence[Applied], wanted: Sequence[Value], first: Sequence[Value]) -> list[Value]:
    """What ``operations`` and results take from outside: those of ``first``, then as they are read."""
    made = {value for applied in operations for value in applied.results}
    used = [value for value in dict.fromkeys([*values_read(operations), *wanted]) if value not in made]
    return list(dict.fromkeys([*[value for value in first if value in used], *used]))


def _constants(taken: Sequence[Taken], is_constant: Callable[[Any], bool]) -> dict[int, Any]:
    """By number of the input, the values that are written into the program."""
    constants = {}
    for number, one in enumerate(taken):
        value = one.held()
        if one.step.is_host_scalar or (isinstance(value, jax.Array) and is_constant(value)):
            constants[number] = value
    return constants


def _input_node(number: int, given: Any) -> Node:
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
