"""A PyTorch graph traced by JAX, for inputs of given layouts, into one function of arrays."""

from __future__ import annotations

import collections
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import torch

from lazynb import jax_compat as jc
from lazynb.frontends.torch import random_generator
from lazynb.frontends.torch.dispatch import replay_context, strided_views, value_checks
from lazynb.frontends.torch.dispatch.complex32 import jax_dtype
from lazynb.frontends.torch.dispatch.replay_context import record_or_replay
from lazynb.frontends.torch.dispatch.tensor_layout import Layout, layout
from lazynb.frontends.torch.graph_tracing import (
    AssumedRange,
    GraphTrace,
    SourceLines,
    Untraceable,
    graph_context,
)
from lazynb.frontends.torch.torch_tensor import Tensor, wrap
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.operation_checks import ReportReader, add_check, collect_checks

# ---- Outputs of a traced graph -----------------------------------------------------------------------------


class _OutputSource(NamedTuple):
    """An output of a graph.

    Attributes:
      source: the number of the input, or of a result array (numbered after the inputs); None if the output is
        not a tensor.
      view: the layout of a view of the source; None for the source itself.
      value: the output if it is not a tensor.
    """

    source: int | None
    view: Layout | None = None
    value: Any = None


class Outputs:
    """The outputs of a graph.

    Outputs that share memory become views of one tensor if the user sees one of them. Outputs for the
    backward pass are never written to, so each becomes a separate tensor.

    Arguments:
      outputs: the outputs when the graph was traced.
      inputs: its inputs then.
      visible: the number of leading outputs that the user may see; None for all.

    Attributes:
      arrays: the arrays that the traced function must return.

    Raises:
      Untraceable: an output is on another device, or is a view that cannot be reconstructed.
    """

    def __init__(self, outputs: Sequence[Any], inputs: Sequence[Any], visible: int | None) -> None:
        self.arrays: list[Any] = []
        self._layouts: list[Layout] = []
        self._inputs = len(inputs)
        self._sources = {id(x._storage): at for at, x in enumerate(inputs) if isinstance(x, Tensor)}
        self._shared = _shared_storages(outputs, visible)
        self._outputs = [self._describe(x, inputs) for x in outputs]
        self._numbers = list(range(len(self.arrays)))

    def _describe(self, x: Any, inputs: Sequence[Any]) -> _OutputSource:
        if not isinstance(x, Tensor):
            if isinstance(x, torch.Tensor) and not is_token(x):
                raise Untraceable("an output on another device")
            return _OutputSource(None, value=x)
        memory, seen = x._storage, x._layout
        source = self._sources.get(id(memory))
        if source is None and id(memory) not in self._shared:
            return _OutputSource(self._added(x._elem, layout(seen.shape, seen.stride, 0, seen.dtype)))
        if source is None:
            source = self._sources[id(memory)] = self._added(memory.read(), memory.layout)
        if x is (inputs[source] if source < self._inputs else self._shared[id(memory)]):
            return _OutputSource(source)
        if x._steps and strided_views.strided_steps(memory.layout, seen) is None:
            raise Untraceable("a view that is no plain one")
        return _OutputSource(source, seen)

    def _added(self, array: Any, wanted: Layout) -> int:
        """Adds ``array`` as the source of a tensor; returns its number."""
        self.arrays.append(array)
        self._layouts.append(wanted)
        return self._inputs + len(self.arrays) - 1

    def renumber(self, numbers: Sequence[int]) -> None:
        """Sets the number of each array in the ``arrays`` argument of :meth:`made`."""
        self._numbers = [numbers[at] for at in range(len(self._layouts))]

    def made(self, given: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
        """The outputs for the inputs ``given``."""
        pairs = zip(self._numbers, self._layouts, strict=True)
        sources = [*given, *[wrap(arrays[number], wanted) for number, wanted in pairs]]
        return [
            one.value if one.source is None else _view_of(sources[one.source], one.view)
            for one in self._outputs
        ]


def is_token(x: Any) -> bool:
    """Whether ``x`` is an effect token: PyTorch orders operations with effects by empty tensors."""
    return isinstance(x, torch.Tensor) and x.device.type == "cpu" and not x.numel()


def _shared_storages(outputs: Sequence[Any], visible: int | None) -> dict[int, Tensor | None]:
    """The storages, by id, of several outputs of which the user may see one. Each maps to the output that is
    the whole storage, or None."""
    tensors = [x for x in outputs if isinstance(x, Tensor)]
    counts = collections.Counter([id(x._storage) for x in tensors])
    seen = {id(x._storage) for x in outputs[:visible] if isinstance(x, Tensor)}
    shared: dict[int, Tensor | None] = {one: None for one in seen if counts[one] > 1}
    for x in reversed(tensors):
        if id(x._storage) in shared and not x._steps:
            shared[id(x._storage)] = x
    return shared


def _view_of(source: torch.Tensor, view: Layout | None) -> torch.Tensor:
    """``source``, or a view of it that PyTorch registers as a view."""
    if view is None:
        return source
    return torch.as_strided(source, view.shape, view.stride, view.offset)


Run = Callable[[list[Any]], Sequence[Any]]
"""Runs the operations of a graph and returns its outputs."""

_WORDS = jax.ShapeDtypeStruct((2,), np.uint32)
_FIRST = jax.ShapeDtypeStruct((), np.uint32)


class TracedProgram:
    """A graph as one function of arrays.

    Arguments:
      run: see :data:`Run`.
      name: the name of the function.
      given: example inputs.
      assumes: whether ranges of the inputs are checked before each call instead of in the function.
      visible: the number of leading outputs that the user may see; None for all.

    Attributes:
      demanded: the ranges to check before each call.

    Raises:
      Exception: the graph cannot be traced: an operation reads values, or would draw other random numbers.
    """

    def __init__(self, run: Run, name: str, given: Sequence[Any], assumes: bool, visible: int | None) -> None:
        self._run, self._given, self._assumes, self._visible = run, given, assumes, visible
        self._verdicts: list[ReportReader]
        self.demanded: list[AssumedRange] = []
        self._draws = 0
        self._outputs: Outputs
        self._name = object()  # replay name
        types = [_type_of(x) for x in given if isinstance(x, Tensor)]
        with replay_context.in_64_bit(), torch.no_grad():
            jaxpr = jax.make_jaxpr(self._trace)(_WORDS, _FIRST, *types)
        self._outputs.arrays = []
        del self._run, self._given
        self._consts, self._call = self._prepared(jaxpr, name)

    # ---- Tracing -------------------------------------------------------------------------------------------

    def _trace(self, words: Any, first: Any, *arrays: Any) -> list[Any]:
        """Runs the graph; returns its arrays and the reports of its value checks."""
        values = iter(arrays)
        self._verdicts = []
        inner = [wrap(next(values), x._layout) if isinstance(x, Tensor) else x for x in self._given]
        graph = GraphTrace(words, first, [x if isinstance(x, Tensor) else None for x in inner], self._assumes)
        reports: list[Any] = []

        def report(found: Any, verdict: ReportReader) -> None:
            reports.append(found)
            self._verdicts.append(_with_source_line(verdict, graph.lines))

        outer, graph_context.graph = graph_context.graph, graph
        try:
            with collect_checks(report):
                outputs = self._run(inner)
                self._outputs = Outputs(outputs, inner, self._visible)
        finally:
            graph_context.graph = outer
        if any(x._storage.version for x in inner if isinstance(x, Tensor)):
            raise Untraceable("an input is written to")
        self.demanded, self._draws = graph.demanded, graph.draws
        return self._outputs.arrays + reports

    def _prepared(self, jaxpr: Any, name: str) -> tuple[list[Any], Callable[..., Any]]:
        """The constants of the jaxpr, and a jitted function of the constants and the inputs' arrays."""
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
        """The numbers of the results to return: without duplicates and without results that are inputs. A
        recorded call that returns an operand cannot be replayed."""
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

    # ---- Calling -------------------------------------------------------------------------------------------

    def holds(self, given: Sequence[Any]) -> bool:
        """Whether the inputs' numbers are known to be in range.

        Raises:
          Exception: PyTorch's error, if they are known to be out of range.
        """
        return all([_is_in_range(one, given[one.number]) for one in self.demanded])

    def __call__(self, given: Sequence[Any]) -> list[Any]:
        arrays = [x._elem for x in given if isinstance(x, Tensor)]
        draws = random_generator.default.take(self._draws) if self._draws else ()
        values = (*self._consts, *draws, *arrays)
        results = replay_context.replay_call(self._name, values, True, sys._getframe(1))
        if results is None:
            context = replay_context.context_to_save()
            with replay_context.in_64_bit():
                results = record_or_replay(self._name, self._call, values, True)
                if context is not None:
                    replay_context.save_context(context)
        if self._verdicts:
            first = len(results) - len(self._verdicts)
            for report, verdict in zip(results[first:], self._verdicts, strict=True):
                add_check(report, verdict)
        return self._outputs.made(given, (*self._consts, *arrays, *results))


def _type_of(x: Tensor) -> Any:
    return jax.ShapeDtypeStruct(x._layout.shape, jax_dtype(x._layout.dtype))


def _with_source_line(verdict: ReportReader, lines: SourceLines) -> ReportReader:
    """``verdict`` with a note of the operation's source line added to its error."""

    def said(found: Any) -> Exception | None:
        error = verdict(found)
        return None if error is None else lines.note(error)

    return said


def _is_in_range(one: AssumedRange, x: Tensor) -> bool:
    view = Tensor(x._storage, one.layout, (*x._steps, *one.steps)) if one.steps else x
    if value_checks.is_within(view, one.demand):
        return True
    return bool(one.lines.run(lambda: value_checks.check_known_range(view, one.demand)))
