"""Replay edges: the steps of a recorded call, and their construction from the recorded trace."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from sys import getrefcount
from types import CodeType
from typing import Any

import numpy as np

from lazynb import jax_compat as jc
from lazynb.recording.external_arrays import kept_by_edges, references
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.pending_trace import PendingTrace
from lazynb.recording.python_numbers import LiteralConverter, LiteralMismatch, converter
from lazynb.recording.trie import State
from lazynb.user_code.source_lines import Origin


class NotReplayable(Exception):
    """An argument of the call cannot be part of an edge's key."""


class ReplayEdge:
    """The steps that a call appends.

    Attributes:
      end: the state after the call; None for a call that is not replayed.
      results: slot and aval of each result.
      container: type of the tuple or list of results; None for a single result.
      slot, aval: slot and aval of a single result; otherwise None.
      values: values of the inputs that the call itself adds.
      converters: functions that convert the call's Python numbers to inputs, in order. With ``values`` they
        only check that the edge fits the numbers.
      convert: the converter of a call with one number; otherwise None.
      scalar, converted: the last number and its inputs, kept because most numbers are literals.
      callee: code of the function that the user called.
      argument: position of the argument that the call returns unchanged, without recording anything.
      plain: whether there is one result, at most one number and no cut, so the operators append it
        themselves.
      fills: whether the trace is full after the call, and is cut there.
      fixed: whether one of the call's numbers is a literal, so that the edge is only for this number.
      next_edge: the edge of the same call with other numbers, if ``fixed``.
    """

    __slots__ = (
        "argument",
        "aval",
        "callee",
        "container",
        "convert",
        "converted",
        "converters",
        "end",
        "fills",
        "fixed",
        "next_edge",
        "plain",
        "results",
        "scalar",
        "slot",
        "values",
    )

    def __init__(
        self,
        end: State | None,
        results: Sequence[tuple[int, Any]] = (),
        container: type | None = None,
        values: tuple[Any, ...] = (),
        converters: tuple[Callable[[Any], Any], ...] = (),
        callee: CodeType | None = None,
        argument: int | None = None,
        fills: bool = False,
    ):
        self.end = end
        self.results = results
        self.container = container
        single = end is not None and container is None and argument is None
        self.slot: Any
        self.aval: Any
        self.slot, self.aval = results[0] if single else (None, None)
        self.values = values
        self.converters = converters
        self.convert = converters[0] if len(converters) == 1 else None
        self.scalar: Any = None
        self.converted: tuple[Any, ...] = ()
        self.callee = callee
        self.argument = argument
        self.fills = fills
        self.plain = single and not values and len(converters) <= 1 and not fills
        self.fixed = any(type(convert) is LiteralConverter for convert in converters)
        self.next_edge: ReplayEdge | None = None

    def of(self, scalars: Sequence[Any]) -> ReplayEdge | None:
        """Returns the first edge of the chain that fits the numbers ``scalars``."""
        edge: ReplayEdge | None = self
        while edge is not None and edge.fixed:
            try:
                edge.inputs(scalars)
                return edge
            except LiteralMismatch:
                edge = edge.next_edge
            except (OverflowError, ValueError, TypeError):
                return edge
        return edge

    def before(self, edge: ReplayEdge) -> ReplayEdge:
        """Adds the new ``edge`` to the chain and returns its first edge. An edge for any number comes last.

        At most :data:`MAX_FIXED` edges for certain numbers are kept.
        """
        last, count = self, 1
        while last.fixed and last.next_edge is not None:
            last, count = last.next_edge, count + 1
        if edge.fixed:
            if count >= MAX_FIXED:
                return self
            edge.next_edge = self
            return edge
        if last.fixed:
            last.next_edge = edge
        return self

    def without(self, end: State) -> ReplayEdge | None:
        """Returns the first edge of the chain without the edges that lead to ``end``."""
        if self.next_edge is not None:
            self.next_edge = self.next_edge.without(end)
        return self.next_edge if self.end is end else self

    def inputs(self, scalars: Sequence[Any]) -> tuple[Any, ...]:
        """Returns the inputs that a call with ``scalars`` adds. Raises LiteralMismatch for other numbers."""
        numbers = tuple([convert(scalar) for convert, scalar in zip(self.converters, scalars, strict=True)])
        return self.values or numbers


NOT_REPLAYABLE = ReplayEdge(None)


MAX_FIXED = 8
"""Edges of one call for certain numbers. With more numbers the call goes through JAX."""


NUMBER_KINDS: dict[type, object] = {cls: object() for cls in (float, int, bool, complex)}
"""The part of a key for a Python number that is compared by type only, by type."""


def remember_edge(tip: State, key: Hashable, edge: ReplayEdge | None) -> None:
    """Adds ``edge``, unless it is None, to the edges of the same call with other numbers."""
    if edge is None:
        return
    known = tip.edges.get(key)
    if known is not None and known.fixed and edge.end is not None:
        tip.remember(key, known.before(edge), edge.end)
    else:
        tip.remember(key, edge, edge.end)


def edge_between(
    pending: PendingTrace,
    tip: State,
    end: State,
    count: int,
    result: Any,
    args: tuple[Any, ...],
    scalars: Sequence[Any],
) -> ReplayEdge | None:
    """Returns the edge of a call that led from ``tip`` to ``end``; None if it is not certain yet."""
    if end is tip:
        positions = [number for number, arg in enumerate(args) if arg is result and type(arg) is LazyTensor]
        return ReplayEdge(None, argument=positions[0]) if positions else NOT_REPLAYABLE
    container = type(result) if type(result) in (tuple, list) else None
    tensors = [result] if container is None else result
    if not tensors or not all(
        type(t) is LazyTensor and t._pending is pending and t._slot >= tip.slots for t in tensors
    ):
        return NOT_REPLAYABLE
    values = tuple(pending.inputs[tip.inputs : end.inputs])
    if not all([isinstance(value, np.generic) for value in values]):
        del values  # it holds them
        if not all([_is_own(pending, number) for number in range(tip.inputs, end.inputs)]):
            return NOT_REPLAYABLE
        values = tuple(pending.inputs[tip.inputs : end.inputs])
        for value in values:
            if not isinstance(value, np.generic):
                kept_by_edges.add(value)
    converters: tuple[Any, ...] = ()
    if scalars:
        are_numbers = all([isinstance(value, np.generic) for value in values])
        converters = _converters(tip, end, values, scalars) if are_numbers else ()
        if not _are_inputs(values, converters, scalars):  # JAX added other inputs between them
            converters = tuple([LiteralConverter(number, None) for number in scalars])
        elif len({value.tobytes() for value in values}) < len(values):
            return None  # only different numbers show which input is which
        else:
            values = ()
    first = pending.records[count]
    callee = first._code.callee if isinstance(first._code, Origin) else first._edge.callee
    results = [(t._slot, t.aval) for t in tensors]
    full = pending.trace.filled_at
    if full is not None and full[1].state is not end:
        return None  # the trace is cut within the call
    return ReplayEdge(end, results, container, values, converters, callee, fills=full is not None)


def _is_own(pending: PendingTrace, number: int) -> bool:
    """Whether the call made input ``number`` of its arguments: a number, or a small array that only the trace
    holds. JAX makes such an array of a list, a NumPy array or a number."""
    if isinstance(pending.inputs[number], np.generic):
        return True
    held = _reference_count(pending.inputs, number)
    value = pending.inputs[number]
    if type(value) is not jc.ArrayImpl or value.nbytes > MAX_CONTENT_BYTES:
        return False
    return held - references(value, pending.guards.get(id(value))) <= _HELD_ONCE


def _reference_count(items: Sequence[Any], number: int) -> int:
    return getrefcount(items[number])


_HELD_ONCE = _reference_count([object()], 0)
"""``_reference_count`` of an object that only the list holds; it depends on the interpreter."""


MAX_CONTENT_BYTES = 1024
"""Size of NumPy arrays that are compared by content, and of arrays that an edge keeps."""


def _converters(
    tip: State, end: State, values: Sequence[Any], scalars: Sequence[Any]
) -> tuple[Callable[[Any], Any], ...]:
    """Returns, for each input added between ``tip`` and ``end``, the converter of the call's number."""
    fixed: dict[int, bool] = {}
    state = end
    while state is not tip and state.parent is not None:
        if state.operation is None:
            fixed[state.inputs - 1 - tip.inputs] = state.constant is not None
        state = state.parent
    return tuple(
        [
            LiteralConverter(number, value) if fixed[place] else converter(value.__class__)
            for place, (value, number) in enumerate(zip(values, scalars, strict=False))
        ]
    )


def _are_inputs(
    values: Sequence[Any], converters: Sequence[Callable[[Any], Any]], scalars: Sequence[Any]
) -> bool:
    if len(values) != len(scalars) or len(converters) != len(scalars):
        return False
    inputs = [convert(scalar) for convert, scalar in zip(converters, scalars, strict=True)]
    return all(new.tobytes() == value.tobytes() for new, value in zip(inputs, values, strict=True))
