"""Recall: a call that was recorded before at the same state is appended again without JAX.

When a call (an operator, a method, a function of ``jax.numpy``) is first made at a state of the trie, JAX's
own code runs and is recorded, and an edge remembers the recorded steps. The next trace that reaches the state
and makes the same call takes the edge: one dictionary look-up instead of JAX's Python code (15 to 40
microseconds for each operation).

Two calls are the same if their functions, the slots of their operands and their other arguments agree. The
state determines the types of the operands, and the root determines JAX's configuration. A Python number
enters by its type if the function treats all numbers of a type in the same way (``scalars`` below), otherwise
by its value.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from types import CodeType, FrameType
from typing import Any

import numpy as np

from lazynb import jax_compat as jc
from lazynb.recording.lazy_tensor import DeletedValue, LazyTensor
from lazynb.recording.pending_trace import PendingTrace
from lazynb.recording.python_numbers import LiteralConverter, LiteralMismatch, converter
from lazynb.recording.trie import State
from lazynb.user_code.code_ownership import is_user_code
from lazynb.user_code.source_lines import Origin


class NotReplayable(Exception):
    """The call has an argument that cannot be a part of an edge's key."""


class ReplayEdge:
    """The steps that a call appends.

    Attributes:
      end: the state after the call; None for a call that is never recalled.
      results: slot and aval of each result.
      container: type of the tuple or list of results; None for a single result.
      slot, aval: those of a single result; None otherwise.
      values: host values of the inputs that the call itself adds.
      converters: functions that convert the call's Python numbers to its inputs, in order. With ``values``
        they only tell whether the numbers are those that the edge is for.
      convert: the converter of a call with one number; None otherwise.
      scalar, converted: the last number and the inputs that it became. They are kept because most numbers are
        written in the code.
      callee: code of the function that the user called.
      argument: position of the argument that the call returns unchanged; such a call records nothing.
      plain: whether it has a single result and at most one number and cuts nothing, so that the operators
        take it themselves.
      fills: whether the trace was full after the call, so that it is cut there.
      fixed: whether one of the call's numbers is written in the code, so that the edge is for it alone.
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
        self.fixed = any(convert.__class__ is LiteralConverter for convert in converters)
        self.next_edge: ReplayEdge | None = None

    def of(self, scalars: Sequence[Any]) -> ReplayEdge | None:
        """This edge or one after it that is for the numbers ``scalars``."""
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
        """The first of the edges of one call, of which ``edge`` is new. Those for any number come last.

        Of the edges for certain numbers :data:`MAX_FIXED` are kept.
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
        """The first of the edges of one call without those that lead to ``end``."""
        if self.next_edge is not None:
            self.next_edge = self.next_edge.without(end)
        return self.next_edge if self.end is end else self

    def inputs(self, scalars: Sequence[Any]) -> tuple[Any, ...]:
        """The inputs that a call with ``scalars`` adds. Raises OtherNumber if the edge is for others."""
        numbers = tuple([convert(scalar) for convert, scalar in zip(self.converters, scalars, strict=True)])
        return self.values or numbers


NOT_REPLAYABLE = ReplayEdge(None)

MAX_FIXED = 8
"""Edges of one call that are for certain numbers alone. With further numbers it goes through JAX's code."""

_new = LazyTensor.__new__

NUMBER_KINDS: dict[type, object] = {cls: object() for cls in (float, int, bool, complex)}
"""The part of a key for a Python number whose value makes no difference, by its type."""


def replay(
    trace: Any,
    name: Hashable,
    call: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    scalars_alike: bool,
    depth: int = 2,
) -> Any:
    """``call(*args, **kwargs)``, recalled if it was recorded at this state before.

    Otherwise the call is made through JAX and remembered.

    Arguments:
      trace: the ambient trace, a :class:`lazynb.recording.lazy_trace.LazyTrace`.
      name: the part of the key for ``call``.
      scalars_alike: whether all numbers of one type are recorded in the same way.
      depth: number of frames from this one to the user's.
    """
    pending = open_trace_for(trace, args)
    if pending is None:
        return call(*args, **kwargs)
    scalars: list[Any] | None = [] if scalars_alike else None
    try:
        tip, key, edge = find_edge(pending, name, args, kwargs, scalars)
    except (NotReplayable, TypeError, RecursionError):  # a list may be in itself
        return call(*args, **kwargs)
    if edge is None:
        return _record_edge(pending, tip, key, call, args, kwargs, scalars or ())
    if edge.argument is not None:
        return args[edge.argument]
    if edge.end is not None:
        try:
            frame = sys._getframe(depth)
        except ValueError:  # called by C, as ``atexit`` does: there is no line to note
            return call(*args, **kwargs)
        results = append_replayed(pending, tip, edge, scalars or (), frame)
        if results is not None:
            return results
    return call(*args, **kwargs)


def open_trace_for(trace: Any, args: Sequence[Any]) -> PendingTrace | None:
    """The pending trace that a call on ``args`` is appended to, opened if there is none.

    Returns None if JAX's configuration is another one than that under which it was opened.
    """
    pending: PendingTrace | None = trace.pending
    if pending is None or pending.open_state is None:
        with trace.lock:
            pending = trace.open()
    if pending.config_epoch != jc.config_changes.count and not pending.is_config_unchanged():
        if pending.open_state is not pending.root:
            return None
        with trace.lock:  # nothing is recorded yet, so that it may begin under another configuration
            pending = trace.open()
        if not pending.is_config_unchanged():
            return None
    if jc.has_several_devices():
        with trace.lock:
            pending = trace.trace_for_devices(args)
        if pending.config_epoch != jc.config_changes.count and not pending.is_config_unchanged():
            return None
    return pending


def find_edge(
    pending: PendingTrace,
    name: Hashable,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    scalars: list[Any] | None,
) -> tuple[Any, Hashable, ReplayEdge | None]:
    """The state at which a call is made, the key of its edge there, and the edge; None if it is new.

    Arguments:
      scalars: collects the numbers, if all of one type are recorded in the same way; otherwise None.

    Raises:
      NotRecalled, TypeError: the call cannot be recalled.
    """
    trace = pending.trace
    parts: list[Hashable] = [name]
    for arg in args:  # the most common types are tested first
        if arg.__class__ is LazyTensor:
            part: Any = (
                arg._slot if arg._pending is pending else pending.array(arg._value, arg._trace is not trace)
            )
        else:
            part = pending.array(arg, True) if arg.__class__ is jc.ArrayImpl else None
        parts.append(part if part is not None else _part(pending, arg, scalars))
    for word, arg in kwargs.items():
        parts.append((word, _part(pending, arg, None)))
    key = tuple(parts)
    tip = pending.open_state
    edge = tip.edges.get(key) if tip is not None else NOT_REPLAYABLE
    if edge is not None and edge.fixed:
        edge = edge.of(scalars or ())
    return tip, key, edge


def append_replayed(
    pending: PendingTrace, tip: State, edge: ReplayEdge, scalars: Sequence[Any], frame: FrameType
) -> Any:
    """Appends ``edge`` to ``pending``, which ends at ``tip``.

    Returns the results as the call does, or None if the edge cannot be appended.

    Arguments:
      scalars: the call's numbers.
      frame: the frame of the caller.
    """
    inputs = edge.values
    if edge.converters:
        try:
            inputs = edge.inputs(scalars)
        except (OverflowError, ValueError, TypeError):
            return None  # JAX then raises its own error for the number
    trace = pending.trace
    if edge.container is None:
        first = _new(LazyTensor)
        first._trace = trace
        first.aval = edge.aval
        first._pending = pending
        first._slot = edge.slot
        first._value = None
    else:
        tensors = [LazyTensor(trace, aval, pending, slot) for slot, aval in edge.results]
        first = tensors[0]
    code = frame.f_code
    if code is trace.user_code or is_user_code(code):
        trace.user_code = first._code = code
        first._lasti = frame.f_lasti
        first._scope = jc.source_context.context
        first._edge = edge
    else:
        first._code = trace.origin_of(frame)
        first._edge = edge.end
    if pending.open_state is not tip:
        return None  # a finalizer recorded an operation, or another thread sealed the trace
    if inputs:
        pending.inputs[tip.inputs :] = inputs
    pending.open_state = edge.end
    if edge.container is None:
        pending.append(first)
    else:
        pending.records.extend(tensors)
    if edge.fills:
        trace.examine_after_replay(pending)
    return first if edge.container is None else edge.container(tensors)


def _part(pending: PendingTrace, arg: Any, scalars: list[Any] | None) -> Hashable:
    """The part of a key for ``arg``. An array becomes an input.

    Arguments:
      scalars: collects the numbers whose values make no difference; None if each value does.
    """
    cls = arg.__class__
    if cls is LazyTensor:
        return arg._slot if arg._pending is pending else _input(pending, arg)
    kind = NUMBER_KINDS.get(cls)
    if kind is not None and scalars is not None:
        scalars.append(arg)
        return kind
    if scalars is not None and (isinstance(arg, np.generic) or cls in jc.TYPED_SCALARS):
        scalars.append(arg)
        return (cls, arg.dtype)
    if cls is jc.ArrayImpl:
        return _input(pending, arg)
    return value_key(arg, lambda item: _part(pending, item, None))


def value_key(arg: Any, item: Callable[[Any], Hashable]) -> Hashable:
    """The part of a key for an argument that enters by its value.

    Arguments:
      item: gives the part for an item of a tuple, list or slice.

    Raises NotRecalled for an argument whose value cannot be compared.
    """
    cls = arg.__class__
    if cls is float or cls is complex:
        return (cls, repr(arg))
    if cls is int or cls is bool:
        return (cls, arg)
    if arg is None or cls is str or arg is Ellipsis:
        return arg
    if cls is tuple or cls is list:
        return (cls, *map(item, arg))
    if cls is slice:
        return (cls, item(arg.start), item(arg.stop), item(arg.step))
    if isinstance(arg, type | np.dtype):
        return (cls, arg)
    raise NotReplayable


def _input(pending: PendingTrace, arg: Any) -> int:
    """The slot of an array or tensor that is no result of this trace, and so an input."""
    value, outside = arg, True
    if arg.__class__ is LazyTensor:
        value, outside = arg._value, arg._trace is not pending.trace
        if value is None:
            if outside:
                raise NotReplayable
            value = arg
    if value.__class__ is DeletedValue or (value.__class__ is not LazyTensor and value.is_deleted()):
        raise NotReplayable
    slot = pending.slots_of.get(id(value))
    if slot is None:
        with pending.trace.lock:
            if pending.open_state is None:
                raise NotReplayable
            if value.__class__ is LazyTensor:
                if value._pending is None or value._pending.needs(pending):
                    raise NotReplayable  # JAX's code begins another trace
                return pending.input(value, value.aval, value)
            return pending.concrete(value, outside)
    return slot


def slot_if_pending_elsewhere(pending: PendingTrace, tensor: LazyTensor) -> int | None:
    """The slot of a tensor that is pending in another trace of this thread; None if Python is to look."""
    if jc.has_several_devices():
        return None  # it may belong to a trace that is open for its devices
    try:
        return _input(pending, tensor)
    except NotReplayable:
        return None


# ---- learning ----------------------------------------------------------------------------------------------


def _record_edge(
    pending: PendingTrace,
    tip: State,
    key: Hashable,
    call: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    scalars: Sequence[Any],
) -> Any:
    """Makes the call through JAX and remembers the recorded steps, and then cuts a trace that it fills."""
    trace, count = pending.trace, len(pending.records)
    outer, trace.records_edge = trace.records_edge, True
    try:
        result = call(*args, **kwargs)
        with trace.lock:  # another thread may run and close the trace
            end = pending.open_state
            if end is not None:  # else it was run or sealed during the call: learned another time
                _remember(tip, key, _edge(pending, tip, end, count, result, args, scalars))
    finally:
        trace.records_edge = outer
        if not outer:
            trace.cut_filled(sys._getframe(1))
    return result


def _remember(tip: State, key: Hashable, edge: ReplayEdge | None) -> None:
    """Keeps ``edge``, unless it is None, with those of the same call with other numbers."""
    if edge is None:
        return
    known = tip.edges.get(key)
    if known is not None and known.fixed and edge.end is not None:
        tip.remember(key, known.before(edge), edge.end)
    else:
        tip.remember(key, edge, edge.end)


def _edge(
    pending: PendingTrace,
    tip: State,
    end: State,
    count: int,
    result: Any,
    args: tuple[Any, ...],
    scalars: Sequence[Any],
) -> ReplayEdge | None:
    """The edge for a call that led from ``tip`` to ``end``; returns None if it is not certain yet."""
    if end is tip:
        positions = [
            number for number, arg in enumerate(args) if arg is result and arg.__class__ is LazyTensor
        ]
        return ReplayEdge(None, argument=positions[0]) if positions else NOT_REPLAYABLE
    container = result.__class__ if result.__class__ in (tuple, list) else None
    tensors = [result] if container is None else result
    if not tensors or not all(
        t.__class__ is LazyTensor and t._pending is pending and t._slot >= tip.slots for t in tensors
    ):
        return NOT_REPLAYABLE
    values = tuple(pending.inputs[tip.inputs : end.inputs])
    if not all(isinstance(value, np.generic) for value in values):
        return NOT_REPLAYABLE
    converters: tuple[Any, ...] = ()
    if scalars:
        converters = _converters(tip, end, values, scalars)
        if not _are_inputs(values, converters, scalars):  # there are others between them
            converters = tuple([LiteralConverter(number, None) for number in scalars])
        elif len({value.tobytes() for value in values}) < len(values):
            return None  # equal numbers: only different ones show which input is which
        else:
            values = ()
    first = pending.records[count]
    callee = first._code.callee if isinstance(first._code, Origin) else first._edge.callee
    results = [(t._slot, t.aval) for t in tensors]
    full = pending.trace.filled_at
    if full is not None and full[1].state is not end:
        return None  # it is cut within the call
    return ReplayEdge(end, results, container, values, converters, callee, fills=full is not None)


def _converters(
    tip: State, end: State, values: Sequence[Any], scalars: Sequence[Any]
) -> tuple[Callable[[Any], Any], ...]:
    """For each input that a call adds between ``tip`` and ``end``, what makes it of the call's number."""
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
    """Whether the inputs ``values`` are the numbers ``scalars``, in order."""
    if len(values) != len(scalars) or len(converters) != len(scalars):
        return False
    inputs = [convert(scalar) for convert, scalar in zip(converters, scalars, strict=True)]
    return all(new.tobytes() == value.tobytes() for new, value in zip(inputs, values, strict=True))
