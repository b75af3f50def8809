"""A graph traced by JAX for inputs of certain layouts: one function of arrays."""

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
from lazynb.frontends.torch.dispatch import replay_context, value_checks, view_steps
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

# ---- What a traced graph gives back: tensors of arrays, views, inputs, and what is no tensor --------------


class _OutputSource(NamedTuple):
    """An output of a graph.

    Attributes:
      source: the number of the input, or of a tensor of a result's array, which come after the inputs. None
        if it is no tensor.
      view: the layout in which the source is seen; None if it is the source itself.
      value: what it is if it is no tensor.
    """

    source: int | None
    view: Layout | None = None
    value: Any = None


class Outputs:
    """What a graph gives back.

    Outputs in the same memory are views of one tensor, if the user sees one of them. Nobody writes to what is
    kept for the backward pass alone, so there each is a tensor of its own.

    Arguments:
      outputs: what the graph gave when it was traced.
      inputs: its inputs then.
      visible: how many outputs the user may see, the first ones; None for all.

    Attributes:
      arrays: those that the traced function gives for them.

    Raises:
      Untraceable: an output is on another device, or sees memory in a way that cannot be repeated.
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
        if x._steps and view_steps.strided_steps(memory.layout, seen) is None:
            raise Untraceable("a view that is no plain one")
        return _OutputSource(source, seen)

    def _added(self, array: Any, wanted: Layout) -> int:
        """The number of a new source: ``array`` as a tensor."""
        self.arrays.append(array)
        self._layouts.append(wanted)
        return self._inputs + len(self.arrays) - 1

    def renumber(self, numbers: Sequence[int]) -> None:
        """Takes another array in place of each: their numbers among those that :meth:`made` is given."""
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
    """Whether ``x`` has no values: PyTorch puts operations with effects in order by such a tensor."""
    return isinstance(x, torch.Tensor) and x.device.type == "cpu" and not x.numel()


def _shared_storages(outputs: Sequence[Any], visible: int | None) -> dict[int, Tensor | None]:
    """The memories, by their ids, in which there are several outputs and one that the user may see: of each
    the output that is no view, if there is one."""
    tensors = [x for x in outputs if isinstance(x, Tensor)]
    counts = collections.Counter([id(x._storage) for x in tensors])
    seen = {id(x._storage) for x in outputs[:visible] if isinstance(x, Tensor)}
    shared: dict[int, Tensor | None] = {one: None for one in seen if counts[one] > 1}
    for x in reversed(tensors):
        if id(x._storage) in shared and not x._steps:
            shared[id(x._storage)] = x
    return shared


def _view_of(source: torch.Tensor, view: Layout | None) -> torch.Tensor:
    """``source`` itself, or a view of it, of which PyTorch knows that it is one."""
    if view is None:
        return source
    return torch.as_strided(source, view.shape, view.stride, view.offset)


Run = Callable[[list[Any]], Sequence[Any]]
"""Runs the operations of a graph. Returns its outputs."""

_WORDS = jax.ShapeDtypeStruct((2,), np.uint32)
_FIRST = jax.ShapeDtypeStruct((), np.uint32)


class TracedProgram:
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
        self._verdicts: list[ReportReader]
        self.demanded: list[AssumedRange] = []
        self._draws = 0
        self._outputs: Outputs
        self._name = object()  # by which a call is recalled
        types = [_type_of(x) for x in given if isinstance(x, Tensor)]
        with replay_context.in_64_bit(), torch.no_grad():
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
        return all([_is_in_range(one, given[one.number]) for one in self.demanded])

    def __call__(self, given: Sequence[Any]) -> list[Any]:
        """The outputs of the graph."""
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
    """``verdict``, whose error has a note of the line of the operation inside of the graph."""

    def said(found: Any) -> Exception | None:
        error = verdict(found)
        return None if error is None else lines.note(error)

    return said


def _is_in_range(one: AssumedRange, x: Tensor) -> bool:
    view = Tensor(x._storage, one.layout, (*x._steps, *one.steps)) if one.steps else x
    if value_checks.is_within(view, one.demand):
        return True
    return bool(one.lines.run(lambda: value_checks.check_known_range(view, one.demand)))
