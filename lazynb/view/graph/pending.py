"""Graphs of what is pending: from the recorder's tensors to a drawable `Graph`. Runs nothing."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from lazynb import _jax as jc
from lazynb.execute.flush import execution, tensors_in
from lazynb.execute.program import Program, lower
from lazynb.record.pending import Pending
from lazynb.record.snapshot.describe import Description
from lazynb.record.snapshot.names import names_of, user_namespace
from lazynb.record.tensor import LazyTensor
from lazynb.session.read_cost import ReadCost, read_cost
from lazynb.view.graph.graph import Graph
from lazynb.view.graph.shown import key_of


def graph_of(tensors: Sequence[Any], namespace: Mapping[str, Any]) -> Graph:
    """The graph that ``tensors`` (or pytrees of them) wait for, or of all that this thread has pending.

    Arguments:
      namespace: the user's variables, for the names in the drawing.
    """
    leaves = tensors_in(tensors)
    names = names_of(namespace)
    traces = execution.waiting(tensors)
    if tensors:
        wanted = _pending_ones(leaves)
        outputs = wanted
        cost = read_cost(wanted) if wanted else None
    else:
        wanted = None
        outputs = [tensor for trace in traces for tensor in trace.live()]
        cost = read_cost([])
    recorded = _Recorded(traces, outputs)
    description = Description(traces, names, opens=True)
    return Graph(
        description.snapshot(wanted),
        _title(tensors, leaves, names),
        jaxpr=recorded.jaxpr,
        stablehlo=recorded.stablehlo,
        outlook=_opened(cost, description) if cost is not None else None,
        pending=partial(_still_pending, [weakref.ref(tensor) for tensor in outputs]),
    )


def _opened(cost: ReadCost, description: Description) -> ReadCost:
    """``cost`` with the operations inside of jitted functions and loops, as the graph has them."""
    nodes = description.snapshot().nodes
    if not any(node.calls for node in nodes):
        return cost
    return replace(cost, operations=sum(node.kind == "op" and not node.dead for node in nodes))


def _pending_ones(tensors: Sequence[LazyTensor]) -> list[LazyTensor]:
    return [tensor for tensor in tensors if tensor._pending is not None]


def _still_pending(references: Sequence[weakref.ref[LazyTensor]]) -> list[LazyTensor]:
    living = [reference() for reference in references]
    return _pending_ones([tensor for tensor in living if tensor is not None])


def _title(tensors: Sequence[Any], leaves: Sequence[LazyTensor], names: Mapping[int, tuple[str, ...]]) -> str:
    if not tensors or len(leaves) != 1:
        return ""
    tensor = leaves[0]
    title = tensor.aval.str_short()
    if not tensor.is_pending:
        title += " (computed)"
    own_names = names.get(id(tensor), ())
    return f"{own_names[0]}: {title}" if own_names else title


class _Recorded:
    """The traces behind a graph, without their tensors: a graph that somebody keeps keeps no value alive."""

    def __init__(self, traces: Sequence[Pending], outputs: Sequence[LazyTensor]):
        number = {id(pending): index for index, pending in enumerate(traces)}
        self._ends = [pending.state for pending in traces]
        self._inputs = [[self._input(value, number) for value in pending.inputs] for pending in traces]
        self._outputs = [(number[id(tensor._pending)], tensor._slot) for tensor in outputs]
        self._config = traces[-1].root.config if traces else None

    @staticmethod
    def _input(value: Any, number: Mapping[int, int]) -> Any:
        """Where an input comes from, as (trace, slot), or what it looks like."""
        if isinstance(value, LazyTensor) and value._pending is not None:
            return number[id(value._pending)], value._slot
        return jc.abstract(value._value if isinstance(value, LazyTensor) else value)

    def _assemble(self) -> tuple[Any, list[Any]]:
        program, arguments = Program(), []
        variables: list[dict[int, Any]] = []
        for end, inputs in zip(self._ends, self._inputs, strict=True):
            path = end.path()
            slots = [state.first for state in path if state.operation is None]
            given = {}
            for slot, source in zip(slots, inputs, strict=True):
                if isinstance(source, tuple):
                    trace, result = source
                    given[slot] = variables[trace][result]
                else:
                    arguments.append(source)
            variables.append(program.add(path, given))
        return program.jaxpr([variables[trace][slot] for trace, slot in self._outputs]), arguments

    def jaxpr(self) -> Any:
        """All traces as one closed jaxpr."""
        return self._assemble()[0]

    def stablehlo(self) -> str:
        """All traces as one StableHLO module, with the scopes of the operations."""
        if not self._ends:
            return ""
        jaxpr, arguments = self._assemble()
        return lower(jaxpr, arguments, self._config).as_text(debug_info=True)


def show(tensor: LazyTensor) -> dict[str, Any]:
    """MIME bundle of a pending tensor: its graph, with the names that the running line can see."""
    namespace = user_namespace()
    graph = graph_of([tensor], namespace)
    if tensor.is_pending:
        names = [name for name in names_of(namespace).get(id(tensor), ()) if name.isidentifier()]
        graph.hint = hint(names[0] if names else "")
        graph.shown = key_of(tensor)
    return graph._repr_mimebundle_()


def hint(name: str) -> str:
    """What to type to get the value of variable ``name``; without a name, of what is shown last."""
    return f"print({name or '_'}) gives its value; %%compile shows what XLA makes of its cell."
