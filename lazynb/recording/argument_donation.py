"""Arguments that a call donates. They are deleted for the user when the call returns, and only if it does.

An interrupt may arrive wherever Python looks for signals: as the call is recorded, in JAX's own code on the
way back to the caller, and once more before the caller stores the results. Where the results do not arrive,
the arguments are there as before, so ``state = step(*state)`` loses nothing. (Eager JAX takes the memory in
C++, and loses the state if a signal arrives before that returns.)
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
from typing import Any

import jax

from lazynb import jax_compat as jc
from lazynb.recording.external_arrays import held_outside, is_on_host, replace_memory
from lazynb.recording.lazy_tensor import LazyTensor

# ---- Calls of the user's own jitted functions: constants of their closures, and arguments that they donate


def lift_constants(args: Sequence[Any], params: dict[str, Any]) -> tuple[Sequence[Any], dict[str, Any]]:
    """Turns the arrays that a jitted function closes over into arguments of its call.

    So the key of the call does not depend on their values. A cell that runs again and closes over a new array
    is a hit.
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
    """Whether a call donates an argument that it takes in another place too, which eager JAX refuses."""
    if True not in offered:
        return False
    identities = []
    for arg in args:
        value = getattr(arg, "_value", None)
        identities.append(id(arg) if value is None else id(value))
    donated_ids = [identity for identity, offer in zip(identities, offered) if offer]
    return any(identities.count(identity) > 1 for identity in donated_ids)


def usable_donations(args: Sequence[Any], offered: Sequence[bool], results: Sequence[Any]) -> list[int]:
    """Numbers of the arguments whose memory a donating call takes: they match a result in type, or in size.

    JAX takes only the memory that it can use (``mlir._set_up_aliases``); the other arguments stay usable.
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
    """Warns of arguments whose memory a donating call cannot use, once for each jaxpr.

    Eager JAX says so where it lowers the call (``mlir.lower_jaxpr_to_module``).
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
      call: the identity of JAX's frame that makes the call; 0 if there is none, and when they are given.
    """

    __slots__ = ("_args", "_call_site", "_doomed", "_given", "_replaced_memory", "_results", "_trace", "call")

    def __init__(
        self, trace: Any, args: Sequence[Any], results: Sequence[LazyTensor], call: FrameType | None
    ):
        self.call = id(call) if call is not None else 0
        self._trace, self._args, self._results = trace, args, [weakref.ref(result) for result in results]
        self._call_site: _CallSite | None = None
        # what is done, each noted before it is
        self._given: list[_DonatedTensor] = []
        self._doomed: list[Any] = []
        self._replaced_memory: list[tuple[Any, Any]] = []

    def give(self, others: Sequence[Any], call: FrameType | None = None) -> None:
        """Deletes the arguments.

        Arguments:
          others: the recorders of other threads.
          call: JAX's frame that makes the call.
        """
        for arg in self._args:
            if isinstance(arg, LazyTensor):
                self._give_tensor(arg, others)
            else:
                self._delete_after_run(arg, True)
        self._args, self.call = (), 0
        if call is not None:
            self._call_site = _CallSite(jc.caller_of_jit(call))
        # JAX's own arrays stay deleted, so they are last, in one call, in which no signal is handled.
        deque(
            map(jc.ArrayImpl.delete, [jc.base_array(value) for value, _ in self._replaced_memory]), maxlen=0
        )

    def _give_tensor(self, tensor: LazyTensor, others: Sequence[Any]) -> None:
        given = _DonatedTensor(tensor)
        self._given.append(given)
        other = self._trace.replacement_for(tensor)
        if isinstance(other, LazyTensor):
            given.alias = weakref.ref(other)
        self._trace.replace_everywhere(tensor, other)
        value = tensor._value
        if value is not None:
            for trace in others:
                trace.protect_inputs(value, tensor)
            self._delete_after_run(value, id(value) in held_outside.ids)
        tensor._forget_value()

    def _delete_after_run(self, value: Any, outside: bool) -> None:
        """Deletes a concrete array when the trace has run.

        Arguments:
          outside: whether other code holds it; for that code it is deleted at once.
        """
        if not isinstance(value, jax.Array):
            return
        if outside and is_on_host(value):
            taken = jc.with_buffers(value, jc.buffers(value))
            self._replaced_memory.append((value, taken))
            replace_memory(value)
            self._trace.replace(value, taken)
            value = taken
        if self._trace.pending is not None:
            self._doomed.append(value)
            self._trace.delete_after_run(value)

    def restore_arguments(self) -> None:
        """Undoes :meth:`give`, or what there is of it. JAX's own arrays stay deleted if they are."""
        trace, taken = self._trace, {id(value): taken for value, taken in self._replaced_memory}
        for value in self._doomed:
            trace.cancel_deletion(value)
        for value, memory in self._replaced_memory:
            if jc.restore_buffers(value, memory):
                trace.replace(memory, value)
                trace.protect_inputs(value)
        for given in self._given:
            given.restore(trace, taken)
        self._given, self._doomed, self._replaced_memory = [], [], []

    def is_lost(self) -> bool:
        """Whether the results did not arrive where they were to be stored, though the arguments are given.

        Results that were stored, are gone already, and came from a function that has ended or from inside of
        a ``try``, count as lost too: then the arguments come back, where eager JAX has deleted them.
        """
        site = self._call_site
        if site is None or not any(given.is_there() for given in self._given):
            return False
        return site.was_left_by_an_error() or (not self._is_held() and site.may_have_lost())

    def _is_held(self) -> bool:
        """Whether anything refers to one of the results."""
        pending: dict[int, Any] = {}
        for result in self._results:
            tensor = result()
            if tensor is not None:
                pending[id(tensor)] = tensor._pending
            del tensor  # which would count as a reference
        if None in pending.values():  # those that have a value are there only if they are held
            return True
        return any(id(one) in pending for trace in set(pending.values()) for one in trace.live())


class _DonatedTensor:
    """A tensor before it was given: its value, or what it waited for, and what has its place now."""

    __slots__ = ("alias", "pending", "tensor", "value")

    def __init__(self, tensor: LazyTensor):
        self.tensor, self.value, self.pending = weakref.ref(tensor), tensor._value, tensor._pending
        self.alias: Any = None

    def is_there(self) -> bool:
        """Whether anybody can still use the tensor."""
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
        elif twin._pending is None:  # it was computed in the meantime
            tensor._value, tensor._pending = twin._value, None
        else:
            tensor._value, tensor._pending = None, twin._pending
            twin._pending.replace_result(twin, tensor)
            trace.replace(twin, tensor)


class _CallSite:
    """Where a function of the user's makes a call, whose results arrive there."""

    __slots__ = ("_code", "_frame", "_last")

    def __init__(self, frame: FrameType):
        while frame.f_back is not None and _result_consumer(frame.f_code, frame.f_lasti) == "RETURN_VALUE":
            frame = frame.f_back
        self._code = frame.f_code
        self._frame, self._last = id(frame), frame.f_lasti  # the frame itself would keep the user's values

    def was_left_by_an_error(self) -> bool:
        """Whether the call ended with an error that is being handled, or was the last that nobody handled."""
        for error in _errors():
            trail = error.__traceback__
            while trail is not None:
                if id(trail.tb_frame) == self._frame and trail.tb_lasti == self._last:
                    return trail.tb_frame.f_code is self._code
                trail = trail.tb_next
        return False

    def may_have_lost(self) -> bool:
        """Whether the results were to be stored and the call may have ended with an error: the function has
        ended, or handles errors there."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not (id(frame) == self._frame and frame.f_code is self._code):
            frame = frame.f_back
        tries = dis.Bytecode(self._code).exception_entries  # type: ignore[attr-defined]
        if frame is not None and not any(one.start <= self._last < one.end for one in tries):
            return False
        return _result_consumer(self._code, self._last).startswith(_STORING)


_STORING = ("STORE_", "UNPACK_", "COPY", "SWAP")


@functools.lru_cache(1024)
def _result_consumer(code: CodeType, last: int) -> str:
    """The name of the instruction that takes what the call at ``last`` gives; empty if a jump is first."""
    height = 1  # of the stack, from the result on
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
    """The errors that are being handled, and the last that was not."""
    seen = set()
    for error in (sys.exc_info()[1], getattr(sys, "last_exc", None), getattr(sys, "last_value", None)):
        while isinstance(error, BaseException) and id(error) not in seen:
            seen.add(id(error))
            yield error
            error = error.__cause__ or error.__context__
