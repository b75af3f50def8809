"""Descriptions: several pending traces as one Snapshot of plain data. Runs nothing."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from lazynb._jax.names import TRANSFORMED_FUNCTIONS
from lazynb.record.filling import own_numbers
from lazynb.record.inside import opened
from lazynb.record.operation import Operation
from lazynb.record.pending import Pending
from lazynb.record.snapshot.gradients import differentiated
from lazynb.record.snapshot.opened import Around, Made, Opening, Result, Step, Value
from lazynb.record.snapshot.snapshot import Node, Snapshot
from lazynb.record.snapshot.trace_summary import Input, Names, TraceSummary, summarise
from lazynb.record.snapshot.words import plain_name as plain_name
from lazynb.record.tensor import LazyTensor
from lazynb.record.trie import State
from lazynb.source import Origin, Places

_CALLS = 1 << 32  # above the numbers of the calls that the recorder counts


class Description:
    """Builds the nodes of several pending traces as one graph.

    Arguments:
      traces: the traces in order of dependence, see :func:`lazynb.record.pending.closure`.
      names: the names of the user's variables, see :func:`lazynb.record.snapshot.names.names_of`.
      opens: put what is inside of an operation (a jitted function, a loop) in its place.
    """

    def __init__(self, traces: Sequence[Pending], names: Names, *, opens: bool = False):
        self._opens = opens
        self._made: dict[tuple[int, int], Made] = {}  # by (trace, first slot)
        self._call_ids = itertools.count(_CALLS)
        self._nodes: list[Node] = []
        self._where: dict[tuple[int, int], tuple[int, int]] = {}  # (trace, slot) -> (node, result)
        self._places = Places()
        self._types: dict[Any, str] = {}
        self._scopes: dict[int, tuple[Any, str]] = {}  # by id of the context, which is kept alive
        for pending in traces:
            self.add(summarise(pending, names))

    def snapshot(self, tensors: Sequence[LazyTensor] | None = None) -> Snapshot:
        """The nodes of the traces.

        Arguments:
          tensors: give only the nodes that these tensors need, with new numbers. By default all nodes are
            given, and those that no live tensor needs are marked dead.
        """
        if tensors is None:
            return self._whole()
        return self._part(tensors)

    def _whole(self) -> Snapshot:
        needed = _reached(self._nodes, {node.id for node in self._nodes if node.output})
        nodes = [node if node.id in needed else replace(node, dead=True) for node in self._nodes]
        return Snapshot(tuple(nodes))

    def _part(self, tensors: Sequence[LazyTensor]) -> Snapshot:
        waiting = [tensor for tensor in tensors if tensor._pending is not None]
        wanted = {self._where[id(tensor._pending), tensor._slot][0] for tensor in waiting}
        needed = _reached(self._nodes, wanted)
        kept = [node for node in self._nodes if node.id in needed]
        number = {node.id: index for index, node in enumerate(kept)}
        return Snapshot(tuple([_renumbered(node, number, node.id in wanted) for node in kept]))

    def result(self, pending: Pending, slot: int) -> tuple[int, int]:
        """The node that gives ``slot`` of ``pending``, and the number of its result."""
        return self._where[id(pending), slot]

    def made(self, pending: Pending, slot: int) -> Made:
        """The nodes that were made of the operation of ``pending`` whose first result is ``slot``; none of an
        input."""
        return self._made.get((id(pending), slot), Made())

    def add(self, summary: TraceSummary) -> None:
        """Appends the nodes of a trace. The traces that compute its inputs must have been added before."""
        path = summary.end.path()
        own, inputs = set(own_numbers(path)), enumerate(summary.inputs)
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
        if self._opens and opened(operation.primitive, operation.params) is not None:
            around = Around(self._places.of(origin), scope, (), differentiated(origin, self._places))
            self._open(summary, state, operation, origin.inside or operation.params, operands, around)
            return
        node = self._operation(
            plain_name(operation.name), operation.primitive.name, operands, self._types_of(state.avals)
        )
        node = replace(
            node,
            place=self._places.of(origin),
            call=call_name(origin, scope),
            call_id=origin.call_id if origin.callee is not None else None,
            scope=scope,
            gradient=differentiated(origin, self._places),
        )
        self._made[summary.key, state.first] = Made({(): node.id})
        self._append(node)
        self._give(summary, state, [(node.id, number) for number in range(len(state.avals))])

    def _open(
        self,
        summary: TraceSummary,
        state: State,
        operation: Operation,
        written: dict[str, Any],
        operands: Sequence[Result],
        around: Around,
    ) -> None:
        """Adds what is inside of ``operation``.

        Arguments:
          written: its parameters, as traced on the lines that are to be shown.
        """
        opening = Opening(self._add_inner, self._call_ids, self._places)
        step = Step((), operation.primitive, operation.nameless.params, written)
        values = opening.open(step, [Value(operand) for operand in operands], state.avals, around)
        self._made[summary.key, state.first] = opening.made
        self._give(summary, state, [value.result for value in values if value.result is not None])

    def _add_inner(self, step: Step, avals: Sequence[Any], read: Sequence[Result], around: Around) -> int:
        """Adds a node for an equation. Returns its number."""
        node = self._operation(plain_name(step.name), step.primitive.name, read, self._types_of(avals))
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

    def _give(self, summary: TraceSummary, state: State, results: Sequence[Result]) -> None:
        """Notes that ``results`` are those of the step ``state``, with the user's names of them."""
        for slot, (node, number) in enumerate(results, state.first):
            self._where[summary.key, slot] = node, number
            if slot in summary.live:
                self._nodes[node] = _named(self._nodes[node], number, tuple(summary.live[slot]))

    def _types_of(self, avals: Sequence[Any]) -> tuple[str, ...]:
        """The types of the results as text. Each text is kept, because JAX takes long to write it."""
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
    """``node`` as an output whose result number ``result`` has these names too."""
    if node.kind == "input":
        return replace(node, output=True, names=tuple(dict.fromkeys([*node.names, *names])))
    given = list(node.result_names)
    given[result] = tuple(dict.fromkeys([*given[result], *names]))
    return replace(node, output=True, names=tuple(chain.from_iterable(given)), result_names=tuple(given))


def _input_name(value: Input) -> str:
    if value.names:
        return value.names[0]
    return "scalar" if value.scalar is not None else "input"


def _reached(nodes: Sequence[Node], wanted: set[int]) -> set[int]:
    """The ids of the nodes that ``wanted`` depend on, with those of ``wanted``."""
    needed = set(wanted)
    for node in reversed(nodes):
        if node.id in needed:
            needed.update(source for source, _ in node.operands)
    return needed


def _renumbered(node: Node, number: Mapping[int, int], wanted: bool) -> Node:
    """``node`` with its new number; an output if it is ``wanted``."""
    output = wanted or node.output
    if number[node.id] == node.id and output == node.output:  # no node before it was left out either
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
    """The name of the function that the user called under the name stack ``scope``.

    Returns None for an operator, and for a jitted function, whose operation has its name.
    """
    if origin.callee is None:
        return None
    name = origin.callee.co_name
    if name in _WRAPPERS:
        return scope.rsplit("/", 1)[-1].strip("()") or None
    return plain_name(_FUNCTIONS.get(name, name))
