"""Pending traces: operations that one thread recorded and that have not run yet."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from itertools import compress
from operator import attrgetter
from sys import getrefcount
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from lazynb import jax_compat as jc
from lazynb.config import config
from lazynb.recording.external_arrays import (
    Guard,
    held_outside,
    make_guard,
    private_copy,
    restore_from_guard,
    same_content,
    shared_memory,
)
from lazynb.recording.python_numbers import number_step
from lazynb.recording.trie import HOST, LoopStart, Root, State, Trie, UnresolvedSharding
from lazynb.user_code.source_lines import Origin

if TYPE_CHECKING:
    from lazynb.recording.lazy_tensor import LazyTensor
    from lazynb.recording.lazy_trace import LazyTrace
    from lazynb.recording.operation_checks import Check

# ---- What was running when the operations were traced of which a backward pass is recorded ----------------


class ForwardTracebacks:
    """For each operation of a backward pass that is recorded as one call, the traceback of the operation that
    it differentiates; None where that is not known.

    The call is recorded operation by operation, or recalled at once. That the operations are as many as the
    tracebacks is seen at the end; if they are not, nothing is known of any.
    """

    __slots__ = ("_taken", "_tracebacks")

    def __init__(self, tracebacks: Sequence[Any]):
        self._tracebacks = tracebacks
        self._taken = 0

    def take(self) -> ForwardTracebackSlice:
        """What belongs to the operations that are recorded next, one or all."""
        self._taken += 1
        return ForwardTracebackSlice(self, self._taken - 1)

    def of(self, first: int, count: int) -> Sequence[Any]:
        """The tracebacks of ``count`` operations that were recorded together as number ``first``."""
        whole = len(self._tracebacks)
        if (count == 1 and self._taken == whole) or (self._taken == 1 and count == whole):
            return self._tracebacks[first : first + count]
        return [None] * count


class ForwardTracebackSlice:
    """The part of a :class:`Differentiated` from one operation on."""

    __slots__ = ("_first", "_whole")

    def __init__(self, whole: ForwardTracebacks, first: int):
        self._whole = whole
        self._first = first

    def of(self, count: int) -> Sequence[Any]:
        """The tracebacks of the ``count`` operations that begin here."""
        return self._whole.of(self._first, count)


# ---- The sharding of a result that is known before XLA compiles the program -------------------------------


def named_result_sharding(state: State, slot: int) -> Any:
    """The sharding that the operation of ``state`` names for its result ``slot``; None if it names none.

    The program has to be told it (``out_shardings``): what is named inside of a program is a wish.
    """
    operation = state.operation
    if operation is None or state.devices is None:
        return None
    return jc.named_sharding(operation.primitive, operation.params, slot - state.first)


def predetermined_sharding(state: State, slot: int) -> Any:
    """The sharding that a committed result will have; None if XLA chooses it.

    Arguments:
      state: the step that gives ``slot``.
    """
    named = named_result_sharding(state, slot)
    if named is not None:
        return named
    assert state.devices is not None
    return jc.explicit_sharding(state.avals[slot - state.first], state.devices)


class Mark(NamedTuple):
    """A point to which a pending trace can be taken back."""

    state: State
    records: int


class PendingTrace:
    """A path in the trie with the values of its inputs and the tensors of its results.

    A recalled operation (:mod:`lazynb.recording.replay.call_replay`) is appended without a lock, in a few
    instructions between which CPython neither switches threads nor handles a signal: it stores ``open_state``
    and then calls ``records.append``. So ``open_state`` alone is the end of the trace, and only sealing,
    which sets it to None, takes it away from the thread that records.

    Attributes:
      trace: the recorder of the thread.
      trie: the trie of the path.
      root: the start of the path, unless it is a piece of a loop.
      loop: the start of the path, if it is a piece of a loop that was divided; otherwise None.
      limit: number of operations at which it is examined, see :mod:`lazynb.recording.loops.trace_growth`.
      loop_spot: the loop that records it, if that is known.
      context: JAX's configuration when the trace was opened; None if calls must not be recalled.
      config_epoch: ``changes.count`` when JAX's configuration was last found to be ``context``.
      open_state: the end of the path while more may be recorded; None after the trace is sealed (a later one
      may
        depend on it).
      inputs: values of the inputs in order: an array, a scalar, or a tensor that is pending elsewhere.
      slots_of: slots of the inputs by the id of the object that stands for the value.
      records: the tensor of each result, in order. This list alone keeps the tensors that the user cannot
        reach (``live``). A tensor refers to none of the user's objects, so it is never part of a cycle that
        the garbage collector would have to find.
      append: appends to ``records``.
      sources: the traces in which its inputs were still pending when they were recorded.
      unresolved_shardings: the numbers of the inputs that were pending on several devices.
      began, ended: ``time.perf_counter()`` when the trace was opened, and when it was sealed last.
      cut_by: see :class:`lazynb.recording.lazy_trace.LazyTrace`.
      delete_after_run: concrete arrays that the user donated: they are deleted when the trace has run.
      guards: the guards of the inputs that other code may delete, by the id of the input.
      in_flight_run: the run of the trace, until its tensors have the results; see
      :mod:`lazynb.running.run_delivery`. calls_back: whether its first operation calls a Python function,
      which may read the values of earlier
        traces.
      checks: what its values have to fulfil, see :mod:`lazynb.recording.operation_checks`.
      closed: whether it has run, or was given up, and is empty.
      failure: why not all of it can run, see :mod:`lazynb.running.run_failure`; None if no run has failed.
    """

    __slots__ = (
        "__weakref__",
        "_copies",
        "_end",
        "_owners",
        "_variables",
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
        "guards",
        "in_flight_run",
        "inputs",
        "limit",
        "loop",
        "loop_spot",
        "open_state",
        "records",
        "root",
        "slots_of",
        "sources",
        "trace",
        "trie",
        "unresolved_shardings",
    )

    def __init__(self, trace: LazyTrace, trie: Trie, root: Root, context: Any, loop: LoopStart | None = None):
        self.trace = trace
        self.trie = trie
        self.root = root
        self.context = context
        self.config_epoch = -1
        self.open_state: State | None = loop or root
        self._end: State = loop or root
        self.loop = loop
        self.limit = loop.length if loop is not None else max(config.max_program // 4, 1)
        self.loop_spot: Any = None
        self.inputs: list[Any] = []
        self.records: list[LazyTensor] = []
        self.append = self.records.append
        self.slots_of: dict[int, int] = {}
        self._owners: list[State] = []  # the step that gives each slot; ``owner`` brings it up to date
        self._variables: tuple[State | None, set[Any]] = (None, set())
        self.delete_after_run: list[Any] = []
        self.sources: set[PendingTrace] = set()
        self.unresolved_shardings: set[int] = set()
        self.began = self.ended = perf_counter()
        self.cut_by: Any = None
        self.guards: dict[int, Guard] = {}
        self.in_flight_run: Any = None
        self.failure: Any = None
        self.calls_back = False
        self.checks: list[Check] = []
        self.closed = False
        # Arrays to whose memory other code may write, and their last copies, by the id of the array.
        self._copies: dict[int, tuple[Any, Any]] = {}

    @property
    def state(self) -> State:
        """The end of the path."""
        tip = self.open_state
        return self._end if tip is None else tip

    @property
    def sealed(self) -> bool:
        """Whether no more operations may be recorded."""
        return self.open_state is None

    def __len__(self) -> int:
        """The number of pending operations."""
        return self.state.operations

    # ---- recording -----------------------------------------------------------------------------------------

    def input(self, value: Any, aval: Any, identity: Any = None) -> int:
        """The slot of an input.

        Arguments:
          identity: an object that stands for the value; the same object gets the same slot.
        """
        if identity is not None:
            slot = self.slots_of.get(id(identity))
            if slot is not None:
                return slot
        before = self.state
        state = self._after_input(before, value, aval)
        entry = (value if identity is None else identity,)
        if identity is not None and identity is value and hasattr(value, "_pending"):
            self._note_pending_source(value, before.inputs, state)
        self.inputs[before.inputs :] = entry
        self.open_state = state
        # Last, because a slot in ``slots_of`` must exist. ``inputs`` keeps the object, so its id stays valid.
        if identity is not None:
            self.slots_of[id(identity)] = before.slots
        return before.slots

    def number(self, value: Any, aval: Any, place: Any) -> int:
        """The slot of a number from Python.

        Arguments:
          value: as a scalar of NumPy's.
          place: where it is written in the code; None if a variable holds it.
        """
        before = self.state
        state = number_step(self.trie, before, aval, value, place)
        entry = (value,)
        self.inputs[before.inputs :] = entry
        self.open_state = state
        return before.slots

    def is_variable_value(self, value: Any) -> bool:
        """Whether an input that a variable holds is the number ``value``."""
        last, contents = self._variables
        found, state = set(), self.state
        while state is not last and state.parent is not None:
            if state.is_host_scalar and state.constant is None:
                found.add(_content(self.inputs[state.inputs - 1]))
            state = state.parent
        if state is last:
            found |= contents
        self._variables = self.state, found
        return _content(value) in found

    def concrete(self, value: Any, outside: bool = True) -> int:
        """The slot of a concrete array, which must not be deleted.

        Arguments:
          outside: whether other code may hold the array too.
        """
        slot = self.slots_of.get(id(value))
        if slot is not None:
            return slot
        if outside or id(value) in held_outside.ids:
            value = self._protected(value)
        return self.input(value, value.aval, value)

    def array(self, value: Any, outside: bool = False) -> int | None:
        """The slot of an uncommitted concrete array whose type was an input at this state before.

        Returns None for any other value.

        Arguments:
          outside: as for :meth:`concrete`.
        """
        key = id(value)
        slot = self.slots_of.get(key)
        if slot is not None and not (outside and value.is_deleted()):
            return slot
        if self.open_state is None or value.__class__ is not jc.ArrayImpl or value.is_deleted():
            return None
        if outside or key in held_outside.ids:
            held = self._protected(value)
            if held is not value:
                value, key = held, id(held)
                slot = self.slots_of.get(key)
                if slot is not None:
                    return slot
        tip = self.open_state
        if tip is None:
            return None
        aval = value.aval
        known = tip.edges.get((id(aval), None))
        if known is None or known[0] is not aval or value._committed:
            return None
        slot, before, entry, state = tip.slots, tip.inputs, (value,), known[1]
        if self.open_state is not tip:
            return None
        self.inputs[before:] = entry  # as in ``recall.take``, nothing comes in between
        self.open_state = state
        self.slots_of[key] = slot
        return slot

    # ---- inputs that other code holds ----------------------------------------------------------------------

    def _protected(self, value: Any) -> Any:
        """The input for an array that other code holds: the array itself with a guard, or a copy."""
        try:  # the usual case
            view = memoryview(value)
            if value.unsafe_buffer_pointer() not in shared_memory.addresses:
                self.guards[id(value)] = view
                return value
        except Exception:
            view = None
        if value in shared_memory:
            return self._copy(value)
        guard = view if view is not None else make_guard(value)
        if guard is not None:
            self.guards[id(value)] = guard
        return value

    def _copy(self, value: Any) -> Any:
        """A copy of an array that other code may write to; the last copy if its content is the same."""
        known = self._copies.get(id(value))
        if known is not None and same_content(*known):
            return known[1]
        copy = private_copy(value)
        self._copies[id(value)] = (value, copy)
        return copy

    def original(self, value: Any) -> Any:
        """The user's array of which the input ``value`` is a private copy; ``value`` itself if it is none."""
        return next((known for known, copy in self._copies.values() if copy is value), value)

    def originals(self) -> list[Any]:
        """The inputs as the user has them: a private copy's array in its place."""
        copied = {id(copy): known for known, copy in self._copies.values()}
        return [copied.get(id(value), value) for value in self.inputs]

    def slot_of(self, identity: int) -> int | None:
        """The input that the array with the id ``identity`` is, or its private copy; None if it is none."""
        known = self._copies.get(identity)
        return self.slots_of.get(identity if known is None else id(known[1]))

    def protect_input(self, value: Any) -> None:
        """Keeps the present content of the input ``value``, which is handed to other code."""
        slot = self.slots_of.get(id(value))
        if slot is None or (id(value) in self.guards and value not in shared_memory):
            return
        held = self._protected(value)
        if held is not value:
            self._replace(slot, value, held)

    def _replace(self, slot: int, value: Any, held: Any) -> None:
        """Makes ``held`` the input ``slot`` in place of ``value``."""
        number = self.owner(slot).inputs - 1
        self.slots_of[id(held)] = slot  # first: an interrupt in between can be undone by it
        self.inputs[number] = held
        self.slots_of.pop(id(value), None)
        self.guards.pop(id(value), None)

    def replace(self, value: Any, other: Any) -> None:
        """Puts ``other``, a tensor or a concrete array, in place of ``value`` among the inputs."""
        slot = self.slots_of.get(id(value))
        if slot is not None:
            self._replace(slot, value, other)

    def replace_result(self, tensor: LazyTensor, other: LazyTensor) -> None:
        """Puts ``other`` in place of ``tensor`` among the results."""
        for number, record in enumerate(self.records):
            if record is tensor:
                self.records[number] = other

    def restore(self) -> None:
        """Restores the inputs that other code deleted."""
        guards = self.guards
        for value in self.inputs:
            guard = guards.get(id(value))
            if guard is None:
                continue
            # the buffer protocol gives an array in one part alone, which says itself that it is deleted
            is_lost = value.is_deleted() if guard.__class__ is memoryview else jc.has_deleted_part(value)
            if is_lost:
                self._replace(self.slots_of[id(value)], value, restore_from_guard(value, guard))

    def _after_input(self, before: State, value: Any, aval: Any) -> State:
        """The state after ``before`` for an input like ``value``."""
        plain = value.__class__ is jc.ArrayImpl and not value._committed
        if not plain and getattr(value, "_pending", None) is not None:
            plain = value._pending.owner(value._slot).devices is None
        if plain:  # results of one program share their avals, and a look-up by identity need not hash them
            known = before.edges.get(aval_key := (id(aval), None))
            if known is not None and known[0] is aval:
                return known[1]
        if jc.is_host_array(value):
            key: tuple[Any, Any] = (aval, HOST)
        else:
            key = (aval, _place_of(value) if not plain and jc.is_committed(value) else None)
        state = before.children.get(key)
        if state is None:
            state = self.trie.extend(before, key, None, (), (aval,), _devices_of(key[1]))
        if plain:
            before.remember(aval_key, (aval, state), state)
        return state

    def commit(self, state: State, tensors: list[LazyTensor], origin: Origin) -> None:
        """Appends the operation of ``state``, whose results are ``tensors``."""
        if tensors:
            tensors[0]._edge, tensors[0]._code = state, origin
        self.open_state = state
        self.records.extend(tensors)

    def _note_pending_source(self, tensor: LazyTensor, number: int, state: State) -> None:
        """Notes that the input ``number``, with the step ``state``, is pending elsewhere."""
        source = tensor._pending
        if source is not None:
            self.sources.add(source)
        if state.devices is not None and len(state.devices) > 1:
            self.unresolved_shardings.add(number)

    @property
    def depends(self) -> bool:
        """Whether an input was still pending elsewhere when it was recorded."""
        return bool(self.sources)

    def needs(self, other: PendingTrace) -> bool:
        """Whether ``other``, or this trace itself if it is that, must run before what comes after."""
        if self.open_state is None and self.ended < other.began:
            return False  # it was complete before the other began
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
        """The present end of the trace, for :meth:`rollback`."""
        return Mark(self.state, len(self.records))

    def rollback(self, mark: Mark) -> None:
        """Removes the steps after ``mark``, so that a failed operation leaves nothing behind."""
        for value in self.inputs[mark.state.inputs :]:
            self.slots_of.pop(id(value), None)
        abandoned, self.open_state = self.state, mark.state
        self._owners.clear()
        del self.inputs[mark.state.inputs :], self.records[mark.records :]
        if self.sources:
            self.sources = {value._pending for value in self.inputs if _is_pending(value)}
            self.unresolved_shardings = {
                number for number in self.unresolved_shardings if number < len(self.inputs)
            }
        if abandoned is not mark.state:
            self.trie.prune(abandoned)

    def is_config_unchanged(self) -> bool:
        """Whether JAX's configuration is that in which the trace was opened, so calls may be recalled."""
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
        """Takes the path on which each input that was pending on several devices is where it is now.

        The path on which it is recorded does not say that, as XLA chooses it for the whole program that gives
        the input, and what is compiled is for one choice.

        Arguments:
          values: the values of the inputs, or their types with shardings; None where what gives one failed.
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
        """Ends the recording in this trace."""
        if self.open_state is not None:
            self._end, self.open_state = self.open_state, None
            self.ended = perf_counter()

    def unseal(self) -> None:
        """Undoes :meth:`seal`."""
        self.open_state = self._end

    def replace_end(self, end: State) -> None:
        """Makes ``end`` the end of a sealed trace: of a path with the same steps and slots."""
        assert self.sealed and end.slots == self._end.slots
        self._end = end
        self._owners.clear()
        self._variables = (None, set())

    # ---- running -------------------------------------------------------------------------------------------

    def live(self) -> list[LazyTensor]:
        """The pending tensors to which something other than ``records`` refers, in the order of their slots.

        A derivative that is recalled is recorded at once, so ``records`` may have its results in another
        order than the steps; that of the slots makes equal sets of results one program.
        """
        counts = list(map(getrefcount, self.records))  # before anything else refers to one of them
        reached = compress(self.records, map(_UNREACHED.__lt__, counts))
        tensors = [tensor for tensor in reached if tensor._pending is self]
        if len(tensors) > 1:
            tensors.sort(key=_slot)
        return tensors

    def has_live(self) -> bool:
        """Whether a pending tensor can be reached, but for a run that an interrupt cut short."""
        landing = self.in_flight_run
        if landing is None:
            newest = next(map(getrefcount, reversed(self.records)), 0)
            return (newest > _UNREACHED and self.records[-1]._pending is self) or bool(self.live())
        waiting = set(map(id, landing.tensors))
        counts = list(map(getrefcount, self.records))  # before anything else refers to one of them
        return any(
            count > _UNREACHED + (id(tensor) in waiting) and tensor._pending is self
            for tensor, count in zip(self.records, counts, strict=False)
        )

    def close(self) -> None:
        """Frees the path, when the trace has run or has no live tensors."""
        self.seal()
        if self.failure is not None:  # it ran in parts
            for tensor in self.records:
                if tensor._pending is None:
                    tensor._forget_origin()
        state, self._end = self._end, self.root
        if not state.executables:
            self.trie.prune(state)
        self.inputs, self.records, self.delete_after_run, self.slots_of, self._owners = [], [], [], {}, []
        self.guards, self._copies, self.in_flight_run, self.failure = {}, {}, None, None
        self.sources, self.unresolved_shardings = set(), set()
        self.checks = []
        self.append = self.records.append
        self.closed = True

    # ---- looking -------------------------------------------------------------------------------------------

    def owner(self, slot: int) -> State:
        """The step that gives ``slot``."""
        owners, state = self._owners, self.state
        if slot >= state.first:
            return state  # the usual case, of a value that goes on to the next trace
        if slot >= len(owners):
            new = []
            while state.slots > len(owners):
                new.append(state)
                state = state.parent  # type: ignore[assignment]
            for step in reversed(new):
                owners.extend([step] * len(step.avals))
        return owners[slot]

    def origins(self) -> list[Origin | None]:
        """The user's line of each step; None for an input."""
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
        """The user's line of each of the ``count`` operations of the call that gave the record ``number``."""
        tensor = self.records[number]
        origin = tensor._code
        if not isinstance(origin, Origin):
            origin = Origin(origin, tensor._lasti, tensor._edge.callee, -1 - number, tensor._scope)
        return _each(origin, count)


def _each(origin: Origin, count: int) -> Sequence[Origin]:
    """The origins of ``count`` operations that were recorded together."""
    if not isinstance(origin.forward, ForwardTracebackSlice):
        return [origin] * count
    return [dataclasses.replace(origin, forward=forward) for forward in origin.forward.of(count)]


def _content(number: Any) -> tuple[str, bytes]:
    return number.dtype.name, number.tobytes()


def _is_pending(value: Any) -> bool:
    return getattr(value, "_pending", None) is not None


def _place_of(value: Any) -> Any:
    """The part of an input's key that says where it is, for a committed value, which may be pending."""
    pending = getattr(value, "_pending", None)
    if pending is None:
        return jc.canonical_sharding(value.sharding)
    state = pending.owner(value._slot)
    if len(state.devices) == 1:
        return jc.uncommitted_sharding(state.devices[0])
    promised = predetermined_sharding(state, value._slot)
    return jc.canonical_sharding(promised) if promised is not None else UnresolvedSharding(state.devices)


def _devices_of(place: Any) -> tuple[Any, ...] | None:
    """The devices to which an input is committed, from the part of its key that says where it is."""
    if place is None or place is HOST:
        return None
    return place.devices if place.__class__ is UnresolvedSharding else jc.device_assignment(place)


_slot = attrgetter("_slot")
_UNREACHED = next(map(getrefcount, [object()]))
"""The result of ``getrefcount`` for a tensor that only ``records`` holds; it depends on the interpreter."""


def pending_dependencies(tensors: Iterable[LazyTensor]) -> list[PendingTrace]:
    """The pending traces that ``tensors`` depend on, each after the traces that compute its inputs."""
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
