"""Donated arguments of a call: they are deleted when the call returns, and only if it returns.

An interrupt may arrive while the call is recorded, in JAX's code on the way back to the caller, and before
the caller stores the results. If the results are lost, the arguments are restored, so ``state =
step(*state)`` loses nothing. (Eager JAX takes the memory in C++ and loses the state if a signal arrives
before that returns.)
"""

from __future__ import annotations

import dis
import functools
import sys
import warnings
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

import jax

from lazynb import jax_compat as jc
from lazynb.recording.external_arrays import held_outside, is_on_host, replace_memory
from lazynb.recording.input_protection import (
    cancel_deletion,
    delete_after_run,
    protect_inputs,
    replace_everywhere,
    replace_input,
    replacement_for,
)
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.trace_registry import every_trace
from lazynb.user_code.call_stack import calling_frame

if TYPE_CHECKING:
    from lazynb.recording.lazy_trace import LazyTrace

# ---- Closure constants and donated arguments of jitted calls -----------------------------------------------


def lift_constants(args: Sequence[Any], params: dict[str, Any]) -> tuple[Sequence[Any], dict[str, Any]]:
    """Turns the arrays that a jitted function closes over into arguments of its call.

    So the key of the call does not depend on their values, and a cell that runs again with a new closed-over
    array is a cache hit.
    """
    jaxpr = params["jaxpr"]
    if not jaxpr.consts:
        return args, params
    lifted, consts = jc.separate_consts(jaxpr)
    front = len(consts)
    unspecified = jc.UNSPECIFIED
    return [*consts, *args], dict(
        params,
        jaxpr=lifted,
        in_shardings=(unspecified,) * front + tuple(params["in_shardings"]),
        in_layouts=(None,) * front + tuple(params["in_layouts"]),
        donated_invars=(False,) * front + tuple(params["donated_invars"]),
    )


def donates_alias(args: Sequence[Any], offered: Sequence[bool]) -> bool:
    """Whether a donated argument is passed twice, which eager JAX rejects."""
    if True not in offered:
        return False
    identities = []
    for arg in args:
        value = getattr(arg, "_value", None)
        identities.append(id(arg) if value is None else id(value))
    donated_ids = [identity for identity, offer in zip(identities, offered) if offer]
    return any(identities.count(identity) > 1 for identity in donated_ids)


def usable_donations(args: Sequence[Any], offered: Sequence[bool], results: Sequence[Any]) -> list[int]:
    """Returns the numbers of the donated arguments whose memory fits a result, by type or by size.

    JAX takes only the memory that it can use (``mlir._set_up_aliases``); the other arguments stay valid.
    """
    left = [jc.typeof(result) for result in results]
    offers = [number for number, offer in enumerate(offered) if offer]
    taken = []
    for measure in (lambda aval: (aval.shape, aval.dtype), lambda aval: aval.size * aval.dtype.itemsize):
        for number in offers:
            size = measure(jc.typeof(args[number]))
            match = next((aval for aval in left if measure(aval) == size), None)
            if number not in taken and match is not None:
                left.remove(match)
                taken.append(number)
    return taken


_warned_jaxprs: weakref.WeakSet[Any] = weakref.WeakSet()  # the jaxprs of donating calls


def warn_of_unusable(
    jaxpr: Any, args: Sequence[Any], offered: Sequence[bool], results: Sequence[Any]
) -> None:
    """Warns of donated arguments whose memory the call cannot use, once for each jaxpr.

    Eager JAX gives this warning when it lowers the call (``mlir.lower_jaxpr_to_module``).
    """
    if True not in offered or jaxpr in _warned_jaxprs:
        return
    _warned_jaxprs.add(jaxpr)
    taken = usable_donations(args, offered, results)
    left = [jc.typeof(arg) for number, arg in enumerate(args) if offered[number] and number not in taken]
    if left:
        text = f"Some donated buffers were not usable: {', '.join(map(str, left))}."
        warnings.warn(f"{text}\nThe function that donates them has no result of that type.", stacklevel=2)


class DonatedArguments:
    """The arguments that one call donates. Their memory is freed when the trace has run.

    Attributes:
      call: the id of JAX's frame that makes the call; 0 without one, and after the deletion.
    """

    __slots__ = ("_args", "_call_site", "_doomed", "_given", "_replaced_memory", "_results", "_trace", "call")

    def __init__(
        self, trace: Any, args: Sequence[Any], results: Sequence[LazyTensor], call: FrameType | None
    ):
        self.call = id(call) if call is not None else 0
        self._trace, self._args, self._results = trace, args, [weakref.ref(result) for result in results]
        self._call_site: _CallSite | None = None
        # The done steps, each noted before it is done.
        self._given: list[_DonatedTensor] = []
        self._doomed: list[Any] = []
        self._replaced_memory: list[tuple[Any, Any]] = []

    def give(self, others: Sequence[Any], call: FrameType | None = None) -> None:
        """Deletes the arguments, in the call of JAX's frame ``call``; ``others`` are the recorders of other
        threads."""
        for arg in self._args:
            if isinstance(arg, LazyTensor):
                self._give_tensor(arg, others)
            else:
                self._delete_after_run(arg, True)
        self._args, self.call = (), 0
        if call is not None:
            self._call_site = _CallSite(jc.caller_of_jit(call))
        # JAX's own arrays cannot be restored, so they are deleted last, in one C call that handles no signal.
        deque(
            map(jc.ArrayImpl.delete, [jc.base_array(value) for value, _ in self._replaced_memory]), maxlen=0
        )

    def _give_tensor(self, tensor: LazyTensor, others: Sequence[Any]) -> None:
        given = _DonatedTensor(tensor)
        self._given.append(given)
        other = replacement_for(self._trace, tensor)
        if isinstance(other, LazyTensor):
            given.alias = weakref.ref(other)
        replace_everywhere(self._trace, tensor, other)
        value = tensor._value
        if value is not None:
            for trace in others:
                protect_inputs(trace, value, tensor)
            self._delete_after_run(value, id(value) in held_outside.ids)
        tensor._forget_value()

    def _delete_after_run(self, value: Any, outside: bool) -> None:
        """Deletes a concrete array when the trace has run, but its handle at once if code ``outside`` holds
        it."""
        if not isinstance(value, jax.Array):
            return
        if outside and is_on_host(value):
            taken = jc.with_buffers(value, jc.buffers(value))
            self._replaced_memory.append((value, taken))
            replace_memory(value)
            replace_input(self._trace, value, taken)
            value = taken
        if self._trace.pending is not None:
            self._doomed.append(value)
            delete_after_run(self._trace, value)

    def restore_arguments(self) -> None:
        """Undoes :meth:`give`, also a partial one. JAX's own deleted arrays stay deleted."""
        trace, taken = self._trace, {id(value): taken for value, taken in self._replaced_memory}
        for value in self._doomed:
            cancel_deletion(trace, value)
        for value, memory in self._replaced_memory:
            if jc.restore_buffers(value, memory):
                replace_input(trace, memory, value)
                protect_inputs(trace, value)
        for given in self._given:
            given.restore(trace, taken)
        self._given, self._doomed, self._replaced_memory = [], [], []

    def is_lost(self) -> bool:
        """Whether the arguments were deleted but the results did not reach the caller.

        Results that were stored and dropped again also count as lost if the storing function has ended or the
        call is inside of a ``try``. The arguments are then restored, where eager JAX has deleted them.
        """
        site = self._call_site
        if site is None or not any(given.is_there() for given in self._given):
            return False
        return site.was_left_by_an_error() or (not self._is_held() and site.may_have_lost())

    def _is_held(self) -> bool:
        pending: dict[int, Any] = {}
        for result in self._results:
            tensor = result()
            if tensor is not None:
                pending[id(tensor)] = tensor._pending
            del tensor  # it would count as a reference
        if None in pending.values():  # a tensor with a value exists only if it is referenced
            return True
        return any(id(one) in pending for trace in set(pending.values()) for one in trace.live())


def note_donation(
    trace: LazyTrace, args: Sequence[Any], offered: Sequence[bool], results: Sequence[Any]
) -> None:
    """Notes the donated arguments (``offered``) whose memory JAX can use. They are deleted when JAX's frame
    that makes the call returns, or now if there is no such frame."""
    if True not in offered:
        return
    numbers = usable_donations(args, offered, results)
    if numbers:
        call = jc.enclosing_cache_miss_frame(calling_frame(1))
        trace.donation = DonatedArguments(trace, [args[number] for number in numbers], results, call)
        if call is None:
            trace.donation.give(_other_traces(trace))


def delete_donated(trace: LazyTrace, call: FrameType) -> None:
    """Deletes the arguments donated in the call of JAX's frame ``call``, which is about to return."""
    donation = trace.donation
    if donation is None or donation.call != id(call):  # the frame of an inner call
        return
    try:
        donation.give(_other_traces(trace), call)
    except BaseException:
        donation.restore_arguments()
        raise


def _other_traces(trace: LazyTrace) -> list[LazyTrace]:
    return [other for other in every_trace() if other is not trace]


class _DonatedTensor:
    """A donated tensor: its value or pending trace before the donation, and the tensor that replaces it."""

    __slots__ = ("alias", "pending", "tensor", "value")

    def __init__(self, tensor: LazyTensor):
        self.tensor, self.value, self.pending = weakref.ref(tensor), tensor._value, tensor._pending
        self.alias: Any = None

    def is_there(self) -> bool:
        return self.tensor() is not None

    def restore(self, trace: Any, taken: dict[int, Any]) -> None:
        tensor, twin = self.tensor(), self.alias and self.alias()
        if tensor is None:
            return
        if twin is None:
            value = self.value
            if value is not None and value.is_deleted():
                value = taken.get(id(value), value)
            tensor._value, tensor._pending = value, self.pending
        elif twin._pending is None:  # it was computed since
            tensor._value, tensor._pending = twin._value, None
        else:
            tensor._value, tensor._pending = None, twin._pending
            twin._pending.replace_result(twin, tensor)
            replace_input(trace, twin, tensor)


class _CallSite:
    """The user's instruction that makes a call and receives its results."""

    __slots__ = ("_code", "_frame", "_last")

    def __init__(self, frame: FrameType):
        while frame.f_back is not None and _result_consumer(frame.f_code, frame.f_lasti) == "RETURN_VALUE":
            frame = frame.f_back
        self._code = frame.f_code
        self._frame, self._last = (
            id(frame),
            frame.f_lasti,
        )  # ids: the frame would keep the user's values alive

    def was_left_by_an_error(self) -> bool:
        """Whether the call ended with an error that is being handled or was the last unhandled one."""
        for error in _errors():
            trail = error.__traceback__
            while trail is not None:
                if id(trail.tb_frame) == self._frame and trail.tb_lasti == self._last:
                    return trail.tb_frame.f_code is self._code
                trail = trail.tb_next
        return False

    def may_have_lost(self) -> bool:
        """Whether results to be stored may be lost: the function has ended, or handles errors there."""
        frame: FrameType | None = calling_frame(1)
        while frame is not None and not (id(frame) == self._frame and frame.f_code is self._code):
            frame = frame.f_back
        tries = dis.Bytecode(self._code).exception_entries  # type: ignore[attr-defined]
        if frame is not None and not any(one.start <= self._last < one.end for one in tries):
            return False
        return _result_consumer(self._code, self._last).startswith(_STORING)


_STORING = ("STORE_", "UNPACK_", "COPY", "SWAP")


@functools.lru_cache(1024)
def _result_consumer(code: CodeType, last: int) -> str:
    """Returns the name of the instruction that consumes the call's result; empty after a jump."""
    height = 1  # of the stack, counted from the result
    for one in dis.Bytecode(code):
        if one.offset <= last or one.opname == "CACHE":
            continue
        storing = one.opname.startswith(_STORING)
        pushed = 0 if storing or one.opname.startswith(("POP_", "RETURN_")) else 1
        effect = dis.stack_effect(one.opcode, one.arg, jump=False)
        if pushed - effect >= height or (storing and height == 1):
            return one.opname
        if one.opcode in dis.hasjrel or one.opcode in dis.hasjabs:
            return ""
        height += effect
    return ""


def _errors() -> Iterator[BaseException]:
    """Yields the errors being handled and the last unhandled error, with their causes."""
    seen = set()
    for error in (sys.exc_info()[1], getattr(sys, "last_exc", None), getattr(sys, "last_value", None)):
        while isinstance(error, BaseException) and id(error) not in seen:
            seen.add(id(error))
            yield error
            error = error.__cause__ or error.__context__
