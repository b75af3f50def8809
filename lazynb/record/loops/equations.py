"""The operations of a trace and of the jaxprs in it in one form: a value can be followed through both."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Any

from lazynb import _jax as jc
from lazynb._jax.names import CALLING
from lazynb.record.operation import Operation
from lazynb.record.trie import State


@dataclasses.dataclass(slots=True, eq=False)
class Equation:
    """One operation.

    Attributes:
      name: of its primitive.
      operands: the values that it takes; None for a constant.
      results: the values that it gives.
      constant: whether it takes a constant.
      same_dtype: whether its first result has the type of its first operand.
      body: what it calls with its operands; None if it is no call.
    """

    name: str
    operands: tuple[Hashable, ...]
    results: tuple[Hashable, ...]
    constant: bool
    same_dtype: bool
    body: Body | None


class Body:
    """Operations in order.

    Attributes:
      equations: the operations.
      given: the values that come from outside, in order.
      results: the values that it returns; None for a constant.
      avals: the types of all values.
      made: by value, the number of the operation that gives it.
    """

    def __init__(
        self,
        equations: Sequence[Equation],
        given: Sequence[Hashable],
        results: Sequence[Hashable],
        avals: dict[Hashable, Any],
    ):
        self.equations = equations
        self.given = list(given)
        self.results = results
        self.avals = avals
        self.made = {value: number for number, equation in enumerate(equations) for value in equation.results}

    @cached_property
    def read(self) -> dict[Hashable, list[int]]:
        """By value, the numbers of the operations that take it."""
        read: dict[Hashable, list[int]] = {}
        for number, equation in enumerate(self.equations):
            for value in equation.operands:
                read.setdefault(value, []).append(number)
        return read

    def crossing(self, cut: int) -> list[Hashable]:
        """The values that are made before operation ``cut`` and taken by it or by a later one."""
        return [value for value, made in self.made.items() if made < cut <= self.read.get(value, [made])[-1]]


def body_of_path(path: Sequence[State]) -> Body:
    """The operations of a trace; its values are slots."""
    avals: dict[Hashable, Any] = {}
    bodies: dict[Operation, Body | None] = {}
    equations = []
    for step in path:
        avals.update(enumerate(step.avals, step.first))
        operation = step.operation
        if operation is None:
            continue
        name, results = operation.primitive.name, tuple(range(step.first, step.slots))
        if operation not in bodies:
            bodies[operation] = _called(name, operation.params, step.operands, results)
        same = _is_same([avals[slot] for slot in step.operands], step.avals)
        equations.append(Equation(name, step.operands, results, False, same, bodies[operation]))
    return Body(equations, [step.first for step in path if step.operation is None], (), avals)


def _body_of_jaxpr(jaxpr: Any) -> Body:
    """The operations of a jaxpr; its values are variables."""
    equations = []
    avals: dict[Hashable, Any] = {}
    constants = set(jaxpr.constvars)
    for eqn in jaxpr.eqns:
        operands = tuple([_value(atom, constants) for atom in eqn.invars])
        results = tuple(eqn.outvars)
        same = _is_same([atom.aval for atom in eqn.invars], [var.aval for var in results])
        body = _called(eqn.primitive.name, eqn.params, operands, results)
        equations.append(Equation(eqn.primitive.name, operands, results, None in operands, same, body))
    return Body(equations, jaxpr.invars, [_value(atom, constants) for atom in jaxpr.outvars], avals)


def _value(atom: Any, constants: set[Any]) -> Hashable:
    return None if isinstance(atom, jc.Literal) or atom in constants else atom


def _is_same(operands: Sequence[Any], results: Sequence[Any]) -> bool:
    return bool(operands) and bool(results) and operands[0].dtype == results[0].dtype


def _called(
    name: str, params: dict[str, Any], operands: Sequence[Any], results: Sequence[Any]
) -> Body | None:
    """The body that an operation calls with its operands; None if it is no call."""
    if name not in CALLING:
        return None
    jaxprs = [getattr(jaxpr, "jaxpr", jaxpr) for jaxpr in jc.jaxprs_in(params)]
    if len(jaxprs) != 1 or (len(jaxprs[0].invars), len(jaxprs[0].outvars)) != (len(operands), len(results)):
        return None
    return _body_of_jaxpr(jaxprs[0])
