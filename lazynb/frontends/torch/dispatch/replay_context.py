"""JAX's configuration around PyTorch's operations, and calls that are recalled under it.

PyTorch's operations are recorded in 64-bit mode, into which JAX is put for each of them. A call that is
recalled needs no JAX, so its mode need not change: it is enough that JAX's configuration is as it was around
an earlier operation.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from types import FrameType
from typing import Any

import jax

from lazynb import jax_compat as jc
from lazynb.recording.lazy_trace import LazyTrace
from lazynb.recording.pending_trace import PendingTrace
from lazynb.recording.replay.call_replay import NotReplayable, append_replayed, find_edge, replay
from lazynb.recording.replay.native_replay import repeat_call as in_c


class _CallContext(threading.local):
    """JAX's configuration around an operation that was recorded in this thread.

    Attributes:
      context: the configuration in which the operation was called, in 64-bit mode or not.
      inside: that of the trace in which it was recorded.
      pending: a trace of that configuration.
      epoch: ``changes.count`` when the configuration was last found to be ``context``.
      quick: the same, where the trace was found to be that of PyTorch's device, too.
    """

    context: Any = None
    inside: Any = None
    pending: PendingTrace | None = None
    epoch = -1
    quick = -1


call_context = _CallContext()
_ambient, _changes = jc.trace_state, jc.config_changes
_NONE: dict[str, Any] = {}


def in_64_bit() -> Any:
    """A context in which JAX has 64-bit types: PyTorch's integers are ``int64``."""
    return jax.enable_x64(True)


def keep_after_x64(count: int) -> None:
    """Keeps what is known of JAX's configuration if 64-bit mode came and went since its ``count`` of changes.

    Nothing else may have changed."""
    if _changes.count == count + 2:
        if call_context.epoch == count:
            call_context.epoch += 2
        if call_context.quick == count:
            call_context.quick += 2


def config_change_count() -> int:
    """The number of changes of JAX's configuration, for :func:`is_back`."""
    return int(_changes.count)


def context_to_save() -> Any:
    """Notes the configuration in which an operation is called, before JAX is put into 64-bit mode.

    Returns what :func:`noted` takes; None if there is nothing to note.
    """
    trace = _ambient.value
    if trace.__class__ is not LazyTrace or trace.pending is call_context.pending is not None:
        return None
    return jc.raw_context()


def save_context(context: Any) -> None:
    """Keeps what was noted, if the open trace is that of the configuration inside, which is in force."""
    trace = _ambient.value
    pending = trace.pending if trace.__class__ is LazyTrace else None
    if pending is None or pending.open_state is None:
        return
    if pending.config_epoch == _changes.count or pending.is_config_unchanged():
        call_context.context, call_context.inside = context, pending.context
        call_context.pending, call_context.epoch = pending, -1


def _current_trace() -> PendingTrace | None:
    """The trace in which an operation that is called now would be recorded, if that is certain."""
    trace = _ambient.value
    if trace.__class__ is not LazyTrace:
        return None
    pending: PendingTrace | None = trace.pending
    if pending is not None and pending.open_state is None:  # sealed: the next operation opens another
        pending = None
    if pending is not None and pending is call_context.pending and call_context.epoch == _changes.count:
        return pending
    count = _changes.count
    if jc.must_run_eagerly() or trace.detached:
        return None
    context = jc.raw_context()
    if context != call_context.context:
        if pending is not None and context == pending.context:  # called by an operation, in 64-bit mode
            return pending
        call_context.pending = None  # the next operation notes it anew
        return None
    if pending is None or pending is not call_context.pending:
        if pending is None or pending.open_state is pending.root:
            with in_64_bit(), trace.lock:
                pending = trace.open()
            count = -1
        if pending.context != call_context.inside:
            return None
        call_context.pending = pending
    call_context.epoch = count
    return pending


def _trace_for(values: Sequence[Any]) -> PendingTrace | None:
    """The same; None if the trace is not that of the devices of ``values``."""
    pending = _current_trace()
    if pending is None or pending.open_state is None or not jc.has_several_devices():
        return pending
    with in_64_bit(), pending.trace.lock:
        return pending if pending is pending.trace.trace_for_devices(values) else None


def current_trace() -> PendingTrace | None:
    """The same, for values of PyTorch's device."""
    pending = _trace_for(())
    if pending is not None and pending is call_context.pending:
        call_context.quick = call_context.epoch
    return pending


def replay_call(name: Hashable, values: Sequence[Any], numbers: bool, frame: FrameType) -> Any:
    """The results of a call that was recorded before at the end of the open trace, else None.

    Arguments:
      name: the same for all calls that differ in ``values`` alone.
      values: arrays, and numbers that make no difference beside their types if ``numbers``.
      frame: a frame in or below the user's.
    """
    pending = _trace_for(values)
    if pending is None or pending.open_state is None:
        return None
    if in_c is not None:
        return in_c(pending, name, values, numbers, frame)
    scalars: list[Any] | None = [] if numbers else None
    try:
        tip, _, edge = find_edge(pending, name, values, _NONE, scalars)
    except (NotReplayable, TypeError, RecursionError):
        return None
    if edge is None:
        return None
    if edge.argument is not None:
        return values[edge.argument]
    return None if edge.end is None else append_replayed(pending, tip, edge, scalars or (), frame)


# ---- An operation of PyTorch's recalled as one call, however many operations of JAX's it comes to ---------
# See :mod:`lazynb.recording.replay.call_replay`.


def record_or_replay(
    name: Hashable, call: Callable[..., Any], args: tuple[Any, ...], numbers_alike: bool = False
) -> Any:
    """``call(*args)`` for arrays and numbers, recalled in lazy code.

    Arguments:
      name: the same for all calls that differ in ``args`` alone.
      numbers_alike: whether the call does the same with all numbers of a type.
    """
    trace = jc.trace_state.value
    if trace.__class__ is not LazyTrace:
        return call(*args)
    return replay(trace, name, call, args, {}, numbers_alike)
