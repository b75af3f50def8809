"""Comparison of each operation's eager, compiled and float64 values, with a verdict."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from lazynb import jax_compat as jc
from lazynb.compare.numerics.equation_list import Equation
from lazynb.compare.numerics.float64_reference import Reference
from lazynb.compare.numerics.float_arrays import (
    Distance,
    NonfiniteOrigin,
    distance,
    is_inexact,
    nonfinite_origins,
    to_widest,
    ulps_between,
)
from lazynb.compare.numerics.numerics_code import RecordedCode
from lazynb.compare.numerics.program_values import (
    CHANGED,
    KEPT,
    RESULT,
    CompiledProgram,
    ObservedValues,
    eager_values,
    observed_values,
    operands_of,
    types_of,
)
from lazynb.compare.numerics.rounding_bounds import ULPS, Error, beyond_rounding, is_narrow

EQUAL, ROUNDING, CARRIED, PARTS = "equal", "rounding", "carried", "parts"
INSIDE, LOOKED, SIGN = "inside", "looked", "sign"
"""Verdicts: equal values; difference by rounding; difference carried over from the operands; difference
beyond rounding, also a NaN or an infinity in one alone that no operand has; beyond rounding, but inside a
function that eager JAX compiles too and whose results agree; beyond rounding, but only because the value was
made a result; difference in the sign of zeros."""


@dataclasses.dataclass(frozen=True)
class ComparedEquation:
    """One operation with its comparison.

    Attributes:
      verdict: one of the constants above.
      how: how its compiled values are known.
      apart: distance between eager and compiled values, of the result where it is largest.
      result: index of that result.
      eager_error, compiled_error: distance of each from the reference; None if not floating point.
      born_eagerly, born_compiled, born_in_reference: the NaNs and infinities that it creates.
    """

    equation: Equation
    verdict: str
    how: str
    apart: Distance
    result: int
    eager_error: Distance | None
    compiled_error: Distance | None
    born_eagerly: list[NonfiniteOrigin]
    born_compiled: list[NonfiniteOrigin]
    born_in_reference: list[NonfiniteOrigin]


class ValueComparison:
    """A piece of code, evaluated in three ways.

    Attributes:
      eager, compiled, reference: values by number; reference values are wide.
      seen: how the compiled values are known.
      operations: the compared operations, in order.
      narrow: numbers of the equations that cannot run in float64.
    """

    def __init__(self, code: RecordedCode):
        self.code = code
        program = code.program
        self.executable = CompiledProgram(program, code.taken, code.constants, code.settings)
        self.eager, self._single = eager_values(program, code.taken, code.settings)
        self.seen: ObservedValues = observed_values(self.executable, code.taken)
        self.compiled = self.seen.values
        self._evaluate = Reference()
        self.reference = self._in_float64()
        compared = [self._compared(equation) for equation in program.equations]
        self.operations = self._without_artefacts(self._inside_of_units(compared))
        self.narrow = self._evaluate.narrow

    def _in_float64(self) -> dict[int, Any]:
        values = {number: _wide(value) for number, value in self.code.taken.items()}
        for equation in self.code.program.equations:
            values.update(zip(equation.results, self.exact(equation, operands_of(equation, values))))
        return values

    def exact(self, equation: Equation, operands: Sequence[Any]) -> list[Any]:
        """Evaluates ``equation`` in float64 on ``operands``."""
        taken = [_wide(operand) for operand in operands]
        return self._evaluate(equation, taken, types_of(equation, self.code.program))

    # ---- One operation -------------------------------------------------------------------------------------

    def _compared(self, equation: Equation) -> ComparedEquation:
        eager = self._results(equation, self.eager)
        compiled = self._results(equation, self.compiled)
        reference = self._results(equation, self.reference)
        apart = [
            distance(one, other, aval.dtype) for one, other, aval in zip(eager, compiled, equation.avals)
        ]
        furthest = max(range(len(apart)), key=lambda number: _rank(apart[number]), default=0)
        dtype = equation.avals[furthest].dtype
        known = is_inexact(dtype)
        return ComparedEquation(
            equation=equation,
            verdict=self._verdict(equation, eager, compiled, apart),
            how=self._how(equation),
            apart=apart[furthest],
            result=furthest,
            eager_error=distance(eager[furthest], reference[furthest], dtype) if known else None,
            compiled_error=distance(compiled[furthest], reference[furthest], dtype) if known else None,
            born_eagerly=self._born(equation, self.eager),
            born_compiled=self._born(equation, self.compiled),
            born_in_reference=self._born(equation, self.reference),
        )

    @staticmethod
    def _results(equation: Equation, values: Mapping[int, Any]) -> list[Any]:
        return [_comparable(values[number]) for number in equation.results]

    def _born(self, equation: Equation, values: Mapping[int, Any]) -> list[NonfiniteOrigin]:
        operands = [_comparable(operand) for operand in operands_of(equation, values)]
        return nonfinite_origins(equation.primitive.name, operands, self._results(equation, values))

    def _how(self, equation: Equation) -> str:
        ways = {self.seen.how.get(value, CHANGED) for value in equation.results}
        return next(way for way in (CHANGED, KEPT, RESULT) if way in ways)

    def _verdict(
        self, equation: Equation, eager: list[Any], compiled: list[Any], apart: Sequence[Distance]
    ) -> str:
        if not any(one.differing for one in apart):
            return EQUAL
        if any(jc.is_key(aval) for aval in equation.avals):
            return PARTS
        if any(
            mark.any()
            for mark in self.beyond_rounding_at(equation, compiled, operands_of(equation, self.compiled))
        ):
            return PARTS
        carried = self._operand_distances(equation)
        if not any(one.differing for one in carried):
            return ROUNDING if any(one.ulps != 0 for one in apart if one.differing) else SIGN
        is_new = any(map(_is_infinite, apart)) and not any(map(_is_infinite, carried))
        return PARTS if is_new else CARRIED

    def beyond_rounding_at(
        self, equation: Equation, compiled: Sequence[Any], operands: Sequence[Any]
    ) -> list[np.ndarray]:
        """Marks where compiled results of an operation differ from eager ones by more than rounding.

        Arguments:
          compiled, operands: its results and operands in the examined program.
        """
        types = types_of(equation, self.code.program)
        errors = self._own_errors(equation)
        marks = beyond_rounding(
            equation,
            types,
            [_wide(operand) for operand in operands],
            compiled,
            lambda taken: self.exact(equation, taken),
            errors,
        )
        eager = self._results(equation, self.eager)
        found = []
        for mark, one, other, aval in zip(marks, eager, compiled, equation.avals):
            if is_inexact(aval.dtype):
                mark = mark & (ulps_between(one, other, aval.dtype) > ULPS)
            else:
                mark = mark & (one != other)
            found.append(mark)
        return found

    def _own_errors(self, equation: Equation) -> list[Error]:
        """The rounding errors of eager JAX where the operation runs alone."""
        exact = self.exact(equation, operands_of(equation, self.eager))
        single = self._results(equation, self._single)
        return [Error(one, other, aval.dtype) for one, other, aval in zip(single, exact, equation.avals)]

    def _operand_distances(self, equation: Equation) -> list[Distance]:
        pairs = zip(operands_of(equation, self.eager), operands_of(equation, self.compiled))
        types = types_of(equation, self.code.program)
        return [
            distance(_comparable(one), _comparable(other), aval.dtype)
            for (one, other), aval in zip(pairs, types)
        ]

    def _inside_of_units(self, compared: Sequence[ComparedEquation]) -> list[ComparedEquation]:
        """Changes the verdict of operations inside a jitted function whose results agree."""
        program = self.code.program
        agreeing = set()
        for number, unit in enumerate(program.units):
            results = [value for value in unit.equation.results if isinstance(value, int)]
            if all(self._agrees(value) for value in results):
                agreeing.add(number)
        found = []
        for one in compared:
            if one.verdict == PARTS and one.equation.unit in agreeing:
                one = dataclasses.replace(one, verdict=INSIDE)
            found.append(one)
        return found

    def _without_artefacts(self, compared: Sequence[ComparedEquation]) -> list[ComparedEquation]:
        """Changes the verdict of conversions to a wider type that are not results, if all results agree:
        making the conversion a result let XLA omit the rounding before it."""
        if not all(self._agrees(value) for value in self.code.program.wanted):
            return list(compared)
        found = []
        for one in compared:
            if one.verdict == PARTS and one.how != RESULT and self._widens(one.equation):
                one = dataclasses.replace(one, verdict=LOOKED)
            found.append(one)
        return found

    def _widens(self, equation: Equation) -> bool:
        if equation.primitive.name != "convert_element_type":
            return False
        [taken] = types_of(equation, self.code.program)
        return is_inexact(taken.dtype) and is_narrow(taken.dtype)

    def nan_results(self) -> tuple[int, int]:
        """Of the elements of the results, how many are NaN eagerly and compiled, and how many there are."""
        both = total = 0
        for value in self.code.program.wanted:
            eager, compiled = _comparable(self.eager[value]), _comparable(self.compiled[value])
            total += eager.size
            if eager.dtype.kind in "fc":
                both += int(np.count_nonzero(np.isnan(eager) & np.isnan(compiled)))
        return both, total

    def _agrees(self, value: int) -> bool:
        eager, compiled = _comparable(self.eager[value]), _comparable(self.compiled[value])
        apart = distance(eager, compiled, self.code.program.avals[value].dtype)
        return apart.differing == 0 or (apart.ulps is not None and apart.ulps <= ULPS)


def _wide(value: Any) -> Any:
    """A value as a wide array; random keys unchanged."""
    return value if hasattr(value, "dtype") and jc.is_key(value) else to_widest(value)


def _comparable(value: Any) -> np.ndarray:
    """A value as a wide array; random keys as their key data."""
    if hasattr(value, "dtype") and jc.is_key(value):
        value = jax.random.key_data(value)
    return to_widest(value)


def _is_infinite(apart: Distance) -> bool:
    return apart.ulps == np.inf


def _rank(apart: Distance) -> tuple[float, float]:
    return (apart.ulps if apart.ulps is not None else apart.relative, apart.differing)
