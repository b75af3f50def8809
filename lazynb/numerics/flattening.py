"""Flattening: recorded operations as equations, with the calls of functions opened."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from lazynb import _jax as jc
from lazynb.numerics.equations import MOVING, Equation, Equations, Unit
from lazynb.record.operation import operation_name
from lazynb.record.snapshot.snapshot import Call, Node, Snapshot
from lazynb.record.snapshot.words import plain_name
from lazynb.source import Place
from lazynb.xla.recorded import Applied, Recorded, Value


def flattened(recorded: Recorded, snapshot: Snapshot, wanted: Sequence[Value]) -> Equations:
    """The operations that ``wanted`` need, with calls of functions opened; loops and branches stay one.

    Arguments:
      snapshot: the graph of what was recorded.
    """
    return _Flattening(recorded, snapshot).program(wanted)


@dataclasses.dataclass(frozen=True)
class _Where:
    """Where an equation stands: its position in the recorded operation, the line, the functions around it."""

    path: tuple[int, ...]
    place: Place | None
    within: tuple[str, ...]
    unit: int | None


class _Flattening:
    def __init__(self, recorded: Recorded, snapshot: Snapshot):
        self._recorded = recorded
        self._nodes = snapshot.nodes
        self._known: dict[Value, int] = {}
        self._program = Equations()

    def program(self, wanted: Sequence[Value]) -> Equations:
        """The whole program."""
        operations = self._recorded.needed(wanted)
        for applied in operations:
            self._add(applied)
        self._program.wanted = tuple(dict.fromkeys([self._value(value) for value in wanted]))
        self._leave_out_wrappers()
        return self._program

    def _leave_out_wrappers(self) -> None:
        """Takes the names of functions away that are there for one operation, such as ``jnp.multiply``."""
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
        """The number of a value; the first time, of one from outside."""
        value = self._recorded.known(value)
        if value not in self._known:
            taken = self._recorded.inputs[value]
            number = self._known[value] = self._program.new_value(taken.step.avals[0])
            self._program.taken[number] = taken
        return self._known[value]

    def _add(self, applied: Applied) -> None:
        operation = applied.step.operation
        assert operation is not None
        self._made = {path: self._nodes[node] for path, node in applied.made.nodes.items()}
        operands = [self._value(value) for value in applied.operands]
        whole = _OneOf(operation.primitive, operation.nameless.params, operation.context, jc.no_effects)
        results = self._open(whole, operands, applied.step.avals, self._outermost())
        for value, number in zip(applied.results, results, strict=True):
            if value is not None:
                self._known[value] = number if isinstance(number, int) else self._constant(number)

    def _constant(self, literal: Any) -> int:
        """The number of a value that a function returns as a constant."""
        number = self._program.new_value(literal.aval)
        self._program.taken[number] = literal.val
        return number

    def _outermost(self) -> _Where:
        node = self._made.get(()) or next(iter(self._made.values()), None)
        if node is None:
            return _Where((), None, (), None)
        outer: Call | None = node.calls[0] if node.calls and () not in self._made else None
        return _Where((), outer.place if outer is not None else node.place, (), None)

    def _open(self, one: _OneOf, operands: Sequence[Any], avals: Sequence[Any], where: _Where) -> list[Any]:
        """Adds ``one``, or what is inside of it. Returns its results."""
        if one.primitive.name not in jc.CALLS:
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
            self._program.units[inside.unit] = Unit(name, whole, len(self._program.equations) - 1)
        return results

    def _title(self, one: _OneOf, where: _Where) -> str:
        node = self._made.get(where.path)
        if node is not None:
            return node.name
        return plain_name(operation_name(one.primitive, one.params))

    def _body(self, jaxpr: Any, operands: Sequence[Any], inside: _Where) -> list[Any]:
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
            one = _OneOf(eqn.primitive, eqn.params, eqn.ctx, eqn.effects)
            given = self._open(
                one, [known(atom) for atom in eqn.invars], [v.aval for v in eqn.outvars], where
            )
            values.update(zip(eqn.outvars, given, strict=True))
        return [known(atom) for atom in inner.outvars]

    def _here(self, path: tuple[int, ...], inside: _Where) -> _Where:
        node: Node | None = self._made.get(path)
        place = node.place if node is not None and node.place is not None else inside.place
        return dataclasses.replace(inside, path=path, place=place)

    def _append(self, one: _OneOf, operands: Sequence[Any], avals: Sequence[Any], where: _Where) -> list[Any]:
        results = tuple([self._program.new_value(aval) for aval in avals])
        self._program.equations.append(self._equation(one, operands, results, avals, where))
        return list(results)

    def _equation(
        self,
        one: _OneOf,
        operands: Sequence[Any],
        results: tuple[int, ...],
        avals: Sequence[Any],
        where: _Where,
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
            name=plain_name(operation_name(one.primitive, one.params)),
            within=where.within,
            unit=where.unit,
        )


@dataclasses.dataclass(frozen=True)
class _OneOf:
    """A primitive with its parameters, recorded or inside of a call."""

    primitive: Any
    params: dict[str, Any]
    context: Any
    effects: Any
