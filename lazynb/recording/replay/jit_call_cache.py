"""Calls of the user's own jitted functions, with a memory.

``jax.jit`` takes a call on its own arrays in C++. It knows no lazy tensor, so a call with one goes through
its Python: it looks at the type of each argument three times, and looks for the program by all of them. Here
the program is found by one look-up, and recorded again if it was recorded at this state before. JAX's own
code makes each first call, and every call that is not simple.

Two calls want the same program if JAX says so: if the function, the structure and the static arguments, the
types of the arrays and JAX's configuration agree. JAX forgets what it has traced when it is told to
(``jax.clear_caches()``), and traces the function again. So the memory lies in JAX's own cache, and goes with
it.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Hashable, Sequence
from types import FrameType
from typing import Any

import numpy as np

from lazynb import jax_compat as jc
from lazynb.recording.argument_donation import donates_alias, lift_constants
from lazynb.recording.closure_constants import resolve_params, unwrap_closure_tracer
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.lazy_trace import LazyTrace, operations, thread_trace
from lazynb.recording.operation import Operation
from lazynb.recording.replay.call_replay import NUMBER_KINDS, open_trace_for

MAX_FUNCTIONS = 4096
MAX_PROGRAMS = 256
"""Programs that are kept of one function."""


class CachedJitCall:
    """A program of a jitted function, and how a call of it is recorded.

    Attributes:
      consts: the arrays that the function closes over. They are the first operands.
      params: the parameters of the operation.
      operation: the operation; None if only JAX's own code may make the call.
      cleared: ``operations.cleared`` when it was found: other calls have another object for it since.
    """

    __slots__ = ("_program", "cleared", "consts", "operation", "params")

    def __init__(self, program: Any):
        self._program = program
        self.operation: Operation | None = None
        self.cleared = -1
        self.consts: Sequence[Any] = ()
        self.params: dict[str, Any] = {}

    def prepare(self, token: Any) -> None:
        """Finds the operation, under the configuration ``token``. To be called when it was recorded once."""
        consts, params = lift_constants(
            list(map(unwrap_closure_tracer, self._program.consts)), self._program.params
        )
        self.consts, self.params = tuple(consts), resolve_params(jc.jit_primitive, params)
        self.cleared = operations.cleared
        operation = operations.find(jc.jit_primitive, self.params, token)
        self.operation = None if operation.calls_back else operation

    def record(self, trace: LazyTrace, leaves: Sequence[Any], frame: FrameType) -> Any:
        """The results of the call, as the function returns them; None if JAX's own code is to make it."""
        if self.operation is None:
            return None
        avals = self._program.in_avals
        operands = [*self.consts, *[_operand(leaf, aval) for leaf, aval in zip(leaves, avals)]]
        offered = self.params["donated_invars"]
        if donates_alias(operands, offered):
            return None
        results = trace.record_known(self.operation, operands, frame, self.params)
        if results is None:
            return None
        trace.note_donation(operands, offered, results)
        return ReplayedProgram(self._program, self._program.out_tree.unflatten(results))


class ReplayedProgram:
    """What a recorded call gave. It takes the place of a program between the two functions of JAX's."""

    __slots__ = ("outcome",)

    def __init__(self, program: Any, result: Any):
        # Nothing of it is an executable, from which JAX would make calls in C++.
        self.outcome = (result, (), program.out_tree, (), program.params["jaxpr"], None, None, ())


def _operand(leaf: Any, aval: Any) -> Any:
    """What JAX binds in place of an argument, whose type in the program is ``aval``."""
    cls = leaf.__class__
    if cls is LazyTensor or (cls is np.ndarray and leaf.dtype == aval.dtype):
        return leaf
    return jc.canonical_value(leaf)


# ---- the memory --------------------------------------------------------------------------------------------


class _Function:
    """What is known of one result of ``jax.jit``.

    Attributes:
      info: JAX's description of it, which only this result has.
      programs: by the structure and types of the arguments, a :class:`Called`; None if it is not simple.
    """

    __slots__ = ("_gone", "info", "programs")

    def __init__(self, function: Any, info: Any, functions: dict[int, _Function]):
        key = id(info)
        self.info = info
        self.programs: dict[Hashable, CachedJitCall | None] = {}
        self._gone = weakref.ref(function, lambda _: functions.pop(key, None))


class _JitCallCache:
    """The functions, by the ids of JAX's descriptions of them."""

    __slots__ = ("functions",)

    def __init__(self) -> None:
        self.functions: dict[int, _Function] = {}

    def keep(self, function: Any, info: Any, key: Hashable, called: CachedJitCall | None) -> None:
        """Keeps the program for the arguments ``key``."""
        if len(self.functions) >= MAX_FUNCTIONS:
            self.functions.clear()
        known = self.functions.get(id(info))
        if known is None:
            known = self.functions[id(info)] = _Function(function, info, self.functions)
        if len(known.programs) >= MAX_PROGRAMS:
            known.programs.clear()
        known.programs[key] = called


class _CacheSentinel:
    """Lies in JAX's cache, and nowhere else: when it is gone, JAX has forgotten what it traced. The memory
    itself may be held by a frame, as that of a traceback."""

    __slots__ = ("__weakref__",)


def _nothing() -> _CacheSentinel | None:
    return None


_memory = _JitCallCache()
_mark: Callable[[], _CacheSentinel | None] = _nothing
"""A weak reference."""


def _current_memory() -> _JitCallCache:
    """The memory, begun anew if JAX has forgotten what it was made of."""
    global _memory, _mark
    if _mark() is None:
        mark, memory = _CacheSentinel(), _JitCallCache()
        jc.keep_until_caches_cleared(mark)
        _memory, _mark = memory, weakref.ref(mark, lambda _: memory.functions.clear())
    return _memory


def _key(trace: LazyTrace, info: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, list[Any]]:
    """What identifies the arguments of a call, and the arrays in them; the key is None if the call has a kind
    of argument that only JAX knows."""
    try:
        signature, leaves = jc.call_signature(info, args, kwargs)
    except Exception:  # which JAX raises with its own words
        return None, []
    kinds: list[Any] = []
    for leaf in leaves:
        cls = leaf.__class__
        if cls is LazyTensor:
            if leaf._value is None and leaf._trace is not trace:
                return None, []
            kinds.append(leaf.aval)
        elif cls is jc.ArrayImpl:
            kinds.append(jc.typeof(leaf) if leaf._committed else leaf.aval)
        elif cls is np.ndarray:
            kinds.append((leaf.shape, leaf.dtype))
        elif cls is jc.KeyArray:
            kinds.append(jc.typeof(leaf))
        elif cls in NUMBER_KINDS and not (cls is int and leaf.bit_length() > 31):
            kinds.append(cls)
        else:
            return None, []
    return (signature, trace.context_token(), tuple(kinds)), leaves


# ---- in place of JAX's functions ---------------------------------------------------------------------------


def _infer_substitute(plain: Callable[..., Any]) -> Callable[..., Any]:
    def infer(function: Any, info: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        trace = jc.trace_state.value
        if trace.__class__ is not LazyTrace:
            return plain(function, info, args, kwargs)
        frame = sys._getframe(1)
        if trace.donation is not None and trace.donation.call == id(frame):
            trace.donation = None  # an earlier call's, in a frame that is gone
        if frame.f_code is not jc.cache_miss_code or trace.default_devices is not None:
            return plain(function, info, args, kwargs)
        return _infer(trace, plain, function, info, args, kwargs, frame)

    return infer


def _infer(
    trace: LazyTrace,
    plain: Callable[..., Any],
    function: Any,
    info: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    frame: FrameType,
) -> Any:
    key, leaves = _key(trace, info, args, kwargs)
    if key is None or open_trace_for(trace, leaves) is None:
        return plain(function, info, args, kwargs)
    memory = _current_memory()
    known = memory.functions.get(id(info))
    if known is None or key not in known.programs:
        program, operands = plain(function, info, args, kwargs)
        memory.keep(function, info, key, CachedJitCall(program) if jc.is_pure_call(info, program) else None)
        return program, operands
    called = known.programs[key]
    if called is not None:
        if called.cleared != operations.cleared:
            called.prepare(key[1])
        recorded = called.record(trace, leaves, frame)
        if recorded is not None:
            return recorded, ()
    return plain(function, info, args, kwargs)


def _run_substitute(plain: Callable[..., Any]) -> Callable[..., Any]:
    def run(program: Any, operands: Sequence[Any], function: Any, args: Any, kwargs: Any) -> Any:
        if program.__class__ is ReplayedProgram:
            return program.outcome
        return plain(program, operands, function, args, kwargs)

    return run


def _rebuild_substitute(plain: Callable[..., Any]) -> Callable[..., Any]:
    def finish(profiler: Any) -> Any:
        answer = plain(profiler)
        thread_trace().delete_donated(
            sys._getframe(1)
        )  # whose operation it was, inside of a transformation too
        return answer

    return finish


def substitutes() -> list[tuple[Any, dict[str, Any]]]:
    """The substitutes while some thread is lazy."""
    if jc.cache_miss_code is None:
        return []
    names = vars(jc.pjit_module)
    made = {
        jc.INFER_PARAMS: _infer_substitute,
        jc.RUN_PJIT: _run_substitute,
        jc.NEED_TO_REBUILD: _rebuild_substitute,
    }
    return [(jc.pjit_module, {name: make(names[name]) for name, make in made.items()})]
