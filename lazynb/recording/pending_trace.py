"""Pending traces: recorded operations of one thread that have not run yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress
from operator import attrgetter
from sys import getrefcount
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from lazynb import jax_compat as jc
from lazynb.config import config
from lazynb.recording.forward_tracebacks import each_origin
from lazynb.recording.trace_inputs import TraceInputs, is_pending
from lazynb.recording.trie import LoopStart, Root, State, Trie
from lazynb.user_code.source_lines import Origin

if TYPE_CHECKING:
    from lazynb.recording.lazy_tensor import LazyTensor
    from lazynb.recording.lazy_trace import LazyTrace
    from lazynb.recording.operation_checks import Check


class Mark(NamedTuple):
    """A point to which :meth:`PendingTrace.rollback` returns."""

    state: State
    records: int


class PendingTrace(TraceInputs):
    """A path in the trie with the values of its inputs and the tensors of its results.

    A replayed operation (:mod:`lazynb.recording.replay.call_replay`) is appended without a lock, in a few
    instructions between which CPython neither switches threads nor handles a signal: it stores ``open_state``
    and then calls ``records.append``. So ``open_state`` alone defines the end of the trace. Another thread
    can only seal the trace, which sets ``open_state`` to None.

    Attributes:
      trace: the recorder of the thread.
      root: the root of JAX's configuration, at which the path starts unless it is a piece of a loop.
      loop: the start of the path of a piece of a divided loop; otherwise None.
      limit: number of operations at which a loop is searched, see :mod:`lazynb.recording.loops.trace_growth`.
      loop_spot: the source position of the loop that records the trace, if known.
      context: JAX's configuration when the trace was opened; None if calls must not be replayed.
      config_epoch: ``changes.count`` when JAX's configuration was last equal to ``context``.
      records: the tensor of each result, in order. Tensors that the user has dropped are referenced only
        here, see :meth:`live`. A tensor references none of the user's objects, so it is never part of a
        reference cycle.
      append: ``records.append``.
      began, ended: ``time.perf_counter()`` when the trace was opened and last sealed.
      cut_by: see :class:`lazynb.recording.open_traces.OpenTraces`.
      delete_after_run: concrete arrays that the user donated, deleted after the run.
      in_flight_run: the run of the trace until its tensors have their values, see
        :mod:`lazynb.running.run_delivery`.
      calls_back: whether the first operation calls a Python function, which may read values of earlier
        traces.
      checks: conditions on the values, see :mod:`lazynb.recording.operation_checks`.
      closed: whether the trace has run or was dropped, and is empty.
      failure: the part that cannot run, see :mod:`lazynb.running.run_failure`; None if no run has failed.
    """

    __slots__ = (
        "__weakref__",
        "append",
        "began",
        "calls_back",
        "checks",
        "closed",
        "config_epoch",
        "context",
        "cut_by",
        "delete_after_run",
        "ended",
        "failure",
        "in_flight_run",
        "limit",
        "loop",
        "loop_spot",
        "records",
        "root",
        "trace",
    )

    def __init__(self, trace: LazyTrace, trie: Trie, root: Root, context: Any, loop: LoopStart | None = None):
        super().__init__(trie, loop or root)
        self.trace = trace
        self.root = root
        self.context = context
        self.config_epoch = -1
        self.loop = loop
        self.limit = loop.length if loop is not None else max(config.max_program // 4, 1)
        self.loop_spot: Any = None
        self.records: list[LazyTensor] = []
        self.append = self.records.append
        self.delete_after_run: list[Any] = []
        self.began = self.ended = perf_counter()
        self.cut_by: Any = None
        self.in_flight_run: Any = None
        self.failure: Any = None
        self.calls_back = False
        self.checks: list[Check] = []
        self.closed = False

    @property
    def sealed(self) -> bool:
        """Whether no more operations may be recorded."""
        return self.open_state is None

    def __len__(self) -> int:
        return self.state.operations

    def replace_result(self, tensor: LazyTensor, other: LazyTensor) -> None:
        """Replaces ``tensor`` by ``other`` among the results."""
        for number, record in enumerate(self.records):
            if record is tensor:
                self.records[number] = other

    def commit(self, state: State, tensors: list[LazyTensor], origin: Origin) -> None:
        """Appends the operation of ``state`` with the results ``tensors``."""
        if tensors:
            tensors[0]._edge, tensors[0]._code = state, origin
        self.open_state = state
        self.records.extend(tensors)

    @property
    def depends(self) -> bool:
        """Whether an input was pending in another trace when it was recorded."""
        return bool(self.sources)

    def needs(self, other: PendingTrace) -> bool:
        """Whether this trace is ``other`` or depends on it, directly or through other traces."""
        if self.open_state is None and self.ended < other.began:
            return False  # sealed before ``other`` was opened
        seen: set[int] = set()
        left = [self]
        while left:
            pending = left.pop()
            if pending is other:
                return True
            if id(pending) not in seen:
                seen.add(id(pending))
                left.extend(pending.sources)
        return False

    def mark(self) -> Mark:
        """Returns the current end of the trace, for :meth:`rollback`."""
        return Mark(self.state, len(self.records))

    def rollback(self, mark: Mark) -> None:
        """Removes the steps after ``mark``, so a failed operation leaves no steps or inputs."""
        for value in self.inputs[mark.state.inputs :]:
            self.slots_of.pop(id(value), None)
        abandoned, self.open_state = self.state, mark.state
        del self._owners[mark.state.slots :]  # not all: each number of a call is taken back once
        del self.inputs[mark.state.inputs :], self.records[mark.records :]
        if self.sources:
            self.sources = {value._pending for value in self.inputs if is_pending(value)}
            self.unresolved_shardings = {
                number for number in self.unresolved_shardings if number < len(self.inputs)
            }
        if abandoned is not mark.state:
            self.trie.prune(abandoned)

    def is_config_unchanged(self) -> bool:
        """Whether JAX's configuration equals that of the opened trace, so calls may be replayed."""
        count = jc.config_changes.count
        if (
            self.context is None
            or self.trace.detached
            or jc.must_run_eagerly()
            or not jc.is_same_context(jc.raw_context(), self.context)
        ):
            return False
        self.config_epoch = count
        return True

    def resolve_shardings(self, values: Sequence[Any]) -> None:
        """Moves the trace to the path with the actual shardings of inputs that were pending on several
        devices.

        XLA chooses these shardings when it compiles the program that computes the inputs, so they are unknown
        while recording. An executable is for one choice.

        Arguments:
          values: the values of the inputs, or their avals with shardings; None where computing an input
            failed.
        """
        if not self.unresolved_shardings:
            return
        path = self.state.path()
        state = path[0].parent
        assert state is not None
        for step in path:
            key = step.key
            number = step.inputs - 1
            if step.operation is None and number in self.unresolved_shardings and values[number] is not None:
                key = (step.avals[0], jc.canonical_sharding(values[number].sharding))
            state = self.trie.step_like(state, step, key, step.operands)
        recorded = self.state
        self._owners.clear()
        if self.open_state is None:
            self._end = state
        else:
            self.open_state = state
        if recorded is not state:
            self.trie.keep_path(recorded)

    def seal(self) -> None:
        """Ends recording in this trace."""
        if self.open_state is not None:
            self._end, self.open_state = self.open_state, None
            self.ended = perf_counter()

    def unseal(self) -> None:
        """Undoes :meth:`seal`."""
        self.open_state = self._end

    def replace_end(self, end: State) -> None:
        """Sets the end of a sealed trace to ``end``, whose path has the same steps and slots."""
        assert self.sealed and end.slots == self._end.slots
        self._end = end
        self._owners.clear()
        self._variables = (None, set())

    # ---- Results and their lifetime ------------------------------------------------------------------------

    def live(self) -> list[LazyTensor]:
        """Returns the pending tensors that are referenced outside of ``records``, in the order of their
        slots.

        A replayed derivative is recorded at once, so ``records`` may differ in order from the steps. With the
        order of the slots equal sets of results share one executable.
        """
        counts = list(map(getrefcount, self.records))  # first, before this method adds references
        reached = compress(self.records, map(_UNREACHED.__lt__, counts))
        tensors = [tensor for tensor in reached if tensor._pending is self]
        if len(tensors) > 1:
            tensors.sort(key=_slot)
        return tensors

    def has_live(self) -> bool:
        """Whether a pending tensor is referenced outside of ``records`` and of an interrupted run."""
        in_flight = self.in_flight_run
        if in_flight is None:
            newest = next(map(getrefcount, reversed(self.records)), 0)
            return (newest > _UNREACHED and self.records[-1]._pending is self) or bool(self.live())
        waiting = set(map(id, in_flight.tensors))
        counts = list(map(getrefcount, self.records))  # first, before this method adds references
        return any(
            count > _UNREACHED + (id(tensor) in waiting) and tensor._pending is self
            for tensor, count in zip(self.records, counts, strict=False)
        )

    def close(self) -> None:
        """Frees the path after a run, or if there are no live tensors."""
        self.seal()
        if self.failure is not None:  # the trace ran in parts
            for tensor in self.records:
                if tensor._pending is None:
                    tensor._forget_origin()
        state, self._end = self._end, self.root
        if not state.executables:
            self.trie.prune(state)
        self.inputs, self.records, self.delete_after_run, self.slots_of, self._owners = [], [], [], {}, []
        self.guards, self.in_flight_run, self.failure = {}, None, None
        self.sources, self.unresolved_shardings = set(), set()
        self.checks = []
        self.append = self.records.append
        self.closed = True

    def origins(self) -> list[Origin | None]:
        """Returns the user's line of each step; None for an input."""
        origins: list[Origin | None] = [None] * self.state.depth
        path = self.state.path()
        before = 0
        for number, tensor in enumerate(self.records):
            edge = tensor._edge
            if edge is None:  # not the first result of its call
                continue
            state = edge if isinstance(edge, State) else edge.end
            steps = [step for step in path[before : state.depth] if step.operation is not None]
            for step, each in zip(steps, self.origins_of(number, len(steps)), strict=True):
                origins[step.depth - 1] = each
            before = state.depth
        return origins

    def origins_of(self, number: int, count: int) -> Sequence[Origin]:
        """Returns the user's lines of the ``count`` operations of the call whose first result is
        ``number``."""
        tensor = self.records[number]
        origin = tensor._code
        if not isinstance(origin, Origin):
            origin = Origin(origin, tensor._lasti, tensor._edge.callee, -1 - number, tensor._scope)
        return each_origin(origin, count)


_slot = attrgetter("_slot")
_UNREACHED = next(map(getrefcount, [object()]))
"""``getrefcount`` of a tensor that only ``records`` references; depends on the interpreter."""


def pending_dependencies(tensors: Iterable[LazyTensor]) -> list[PendingTrace]:
    """Returns the pending traces that ``tensors`` depend on, each after its own dependencies."""
    order: dict[int, PendingTrace] = {}
    ends = {id(tensor._pending): tensor._pending for tensor in tensors}
    stack: list[tuple[PendingTrace, bool]] = [
        (pending, False) for pending in ends.values() if pending is not None
    ]
    while stack:
        pending, ready = stack.pop()
        if ready:
            order.setdefault(id(pending), pending)
        elif id(pending) not in order:
            stack.append((pending, True))
            stack.extend(
                (value._pending, False)
                for value in pending.inputs
                if getattr(value, "_pending", None) is not None
            )
    return list(order.values())
