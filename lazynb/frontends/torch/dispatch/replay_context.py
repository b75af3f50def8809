"""Replay of PyTorch calls, and JAX's configuration around them.

PyTorch operations are recorded in 64-bit mode, which is entered for each operation. A replayed call does not
need the mode switch: JAX's configuration only has to equal that around an earlier operation.
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
from lazynb.recording.replay.call_replay import append_replayed, find_edge, replay
from lazynb.recording.replay.native_replay import repeat_call as in_c
from lazynb.recording.replay.replay_edge import NotReplayable


class _CallContext(threading.local):
    """JAX's configuration around an operation recorded in this thread.

    Attributes:
      context: the configuration at the call of the operation, in 64-bit mode or not.
      inside: the configuration of the trace that recorded it.
      pending: a trace with the configuration ``inside``.
      epoch: ``changes.count`` when the configuration was last found equal to ``context``.
      quick: like ``epoch``, with the trace also checked for PyTorch's device.
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
    """Context manager for 64-bit mode: PyTorch's integers are ``int64``."""
    return jax.enable_x64(True)


def keep_after_x64(count: int) -> None:
    """Keeps the saved context valid after a switch to 64-bit mode and back, which adds two to ``count``.

    If the configuration changed otherwise, the saved context expires.
    """
    if _changes.count == count + 2:
        if call_context.epoch == count:
            call_context.epoch += 2
        if call_context.quick == count:
            call_context.quick += 2


def config_change_count() -> int:
    """The number of changes of JAX's configuration, for :func:`keep_after_x64`."""
    return int(_changes.count)


def context_to_save() -> Any:
    """The configuration before JAX enters 64-bit mode, for :func:`save_context`; None if already saved."""
    trace = _ambient.value
    if trace.__class__ is not LazyTrace or trace.pending is call_context.pending is not None:
        return None
    return jc.raw_context()


def save_context(context: Any) -> None:
    """Saves ``context`` if the open trace has the configuration now in force."""
    trace = _ambient.value
    pending = trace.pending if trace.__class__ is LazyTrace else None
    if pending is None or pending.open_state is None:
        return
    if pending.config_epoch == _changes.count or pending.is_config_unchanged():
        call_context.context, call_context.inside = context, pending.context
        call_context.pending, call_context.epoch = pending, -1


def _current_trace() -> PendingTrace | None:
    """The trace that would record an operation called now, or None if uncertain."""
    trace = _ambient.value
    if trace.__class__ is not LazyTrace:
        return None
    pending: PendingTrace | None = trace.pending
    if pending is not None and pending.open_state is None:  # sealed: the next operation opens another trace
        pending = None
    if pending is not None and pending is call_context.pending and call_context.epoch == _changes.count:
        return pending
    count = _changes.count
    if jc.must_run_eagerly() or trace.runs_at_once:
        return None
    context = jc.raw_context()
    if context != call_context.context:
        if pending is not None and context == pending.context:  # called inside an operation, in 64-bit mode
            return pending
        call_context.pending = None  # the next operation saves it anew
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
    """Like :func:`_current_trace`; None if the trace has other devices than ``values``."""
    pending = _current_trace()
    if pending is None or pending.open_state is None or not jc.has_several_devices():
        return pending
    with in_64_bit(), pending.trace.lock:
        return pending if pending is pending.trace.trace_for_devices(values) else None


def current_trace() -> PendingTrace | None:
    """Like :func:`_current_trace`, for values on PyTorch's device."""
    pending = _trace_for(())
    if pending is not None and pending is call_context.pending:
        call_context.quick = call_context.epoch
    return pending


def replay_call(name: Hashable, values: Sequence[Any], numbers: bool, frame: FrameType) -> Any:
    """The results of an earlier recorded call, appended to the open trace, or None.

    Arguments:
      name: shared by all calls that differ only in ``values``.
      values: arrays, and numbers; if ``numbers``, only the type of a number matters.
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


# ---- Replay of one PyTorch operation as one call -----------------------------------------------------------
# It may consist of several JAX operations. See :mod:`lazynb.recording.replay.call_replay`.


def record_or_replay(
    name: Hashable, call: Callable[..., Any], args: tuple[Any, ...], numbers_alike: bool = False
) -> Any:
    """Calls ``call(*args)`` on arrays and numbers; replays it in lazy mode.

    Arguments:
      name: shared by all calls that differ only in ``args``.
      numbers_alike: whether the call does the same for all numbers of a type.
    """
    trace = jc.trace_state.value
    if trace.__class__ is not LazyTrace:
        return call(*args)
    return replay(trace, name, call, args, {}, numbers_alike)
