"""Protection, replacement and deletion of the inputs of a thread's pending traces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lazynb.recording.runtime_interface import runtime
from lazynb.recording.trace_registry import every_trace

if TYPE_CHECKING:
    from lazynb.recording.lazy_tensor import LazyTensor
    from lazynb.recording.open_traces import OpenTraces
    from lazynb.recording.pending_trace import PendingTrace


def delete_after_run(trace: OpenTraces, value: Any) -> None:
    """Deletes a concrete array after the open trace has run."""
    if trace.pending is not None:
        trace.pending.delete_after_run.append(value)
        _run_users(value, trace.sealed)


def cancel_deletion(trace: OpenTraces, value: Any) -> None:
    """Undoes :func:`delete_after_run`."""
    for pending in (*trace.sealed, trace.pending):
        if pending is not None:
            pending.delete_after_run = [one for one in pending.delete_after_run if one is not value]


def replacement_for(trace: OpenTraces, tensor: LazyTensor) -> Any:
    """Returns the value that pending traces can use in place of ``tensor``, which is about to be deleted.

    It is the concrete value, or another tensor for the same pending result; None for a result of the open
    trace.
    """
    earlier = tensor._pending
    if earlier is None:
        return tensor._value
    return None if earlier is trace.pending else tensor._alias()


def replace_everywhere(trace: OpenTraces, tensor: LazyTensor, other: Any) -> None:
    """Replaces ``tensor`` by ``other``, see :func:`replacement_for`, in the pending traces."""
    if other is None:
        return
    if tensor._pending is not None:
        tensor._pending.replace_result(tensor, other)
    replace_input(trace, tensor, other)


def replace_input(trace: OpenTraces, value: Any, other: Any) -> None:
    """Replaces the input ``value`` of the pending traces by ``other``."""
    for pending in (*trace.sealed, trace.pending):
        if pending is not None:
            pending.replace(value, other)


def protect_inputs(trace: OpenTraces, value: Any, tensor: LazyTensor | None = None) -> None:
    """Makes the pending traces keep the content of ``value``, the value of ``tensor``, before other code gets
    it."""
    with trace.lock:
        for pending in (*trace.sealed, trace.pending):
            if pending is not None:
                if tensor is not None:
                    pending.replace(tensor, value)
                pending.protect_input(value)


def flush_users(trace: OpenTraces, tensor: LazyTensor) -> None:
    """Runs the pending traces that use ``tensor``, before its memory is freed."""
    with trace.lock:
        replace_everywhere(trace, tensor, replacement_for(trace, tensor))
        _run_users(tensor._value, [*trace.sealed, trace.pending])


def _run_users(value: Any, traces: Sequence[PendingTrace | None]) -> None:
    users = []
    for pending in traces:
        if pending is not None and any(value is used for used in pending.inputs):
            users.append(pending)
    if users:
        runtime().execution.flush(users, "delete")


def restore_lost_donation(trace: OpenTraces) -> None:
    """Restores the arguments of the last donating call if an interrupt lost its results."""
    donation = trace.donation
    if donation is not None and donation.is_lost():
        with trace.lock:
            donation.restore_arguments()


def protect_everywhere(value: Any) -> None:
    """Calls :func:`protect_inputs` for the traces of all threads."""
    for trace in every_trace():
        protect_inputs(trace, value)
