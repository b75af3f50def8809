"""Graphs of what is pending: from the recorder's tensors to a drawable `Graph`. Runs nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax

from lazynb.execute.flush import execution
from lazynb.execute.program import Program, lower
from lazynb.record.describe import Description
from lazynb.record.names import names_of, user_namespace
from lazynb.record.pending import Pending
from lazynb.record.tensor import LazyTensor
from lazynb.view.graph import Graph


def graph_of(tensors: Sequence[Any], namespace: Mapping[str, Any]) -> Graph:
    """The graph that ``tensors`` (or pytrees of them) wait for; all that is pending of this thread without any.

    Arguments:
      namespace: the user's variables, for the names in the drawing.
    """
    leaves = [leaf for leaf in jax.tree.leaves(list(tensors)) if isinstance(leaf, LazyTensor)]
    names = names_of(namespace)
    traces = execution.waiting(leaves) if leaves or not tensors else []
    wanted = [leaf for leaf in leaves if leaf._pending is not None] if tensors else None
    snapshot = Description(traces, names).snapshot(wanted)
    outputs = wanted if wanted is not None else [tensor for trace in traces for tensor in trace.live()]
    return Graph(snapshot, _title(tensors, leaves, names),
                 jaxpr=lambda: _jaxpr(traces, outputs)[0], stablehlo=lambda: _stablehlo(traces, outputs))


def _title(tensors: Sequence[Any], leaves: Sequence[LazyTensor], names: Mapping[int, tuple[str, ...]]) -> str:
    if not tensors or len(leaves) != 1:
        return ""
    name = next(iter(names.get(id(leaves[0]), ())), "")
    state = "" if leaves[0].is_pending else " (computed)"
    return f"{name}: {leaves[0].aval.str_short()}{state}" if name else leaves[0].aval.str_short() + state


def _jaxpr(traces: Sequence[Pending], outputs: Sequence[LazyTensor]) -> tuple[Any, list[Any]]:
    """All traces as one closed jaxpr, with the arguments it takes."""
    program, arguments = Program(), []
    variables: dict[int, dict[int, Any]] = {}
    for pending in traces:
        path = pending.state.path()
        slots = [state.first for state in path if state.operation is None]
        given = {slot: variables[id(value._pending)][value._slot] for slot, value in zip(slots, pending.inputs, strict=True)
                 if isinstance(value, LazyTensor) and value._pending is not None}
        arguments += [value._value if isinstance(value, LazyTensor) else value
                      for slot, value in zip(slots, pending.inputs, strict=True) if slot not in given]
        variables[id(pending)] = program.add(path, given)
    results = [variables[id(tensor._pending)][tensor._slot] for tensor in outputs]
    return program.jaxpr(results), arguments


def _stablehlo(traces: Sequence[Pending], outputs: Sequence[LazyTensor]) -> str:
    if not traces:
        return ""
    jaxpr, arguments = _jaxpr(traces, outputs)
    return lower(jaxpr, arguments, traces[-1].root.config).as_text(debug_info=True)


def show(tensor: LazyTensor) -> dict[str, Any]:
    """MIME bundle of a pending tensor: its graph, with the names that the running line can see."""
    return graph_of([tensor], user_namespace())._repr_mimebundle_()
