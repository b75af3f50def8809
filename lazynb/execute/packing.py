"""Packing of scalar inputs: many Python numbers travel as one array.

Python numbers are inputs (another learning rate is not another program), and a trace can have thousands. Each
argument costs a transfer when the program is called, and XLA:CPU's compile time grows faster than their
number (1,000 operations on 1,000 scalar arguments compile in 2.9 s, on one argument in 0.6 s: 2 cores, JAX
0.10.2). So scalars of one dtype become one array, taken apart inside the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lazynb import _jax as jc
from lazynb.record.trie import State

_FEW = 8  # scalars that are passed one by one: below this an array costs more than it saves


class Packing:
    """How the inputs of a program become its arguments: arrays first, then one array for each dtype of packed
    scalars."""

    def __init__(self, inputs: Sequence[State]):
        groups: dict[np.dtype, list[int]] = {}
        for number, state in enumerate(inputs):
            if state.is_host_scalar:
                groups.setdefault(np.dtype(state.avals[0].dtype), []).append(number)
        self._groups = [(dtype, numbers) for dtype, numbers in groups.items() if len(numbers) > _FEW]
        packed = {number for _, numbers in self._groups for number in numbers}
        self._single = [number for number in range(len(inputs)) if number not in packed]
        self._avals = [state.avals[0] for state in inputs]

    def positions(self, numbers: Sequence[int]) -> tuple[int, ...]:
        """Where the inputs ``numbers``, which are arrays, stand among the arguments."""
        return tuple([self._single.index(number) for number in numbers])

    def taken(self, position: int) -> list[int]:
        """The numbers of the inputs that argument ``position`` holds."""
        if position < len(self._single):
            return [self._single[position]]
        return self._groups[position - len(self._single)][1]

    def arguments(self, values: Sequence[Any]) -> list[Any]:
        """The arguments for input ``values``."""
        if not self._groups:
            return list(values)
        arguments = [values[number] for number in self._single]
        for dtype, numbers in self._groups:
            arguments.append(np.array([values[number] for number in numbers], dtype))
        return arguments

    def inputs(self, arguments: Sequence[Any]) -> list[Any]:
        """The inputs, taken out of ``arguments`` while the program is traced."""
        values: list[Any] = [None] * len(self._avals)
        for number, argument in zip(self._single, arguments, strict=False):
            values[number] = argument
        for (_, numbers), packed in zip(self._groups, arguments[len(self._single) :], strict=True):
            for weak in {self._avals[number].weak_type for number in numbers}:
                for number, value in zip(numbers, jc.elements(packed, weak), strict=True):
                    if self._avals[number].weak_type is weak:
                        values[number] = value
        return values
