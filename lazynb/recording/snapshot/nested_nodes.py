"""Graph nodes for the equations of the user's functions inside of a recorded operation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from types import CodeType
from typing import Any, NamedTuple

from lazynb import jax_compat as jc
from lazynb.recording.jaxpr_structure import Path, user_function_key
from lazynb.recording.operation import operation_name
from lazynb.recording.snapshot.snapshot_nodes import Call, Gradient, display_name, gradient
from lazynb.user_code.code_ownership import is_user_code
from lazynb.user_code.source_lines import Origin, Place, Places

Result = tuple[int, int]
"""A node, and the number of its result."""


class Value(NamedTuple):
    """A value inside of an operation.

    Attributes:
      result: the node and result that define it; None for a constant.
      loops: the loops that compute it anew in each turn.
    """

    result: Result | None
    loops: tuple[Path, ...] = ()


class EquationContext(NamedTuple):
    """The context of an equation.

    Attributes:
      place: the user's line that made the call.
      scope: the names of modules.
      calls, gradient: as in :class:`lazynb.recording.snapshot.snapshot_nodes.Node`.
    """

    place: Place | None
    scope: str
    calls: tuple[Call, ...]
    gradient: Gradient | None = None


class Step(NamedTuple):
    """An operation or an equation.

    Attributes:
      path: its position in the recorded operation.
      params: its parameters in the program.
      written: the same parameters, traced on the lines to be displayed.
    """

    path: Path
    primitive: Any
    params: dict[str, Any]
    written: dict[str, Any]

    @property
    def name(self) -> str:
        """The name for the user."""
        return operation_name(self.primitive, self.written)

    def bodies(self) -> Iterator[tuple[int, Any, Any]]:
        """Yields the jaxprs that it calls: number, jaxpr, and the jaxpr with the lines to be displayed."""
        pairs = zip(jc.jaxprs_in(self.params), jc.jaxprs_in(self.written), strict=True)
        return ((number, *pair) for number, pair in enumerate(pairs))


@dataclasses.dataclass
class OperationNodes:
    """The nodes of one recorded operation.

    Attributes:
      nodes: the nodes by position inside of it; the empty position is the operation.
      loops: positions of the loops and branches.
      carried: by position, the loops whose carried values the operation reads.
      constants: positions of calls that return only constants.
    """

    nodes: dict[Path, int] = dataclasses.field(default_factory=dict)
    loops: set[Path] = dataclasses.field(default_factory=set)
    carried: dict[Path, tuple[Path, ...]] = dataclasses.field(default_factory=dict)
    constants: set[Path] = dataclasses.field(default_factory=set)


AddNode = Callable[[Step, Sequence[Any], Sequence[Result], EquationContext], int]
"""Adds a node for a step with results of these avals, which reads these results. Returns its number."""


class NestedNodeBuilder:
    """Adds the nodes inside of one recorded operation.

    Arguments:
      add: adds one node.
      call_ids: returns a number for each call.
    """

    def __init__(self, add: AddNode, call_ids: Iterator[int], places: Places):
        self.made = OperationNodes()
        self._add = add
        self._call_ids = call_ids
        self._places = places

    def open(
        self, step: Step, given: Sequence[Value], avals: Sequence[Any], around: EquationContext
    ) -> list[Value]:
        """Adds the nodes inside of ``step``, which reads ``given``. Returns its results, which have
        ``avals``."""
        call = Call(next(self._call_ids), display_name(step.name), around.place)
        inside = around._replace(calls=(*around.calls, call))
        if step.primitive.name in jc.SINGLE_BODY_PRIMITIVES:
            return self._call(step, given, avals, inside)
        results = self._bodies(step, given, inside)
        if step.primitive.name == jc.SHARD_MAP:  # its inner values are parts; its own node has the whole
            return self._node(step, results, avals, inside)
        self.made.loops.add(step.path)
        return self._node(step, [*given, *results], avals, inside)

    def _call(
        self, step: Step, given: Sequence[Value], avals: Sequence[Any], inside: EquationContext
    ) -> list[Value]:
        """Opens a function that is called once: its equations' results are its results."""
        number, jaxpr, written = next(step.bodies())
        results = self._body(step.path, number, (jaxpr, written), given, inside)
        if all(value.result is not None for value in results):
            return results
        self.made.constants.add(step.path)
        own = self._node(step, [], avals, inside)
        return [value if value.result is not None else mine for value, mine in zip(results, own)]

    def _bodies(self, step: Step, given: Sequence[Value], inside: EquationContext) -> list[Value]:
        """Returns the results of the body of a loop, or of all branches."""
        results = []
        for number, jaxpr, written in step.bodies():
            taken = _BODY_INPUTS[step.primitive.name](step, number, given)
            results += self._body(step.path, number, (jaxpr, written), taken, inside)
        return results

    def _body(
        self,
        path: Path,
        number: int,
        jaxprs: tuple[Any, Any],
        given: Sequence[Value],
        inside: EquationContext,
    ) -> list[Value]:
        """Adds the equations of a jaxpr. Returns its results."""
        jaxpr, written = (getattr(one, "jaxpr", one) for one in jaxprs)
        values: dict[Any, Value] = dict(zip(jaxpr.invars, given, strict=True))

        def known(atom: Any) -> Value:
            return Value(None) if isinstance(atom, jc.Literal) else values.get(atom, Value(None))

        for place, (eqn, other) in enumerate(zip(jaxpr.eqns, written.eqns, strict=True)):
            step = Step((*path, number, place), eqn.primitive, eqn.params, other.params)
            avals = [var.aval for var in eqn.outvars]
            here = self._here(other, inside)
            make = self.open if user_function_key(eqn.primitive, eqn.params) is not None else self._node
            values.update(zip(eqn.outvars, make(step, [known(atom) for atom in eqn.invars], avals, here)))
        return [known(atom) for atom in jaxpr.outvars]

    def _here(self, eqn: Any, inside: EquationContext) -> EquationContext:
        """Returns the context of an equation: the innermost line of the user's, or that of the call."""
        scope = "/".join(filter(None, (inside.scope, jc.name_stack(eqn))))
        instructions = list(jc.eqn_frames(eqn))
        place = next((self._place(*one) for one in instructions if is_user_code(one[0])), inside.place)
        of_gradient = gradient(scope, place, instructions, self._places, inside.gradient)
        return inside._replace(place=place, scope=scope, gradient=of_gradient)

    def _place(self, code: CodeType, offset: int) -> Place:
        return self._places.of(Origin(code, offset, None, 0, None))

    def _node(
        self, step: Step, given: Sequence[Value], avals: Sequence[Any], around: EquationContext
    ) -> list[Value]:
        read = [value.result for value in given if value.result is not None]
        node = self.made.nodes[step.path] = self._add(step, avals, read, around)
        loops = dict.fromkeys(loop for value in given for loop in value.loops if loop != step.path)
        if loops:
            self.made.carried[step.path] = tuple(loops)
        return [Value((node, number)) for number in range(len(avals))]


def _of_scan(step: Step, _: int, given: Sequence[Value]) -> list[Value]:
    """Returns the operands of a scan's body: constants, carried values, slices of arrays."""
    constants = jc.scan_constants(step.params)
    return [*given[:constants], *_each_turn(step, given[constants:])]


def _of_while(step: Step, number: int, given: Sequence[Value]) -> list[Value]:
    """Returns the operands of the condition (the first jaxpr) or the body of a while loop."""
    first, second = step.params["cond_nconsts"], step.params["body_nconsts"]
    constants = given[first : first + second] if number else given[:first]
    return [*constants, *_each_turn(step, given[first + second :])]


def _of_branch(_step: Step, _number: int, given: Sequence[Value]) -> list[Value]:
    """Returns the operands of a branch: all but the branch index."""
    return list(given[1:])


def _each_turn(step: Step, given: Sequence[Value]) -> list[Value]:
    return [value._replace(loops=(*value.loops, step.path)) for value in given]


def _of_mapped(_step: Step, _number: int, given: Sequence[Value]) -> list[Value]:
    """Returns the operands of the function of a ``shard_map``: a shard of each operand."""
    return list(given)


_BODY_INPUTS = {jc.SCAN: _of_scan, jc.WHILE: _of_while, jc.BRANCHES: _of_branch, jc.SHARD_MAP: _of_mapped}
