"""A graph traced by JAX for inputs of certain layouts: one function of arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import torch

from lazynb import _jax as jc
from lazynb.record.checks import Verdict, expect, gathered
from lazynb.record.tensor import LazyTensor
from lazynb.torch import generator
from lazynb.torch.dispatch import around, demands
from lazynb.torch.dispatch.dispatch import jax_dtype
from lazynb.torch.dispatch.lines import Lines
from lazynb.torch.dispatch.recalled import recalled
from lazynb.torch.dispatch.traced import Demanded, Traced, Untraceable, here
from lazynb.torch.graphs.outputs import Outputs
from lazynb.torch.tensor import Tensor, wrap

Run = Callable[[list[Any]], Sequence[Any]]
"""Runs the operations of a graph. Returns its outputs."""

_WORDS = jax.ShapeDtypeStruct((2,), np.uint32)
_FIRST = jax.ShapeDtypeStruct((), np.uint32)


class Program:
    """A graph as one function of arrays.

    Arguments:
      run: see :data:`Run`.
      name: what the function is called.
      given: inputs such as the function is made for.
      assumes: whether demands of the inputs' numbers are looked at before each call, not by the function.
      visible: how many outputs the user may see, the first ones; None for all.

    Attributes:
      demanded: those demands.

    Raises:
      Exception: the graph cannot be traced: an operation asks for values, or would draw other numbers.
    """

    def __init__(self, run: Run, name: str, given: Sequence[Any], assumes: bool, visible: int | None) -> None:
        self._run, self._given, self._assumes, self._visible = run, given, assumes, visible
        self._verdicts: list[Verdict]
        self.demanded: list[Demanded] = []
        self._draws = 0
        self._outputs: Outputs
        self._name = object()  # by which a call is recalled
        types = [_type_of(x) for x in given if isinstance(x, Tensor)]
        with around.in_64_bit(), torch.no_grad():
            jaxpr = jax.make_jaxpr(self._trace)(_WORDS, _FIRST, *types)
        self._outputs.arrays = []
        del self._run, self._given
        self._consts, self._call = self._prepared(jaxpr, name)

    # ---- tracing -------------------------------------------------------------------------------------------

    def _trace(self, words: Any, first: Any, *arrays: Any) -> list[Any]:
        """The graph's arrays, and the reports of what it demands of values."""
        values = iter(arrays)
        self._verdicts = []
        inner = [wrap(next(values), x._layout) if isinstance(x, Tensor) else x for x in self._given]
        graph = Traced(words, first, [x if isinstance(x, Tensor) else None for x in inner], self._assumes)
        reports: list[Any] = []

        def report(found: Any, verdict: Verdict) -> None:
            reports.append(found)
            self._verdicts.append(_with_line(verdict, graph.lines))

        outer, here.graph = here.graph, graph
        try:
            with gathered(report):
                outputs = self._run(inner)
                self._outputs = Outputs(outputs, inner, self._visible)
        finally:
            here.graph = outer
        if any(x._storage.version for x in inner if isinstance(x, Tensor)):
            raise Untraceable("an input is written to")
        self.demanded, self._draws = graph.demanded, graph.draws
        return self._outputs.arrays + reports

    def _prepared(self, jaxpr: Any, name: str) -> tuple[list[Any], Callable[..., Any]]:
        """The arrays that the graph holds, and the function of these and of the inputs' arrays."""
        if jaxpr.effects:
            raise Untraceable(str(jaxpr.effects))
        jaxpr, consts = jc.separate_consts(jaxpr)
        if any(isinstance(const, LazyTensor) for const in consts):
            raise Untraceable("a pending value is held by the graph")
        inputs, outvars = jc.jaxpr_inputs(jaxpr), jc.jaxpr_outputs(jaxpr)
        count, has_draws = len(consts), bool(self._draws)
        kept = self._without_repetitions([*inputs[:count], *inputs[count + 2 :]], outvars)
        function = jc.as_function(jaxpr)

        def graph(*values: Any) -> list[Any]:
            draws = () if has_draws else (np.zeros(2, np.uint32), np.uint32(0))
            results = function(*values[:count], *draws, *values[count:])
            return [results[number] for number in kept]

        graph.__name__ = graph.__qualname__ = name
        return list(consts), jax.jit(graph)

    def _without_repetitions(self, inputs: Sequence[Any], outvars: Sequence[Any]) -> list[int]:
        """The numbers of the results that the function has to give: each once, and none that it is given.

        A recorded call that gives back an operand is not recalled.
        """
        places = {var: number for number, var in enumerate(inputs)}
        kept: list[int] = []
        numbers: list[int] = []
        reports = len(outvars) - len(self._verdicts)
        for number, var in enumerate(outvars):
            is_constant = isinstance(var, jc.Literal)
            if is_constant or number >= reports or var not in places:
                numbers.append(len(inputs) + len(kept))
                kept.append(number)
                if not is_constant:
                    places[var] = numbers[-1]
            else:
                numbers.append(places[var])
        self._outputs.renumber(numbers)
        return kept

    # ---- calling -------------------------------------------------------------------------------------------

    def holds(self, given: Sequence[Any]) -> bool:
        """Whether the inputs' numbers are known to be in range.

        Raises:
          Exception: PyTorch's error, if they are known not to be.
        """
        return all([_holds(one, given[one.number]) for one in self.demanded])

    def __call__(self, given: Sequence[Any]) -> list[Any]:
        """The outputs of the graph."""
        arrays = [x._elem for x in given if isinstance(x, Tensor)]
        draws = generator.default.take(self._draws) if self._draws else ()
        values = (*self._consts, *draws, *arrays)
        results = around.again(self._name, values, True, sys._getframe(1))
        if results is None:
            context = around.note()
            with around.in_64_bit():
                results = recalled(self._name, self._call, values, True)
                if context is not None:
                    around.noted(context)
        if self._verdicts:
            first = len(results) - len(self._verdicts)
            for report, verdict in zip(results[first:], self._verdicts, strict=True):
                expect(report, verdict)
        return self._outputs.made(given, (*self._consts, *arrays, *results))


def _type_of(x: Tensor) -> Any:
    return jax.ShapeDtypeStruct(x._layout.shape, jax_dtype(x._layout.dtype))


def _with_line(verdict: Verdict, lines: Lines) -> Verdict:
    """``verdict``, whose error has a note of the line of the operation inside of the graph."""

    def said(found: Any) -> Exception | None:
        error = verdict(found)
        return None if error is None else lines.note(error)

    return said


def _holds(one: Demanded, x: Tensor) -> bool:
    view = Tensor(x._storage, one.layout, (*x._steps, *one.steps)) if one.steps else x
    if demands.is_within(view, one.demand):
        return True
    return bool(one.lines.run(lambda: demands.holds(view, one.demand)))
