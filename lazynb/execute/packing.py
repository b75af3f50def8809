"""Packing of scalar inputs: many Python numbers become one array.

Python numbers are inputs (another learning rate is not another program), and a trace can have thousands. Each
argument costs a transfer when the program is called. The compile time of XLA:CPU grows faster than the number
of arguments (1,000 operations on 1,000 scalar arguments compile in 2.9 s, on one argument in 0.6 s: 2 cores,
JAX 0.10.2). So the scalars of one dtype become one array, which the program takes apart.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any

import numpy as np

from lazynb import _jax as jc
from lazynb.record.trie import State

_FEW = 8  # scalars of a dtype that are passed one by one: for these an array costs more than it saves


class Packing:
    """How the inputs of a program become its arguments: arrays first, then one array for each dtype of packed
    scalars.

    Arguments:
      packs: whether scalars are packed at all.
    """

    def __init__(self, inputs: Sequence[State], packs: bool = True):
        scalars: dict[np.dtype, list[int]] = collections.defaultdict(list)
        for number, state in enumerate(inputs):
            if packs and state.is_host_scalar:
                scalars[np.dtype(state.avals[0].dtype)].append(number)
        self._groups = [(dtype, numbers) for dtype, numbers in scalars.items() if len(numbers) > _FEW]
        packed: set[int] = set()
        for _, numbers in self._groups:
            packed.update(numbers)
        self._single = [number for number in range(len(inputs)) if number not in packed]
        self._avals = [state.avals[0] for state in inputs]

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
        if not self._groups:
            return values
        arguments = [values[number] for number in self._single]
        for dtype, numbers in self._groups:
            arguments.append(np.array([values[number] for number in numbers], dtype))
        return arguments

    def inputs(self, arguments: Sequence[Any]) -> list[Any]:
        """The inputs, taken out of ``arguments`` while JAX traces the program."""
        values: list[Any] = [None] * len(self._avals)
        for number, argument in zip(self._single, arguments, strict=False):
            values[number] = argument
        for (_, numbers), packed in zip(self._groups, arguments[len(self._single) :], strict=True):
            weak_types = {self._avals[number].weak_type for number in numbers}
            elements = {weak: jc.elements(packed, weak) for weak in weak_types}
            for position, number in enumerate(numbers):
                values[number] = elements[self._avals[number].weak_type][position]
        return values
