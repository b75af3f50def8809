"""Cached calls of the user's jitted functions.

``jax.jit`` handles a call on its own arrays in C++. A call with a lazy tensor goes through its Python code,
which reads the type of each argument three times and looks the program up by all of them. Here one look-up
finds the program, and the call is recorded again if it was recorded at this state before. JAX's code makes
each first call, and every call with unusual arguments.

Two calls have the same program by JAX's rule: equal function, argument structure, static arguments, array
avals and configuration. ``jax.clear_caches()`` makes JAX trace the function again. So this cache is stored in
JAX's own cache and is cleared with it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Sequence
from types import FrameType
from typing import Any

import numpy as np

from lazynb import jax_compat as jc
from lazynb.recording.argument_donation import delete_donated, donates_alias, lift_constants, note_donation
from lazynb.recording.closure_constants import resolve_params, unwrap_closure_tracer
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.lazy_trace import LazyTrace, thread_trace
from lazynb.recording.operation import Operation
from lazynb.recording.operation_step import operations
from lazynb.recording.replay.call_replay import open_trace_for
from lazynb.recording.replay.replay_edge import NUMBER_KINDS
from lazynb.user_code.call_stack import calling_frame

MAX_FUNCTIONS = 4096
MAX_PROGRAMS = 256
"""Programs that are kept of one function."""


class CachedJitCall:
    """A program of a jitted function, and the operation of its call.

    Attributes:
      consts: the arrays that the function closes over, which are the first operands.
      params: the parameters of the operation.
      operation: the operation; None if JAX's code must make the call.
      cleared: ``operations.cleared`` when the operation was found; a change makes it stale.
    """

    __slots__ = ("_program", "cleared", "consts", "operation", "params")

    def __init__(self, program: Any):
        self._program = program
        self.operation: Operation | None = None
        self.cleared = -1
        self.consts: Sequence[Any] = ()
        self.params: dict[str, Any] = {}

    def prepare(self, token: Any) -> None:
        """Finds the operation under the configuration ``token``, after the call was recorded once."""
        consts, params = lift_constants(
            list(map(unwrap_closure_tracer, self._program.consts)), self._program.params
        )
        self.consts, self.params = tuple(consts), resolve_params(jc.jit_primitive, params)
        self.cleared = operations.cleared
        operation = operations.find(jc.jit_primitive, self.params, token)
        self.operation = None if operation.calls_back else operation

    def record(self, trace: LazyTrace, leaves: Sequence[Any], frame: FrameType) -> Any:
        """Returns the results of the call as the function does; None if JAX's code must make it."""
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
        note_donation(trace, operands, offered, results)
        return ReplayedProgram(self._program, self._program.out_tree.unflatten(results))


class ReplayedProgram:
    """The result of a recorded call. It takes the place of a program between two functions of JAX."""

    __slots__ = ("outcome",)

    def __init__(self, program: Any, result: Any):
        # It contains no executable, from which JAX would make calls in C++.
        self.outcome = (result, (), program.out_tree, (), program.params["jaxpr"], None, None, ())


def _operand(leaf: Any, aval: Any) -> Any:
    """Returns the value that JAX binds for an argument whose aval in the program is ``aval``."""
    cls = type(leaf)
    if cls is LazyTensor or (cls is np.ndarray and leaf.dtype == aval.dtype):
        return leaf
    return jc.canonical_value(leaf)


# ---- The cache ---------------------------------------------------------------------------------------------


class _Function:
    """The known programs of one result of ``jax.jit``.

    Attributes:
      info: JAX's description of it, which no other result has.
      programs: a :class:`CachedJitCall` by structure and avals of the arguments; None if JAX must make the
        call.
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
    """An object that only JAX's cache holds: when it is freed, JAX has cleared its caches. A frame, such as
    that of a traceback, may hold the cache itself."""

    __slots__ = ("__weakref__",)


def _nothing() -> _CacheSentinel | None:
    return None


_memory = _JitCallCache()
_mark: Callable[[], _CacheSentinel | None] = _nothing


def _current_memory() -> _JitCallCache:
    """Returns the cache, a new one if JAX has cleared its own."""
    global _memory, _mark
    if _mark() is None:
        mark, memory = _CacheSentinel(), _JitCallCache()
        jc.keep_until_caches_cleared(mark)
        _memory, _mark = memory, weakref.ref(mark, lambda _: memory.functions.clear())
    return _memory


def _key(trace: LazyTrace, info: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, list[Any]]:
    """Returns the key and the arrays of a call's arguments; no key for types that only JAX handles."""
    try:
        signature, leaves = jc.call_signature(info, args, kwargs)
    except Exception:  # JAX raises it again with its own text
        return None, []
    kinds: list[Any] = []
    for leaf in leaves:
        cls = type(leaf)
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


# ---- Substitutes for JAX's functions -----------------------------------------------------------------------


def _infer_substitute(plain: Callable[..., Any]) -> Callable[..., Any]:
    def infer(function: Any, info: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        trace = jc.trace_state.value
        if type(trace) is not LazyTrace:
            return plain(function, info, args, kwargs)
        frame = calling_frame(1)
        if trace.donation is not None and trace.donation.call == id(frame):
            trace.donation = None  # of an earlier call, whose frame is gone
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
        if type(program) is ReplayedProgram:
            return program.outcome
        return plain(program, operands, function, args, kwargs)

    return run


def _rebuild_substitute(plain: Callable[..., Any]) -> Callable[..., Any]:
    def finish(profiler: Any) -> Any:
        answer = plain(profiler)
        # By thread, because inside of a transformation the current trace is another.
        delete_donated(thread_trace(), calling_frame(1))
        return answer

    return finish


def substitutes() -> list[tuple[Any, dict[str, Any]]]:
    """Returns the substitutes while a thread is lazy."""
    if jc.cache_miss_code is None:
        return []
    names = vars(jc.pjit_module)
    made = {
        jc.INFER_PARAMS: _infer_substitute,
        jc.RUN_PJIT: _run_substitute,
        jc.NEED_TO_REBUILD: _rebuild_substitute,
    }
    return [(jc.pjit_module, {name: make(names[name]) for name, make in made.items()})]
