"""A recorded program as a flat list of equations, each with the user's line; calls are inlined."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from lazynb import jax_compat as jc
from lazynb.recording.operation import operation_name
from lazynb.recording.snapshot.snapshot_nodes import Call, Node, Snapshot, display_name
from lazynb.user_code.source_lines import Place
from lazynb.xla.recorded_operations import RecordedOperation, RecordedOperations, Value

# ---- Equations --------------------------------------------------------------------------------------------

Operand = Any
"""The number of a value, or a ``Literal`` of a jaxpr."""


MOVING = frozenset(
    """broadcast broadcast_in_dim concatenate convert_element_type copy copy_p dynamic_slice
    dynamic_update_slice expand_dims gather iota pad pvary reshape rev select_n slice split squeeze
    stop_gradient transpose""".split()
)
"""Primitives that move, select or convert numbers without arithmetic."""


@dataclasses.dataclass(frozen=True)
class Equation:
    """One application of a primitive.

    Attributes:
      number: its position in the program.
      results: numbers of the result values.
      avals: types of the results.
      place: the user's line.
      name: user-visible name of the operation.
      within: the enclosing functions, outermost first.
      unit: number of the enclosing call that eager JAX compiles as a whole; None if the equation runs alone.
    """

    number: int
    primitive: Any
    params: dict[str, Any]
    context: Any
    effects: Any
    operands: tuple[Operand, ...]
    results: tuple[int, ...]
    avals: tuple[Any, ...]
    place: Place | None
    name: str
    within: tuple[str, ...]
    unit: int | None


@dataclasses.dataclass(frozen=True)
class JittedCall:
    """A call of a jitted function, which eager JAX compiles and runs as one program.

    Attributes:
      equation: the call as one equation.
      last: number of the last equation inside it.
    """

    name: str
    equation: Equation
    last: int


@dataclasses.dataclass
class Equations:
    """A recorded program.

    Attributes:
      taken: number of a value from outside → its source.
      equations: in order.
      units: the calls of jitted functions.
      wanted: numbers of the results.
      avals: type of each value, by number.
    """

    taken: dict[int, Any] = dataclasses.field(default_factory=dict)
    equations: list[Equation] = dataclasses.field(default_factory=list)
    units: list[JittedCall] = dataclasses.field(default_factory=list)
    wanted: tuple[int, ...] = ()
    avals: list[Any] = dataclasses.field(default_factory=list)

    def new_value(self, aval: Any) -> int:
        """Adds a value and returns its number."""
        self.avals.append(aval)
        return len(self.avals) - 1

    def maker(self) -> dict[int, Equation]:
        """The equation that computes each value."""
        return {value: each for each in self.equations for value in each.results}


def as_jaxpr(
    program: Equations, equations: Iterable[Equation], outputs: Sequence[Operand], scope: str = "n{}"
) -> Any:
    """Builds a closed jaxpr with the inputs of ``program``, in order, and ``outputs`` as results.

    Arguments:
      scope: format of the name scope of an equation, filled in with its number.
    """
    variables: dict[int, Any] = {value: jc.new_var(program.avals[value]) for value in program.taken}

    def atom(operand: Operand) -> Any:
        return operand if isinstance(operand, jc.Literal) else variables[operand]

    inputs, eqns = list(variables.values()), []
    for each in equations:
        read = [atom(operand) for operand in each.operands]
        results = [jc.new_var(aval) for aval in each.avals]
        variables.update(zip(each.results, results))
        name = scope.format(each.number)
        eqns.append(jc.new_eqn(read, results, each.primitive, each.params, each.effects, each.context, name))
    return jc.closed_jaxpr(inputs, [atom(value) for value in outputs], eqns)


def single_equation_function(
    equation: Equation, avals: Sequence[Any], results: Sequence[Any], params: dict[str, Any]
) -> Any:
    """Returns a function that applies one equation, immediately if nothing is traced.

    Arguments:
      avals, results: types of the operands and results.
      params: parameters of the primitive.
    """
    taken, given = [jc.new_var(aval) for aval in avals], [jc.new_var(aval) for aval in results]
    eqn = jc.new_eqn(taken, given, equation.primitive, params, equation.effects, equation.context, "")
    return jc.as_function(jc.closed_jaxpr(taken, given, [eqn]))


def flattened(recorded: RecordedOperations, snapshot: Snapshot, wanted: Sequence[Value]) -> Equations:
    """Lists the operations that ``wanted`` depends on. Calls are inlined, loops and branches are not.

    Arguments:
      snapshot: the graph of the recorded operations.
    """
    return _Flattening(recorded, snapshot).program(wanted)


@dataclasses.dataclass(frozen=True)
class _Location:
    """Location of an equation: path within the recorded operation, line, and enclosing functions."""

    path: tuple[int, ...]
    place: Place | None
    within: tuple[str, ...]
    unit: int | None


class _Flattening:
    def __init__(self, recorded: RecordedOperations, snapshot: Snapshot):
        self._recorded = recorded
        self._nodes = snapshot.nodes
        self._known: dict[Value, int] = {}
        self._program = Equations()

    def program(self, wanted: Sequence[Value]) -> Equations:
        operations = self._recorded.needed(wanted)
        for applied in operations:
            self._add(applied)
        self._program.wanted = tuple(dict.fromkeys([self._value(value) for value in wanted]))
        self._leave_out_wrappers()
        return self._program

    def _leave_out_wrappers(self) -> None:
        """Removes names of functions that wrap a single operation, such as ``jnp.multiply``."""
        inside: dict[tuple[str, ...], list[Equation]] = {}
        for each in self._program.equations:
            if each.unit is not None:
                inside.setdefault((str(each.unit), *each.within), []).append(each)
        for (unit, *within), equations in inside.items():
            around = [key for key in inside if key[0] == unit and len(key) > len(within) + 1]
            if not around and sum(each.primitive.name not in MOVING for each in equations) <= 1:
                for each in equations:
                    shorter = dataclasses.replace(each, within=each.within[:-1])
                    self._program.equations[each.number] = shorter

    def _value(self, value: Value) -> int:
        """The number of a value; registers a value from outside at its first use."""
        value = self._recorded.known(value)
        if value not in self._known:
            taken = self._recorded.inputs[value]
            number = self._known[value] = self._program.new_value(taken.step.avals[0])
            self._program.taken[number] = taken
        return self._known[value]

    def _add(self, applied: RecordedOperation) -> None:
        operation = applied.step.operation
        assert operation is not None
        self._made = {path: self._nodes[node] for path, node in applied.made.nodes.items()}
        operands = [self._value(value) for value in applied.operands]
        whole = _Primitive(operation.primitive, operation.canonical.params, operation.context, jc.no_effects)
        results = self._open(whole, operands, applied.step.avals, self._outermost())
        for value, number in zip(applied.results, results, strict=True):
            if value is not None:
                self._known[value] = number if isinstance(number, int) else self._constant(number)

    def _constant(self, literal: Any) -> int:
        """The number of a value that a function returns as a constant."""
        number = self._program.new_value(literal.aval)
        self._program.taken[number] = literal.val
        return number

    def _outermost(self) -> _Location:
        node = self._made.get(()) or next(iter(self._made.values()), None)
        if node is None:
            return _Location((), None, (), None)
        outer: Call | None = node.calls[0] if node.calls and () not in self._made else None
        return _Location((), outer.place if outer is not None else node.place, (), None)

    def _open(
        self, one: _Primitive, operands: Sequence[Any], avals: Sequence[Any], where: _Location
    ) -> list[Any]:
        """Adds ``one``, or the operations inside it, and returns its results."""
        if one.primitive.name not in jc.SINGLE_BODY_PRIMITIVES:
            return self._append(one, operands, avals, where)
        jaxpr = jc.jaxprs_in(one.params)[0]
        name = self._title(one, where)
        inside = dataclasses.replace(where, within=(*where.within, name))
        starts_unit = one.primitive.name in jc.JIT_PRIMITIVES and where.unit is None
        if starts_unit:
            inside = dataclasses.replace(inside, unit=len(self._program.units))
            self._program.units.append(None)  # type: ignore[arg-type]
        results = self._body(jaxpr, operands, inside)
        if starts_unit:
            assert inside.unit is not None
            equation = self._equation(one, operands, (), avals, where)
            whole = dataclasses.replace(equation, results=tuple(results), name=name)
            self._program.units[inside.unit] = JittedCall(name, whole, len(self._program.equations) - 1)
        return results

    def _title(self, one: _Primitive, where: _Location) -> str:
        node = self._made.get(where.path)
        if node is not None:
            return node.name
        return display_name(operation_name(one.primitive, one.params))

    def _body(self, jaxpr: Any, operands: Sequence[Any], inside: _Location) -> list[Any]:
        inner = getattr(jaxpr, "jaxpr", jaxpr)
        values: dict[Any, Any] = {}
        for variable, constant in zip(inner.constvars, jc.constants(jaxpr)):
            values[variable] = self._program.new_value(variable.aval)
            self._program.taken[values[variable]] = constant
        values.update(zip(inner.invars, operands, strict=True))

        def known(atom: Any) -> Any:
            return atom if isinstance(atom, jc.Literal) else values[atom]

        for place, eqn in enumerate(inner.eqns):
            where = self._here((*inside.path, 0, place), inside)
            one = _Primitive(eqn.primitive, eqn.params, eqn.ctx, eqn.effects)
            given = self._open(
                one, [known(atom) for atom in eqn.invars], [v.aval for v in eqn.outvars], where
            )
            values.update(zip(eqn.outvars, given, strict=True))
        return [known(atom) for atom in inner.outvars]

    def _here(self, path: tuple[int, ...], inside: _Location) -> _Location:
        node: Node | None = self._made.get(path)
        place = node.place if node is not None and node.place is not None else inside.place
        return dataclasses.replace(inside, path=path, place=place)

    def _append(
        self, one: _Primitive, operands: Sequence[Any], avals: Sequence[Any], where: _Location
    ) -> list[Any]:
        results = tuple([self._program.new_value(aval) for aval in avals])
        self._program.equations.append(self._equation(one, operands, results, avals, where))
        return list(results)

    def _equation(
        self,
        one: _Primitive,
        operands: Sequence[Any],
        results: tuple[int, ...],
        avals: Sequence[Any],
        where: _Location,
    ) -> Equation:
        return Equation(
            number=len(self._program.equations),
            primitive=one.primitive,
            params=one.params,
            context=one.context,
            effects=one.effects,
            operands=tuple(operands),
            results=results,
            avals=tuple(avals),
            place=where.place,
            name=display_name(operation_name(one.primitive, one.params)),
            within=where.within,
            unit=where.unit,
        )


@dataclasses.dataclass(frozen=True)
class _Primitive:
    """A primitive with its parameters, recorded or inside a call."""

    primitive: Any
    params: dict[str, Any]
    context: Any
    effects: Any
