"""Replay of recorded calls in Python: the specification of the accelerator (lazynb/recording/_fast.c), and
its replacement where it was not built.

Both use the edges of :mod:`lazynb.recording.replay.call_replay`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from lazynb import jax_compat as jc
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.lazy_trace import LazyTrace
from lazynb.recording.pending_trace import PendingTrace
from lazynb.recording.replay.call_replay import append_replayed, replay
from lazynb.recording.replay.linearize_cache import linearized_call
from lazynb.recording.replay.replay_edge import NUMBER_KINDS
from lazynb.user_code.code_ownership import is_user_code

LinearizeTrace = jc.LinearizeTrace


def replaying_operator(name: str, plain: Callable[..., Any], depth: int = 1) -> Callable[..., Any]:
    """Returns ``plain``, a function of a tensor and another operand, with replay.

    Arguments:
      depth: number of frames between the user's frame and the returned function.
    """
    # One flat function, because loops of small operations spend their time here. ``PendingTrace`` explains
    # the order of the last three statements.
    ambient, changes, scopes = jc.trace_state, jc.config_changes, jc.source_context
    new, getframe, kinds, array = LazyTensor.__new__, sys._getframe, NUMBER_KINDS, jc.ArrayImpl
    profiler, tracer = sys.getprofile, sys.gettrace

    @jc.hide_frame
    def operator(self: LazyTensor, other: Any) -> Any:
        pending = self._pending
        if (
            pending is not None
            and (tip := pending.open_state) is not None
            and ((profiler() is None and tracer() is None) or not in_hook())
        ):
            cls = type(other)
            if cls is LazyTensor and other._pending is pending:
                part = other._slot
            elif cls is array:
                part = pending.slots_of.get(id(other))
                if part is None or other.is_deleted():
                    part = pending.array(other, True)
                    tip = pending.open_state or tip  # the array may have become an input
            elif cls is LazyTensor:
                part = pending.array(other._value, other._trace is not pending.trace)
                tip = pending.open_state or tip
            else:
                part = kinds.get(cls)
            edge = tip.edges.get((name, self._slot, part)) if part is not None else None
            if (
                edge is not None
                and edge.plain
                and ambient.value is pending.trace
                and (pending.config_epoch == changes.count or pending.is_config_unchanged())
            ):
                inputs = None
                if edge.convert is not None:
                    if edge.scalar is other:
                        inputs = edge.converted
                    else:
                        try:
                            inputs = (edge.convert(other),)
                        except OverflowError:  # JAX raises its own error, or another edge fits
                            return replay(pending.trace, name, plain, (self, other), {}, True, depth + 1)
                        edge.converted, edge.scalar = inputs, other
                tensor = new(LazyTensor)
                tensor._trace = trace = pending.trace
                tensor.aval = edge.aval
                tensor._pending = pending
                tensor._slot = edge.slot
                tensor._value = None
                try:
                    frame = getframe(depth)
                except ValueError:  # as in ``replay``
                    return plain(self, other)
                tensor._code = code = frame.f_code
                if code is trace.user_code or is_user_code(code):
                    trace.user_code = code
                    tensor._edge = edge
                    tensor._lasti = frame.f_lasti
                    tensor._scope = scopes.context
                else:
                    tensor._edge = edge.end
                    tensor._code = trace.origin_of(frame)
                append = pending.append
                if pending.open_state is tip:
                    if inputs is not None:
                        pending.inputs[tip.inputs :] = inputs
                    pending.open_state = edge.end
                    append(tensor)
                    return tensor
        trace = ambient.value
        if type(trace) is LazyTrace:
            return replay(trace, name, plain, (self, other), {}, True, depth + 1)
        if type(trace) is LinearizeTrace and type(trace.parent_trace) is LazyTrace:
            return linearized_call(trace, name, plain, (self, other), {}, True)
        if trace is None:
            make_current()
        return plain(self, other)

    return operator


def replaying_function(
    name: str, plain: Callable[..., Any], scalars_alike: bool, between: int = 0
) -> Callable[..., Any]:
    """Returns ``plain`` with replay while a thread is lazy; in other threads ``plain`` runs.

    Arguments:
      scalars_alike: whether all numbers of one type are recorded in the same way.
      between: number of frames between the user's frame and the returned function.
    """
    ambient, changes, getframe = jc.trace_state, jc.config_changes, sys._getframe
    profiler, tracer = sys.getprofile, sys.gettrace
    array, kinds = jc.ArrayImpl, NUMBER_KINDS
    pair = replaying_operator(name, plain, 2 + between)

    @jc.hide_frame
    def call(*args: Any, **kwargs: Any) -> Any:
        trace = ambient.value
        if type(trace) is not LazyTrace:
            if type(trace) is LinearizeTrace and type(trace.parent_trace) is LazyTrace:
                return linearized_call(trace, name, plain, args, kwargs, scalars_alike)
            if trace is None:
                make_current()
            return plain(*args, **kwargs)
        if scalars_alike and len(args) == 2 and not kwargs and type(args[0]) is LazyTensor:
            return pair(*args)
        pending = trace.pending
        if (
            not kwargs
            and pending is not None
            and pending.open_state is not None
            and ((profiler() is None and tracer() is None) or not in_hook())
            and (pending.config_epoch == changes.count or pending.is_config_unchanged())
        ):
            # Fast path for the most common argument types. ``replay`` handles all types.
            parts: list[Any] = [name]
            scalars = []
            for arg in args:
                cls = type(arg)
                if cls is LazyTensor:
                    part = (
                        arg._slot
                        if arg._pending is pending
                        else pending.array(arg._value, arg._trace is not trace)
                    )
                elif cls is array:
                    part = pending.array(arg, True)
                elif scalars_alike:
                    part = kinds.get(cls)
                    scalars.append(arg)
                else:
                    part = (int, arg) if cls is int else None
                if part is None:
                    break
                parts.append(part)
            else:
                tip = pending.open_state
                if (
                    tip is not None
                    and (edge := tip.edges.get(tuple(parts))) is not None
                    and edge.end is not None
                ):
                    try:
                        frame = getframe(1 + between)
                    except ValueError:  # as in ``replay``
                        return plain(*args)
                    result = append_replayed(pending, tip, edge, scalars, frame)
                    if result is not None:
                        return result
        return replay(trace, name, plain, args, kwargs, scalars_alike, 2 + between)

    return call


def take_slots(pending: PendingTrace, operands: list[Any], slots: list[int]) -> None:
    """Appends the slots of the next ``operands`` to ``slots``, up to the first that needs the slow path.

    An operand has a slot if it is a result of ``pending``, or an uncommitted array whose aval was an input at
    this state before.
    """
    array, trace = jc.ArrayImpl, pending.trace
    for operand in operands[len(slots) :]:
        slot: int | None = None
        cls = type(operand)
        if cls is LazyTensor:
            if operand._pending is pending:
                slot = operand._slot
            else:
                slot = pending.array(operand._value, operand._trace is not trace)
        elif cls is array:
            slot = pending.array(operand, True)
        if slot is None:
            return
        slots.append(slot)


def new_tensors(pending: PendingTrace, avals: tuple[Any, ...], first: int) -> list[LazyTensor]:
    """Returns tensors with ``avals`` for the results of ``pending`` from the slot ``first`` on."""
    trace = pending.trace
    return [LazyTensor(trace, aval, pending, slot) for slot, aval in enumerate(avals, first)]


def in_hook() -> bool:
    """Whether a hook of ``sys.setprofile`` or ``sys.settrace`` runs in this thread. The accelerator knows
    those of ``sys.monitoring`` too."""
    hooks = [hook for hook in (sys.getprofile(), sys.gettrace()) if hook is not None]
    codes, frame = set(map(_code_of, hooks)), sys._getframe(1) if hooks else None
    while frame is not None:
        above = frame.f_back
        if frame.f_code in codes or (above and above.f_trace and _code_of(above.f_trace) is frame.f_code):
            return True
        frame = above
    return False


def _code_of(hook: Any) -> Any:
    function = hook if hasattr(hook, "__code__") else type(hook).__call__
    return getattr(function, "__code__", None)


def make_current() -> None:
    """Sets JAX's current trace if none is current, in a JAX operation or after an interrupt of one."""
    if not jc.jax_is_on_stack():
        LazyTrace.make_current()
