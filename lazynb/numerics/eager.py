"""Values as eager JAX gives them: one operation after the other, and a jitted function as one program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from lazynb import _jax as jc
from lazynb.execute.background import in_background, wait
from lazynb.numerics.equations import Equation, Equations, Unit, alone


def eager_values(
    program: Equations, taken: Mapping[int, Any], settings: Any
) -> tuple[dict[int, Any], dict[int, Any]]:
    """All values of ``program``, by their numbers: as eager JAX gives them, and of operations run one by one.

    They differ for the results of a function that eager JAX compiles. The values inside of it are in both
    those of its operations run one by one.

    Arguments:
      taken: what comes from outside.
      settings: JAX's configuration, see :func:`lazynb._jax.snapshot_config`.
    """
    values: dict[int, Any] = dict(taken)
    single: dict[int, Any] = {}
    ends: dict[int, list[Unit]] = {}
    for unit in program.units:
        ends.setdefault(unit.last, []).append(unit)
    for unit in ends.get(-1, ()):  # before the first equation
        _run(program, unit.equation, values, settings)
    for equation in program.equations:
        _run(program, equation, values, settings)
        single.update((value, values[value]) for value in equation.results)
        for unit in ends.get(equation.number, ()):
            _run(program, unit.equation, values, settings)
    return values, {**values, **single}


def operands_of(equation: Equation, values: Mapping[int, Any]) -> list[Any]:
    """What ``equation`` reads."""
    return [
        operand.val if isinstance(operand, jc.Literal) else values[operand] for operand in equation.operands
    ]


def types_of(equation: Equation, program: Equations) -> list[Any]:
    """The types of what ``equation`` reads."""
    return [
        operand.aval if isinstance(operand, jc.Literal) else program.avals[operand]
        for operand in equation.operands
    ]


def _run(program: Equations, equation: Equation, values: dict[int, Any], settings: Any) -> None:
    results = [value for value in equation.results if isinstance(value, int)]
    if not results:
        return
    function = alone(equation, types_of(equation, program), equation.avals, equation.params)
    given = wait(in_background(_under(settings, function, operands_of(equation, values))))
    for value, array in zip(equation.results, given, strict=True):
        if isinstance(value, int) and value not in program.taken:
            values[value] = array


def _under(settings: Any, function: Callable[..., Any], operands: Sequence[Any]) -> Callable[[], Any]:
    """``function(*operands)`` under the user's settings, without checks for NaN."""

    def run() -> Any:
        unchecked = (jax.debug_nans(False), jax.debug_infs(False))
        with jc.restore_config(settings), jc.set_current_trace(jc.eval_trace), unchecked[0], unchecked[1]:
            return jax.block_until_ready(function(*operands))

    return run
