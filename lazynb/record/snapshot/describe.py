"""From pending traces to a Snapshot: plain data that says what is pending. Runs nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lazynb._jax.names import JITTED_NAMES, TRANSFORMED_FUNCTIONS
from lazynb.record.pending import Pending
from lazynb.record.snapshot.snapshot import Node, Snapshot
from lazynb.record.snapshot.trace_summary import Input, Names, TraceSummary, summarise
from lazynb.record.tensor import LazyTensor
from lazynb.record.trie import State
from lazynb.source import Origin, Places


class Description:
    """Builds the nodes of several pending traces as one graph.

    Arguments:
      traces: in order of dependence, see :func:`lazynb.record.pending.closure`.
      names: names of the user's variables, see :func:`lazynb.record.snapshot.names.names_of`.
    """

    def __init__(self, traces: Sequence[Pending], names: Names):
        self._nodes: list[Node] = []
        self._where: dict[tuple[int, int], tuple[int, int]] = {}  # (trace, slot) -> (node, result)
        self._places = Places()
        self._types: dict[Any, str] = {}
        self._scopes: dict[int, tuple[Any, str]] = {}  # by id of the context, which is kept alive
        for pending in traces:
            self.add(summarise(pending, names))

    def snapshot(self, tensors: Sequence[LazyTensor] | None = None) -> Snapshot:
        """All nodes, or those that ``tensors`` need, numbered anew; what nothing live needs is marked
        dead."""
        live = {node.id for node in self._nodes if node.output}
        wanted = (
            live
            if tensors is None
            else {self._where[id(t._pending), t._slot][0] for t in tensors if t._pending is not None}
        )
        needed = _reached(self._nodes, wanted)
        if tensors is None:
            return Snapshot(
                tuple([node if node.id in needed else replace(node, dead=True) for node in self._nodes])
            )
        kept = [node for node in self._nodes if node.id in needed]
        number = {node.id: index for index, node in enumerate(kept)}
        return Snapshot(tuple([_renumbered(node, number, node.id in wanted) for node in kept]))

    def result(self, pending: Pending, slot: int) -> tuple[int, int]:
        """Node, and number of its result, that gives ``slot`` of ``pending``."""
        return self._where[id(pending), slot]

    def add(self, drawn: TraceSummary) -> None:
        """Appends the nodes of one more trace, after those that it takes inputs from."""
        inputs = iter(drawn.inputs)
        for state, origin in zip(drawn.end.path(), drawn.origins, strict=True):
            if state.operation is None:
                self._add_input(drawn, state, next(inputs))
            else:
                assert origin is not None
                self._add_operation(drawn, state, origin)

    def _add_input(self, drawn: TraceSummary, state: State, value: Input) -> None:
        earlier = self._where.get(value.earlier) if value.earlier is not None else None
        if earlier is not None:
            self._where[drawn.key, state.first] = earlier
            return
        names = value.names
        self._append(
            drawn,
            state,
            Node(
                len(self._nodes),
                "input",
                names[0] if names else ("scalar" if value.scalar is not None else "input"),
                "",
                (),
                self._types_of(state),
                None,
                None,
                None,
                "",
                names,
                value.scalar,
                False,
            ),
        )

    def _add_operation(self, drawn: TraceSummary, state: State, origin: Origin) -> None:
        operation = state.operation
        assert operation is not None
        results = [slot for slot in range(state.first, state.slots) if slot in drawn.live]
        names = tuple([name for slot in results for name in drawn.live[slot]])
        scope = self._scope(origin)
        self._append(
            drawn,
            state,
            Node(
                len(self._nodes),
                "op",
                plain_name(operation.name),
                operation.primitive.name,
                tuple([self._where[drawn.key, slot] for slot in state.operands]),
                self._types_of(state),
                self._places.of(origin),
                call_name(origin, scope),
                origin.call_id if origin.callee is not None else None,
                scope,
                names,
                None,
                bool(results),
            ),
        )

    def _types_of(self, state: State) -> tuple[str, ...]:
        """The types of its results as text, which takes JAX longer than to tell that it was written
        already."""
        found = []
        for aval in state.avals:
            text = self._types.get(aval)
            if text is None:
                text = self._types[aval] = aval.str_short()
            found.append(text)
        return tuple(found)

    def _scope(self, origin: Origin) -> str:
        known = self._scopes.get(id(origin.context))
        if known is None:
            known = self._scopes[id(origin.context)] = origin.context, origin.scope
        return known[1]

    def _append(self, drawn: TraceSummary, state: State, node: Node) -> None:
        for result in range(len(state.avals)):
            self._where[drawn.key, state.first + result] = (node.id, result)
        self._nodes.append(node)


def _reached(nodes: Sequence[Node], wanted: set[int]) -> set[int]:
    needed = set(wanted)
    for node in reversed(nodes):
        if node.id in needed:
            needed.update(source for source, _ in node.operands)
    return needed


def _renumbered(node: Node, number: Mapping[int, int], wanted: bool) -> Node:
    """``node`` under its new number, an output where it is ``wanted``; itself where it is that already."""
    if number[node.id] == node.id and (
        node.output or not wanted
    ):  # then nothing before it was left out either
        return node
    operands = tuple([(number[source], result) for source, result in node.operands])
    return replace(node, id=number[node.id], output=wanted or node.output, operands=operands)


_FUNCTIONS = {**TRANSFORMED_FUNCTIONS, "apply_fn": "apply"}


def plain_name(name: str) -> str:
    """An operation's name as users know it: ``_where`` is ``where``."""
    name = JITTED_NAMES.get(name, name)
    return name.strip("_").replace("<lambda>", "lambda") or name


# What a library calls instead of the user's function. The name stack then says which module it was (Flax
# writes it there).
_WRAPPERS = {
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
    """Name of the function that the user called under the name stack ``scope``; None for an operator or a
    jitted function, which has its own."""
    if origin.callee is None:
        return None
    if origin.callee.co_name in _WRAPPERS:
        return scope.rsplit("/", 1)[-1].strip("()") or None
    return plain_name(_FUNCTIONS.get(origin.callee.co_name, origin.callee.co_name))
