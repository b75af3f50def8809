"""Descriptions and summaries of pending traces as plain data. Nothing runs."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from lazynb import jax_compat as jc
from lazynb.jax_compat.jax_names import TRANSFORMED_FUNCTIONS
from lazynb.recording.jaxpr_structure import user_function_key
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.operation import Operation
from lazynb.recording.pending_trace import PendingTrace
from lazynb.recording.python_numbers import constant_candidates
from lazynb.recording.snapshot.nested_nodes import (
    EquationContext,
    NestedNodeBuilder,
    OperationNodes,
    Result,
    Step,
    Value,
)
from lazynb.recording.snapshot.snapshot_nodes import (
    Node,
    Snapshot,
    display_name as display_name,
    forward_gradient,
)
from lazynb.recording.trie import Root, State
from lazynb.user_code.source_lines import Origin, Places

# ---- Summaries: steps and names without values -------------------------------------------------------------

Names = Mapping[int, tuple[str, ...]]


@dataclasses.dataclass(frozen=True, slots=True)
class Input:
    """An input of a trace.

    Attributes:
      names: the user's variables for it, the simplest first.
      scalar: the text of a number; None for an array.
      earlier: the key of the trace in which the input was pending, and its slot there; None if it had a
        value.
    """

    names: tuple[str, ...]
    scalar: str | None
    earlier: tuple[int, int] | None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class TraceSummary:
    """A summary of one pending trace, to explain the trace after its run.

    Attributes:
      key: the number of the trace among those summarised together.
      root: the start of the path; ``root.config`` is JAX's configuration at that time.
      end: the end of the path; ``end.path()`` returns the steps.
      origins: the user's line of each step; None for an input.
      inputs: the inputs in the order of the path.
      live: the user's names by slot, for the live results.
    """

    key: int
    root: Root
    end: State
    origins: list[Origin | None]
    inputs: list[Input]
    live: dict[int, tuple[str, ...]]


def summarise(pending: PendingTrace, names: Names) -> TraceSummary:
    """Returns a summary of ``pending`` in its present state, without values; ``names`` are those of
    ``names_of``."""
    return TraceSummary(
        id(pending),
        pending.root,
        pending.state,
        pending.origins(),
        [_input(value, names) for value in pending.inputs],
        {tensor._slot: names.get(id(tensor), ()) for tensor in pending.live()},
    )


def _input(value: Any, names: Names) -> Input:
    if jc.is_host_array(value):
        return Input((), _scalar_text(value), None)
    earlier = None
    if isinstance(value, LazyTensor) and value._pending is not None:
        earlier = (id(value._pending), value._slot)
    return Input(names.get(id(value), ()), None, earlier)


def _scalar_text(value: Any) -> str:
    dtype = getattr(value, "dtype", None)
    if dtype is not None and dtype.kind == "f":
        return f"{value:.6g}"
    return str(value)


_CALLS = 1 << 32  # above the numbers of the recorder's calls


class SnapshotBuilder:
    """Builds the nodes of several pending traces as one graph.

    Arguments:
      traces: the traces in order of dependence, see
        :func:`lazynb.recording.pending_trace.pending_dependencies`.
      names: the names of the user's variables, see :func:`lazynb.recording.snapshot.variable_names.names_of`.
      opens: whether the equations inside of an operation (a jitted function, a loop) replace it.
    """

    def __init__(self, traces: Sequence[PendingTrace], names: Names, *, opens: bool = False):
        self._opens = opens
        self._made: dict[tuple[int, int], OperationNodes] = {}  # by (trace, first slot)
        self._call_ids = itertools.count(_CALLS)
        self._nodes: list[Node] = []
        self._where: dict[tuple[int, int], tuple[int, int]] = {}  # (trace, slot) -> (node, result)
        self._places = Places()
        self._types: dict[Any, str] = {}
        self._scopes: dict[int, tuple[Any, str]] = {}  # by id of the context, which is kept alive
        for pending in traces:
            self.add(summarise(pending, names))

    def snapshot(self, tensors: Sequence[LazyTensor] | None = None) -> Snapshot:
        """Returns the nodes of the traces.

        Arguments:
          tensors: return only the nodes that these tensors need, renumbered. By default all nodes are
            returned, and those that no live tensor needs are marked dead.
        """
        if tensors is None:
            return self._whole()
        return self._part(tensors)

    def _whole(self) -> Snapshot:
        needed = _dependencies(self._nodes, {node.id for node in self._nodes if node.output})
        nodes = [node if node.id in needed else replace(node, dead=True) for node in self._nodes]
        return Snapshot(tuple(nodes))

    def _part(self, tensors: Sequence[LazyTensor]) -> Snapshot:
        waiting = [tensor for tensor in tensors if tensor._pending is not None]
        wanted = {self._where[id(tensor._pending), tensor._slot][0] for tensor in waiting}
        needed = _dependencies(self._nodes, wanted)
        kept = [node for node in self._nodes if node.id in needed]
        number = {node.id: index for index, node in enumerate(kept)}
        return Snapshot(tuple([_renumbered(node, number, node.id in wanted) for node in kept]))

    def result(self, pending: PendingTrace, slot: int) -> tuple[int, int]:
        """Returns the node that defines ``slot`` of ``pending``, and the number of its result."""
        return self._where[id(pending), slot]

    def made(self, pending: PendingTrace, slot: int) -> OperationNodes:
        """Returns the nodes of the operation with the first result ``slot``; none for an input."""
        return self._made.get((id(pending), slot), OperationNodes())

    def add(self, summary: TraceSummary) -> None:
        """Appends the nodes of a trace, after those of the traces that compute its inputs."""
        path = summary.end.path()
        own, inputs = set(constant_candidates(path)), enumerate(summary.inputs)
        for state, origin in zip(path, summary.origins, strict=True):
            if state.operation is None:
                number, value = next(inputs)
                self._add_input(summary, state, value, number in own)
            else:
                assert origin is not None
                self._add_operation(summary, state, origin)

    def _add_input(self, summary: TraceSummary, state: State, value: Input, may_be_constant: bool) -> None:
        earlier = self._where.get(value.earlier) if value.earlier is not None else None
        if earlier is not None:
            self._where[summary.key, state.first] = earlier
            return
        node = Node(
            id=len(self._nodes),
            kind="input",
            name=_input_name(value),
            primitive="",
            operands=(),
            avals=self._types_of(state.avals),
            place=None,
            call=None,
            call_id=None,
            scope="",
            names=value.names,
            value=value.scalar,
            output=False,
            constant=may_be_constant and state.constant is not None,
        )
        self._where[summary.key, state.first] = node.id, 0
        self._append(node)

    def _add_operation(self, summary: TraceSummary, state: State, origin: Origin) -> None:
        operation = state.operation
        assert operation is not None
        scope, operands = self._scope(origin), [self._where[summary.key, slot] for slot in state.operands]
        if self._opens and user_function_key(operation.primitive, operation.params) is not None:
            around = EquationContext(
                self._places.of(origin), scope, (), forward_gradient(origin, self._places)
            )
            self._open(summary, state, operation, origin.inside or operation.params, operands, around)
            return
        node = self._operation(
            display_name(operation.name), operation.primitive.name, operands, self._types_of(state.avals)
        )
        node = replace(
            node,
            place=self._places.of(origin),
            call=call_name(origin, scope),
            call_id=origin.call_id if origin.callee is not None else None,
            scope=scope,
            gradient=forward_gradient(origin, self._places),
        )
        self._made[summary.key, state.first] = OperationNodes({(): node.id})
        self._append(node)
        self._bind_results(summary, state, [(node.id, number) for number in range(len(state.avals))])

    def _open(
        self,
        summary: TraceSummary,
        state: State,
        operation: Operation,
        written: dict[str, Any],
        operands: Sequence[Result],
        around: EquationContext,
    ) -> None:
        """Adds the equations of ``operation``; ``written`` are its parameters, traced on the displayed
        lines."""
        opening = NestedNodeBuilder(self._add_inner, self._call_ids, self._places)
        step = Step((), operation.primitive, operation.canonical.params, written)
        values = opening.open(step, [Value(operand) for operand in operands], state.avals, around)
        self._made[summary.key, state.first] = opening.made
        self._bind_results(summary, state, [value.result for value in values if value.result is not None])

    def _add_inner(
        self, step: Step, avals: Sequence[Any], read: Sequence[Result], around: EquationContext
    ) -> int:
        node = self._operation(display_name(step.name), step.primitive.name, read, self._types_of(avals))
        call = around.calls[-1]
        self._append(
            replace(
                node,
                place=around.place,
                call=call.name,
                call_id=call.id,
                scope=around.scope,
                calls=around.calls,
                gradient=around.gradient,
            )
        )
        return node.id

    def _operation(
        self, name: str, primitive: str, operands: Sequence[Result], avals: tuple[str, ...]
    ) -> Node:
        return Node(
            id=len(self._nodes),
            kind="op",
            name=name,
            primitive=primitive,
            operands=tuple(operands),
            avals=avals,
            place=None,
            call=None,
            call_id=None,
            scope="",
            names=(),
            value=None,
            output=False,
            result_names=((),) * len(avals),
        )

    def _bind_results(self, summary: TraceSummary, state: State, results: Sequence[Result]) -> None:
        """Stores ``results`` as those of the step ``state``, with the user's names."""
        for slot, (node, number) in enumerate(results, state.first):
            self._where[summary.key, slot] = node, number
            if slot in summary.live:
                self._nodes[node] = _named(self._nodes[node], number, tuple(summary.live[slot]))

    def _types_of(self, avals: Sequence[Any]) -> tuple[str, ...]:
        """Returns the avals of the results as text. Texts are cached, because JAX formats them slowly."""
        texts = []
        for aval in avals:
            text = self._types.get(aval)
            if text is None:
                text = self._types[aval] = aval.str_short()
            texts.append(text)
        return tuple(texts)

    def _scope(self, origin: Origin) -> str:
        known = self._scopes.get(id(origin.context))
        if known is None:
            known = self._scopes[id(origin.context)] = origin.context, origin.scope
        return known[1]

    def _append(self, node: Node) -> None:
        self._nodes.append(node)


def _named(node: Node, result: int, names: tuple[str, ...]) -> Node:
    """Returns ``node`` as an output with additional names of its result number ``result``."""
    if node.kind == "input":
        return replace(node, output=True, names=tuple(dict.fromkeys([*node.names, *names])))
    given = list(node.result_names)
    given[result] = tuple(dict.fromkeys([*given[result], *names]))
    return replace(node, output=True, names=tuple(chain.from_iterable(given)), result_names=tuple(given))


def _input_name(value: Input) -> str:
    if value.names:
        return value.names[0]
    return "scalar" if value.scalar is not None else "input"


def _dependencies(nodes: Sequence[Node], wanted: set[int]) -> set[int]:
    """Returns the ids of ``wanted`` and of the nodes that they depend on."""
    needed = set(wanted)
    for node in reversed(nodes):
        if node.id in needed:
            needed.update(source for source, _ in node.operands)
    return needed


def _renumbered(node: Node, number: Mapping[int, int], wanted: bool) -> Node:
    """Returns ``node`` with its new number; an output if it is ``wanted``."""
    output = wanted or node.output
    if number[node.id] == node.id and output == node.output:  # no node before it was dropped
        return node
    operands = tuple([(number[source], result) for source, result in node.operands])
    return replace(node, id=number[node.id], output=output, operands=operands)


_FUNCTIONS = {**TRANSFORMED_FUNCTIONS, "apply_fn": "apply"}


# Functions that a library calls instead of the user's function. The name stack then holds the module, which
# Flax writes there, as lazynb does for PyTorch.
_WRAPPERS = {
    "_call_impl",
    "wrapped_module_method",
    "_call_wrapped_method",
    "__call__",
    "wrapper",
    "wrapped",
    "inner",
    "fn",
    "new_fn",
}


def call_name(origin: Origin, scope: str) -> str | None:
    """Returns the name of the function that the user called under the name stack ``scope``.

    Returns None for an operator, and for a jitted function, whose operation has its name.
    """
    if origin.callee is None:
        return None
    name = origin.callee.co_name
    if name in _WRAPPERS:
        return scope.rsplit("/", 1)[-1].strip("()") or None
    return display_name(_FUNCTIONS.get(name, name))
