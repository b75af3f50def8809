"""Equations: a recorded program as a flat list of primitives, each with the user's line."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from lazynb import _jax as jc
from lazynb.source import Place

Operand = Any
"""The number of a value, or a ``Literal`` of a jaxpr."""


MOVING = frozenset(
    """broadcast broadcast_in_dim concatenate convert_element_type copy copy_p dynamic_slice
    dynamic_update_slice expand_dims gather iota pad pvary reshape rev select_n slice split squeeze
    stop_gradient transpose""".split()
)
"""Primitives that move, choose or convert numbers, and compute none."""


@dataclasses.dataclass(frozen=True)
class Equation:
    """One primitive.

    Attributes:
      number: its position in the program.
      operands: what it reads.
      results: the numbers of the values that it gives.
      avals: their types.
      place: the user's line.
      name: the operation's, for the user.
      within: the functions that it is inside of, the outermost first.
      unit: the number of the call that eager JAX compiles as a whole, in which it is; None if it runs alone.
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
class Unit:
    """A jitted function that the code calls: eager JAX compiles it, and runs it as one program.

    Attributes:
      name: the function's.
      equation: the call as one equation.
      last: the number of the last equation inside of it.
    """

    name: str
    equation: Equation
    last: int


@dataclasses.dataclass
class Equations:
    """A recorded program.

    Attributes:
      taken: the numbers of the values that come from outside, with what they are.
      equations: in order.
      units: the calls of jitted functions.
      wanted: the numbers of the results.
      avals: the type of each value, by its number.
    """

    taken: dict[int, Any] = dataclasses.field(default_factory=dict)
    equations: list[Equation] = dataclasses.field(default_factory=list)
    units: list[Unit] = dataclasses.field(default_factory=list)
    wanted: tuple[int, ...] = ()
    avals: list[Any] = dataclasses.field(default_factory=list)

    def new_value(self, aval: Any) -> int:
        """The number of a value more."""
        self.avals.append(aval)
        return len(self.avals) - 1

    def maker(self) -> dict[int, Equation]:
        """By value, the equation that gives it."""
        return {value: each for each in self.equations for value in each.results}


def as_jaxpr(
    program: Equations, equations: Iterable[Equation], outputs: Sequence[Operand], scope: str = "n{}"
) -> Any:
    """The closed jaxpr that takes all that ``program`` takes, in order, and gives ``outputs``.

    Arguments:
      scope: the name scope of an equation, with its number.
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


def alone(equation: Equation, avals: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
    """A function that does one equation alone, at once where nothing is traced.

    Arguments:
      avals, results: the types of what it takes and gives.
      params: the parameters of the primitive.
    """
    taken, given = [jc.new_var(aval) for aval in avals], [jc.new_var(aval) for aval in results]
    eqn = jc.new_eqn(taken, given, equation.primitive, params, equation.effects, equation.context, "")
    return jc.as_function(jc.closed_jaxpr(taken, given, [eqn]))
