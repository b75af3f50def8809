"""Substitutes for functions of JAX, NumPy and the standard library while a thread is lazy.

They cover array creation with a sharding, closed-over tensors, array exponents, work for other threads,
indexing, and ``np.array`` of a list of tensors. The import of this module registers them all. First: JAX's
``full`` and ``full_like`` ignore the sharding for a tracer, which is right only inside of a program.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from types import FrameType
from typing import Any

import jax
import numpy as np

from lazynb import jax_compat as jc
from lazynb.jax_compat.jax_names import DEVICE_FILL_FUNCTIONS
from lazynb.jax_compat.substitutes import substitute_for
from lazynb.recording import break_cause, varying_slices
from lazynb.recording.closure_constants import ClosureTracer, unwrap_closure_tracer
from lazynb.recording.lazy_blocks import patches
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.lazy_trace import LazyTrace, thread_trace
from lazynb.recording.replay import (
    array_functions,
    call_replay,
    eval_shape_cache,
    jit_call_cache,
    linearize_cache,
    transpose_cache,
)
from lazynb.recording.runtime_interface import runtime
from lazynb.recording.value_placement import single_device
from lazynb.user_code.call_stack import STARTED_AT, calling_frame, current_position, thread_handoff
from lazynb.user_code.code_ownership import PACKAGE_ROOT, is_user_code
from lazynb.user_code.source_lines import CodePosition


def _full(plain: Callable[..., Any]) -> Callable[..., Any]:
    def full(shape: Any, fill_value: Any, dtype: Any = None, *, sharding: Any = None) -> Any:
        if not _is_placed(sharding):
            return plain(shape, fill_value, dtype, sharding=sharding)
        if single_device(sharding) == jc.default_device():
            return jax.device_put(plain(shape, fill_value, dtype), sharding)
        return _make_eagerly(lambda value: plain(shape, value, dtype, sharding=sharding), fill_value)

    return full


def _full_like(plain: Callable[..., Any]) -> Callable[..., Any]:
    def full_like(x: Any, fill_value: Any, dtype: Any = None, shape: Any = None, sharding: Any = None) -> Any:
        if sharding is None and type(x) is LazyTensor:
            sharding = _inherited_sharding(x, dtype, shape)
        if not _is_placed(sharding) or single_device(sharding) == jc.default_device():
            return plain(x, fill_value, dtype, shape, sharding)  # it calls ``full``
        return _make_eagerly(lambda value: plain(x, value, dtype, shape, sharding), fill_value)

    return full_like


def _is_placed(sharding: Any) -> bool:
    """Whether this thread records and ``sharding`` names devices."""
    if sharding is None or jc.current_trace().__class__ is not LazyTrace:
        return False
    return jc.is_concrete_sharding(sharding)


def _make_eagerly(make: Callable[[Any], Any], fill_value: Any) -> Any:
    """Creates an array on another device than the program's at once, as it needs no pending value."""
    trace = jc.current_trace()
    if type(fill_value) is LazyTensor:
        fill_value = fill_value._force("device_put", "full")
    with jc.set_current_trace(jc.eval_trace):
        array = make(fill_value)
    return LazyTensor(trace, jc.typeof(array), None, 0, array)


def _inherited_sharding(x: LazyTensor, dtype: Any, shape: Any) -> Any:
    """Returns the sharding that an array like ``x`` gets by eager JAX's rule, or None."""
    if not x._committed or (dtype is None and x.weak_type):
        return None
    devices = x._known_devices()
    if devices is not None and len(devices) == 1:
        sharding = jc.uncommitted_sharding(devices[0])
    else:
        known = x._known_sharding()
        sharding = known if known is not None else runtime().execution.eager_sharding(x)
        if sharding is None:
            sharding = x.sharding
    has_same_shape = shape is None or tuple(shape) == x.shape
    if sharding is not None and (has_same_shape or sharding.is_fully_replicated):
        return sharding
    return None


def array_creation_substitutes() -> list[tuple[Any, dict[str, Any]]]:
    module = jc.full_module
    own = {name: getattr(module, name) for name in DEVICE_FILL_FUNCTIONS}
    ours = {"full": _full(own["full"]), "full_like": _full_like(own["full_like"])}
    public = {name: substitute_for(call, own[name], jax.lax, name) for name, call in ours.items()}
    return [(module, ours), (jax.lax, public)]


# ---- Closed-over lazy tensors as tracers of a jaxpr --------------------------------------------------------
# See :class:`lazynb.recording.closure_constants.ClosureTracer`. Some JAX functions (``lax.composite``) reject
# a function that closes over a tracer. There the tensor is a constant.


class _Here(threading.local):
    refusing = False  # whether a JAX function that rejects tracers runs in this thread


_here = _Here()


def _keep_constants_during(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def call(*args: Any, **kwargs: Any) -> Any:
        before, _here.refusing = _here.refusing, True
        try:
            return plain(*args, **kwargs)
        finally:
            _here.refusing = before

    return call


def _new_const(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def new_const(trace: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        tensor = unwrap_closure_tracer(value)
        if type(tensor) is not LazyTensor or _stays_constant(trace):
            return plain(trace, tensor, *args, **kwargs)
        known = jc.constants_by_id(trace)
        taken = known.get(id(tensor))
        if taken is None:
            taken = known[id(tensor)] = plain(trace, ClosureTracer(tensor), *args, **kwargs)
        return taken

    return new_const


def _stays_constant(trace: Any) -> bool:
    """Whether a lazy tensor that ``trace`` lifts becomes a constant, as any array."""
    return _here.refusing or jc.is_linear(trace) or thread_trace().runs_at_once


def _with_concrete_attributes(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def decorate(*given: Any, **more: Any) -> Any:
        call = plain(*given, **more)

        @functools.wraps(call)
        def attributed(*args: Any, **attributes: Any) -> Any:
            return call(*args, **jax.tree.map(_attribute, attributes))

        return attributed

    return decorate


def _attribute(leaf: Any) -> Any:
    return leaf._force("static", "an attribute of a composite") if isinstance(leaf, LazyTensor) else leaf


def closure_substitutes() -> list[tuple[Any, dict[str, Any]]]:
    owner, name = jc.NEW_CONST
    composite = jax.lax.composite
    return [
        (owner, {name: _new_const(getattr(owner, name))}),
        (
            jax.lax,
            {
                "composite": substitute_for(
                    _with_concrete_attributes(composite), composite, jax.lax, "composite"
                )
            },
        ),
        *[
            (owner, {name: _with_concrete_attributes(getattr(owner, name))})
            for owner, name in jc.COMPOSITE_FUNCTIONS
        ],
        *[
            (owner, {name: _keep_constants_during(getattr(owner, name))})
            for owner, name in jc.TRACER_REFUSING_FUNCTIONS
        ],
    ]


# ---- Array exponents ---------------------------------------------------------------------------------------
# ``jnp.power`` reads a concrete exponent and unrolls the power. ``x ** i`` with a step counter would be a
# trace break and another program at each step. It is recorded as the operation of ``jax.jit``.


def _is_known(exponent: Any) -> bool:
    """Whether ``jnp.power`` may read the value of ``exponent``, which JAX takes for a known one."""
    trace = jc.trace_state.value
    if not isinstance(exponent, jax.Array) or jc.is_eval(trace) or jc.must_run_eagerly():
        return True
    if thread_trace().runs_at_once:
        return True
    return isinstance(trace, jc.JaxprTrace) and type(exponent) is not LazyTensor


def exponent_substitutes() -> list[tuple[Any, dict[str, Any]]]:
    return [jc.power_exponent_substitutes(_is_known)]


# ---- The user's line of work in other threads --------------------------------------------------------------
# A thread that runs ``float`` of a pending value has no frame of the user's code. The trace break is placed
# at the line that started the thread, or that passed the work to a pool.


class AttributedTask:
    """A function for a pool, with the line that submitted it."""

    def __init__(self, function: Callable[..., Any], spot: CodePosition):
        self.function = function
        self.spot = spot

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        before, thread_handoff.spot = thread_handoff.spot, self.spot
        try:
            return self.function(*args, **kwargs)
        finally:
            thread_handoff.spot = before


def thread_substitutes() -> list[tuple[Any, dict[str, Any]]]:
    of_pool = {name: _submit(getattr(ThreadPool, name)) for name in _OF_POOL}
    return [
        (threading.Thread, {"start": _start(threading.Thread.start)}),
        (ThreadPoolExecutor, {"submit": _submit(ThreadPoolExecutor.submit)}),
        (ThreadPool, of_pool),
    ]


_OF_POOL = ("apply_async", "_map_async", "imap", "imap_unordered")


def _submit(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a substitute for a pool's method ``plain``, whose first argument is the function."""

    @functools.wraps(plain)
    def hand(pool: Any, /, *args: Any, **kwargs: Any) -> Any:
        if args and callable(args[0]) and not patches.rest.on:
            args = (AttributedTask(args[0], _without_library(current_position(2))), *args[1:])
        return plain(pool, *args, **kwargs)

    return hand


def _start(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def start(thread: threading.Thread) -> None:
        if not patches.rest.on:
            spot = current_position(2)
            if spot.library is None:  # a library's thread does not work for the line that started it
                setattr(thread, STARTED_AT, spot)
        plain(thread)

    return start


def _without_library(spot: CodePosition) -> CodePosition:
    return spot._replace(library=None)


# ---- Indexing of sharded values, and with arrays as indices ------------------------------------------------
# JAX slices an array on one device, and gathers from one on several devices, with a result sharding that the
# user names (``x.at[0].get(out_sharding=...)``). It checks for its own array class to choose, and accepts
# only its own and NumPy's arrays as indices.


def _is_sharded(plain: Callable[[Any], bool]) -> Any:
    """Returns a substitute for JAX's test. A value on Auto axes is sliced, as in ``jax.jit``."""

    def is_sharded(arr: Any) -> bool:
        return jc.indexing_gathers(arr.aval) if type(arr) is LazyTensor else plain(arr)

    return staticmethod(is_sharded)


def _parse_indices(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a substitute for JAX's index parser that accepts all types registered as arrays."""

    def parse(parts: Sequence[Any], *shape: Any, **options: Any) -> Any:
        return plain([jc.unwrap_container(part) for part in parts], *shape, **options)

    return parse


def index_substitutes() -> list[tuple[Any, dict[str, Any]]]:
    owner, name = jc.IS_SHARDED
    module, parser = jc.PARSE_INDICES
    return [
        (owner, {name: _is_sharded(getattr(owner, name))}),
        (module, {parser: _parse_indices(getattr(module, parser))}),
    ]


# ---- ``np.array`` and ``np.asarray`` of a list of lazy tensors ---------------------------------------------
# NumPy has no protocol for this call and reads the value of each tensor in turn. So both functions are
# substituted while a thread is lazy, but only for the user's own code: a library gets NumPy's function.

_LISTS = (list, tuple)


def _array_of_list(plain: Callable[..., Any]) -> Callable[..., Any]:
    def array(*args: Any, **kwargs: Any) -> Any:
        if args and type(args[0]) in _LISTS and _is_recorded(args[0], calling_frame(1)):
            recorded = runtime().numpy_protocols.array_from_list(plain, args, kwargs)
            if recorded is not None:
                return recorded
        return plain(*args, **kwargs)

    return array


def _is_recorded(items: Any, caller: FrameType) -> bool:
    is_recording = type(jc.trace_state.value) is LazyTrace
    return is_recording and _is_pending(items) and is_user_code(caller.f_code)


def _is_pending(items: Any) -> bool:
    """Whether the first element of ``items`` (searched in nested lists), or one beside it, is a pending
    tensor. A mutable array counts as one."""
    while type(items) in _LISTS and items:
        for item in items:
            if (type(item) is LazyTensor and item.is_pending) or jc.is_container(item):
                return True
        items = items[0]
    return False


def list_substitutes() -> list[tuple[Any, dict[str, Any]]]:
    own: list[tuple[str, Any]] = [("array", np.array), ("asarray", np.asarray)]
    return [(np, {name: substitute_for(_array_of_list(plain), plain, np, name) for name, plain in own})]


# ---- Registration of the substitutes -----------------------------------------------------------------------
# Done once in a process, by the import of this module.

array_functions.install()
jc.exclude_from_user_frames(PACKAGE_ROOT)
for _owner, _names in [
    *array_functions.substitutes(),
    (jc.ArrayImpl, array_functions.array_methods(patches.rest.count_calls)),
    (jc.LinearizeTracer, array_functions.linearize_tracer_methods(patches.rest.count_calls)),
    (jc.IndexUpdate, array_functions.index_update_methods(patches.rest.count_calls)),
    *jit_call_cache.substitutes(),
    *linearize_cache.substitutes(),
    *eval_shape_cache.substitutes(),
    *transpose_cache.substitutes(),
    *call_replay.warning_substitutes(),
]:
    patches.substitute(_owner, _names, for_speed=True)
patches.substitute_codes(lambda: array_functions.function_codes(patches.rest))
for _owner, _names in [
    *break_cause.substitutes(LazyTensor),
    *array_creation_substitutes(),
    *closure_substitutes(),
    *exponent_substitutes(),
    *thread_substitutes(),
    *index_substitutes(),
    *list_substitutes(),
    *varying_slices.substitutes(),
    *jc.change_counting_substitutes(),
]:
    patches.substitute(_owner, _names)
