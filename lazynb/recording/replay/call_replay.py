"""Replay of a recorded call: its steps are appended again without JAX's Python code.

When a call (an operator, a method, a function of ``jax.numpy``) is first made at a trie state, JAX's code
runs and an edge stores the recorded steps. The next trace that makes the same call at this state takes the
edge: one dictionary look-up instead of 15 to 40 microseconds for each operation.

Two calls are equal if their functions, the slots of their operands and their other arguments are equal. The
state determines the avals of the operands, and the root determines JAX's configuration. A Python number is
part of the key by its type if the function treats all numbers of a type alike (``scalars`` below), otherwise
by its value.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Hashable, Sequence
from types import FrameType
from typing import Any

import numpy as np

from lazynb import jax_compat as jc
from lazynb.jax_compat.substitutes import substitute_for
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.pending_trace import PendingTrace
from lazynb.recording.replay.replay_edge import (
    MAX_CONTENT_BYTES,
    NOT_REPLAYABLE,
    NUMBER_KINDS,
    NotReplayable,
    ReplayEdge,
    edge_between,
    remember_edge,
)
from lazynb.recording.tensor_placement import DeletedValue
from lazynb.recording.trie import State
from lazynb.user_code.code_ownership import is_user_code

_new = LazyTensor.__new__


@jc.hide_frame
def replay(
    trace: Any,
    name: Hashable,
    call: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    scalars_alike: bool,
    depth: int = 2,
) -> Any:
    """Returns ``call(*args, **kwargs)``, replayed if it was recorded at this state before.

    Otherwise JAX makes the call and an edge is recorded.

    Arguments:
      trace: the current :class:`lazynb.recording.lazy_trace.LazyTrace`.
      name: the part of the key for ``call``.
      scalars_alike: whether all numbers of one type are recorded in the same way.
      depth: number of frames from this one to the user's.
    """
    if trace.in_hook():
        with jc.set_current_trace(jc.eval_trace):
            return call(*args, **kwargs)
    pending = open_trace_for(trace, args)
    if pending is None:
        return call(*args, **kwargs)
    scalars: list[Any] | None = [] if scalars_alike else None
    try:
        tip, key, edge = find_edge(pending, name, args, kwargs, scalars)
    except (NotReplayable, TypeError, RecursionError):  # a list may contain itself
        tip = None
    if tip is None:  # not in the handler, because the call's own errors would have this one as their context
        return call(*args, **kwargs)
    if edge is None:
        return _record_edge(pending, tip, key, call, args, kwargs, scalars or ())
    if edge.argument is not None:
        return args[edge.argument]
    if edge.end is not None:
        try:
            frame = sys._getframe(depth)
        except ValueError:  # called from C, as by ``atexit``: there is no line to record
            return call(*args, **kwargs)
        results = append_replayed(pending, tip, edge, scalars or (), frame)
        if results is not None:
            return results
    return call(*args, **kwargs)


def open_trace_for(trace: Any, args: Sequence[Any]) -> PendingTrace | None:
    """Returns the pending trace for a call on ``args``, opened if needed.

    Returns None if JAX's configuration has changed since the trace was opened.
    """
    pending: PendingTrace | None = trace.pending
    if pending is None or pending.open_state is None:
        with trace.lock:
            pending = trace.open()
    if pending.config_epoch != jc.config_changes.count and not pending.is_config_unchanged():
        if pending.open_state is not pending.root:
            return None
        with trace.lock:  # nothing is recorded yet, so it may be opened under another configuration
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
    """Returns the state of a call, the key of its edge, and the edge, or None for a new call.

    Arguments:
      scalars: collects the numbers if all of one type are recorded in the same way; otherwise None.

    Raises:
      NotReplayable, TypeError: the call cannot be replayed.
    """
    trace = pending.trace
    parts: list[Hashable] = [name]
    for arg in args:  # the most common types come first
        if type(arg) is LazyTensor:
            part: Any = (
                arg._slot if arg._pending is pending else pending.array(arg._value, arg._trace is not trace)
            )
        else:
            part = pending.array(arg, True) if type(arg) is jc.ArrayImpl else None
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

    Returns the results of the call, or None if the edge cannot be appended.

    Arguments:
      scalars: the numbers of the call.
      frame: the frame of the caller.
    """
    inputs = edge.values
    if edge.converters:
        try:
            inputs = edge.inputs(scalars)
        except (OverflowError, ValueError, TypeError):
            return None  # JAX raises its own error for the number
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
    """Returns the part of a key for ``arg``. An array becomes an input. ``scalars`` collects numbers that are
    not in the key by value; it is None if all are."""
    cls = type(arg)
    if cls is LazyTensor:
        return arg._slot if arg._pending is pending else _input(pending, arg)
    kind = NUMBER_KINDS.get(cls)
    if kind is not None and scalars is not None:
        scalars.append(arg)
        return kind
    if scalars is not None and (issubclass(cls, np.generic) or cls in jc.TYPED_SCALARS):
        scalars.append(arg)
        return (cls, arg.dtype)
    if cls is jc.ArrayImpl:
        return _input(pending, arg)
    return value_key(arg, lambda item: _part(pending, item, None))


def value_key(arg: Any, item: Callable[[Any], Hashable]) -> Hashable:
    """Returns the part of a key for an argument that is compared by value.

    Arguments:
      item: returns the part for an item of a tuple, list or slice.

    Raises:
      NotReplayable: the argument cannot be compared by value.
    """
    cls = type(arg)
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
    if issubclass(cls, type | np.dtype):
        return (cls, arg)
    if issubclass(cls, np.generic) or cls is np.ndarray:
        return _content(arg)
    raise NotReplayable


def _content(arg: Any) -> Hashable:
    """Returns the part of a key for a NumPy scalar or a small NumPy array."""
    if arg.dtype.kind not in "biufc" or arg.nbytes > MAX_CONTENT_BYTES:
        raise NotReplayable
    return (type(arg), arg.dtype, arg.shape, arg.tobytes())


def _input(pending: PendingTrace, arg: Any) -> int:
    """Returns the slot of an array or tensor from outside of this trace, which becomes an input."""
    value, outside = arg, True
    if type(arg) is LazyTensor:
        value, outside = arg._value, arg._trace is not pending.trace
        if value is None:
            if outside:
                raise NotReplayable
            value = arg
    if type(value) is DeletedValue or (type(value) is not LazyTensor and value.is_deleted()):
        raise NotReplayable
    slot = pending.slots_of.get(id(value))
    if slot is None:
        with pending.trace.lock:
            if pending.open_state is None:
                raise NotReplayable
            if type(value) is LazyTensor:
                if value._pending is None or value._pending.needs(pending):
                    raise NotReplayable  # JAX's code begins another trace
                return pending.input(value, value.aval, value)
            return pending.concrete(value, outside)
    return slot


def slot_if_pending_elsewhere(pending: PendingTrace, tensor: LazyTensor) -> int | None:
    """Returns the slot of a tensor pending in another trace of this thread; None for the slow path."""
    if jc.has_several_devices():
        return None  # it may belong to a trace open for its devices
    try:
        return _input(pending, tensor)
    except NotReplayable:
        return None


# ---- Recording of edges ------------------------------------------------------------------------------------


@jc.hide_frame
def _record_edge(
    pending: PendingTrace,
    tip: State,
    key: Hashable,
    call: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    scalars: Sequence[Any],
) -> Any:
    """Makes the call through JAX, records its steps as an edge, and then cuts the trace if it is full."""
    trace, count = pending.trace, len(pending.records)
    outer, trace.records_edge = trace.records_edge, True
    warned = _warned.count
    try:
        result = call(*args, **kwargs)
        if _warned.count != warned:
            return result
        with trace.lock:  # another thread may run and close the trace
            end = pending.open_state
            if end is not None:  # else it was run or sealed during the call, and is recorded another time
                remember_edge(tip, key, edge_between(pending, tip, end, count, result, args, scalars))
    finally:
        trace.records_edge = outer
        if not outer:
            trace.cut_filled(sys._getframe(1))
    return result


# ---- Calls that warn ---------------------------------------------------------------------------------------
# JAX warns at each call, at the user's line. So a call that warned has no edge: the next one warns too.


class _Warned(threading.local):
    count = 0  # of calls of ``warnings.warn`` in this thread


_warned = _Warned()


def warning_substitutes() -> list[tuple[Any, dict[str, Any]]]:
    """The substitute for ``warnings.warn`` while a thread is lazy, which counts the calls."""
    plain = warnings.warn

    def warn(message: Any, category: Any = None, stacklevel: int = 1, *args: Any, **kwargs: Any) -> None:
        _warned.count += 1
        plain(message, category, stacklevel + 1, *args, **kwargs)

    return [(warnings, {"warn": substitute_for(warn, plain, warnings, "warn")})]
