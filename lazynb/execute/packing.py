"""Packing of scalar inputs: many Python numbers become one array.

A number that is written in the code is a constant of the program, as under ``jax.jit``. One that a variable
holds is an input (another learning rate is not another program), and a trace can have thousands. Each
argument costs a transfer when the program is called. The compile time of XLA:CPU grows faster than the number
of arguments (1,000 operations on 1,000 scalar arguments compile in 2.9 s, on one argument in 0.6 s: 2 cores,
JAX 0.10.2). So the scalars of one dtype become one array, which the program takes apart.
"""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lazynb import _jax as jc
from lazynb.record.filling import inputs_of, own_numbers
from lazynb.record.trie import State

_FEW = 8  # scalars of a dtype that are passed one by one: for these an array costs more than it saves


class Packing:
    """How the inputs of a program become its arguments: arrays first, then one array for each dtype of packed
    scalars. Constants are no arguments.

    Arguments:
      inputs: their steps.
      constants: the values of those that are written into the program, by number of the input.
      packs: whether scalars are packed at all.
    """

    def __init__(self, inputs: Sequence[State], constants: Mapping[int, Any], packs: bool = True):
        self._avals = [state.avals[0] for state in inputs]
        self._constants = {
            number: _number(value, self._avals[number]) if inputs[number].is_host_scalar else value
            for number, value in constants.items()
        }
        scalars: dict[np.dtype, list[int]] = collections.defaultdict(list)
        for number, state in enumerate(inputs):
            if packs and state.is_host_scalar and number not in constants:
                scalars[np.dtype(state.avals[0].dtype)].append(number)
        self._groups = [(dtype, numbers) for dtype, numbers in scalars.items() if len(numbers) > _FEW]
        left_out = set(constants)
        for _, numbers in self._groups:
            left_out.update(numbers)
        self._single = [number for number in range(len(inputs)) if number not in left_out]

    @property
    def single(self) -> list[int]:
        """The numbers of the inputs that are arguments of their own."""
        return self._single

    def __len__(self) -> int:
        """How many arguments there are."""
        return len(self._single) + len(self._groups)

    def positions(self, numbers: Sequence[int]) -> tuple[int, ...]:
        """The positions among the arguments of the inputs ``numbers``, which are arrays."""
        return tuple([self._single.index(number) for number in numbers])

    def taken(self, position: int) -> list[int]:
        """The numbers of the inputs that argument ``position`` holds."""
        if position < len(self._single):
            return [self._single[position]]
        return self._groups[position - len(self._single)][1]

    def arguments(self, values: Sequence[Any]) -> Sequence[Any]:
        """The arguments for input ``values``."""
        if not self._groups and not self._constants:
            return values
        arguments = [values[number] for number in self._single]
        for dtype, numbers in self._groups:
            packed = np.empty(len(numbers), dtype)  # ``np.array`` is another one while a thread is lazy
            packed[:] = [values[number] for number in numbers]
            arguments.append(packed)
        return arguments

    def inputs(self, arguments: Sequence[Any]) -> list[Any]:
        """The inputs, taken out of ``arguments`` while JAX traces the program."""
        values: list[Any] = [None] * len(self._avals)
        for number, value in self._constants.items():
            values[number] = value
        for number, argument in zip(self._single, arguments, strict=False):
            values[number] = argument
        for (_, numbers), packed in zip(self._groups, arguments[len(self._single) :], strict=True):
            weak_types = {self._avals[number].weak_type for number in numbers}
            elements = {weak: jc.elements(packed, weak) for weak in weak_types}
            for position, number in enumerate(numbers):
                values[number] = elements[self._avals[number].weak_type][position]
        return values


def of_program(path: Sequence[State]) -> Packing:
    """The arguments of a program: numbers that are written in the code are constants.

    Arguments:
      path: the steps of the program.
    """
    inputs = inputs_of(path)
    written = {number: inputs[number].constant for number in own_numbers(path)}
    return Packing(inputs, {number: known.value for number, known in written.items() if known is not None})


def with_constants(path: Sequence[State], values: Sequence[Any]) -> Packing:
    """The arguments of a program of which all numbers are constants, as under ``jax.jit``.

    Arguments:
      path: the steps of the program.
      values: of all inputs.
    """
    return Packing(inputs_of(path), {number: values[number] for number in own_numbers(path)}, packs=False)


def _number(value: Any, aval: Any) -> Any:
    """``value`` as JAX takes it for a number of that type: weakly typed ones are Python's."""
    number = np.asarray(value, aval.dtype)[()]
    return number.item() if aval.weak_type and np.dtype(aval.dtype).kind in "bifc" else number
