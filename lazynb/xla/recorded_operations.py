"""Recorded operations of several traces by graph node, independent of how they were split into programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax

from lazynb import jax_compat as jc
from lazynb.recording.input_key import HOST
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.pending_trace import PendingTrace
from lazynb.recording.snapshot.nested_nodes import OperationNodes
from lazynb.recording.snapshot.trace_description import SnapshotBuilder
from lazynb.recording.trie import Root, State

Value = tuple[int, int]
"""A node of the graph, and the number of its result."""


class RecordedInput(NamedTuple):
    """An input: its step, its type with sharding, and a function that returns its value while that exists."""

    step: State
    type: Any
    held: Callable[[], Any]


class RecordedOperation(NamedTuple):
    """A recorded operation.

    Attributes:
      made: its nodes.
      operands: the values that it reads.
      results: the values that it computes; None for one that existed before (a returned argument).
    """

    step: State
    made: OperationNodes
    operands: tuple[Value, ...]
    results: tuple[Value | None, ...]


class RecordedStep(NamedTuple):
    """An input or an operation, its values, and the nodes of an operation."""

    step: State
    values: tuple[Value, ...]
    made: OperationNodes


class RecordedTrace(NamedTuple):
    """The operations of a recorded trace.

    Attributes:
      root: the JAX configuration of the trace.
      steps: in order.
      taken: the inputs, in order.
    """

    root: State
    steps: list[RecordedStep]
    taken: list[RecordedInput]


class PendingSnapshot:
    """A described pending trace, to be read later, when it may have run.

    Arguments:
      holding: makes a function that returns the value of an input while that exists.
    """

    def __init__(self, pending: PendingTrace, holding: Callable[[Any], Callable[[], Any]]):
        self._pending = pending
        self._root, self._end = pending.root, pending.state
        self._inputs = [(_type(value), holding(value)) for value in pending.inputs]

    def source(self, description: SnapshotBuilder) -> RecordedTrace:
        """All its operations."""
        path = self._end.path()
        steps = [_step(self._pending, description, step) for step in path if step.avals]
        inputs = [step for step in path if step.operation is None]
        taken = [RecordedInput(step, *known) for step, known in zip(inputs, self._inputs, strict=True)]
        return RecordedTrace(self._root, steps, taken)

    def is_whole(self) -> bool:
        """Whether all of its inputs still exist."""
        return all(held() is not None for _, held in self._inputs)


def recorded_trace(pending: PendingTrace, description: SnapshotBuilder) -> RecordedTrace:
    return PendingSnapshot(pending, _strong_getter).source(description)


def _step(pending: PendingTrace, description: SnapshotBuilder, step: State) -> RecordedStep:
    values = tuple([description.result(pending, slot) for slot in range(step.first, step.slots)])
    return RecordedStep(step, values, description.made(pending, step.first))


def external_input(given: Any) -> RecordedInput:
    """An input that no operation reads: a number, or an array's type."""
    aval = jc.typeof(given)
    sharding = given.sharding if isinstance(given, jax.ShapeDtypeStruct) else HOST
    return RecordedInput(State(None, (aval, sharding), None, (), (aval,), None), given, lambda: given)


def _type(value: Any) -> Any:
    if isinstance(value, LazyTensor):  # another trace computes it
        return jax.ShapeDtypeStruct(value.shape, value.dtype, weak_type=jc.typeof(value).weak_type)
    return jc.abstract(value)


def _strong_getter(value: Any) -> Callable[[], Any]:
    return lambda: value


class RecordedOperations:
    """The operations and inputs of several sources; later sources may read results of earlier ones.

    Attributes:
      root: the JAX configuration of all of them; None if there are several.
      operations: in order.
      inputs: by value.
    """

    def __init__(self, sources: Sequence[RecordedTrace]):
        roots = [source.root for source in sources]
        self.root: Root | None = None
        if all(isinstance(root, Root) and root is roots[0] for root in roots):
            self.root = roots[0]  # type: ignore[assignment]
        self.operations: list[RecordedOperation] = []
        self.inputs: dict[Value, RecordedInput] = {}
        self._same: dict[int, Value] = {}  # by id of an array, the first input with it
        self._first: dict[Value, Value] = {}  # by value of each input, the first input with the same array
        self._values: set[Value] = set()
        for source in sources:
            self._add(source)

    def _add(self, source: RecordedTrace) -> None:
        slots: dict[int, Value] = {}
        taken = iter(source.taken)
        for step, values, made in source.steps:
            if step.operation is None:
                self._take(values[0], next(taken))
            given = [self.known(value) for value in values]
            if step.operation is not None:
                operands = tuple([slots[slot] for slot in step.operands])
                results = tuple([None if value in self._values else value for value in given])
                self.operations.append(RecordedOperation(step, made, operands, results))
            self._values.update(given)
            slots.update(enumerate(given, step.first))

    def _take(self, value: Value, taken: RecordedInput) -> None:
        """Registers an input; several sources may read one array."""
        array = taken.held()
        if isinstance(array, jax.Array):
            self._first[value] = self._same.setdefault(id(array), value)
        self.inputs.setdefault(self.known(value), taken)

    def known(self, value: Value) -> Value:
        """``value``, or the first input with the same array."""
        return self._first.get(value, value)

    def needed(self, wanted: Iterable[Value]) -> list[RecordedOperation]:
        """The operations on which ``wanted`` depend, in order."""
        values, kept = set(wanted), []
        for applied in reversed(self.operations):
            if not values.isdisjoint(applied.results):
                kept.append(applied)
                values.update(applied.operands)
        kept.reverse()
        return kept


def values_read(operations: Iterable[RecordedOperation]) -> Iterator[Value]:
    """The values that ``operations`` read, in order."""
    for applied in operations:
        yield from applied.operands
