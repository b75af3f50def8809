"""JAX's configuration around PyTorch's operations, and calls that are recalled under it.

PyTorch's operations are recorded in 64-bit mode, into which JAX is put for each of them. A call that is
recalled needs no JAX, so its mode need not change: it is enough that JAX's configuration is as it was around
an earlier operation.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from types import FrameType
from typing import Any

import jax

from lazynb import _jax as jc
from lazynb.record.fast.accelerator import again as in_c
from lazynb.record.fast.recall import NotRecalled, look_up, take
from lazynb.record.pending import Pending
from lazynb.record.trace import LazyTrace


class _Around(threading.local):
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
    pending: Pending | None = None
    epoch = -1
    quick = -1


here = _Around()
_ambient, _changes = jc.ambient, jc.changes
_NONE: dict[str, Any] = {}


def in_64_bit() -> Any:
    """A context in which JAX has 64-bit types: PyTorch's integers are ``int64``."""
    return jax.enable_x64(True)


def is_back(count: int) -> None:
    """Keeps what is known of JAX's configuration if 64-bit mode came and went since its ``count`` of changes.

    Nothing else may have changed."""
    if _changes.count == count + 2:
        if here.epoch == count:
            here.epoch += 2
        if here.quick == count:
            here.quick += 2


def changes_so_far() -> int:
    """The number of changes of JAX's configuration, for :func:`is_back`."""
    return int(_changes.count)


def note() -> Any:
    """Notes the configuration in which an operation is called, before JAX is put into 64-bit mode.

    Returns what :func:`noted` takes; None if there is nothing to note.
    """
    trace = _ambient.value
    if trace.__class__ is not LazyTrace or trace.pending is here.pending is not None:
        return None
    return jc.raw_context()


def noted(context: Any) -> None:
    """Keeps what was noted, if the open trace is that of the configuration inside, which is in force."""
    trace = _ambient.value
    pending = trace.pending if trace.__class__ is LazyTrace else None
    if pending is None or pending.tip is None:
        return
    if pending.epoch == _changes.count or pending.same_context():
        here.context, here.inside = context, pending.context
        here.pending, here.epoch = pending, -1


def _open() -> Pending | None:
    """The trace in which an operation that is called now would be recorded, if that is certain."""
    trace = _ambient.value
    if trace.__class__ is not LazyTrace:
        return None
    pending: Pending | None = trace.pending
    if pending is not None and pending.tip is None:  # sealed: the next operation opens another
        pending = None
    if pending is not None and pending is here.pending and here.epoch == _changes.count:
        return pending
    count = _changes.count
    if jc.must_run_eagerly() or trace.stray:
        return None
    context = jc.raw_context()
    if context != here.context:
        if pending is not None and context == pending.context:  # called by an operation, in 64-bit mode
            return pending
        here.pending = None  # the next operation notes it anew
        return None
    if pending is None or pending is not here.pending:
        if pending is None or pending.tip is pending.root:
            with in_64_bit(), trace.lock:
                pending = trace.open()
            count = -1
        if pending.context != here.inside:
            return None
        here.pending = pending
    here.epoch = count
    return pending


def _open_for(values: Sequence[Any]) -> Pending | None:
    """The same; None if the trace is not that of the devices of ``values``."""
    pending = _open()
    if pending is None or pending.tip is None or not jc.has_several_devices():
        return pending
    with in_64_bit(), pending.trace.lock:
        return pending if pending is pending.trace.home(values) else None


def open_here() -> Pending | None:
    """The same, for values of PyTorch's device."""
    pending = _open_for(())
    if pending is not None and pending is here.pending:
        here.quick = here.epoch
    return pending


def again(name: Hashable, values: Sequence[Any], numbers: bool, frame: FrameType) -> Any:
    """The results of a call that was recorded before at the end of the open trace, else None.

    Arguments:
      name: the same for all calls that differ in ``values`` alone.
      values: arrays, and numbers that make no difference beside their types if ``numbers``.
      frame: a frame in or below the user's.
    """
    pending = _open_for(values)
    if pending is None or pending.tip is None:
        return None
    if in_c is not None:
        return in_c(pending, name, values, numbers, frame)
    scalars: list[Any] | None = [] if numbers else None
    try:
        tip, _, edge = look_up(pending, name, values, _NONE, scalars)
    except (NotRecalled, TypeError, RecursionError):
        return None
    if edge is None:
        return None
    if edge.argument is not None:
        return values[edge.argument]
    return None if edge.end is None else take(pending, tip, edge, scalars or (), frame)
