"""Every private name of JAX and jaxlib that lazynb uses, and nothing else.

A new JAX release is this file's work alone; ``tests/test_jax_compat.py`` has a test for each name. Written for
JAX 0.10.2 and 0.12.0.1. Facts that differ between them stand beside the code that bridges them.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import sys
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax._src import (
    api as _api,
    array as _array,
    compilation_cache as _compilation_cache,
    compiler as _compiler,
    compute_on as _compute_on,
    config as _config,
    core as _core,
    custom_derivatives as _custom_derivatives,
    dispatch as _jax_dispatch,
    dlpack as _dlpack,
    dtypes as _dtypes,
    error_check as _error_check,
    hijax as _hijax,
    layout as _layout,
    linear_util as _linear_util,
    literals as _literals,
    lru_cache as _lru_cache,
    mesh as _mesh,
    pjit as _pjit,
    sharding_impls as _sharding_impls,
    source_info_util as _source_info_util,
    stages as _stages,
    xla_bridge as _xla_bridge,
    xla_metadata as _xla_metadata,
)
from jax._src.interpreters import ad as _ad, batching as _batching, mlir as _mlir, partial_eval as _partial_eval, pxla as _pxla
from jax._src.lax import lax as _lax_internal, linalg as _linalg
from jax._src.lib import xla_client as _xla_client
from jax._src.numpy import array_methods as _array_methods
from jax._src.random import stateful_rng as _stateful_rng
from jax._src.state import indexing as _state_indexing

Trace = _core.Trace
Tracer = _core.Tracer
ShapedArray = _core.ShapedArray
Var = _core.Var
Literal = _core.Literal
Jaxpr = _core.Jaxpr
ClosedJaxpr = getattr(_core, "ClosedJaxpr", _core.Jaxpr)  # 0.12 merged the two into Jaxpr
ArrayImpl = _array.ArrayImpl
TypedNdArray = _literals.TypedNdArray
TYPED_SCALARS: tuple[type, ...] = (_literals.TypedInt, _literals.TypedFloat, _literals.TypedComplex)
float0 = _dtypes.float0

concretisation: tuple[Any, str] = (_core, "concrete_or_error")
"""Module and name of what JAX asks for a value that it needs at once: ``(force, value, what for)``."""

check_bool_conversion = _core.check_bool_conversion
check_scalar_conversion = _core.check_scalar_conversion
check_integer_conversion = _core.check_integer_conversion
escaped_tracer_error = _core.escaped_tracer_error
separate_consts = _partial_eval.separate_consts
typeof = _core.typeof
eval_trace = _core.eval_trace
set_current_trace = _core.set_current_trace

JIT_PRIMITIVES = ("jit", "pjit")
"""Names of the primitive that a call of a jitted function binds."""

# Parameters that serve differentiation only: what they hold is not part of the program that runs.
DIFFERENTIATION_PARAMS = {
    "custom_jvp_call": {"jvp_jaxpr_fun", "jvp_jaxpr_thunk"},
    "custom_vjp_call": {"fwd_jaxpr_thunk", "bwd", "out_trees", "bwd_fun"},
    "custom_vjp_call_jaxpr": {"fwd_jaxpr_thunk", "bwd", "out_trees"},
}


def current_trace() -> Trace | None:
    """The trace on which JAX binds primitives in this thread; None while 0.12 processes one."""
    return _core.trace_ctx.trace


ambient: Any = _core.trace_state_strong_ref
"""Its ``value`` is the current trace: what :func:`current_trace` reads, without two calls of Python."""


def set_trace(trace: Trace | None) -> None:
    """Makes ``trace`` the current one of this thread."""
    _core.trace_ctx.set_trace(trace)


def at_work() -> bool:
    """Whether a function of JAX's is running in this thread, below the caller."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(("jax.", "jax._src.")):
            return True
        frame = frame.f_back
    return False


def is_eval(trace: Trace | None) -> bool:
    """Whether primitives bound on ``trace`` run at once (0.12 has no trace at all between operations)."""
    return trace is None or isinstance(trace, _core.EvalTrace)


def abstract_eval(primitive: Any, avals: Sequence[Any], params: dict[str, Any]) -> tuple[list[Any], Any]:
    """Output avals and effects of ``primitive``; raises what tracing the operation raises."""
    out, effects = primitive.abstract_eval(*avals, **params)
    return (list(out) if primitive.multiple_results else [out]), effects


def may_be_refused(primitive: Any, avals: Sequence[Any], params: dict[str, Any]) -> bool:
    """Whether it shows only in lowering that an operation cannot be done: what LAPACK has no routine for, a way to multiply that
    the device has not, a seed that is no integer, forward-mode differentiation of a function that has a reverse rule alone, a
    function that was exported for other platforms, a sort that is neither stable nor unstable (``np.argsort`` of an array of
    JAX's asks for that, and goes on by itself when it is refused)."""
    if primitive in _LAPACK:
        return any(getattr(aval.dtype, "itemsize", 4) < 4 for aval in avals)
    if primitive.name == "dot_general":
        return isinstance(params["precision"], _lax_internal.DotAlgorithm | _lax_internal.DotAlgorithmPreset)
    if primitive.name == "random_seed":
        return not np.issubdtype(avals[0].dtype, np.integer)
    if primitive.name == "call_exported":
        return params["exported"].nr_devices == 1
    if primitive.name == "sort":
        return not isinstance(params["is_stable"], bool)
    return primitive is _ad.custom_lin_p


def hands_on(eqn: Any) -> bool:
    """Whether transposing an equation of a linear program hands the very cotangent on: to the backward rule of a user's
    function, or through a copy."""
    return eqn.primitive is _ad.custom_lin_p or eqn.primitive.name in ("copy", "copy_p")


def can_be_lowered(primitive: Any) -> bool:
    """Whether a primitive can be part of a program; a user's own may have a function that evaluates it and no more."""
    return primitive in _mlir._lowerings or any(primitive in rules for rules in _mlir._platform_specific_lowerings.values())


def runs_by_itself(primitive: Any) -> bool:
    """Whether eager JAX runs ``primitive`` by a function of its own, and not by compiling it, so that it need not know the shapes
    of the results beforehand."""
    return getattr(primitive.impl, "func", None) is not _jax_dispatch.apply_primitive and primitive.name not in JIT_PRIMITIVES


_LAPACK = {value for value in vars(_linalg).values() if isinstance(value, _core.Primitive)}


def lower_alone(primitive: Any, avals: Sequence[Any], params: dict[str, Any]) -> None:
    """Lowers an operation; raises what that raises."""
    with lowering_settings():
        jax.jit(lambda *values: primitive.bind(*values, **params)).lower(
            *[jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type) for aval in avals])


def eval_shard_map(primitive: Any, fun: Any, values: Sequence[Any], params: dict[str, Any]) -> Any:
    """Runs a shard_map at once."""
    trace: Any = eval_trace
    return trace.process_shard_map(primitive, fun, values, **params)


def register_tracer_type(cls: type) -> None:
    """Spares JAX the walk over the bases of ``cls`` each time it asks for an aval."""
    _core.pytype_aval_mappings[cls] = lambda x: x.aval
    _dtypes.register_canonicalize_value_handler(cls, None)


# 0.12 moved the meshes in force from ``config`` to ``mesh``.
_device_context = getattr(_config, "device_context", None) or _mesh.device_context
_abstract_mesh = getattr(_config, "abstract_mesh_context_manager", None) or _mesh.abstract_mesh_context_manager

# ---- context -----------------------------------------------------------------------------------------------

# The axis environment says which vmap axes are in scope while an operation is bound. What reaches the lowest
# trace no longer mentions them, hence it is no part of what identifies a recorded operation.
_AXIS_ENV = type(_core.axis_env_state.value)


raw_context = _config.trace_context
"""What JAX's configuration contributes to a trace: a new tuple at each call."""


def context() -> tuple[Any, ...]:
    """:func:`raw_context` without the vmap axes in scope."""
    full = raw_context()
    return full[:-1] if type(full[-1]) is _AXIS_ENV else tuple(v for v in full if type(v) is not _AXIS_ENV)


def canonical(full: tuple[Any, ...]) -> tuple[Any, ...]:
    """A :func:`context` in which no mesh and the empty one are the same: JAX 0.10 sets the latter under ``grad``."""
    return tuple(None if type(one) is _mesh.AbstractMesh and one.empty else one for one in full)


def at_top_level() -> bool:
    """Whether no vmap axis is in scope."""
    return _core.trace_ctx.axis_env is _core.top_axis_env


class Changes:
    """Counts changes of JAX's configuration while some thread is lazy: comparing :func:`raw_context` at each operation would
    take a quarter of the time that recording takes.

    Attributes:
      count: grows with each change, by any thread.
    """

    count = 0


changes = Changes()

# What changes a configuration that :func:`raw_context` tells of, or that :func:`must_run_eagerly` asks for: methods of
# classes, and functions that are context managers. ``tests/test_jax_compat.py`` finds in JAX's source who else might.
_CHANGING_METHODS: list[tuple[Any, tuple[str, ...]]] = [
    (_config.StateContextManager, ("__enter__", "__exit__")), (_config.State, ("_set",)),
    (_config.UserContext, ("__enter__", "__exit__")), (_sharding_impls.set_mesh, ("__init__", "__exit__")),
    (_mesh.Mesh, ("__enter__", "__exit__")), (_mesh.use_abstract_mesh, ("__enter__", "__exit__")),
    (_xla_metadata.XlaMetadataContextManager, ("__enter__", "__exit__")),
]
_CHANGING_CONTEXTS: list[tuple[Any, tuple[str, ...]]] = [
    (_compute_on, ("extend_compute_type",)), (_sharding_impls, ("_internal_use_concrete_mesh",)),
    (_xla_metadata, ("clear_xla_metadata",)), (_layout, ("use_layout_mode",))]


def counted_changes() -> list[tuple[Any, dict[str, Any]]]:
    """For each class or module, what stands in for its functions so that changes are counted."""
    methods: list[tuple[Any, dict[str, Any]]] = [
        (owner, {name: _counted(getattr(owner, name)) for name in names}) for owner, names in _CHANGING_METHODS]
    contexts: list[tuple[Any, dict[str, Any]]] = [
        (owner, {name: _counted_context(getattr(owner, name)) for name in names if hasattr(owner, name)})
        for owner, names in _CHANGING_CONTEXTS]
    return methods + contexts


def _counted(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        finally:
            changes.count += 1

    return call


def _counted_context(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    @contextlib.contextmanager
    def call(*args: Any, **kwargs: Any) -> Iterator[Any]:
        try:
            with function(*args, **kwargs) as value:
                changes.count += 1
                yield value
        finally:
            changes.count += 1

    return call


def placement_context() -> tuple[Any, ...]:
    """The settings that decide where and how a whole program is compiled: a change starts a new graph."""
    return (_config.enable_x64.value, _config.default_device.value, _device_context.value,
            _mesh.get_abstract_mesh())  # no mesh and the empty one, which JAX sets now and then, are the same


def must_run_eagerly() -> bool:
    """Whether a debugging mode wants to look at the result of each operation (NaN checks, key reuse checks), at what it moves
    to the device (transfer guards), or forbids to run any."""
    return bool(_config.debug_nans.value or _config.debug_infs.value or _config.debug_key_reuse.value
                or _config.no_execution.value or _guards_transfers())


def _guards_transfers() -> bool:
    return (_config.transfer_guard_host_to_device.value or "allow") != "allow"


def runs_as_compiled(x64: bool) -> bool:
    """Whether an executable made in 64-bit mode ``x64`` can be called under the configuration in force.

    JAX looks for NaN in the results of whatever it calls. What was recorded before the user switched that on would have run
    unchecked in eager JAX, and an error after the run would take the results, and the memory that was given away for them.
    """
    return _config.enable_x64.value is x64 and not (
        _config.disable_jit.value or _config.debug_nans.value or _config.debug_infs.value or _guards_transfers())


@contextlib.contextmanager
def running_settings(x64: bool) -> Iterator[None]:
    """Settings under which an executable made in 64-bit mode ``x64`` can be called."""
    with _config.enable_x64(x64), _config.disable_jit(False), _config.transfer_guard_host_to_device("allow"):
        before = [(state, state.swap_local(off)) for state, off in _CHECKS]
        try:
            yield
        finally:
            for state, value in before:
                state.set_local(value)


# Set one by one: see :func:`_checks_kept`.
_CHECKS = ((_config.debug_nans, False), (_config.debug_infs, False), (_api._post_hook_state, None))


def x64_in(snapshot: dict[Any, Any]) -> bool:
    """Whether 64-bit mode was on when :func:`snapshot_config` was called."""
    return snapshot[_config.enable_x64]


def _states() -> list[Any]:
    states = [state for state in vars(_config).values()
              if isinstance(state, _config.State) and hasattr(state, "swap_local")]
    return [*states, _device_context, _abstract_mesh]


def snapshot_config() -> dict[Any, Any]:
    """What a program is lowered and compiled under whenever that is done: the settings that are part of what identifies a
    recorded operation, and the checks that would look at it. The others (logs, checks for leaks) are the user's of the moment."""
    traced = set(_config.trace_context_names())
    return {state: state.value for state in _states() if state in _RECORDED or state.name in traced}


def settings_now(snapshot: dict[Any, Any]) -> dict[Any, Any]:
    """``snapshot``, and all other settings as they are in this thread now: for work in another one."""
    return {**{state: state.value for state in _states()}, **snapshot}


_RECORDED = {
    _device_context, _abstract_mesh, _config.debug_nans, _config.debug_infs, _config.transfer_guard,
    _config.transfer_guard_host_to_device, _config.transfer_guard_device_to_host, _config.transfer_guard_device_to_device,
}  # fmt: skip


def traced_settings(snapshot: dict[Any, Any]) -> dict[str, Any]:
    """The settings of a :func:`snapshot_config` that are part of what identifies a recorded operation, by name."""
    traced = set(_config.trace_context_names())
    return {state.name: value for state, value in snapshot.items() if state.name in traced}


@contextlib.contextmanager
def restore_config(snapshot: dict[Any, Any]) -> Iterator[None]:
    """Runs its body under the configuration of ``snapshot``."""
    changed = [(state, value) for state, value in snapshot.items() if state.value is not value]
    before = [(state, state.swap_local(value)) for state, value in changed]
    try:
        yield
    finally:
        for state, value in reversed(before):
            state.set_local(value)


def default_device() -> Any:
    """The device on which operations on uncommitted values run."""
    device = _config.default_device.value
    if device is None:
        return jax.local_devices()[0]
    if isinstance(device, str):
        return jax.local_devices(backend=device)[0]
    return device


scopes: Any = _source_info_util._source_info_context
"""Its ``context.name_stack`` is the current name stack; as text for example ``jvp(MLP)/Dense_0``."""


# ---- building a program ------------------------------------------------------------------------------------


def new_eqn(invars: Sequence[Any], outvars: Sequence[Any], primitive: Any, params: dict[str, Any],
            effects: Any, context: Any, scope: str) -> Any:
    """An equation whose only source information is ``scope`` (no user lines: they must not enter cache keys)."""
    info = _source_info_util.new_source_info().replace(name_stack=_source_info_util.new_name_stack(scope))
    return _core.new_jaxpr_eqn(list(invars), list(outvars), primitive, params, effects, info, context)


def eqn_context() -> Any:
    """The part of the configuration that JAX stores with each equation."""
    return _core.current_jaxpr_eqn_context()


def new_var(aval: Any) -> Any:
    """A fresh variable."""
    return Var(aval)


def closed_jaxpr(invars: Sequence[Any], outvars: Sequence[Any], eqns: Sequence[Any]) -> Any:
    """A closed jaxpr without constants."""
    debug = _linear_util.DebugInfo("jit", "lazynb", tuple(f"x{i}" for i in range(len(invars))),
                                   tuple(f"y{i}" for i in range(len(outvars))))
    jaxpr = Jaxpr((), list(invars), list(outvars), list(eqns), _core.no_effects, debug)
    return jaxpr if ClosedJaxpr is Jaxpr else ClosedJaxpr(jaxpr, ())


def jaxpr_as_fun(jaxpr: Any) -> Callable[..., list[Any]]:
    """A function that binds the equations of a closed jaxpr."""
    return _core.jaxpr_as_fun(jaxpr)


def jaxpr_inputs(jaxpr: Any) -> list[Any]:
    """Variables of a closed jaxpr, those of its constants first."""
    inner = jaxpr.jaxpr if hasattr(jaxpr, "jaxpr") else jaxpr
    return [*inner.constvars, *inner.invars]


def is_jaxpr(value: Any) -> bool:
    """Whether ``value`` is a jaxpr, closed or not."""
    return isinstance(value, (Jaxpr, ClosedJaxpr))


def jaxprs_of(value: Any) -> list[Any]:
    """The jaxprs that a parameter of a primitive is or holds."""
    if is_jaxpr(value):
        return [value]
    return [one for one in value if is_jaxpr(one)] if isinstance(value, tuple | list) else []


def jaxprs_in(params: dict[str, Any]) -> list[Any]:
    """The jaxprs among the parameters of a primitive: the functions that it calls."""
    return [jaxpr for value in params.values() for jaxpr in jaxprs_of(value)]


def constants(jaxpr: Any) -> Sequence[Any]:
    """The values of the constants of a jaxpr; none for one that is not closed."""
    return getattr(jaxpr, "consts", ())


def with_content(jaxpr: Any, eqns: Sequence[Any], consts: Sequence[Any]) -> Any:
    """``jaxpr``, closed or not, with other equations and other values of its constants."""
    if isinstance(jaxpr, Jaxpr) and ClosedJaxpr is not Jaxpr:
        return jaxpr.replace(eqns=list(eqns))
    open_jaxpr = jaxpr.replace(eqns=list(eqns)) if ClosedJaxpr is Jaxpr else jaxpr.jaxpr.replace(eqns=list(eqns))
    return ClosedJaxpr(open_jaxpr, list(consts))


@contextlib.contextmanager
def lowering_settings() -> Iterator[None]:
    """Settings under which lazynb lowers: jit enabled, no source lines in locations."""
    with (_config.traceback_in_locations_limit(0), _config.disable_jit(False), set_current_trace(eval_trace), _checks_kept()):
        yield


@contextlib.contextmanager
def _checks_kept() -> Iterator[None]:
    """JAX's own ``with debug_nans(False)``, when it traces a jaxpr, leaves the thread without the hook that a global
    ``jax_debug_nans`` sets, so that compiled code is not checked any more (0.10, 0.12)."""
    before = _api._post_hook_state.get_local()
    try:
        yield
    finally:
        _api._post_hook_state.set_local(before)


@contextlib.contextmanager
def compiling_settings(cache: Any | None) -> Iterator[None]:
    """Settings under which lazynb compiles: a persistent cache (or none), with scopes as part of the key.

    JAX's key leaves debug information out, so that two programs which differ only in scopes would share an
    entry and show each other's names; ``include_metadata_in_key`` cures it.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(_config.compilation_cache_include_metadata_in_key(True))
        stack.enter_context(_config.persistent_cache_min_compile_time_secs(0.0))
        stack.enter_context(_config.enable_compilation_cache(cache is not None))
        if cache is not None:
            stack.enter_context(_borrowed_cache(cache))
        yield


_CACHE_STATE = ("_cache", "_cache_initialized", "_cache_checked", "_cache_used")
_cache_lock = threading.Lock()


@contextlib.contextmanager
def _borrowed_cache(cache: Any) -> Iterator[None]:
    """Lets JAX use ``cache`` for the compilations in its body. JAX opens one cache a process, and the user's own
    setting must stay what it is, hence the exchange."""
    with _cache_lock:
        before = {name: getattr(_compilation_cache, name) for name in _CACHE_STATE}
        vars(_compilation_cache).update(_cache=cache, _cache_initialized=True, _cache_checked=True, _cache_used=True)
        try:
            yield
        finally:
            vars(_compilation_cache).update(before)


def file_cache(path: str) -> Any:
    """JAX's persistent cache in the directory ``path``, without the check of contents that JAX can put around it: that unpacks
    what it is given."""
    found = _compilation_cache.get_file_cache(path)
    return getattr(found[0], "_base_cache", found[0]) if found is not None else None


def is_readable_entry(entry: bytes) -> bool:
    """Whether an entry of the persistent cache can be unpacked (JAX checks the sum of what it unpacks with zlib)."""
    try:
        _executable_in(entry)
    except Exception:
        return False
    return True


def _executable_in(entry: bytes) -> bytes:
    """The machine code in an entry of the persistent cache."""
    return _compilation_cache.extract_executable_and_time(_compilation_cache.decompress_executable(entry))[0]


def remove_entry(cache: Any, key: str) -> None:
    """Removes an entry from a :func:`file_cache`, which itself never writes over one."""
    (cache.path / f"{key}{_lru_cache._CACHE_SUFFIX}").unlink(missing_ok=True)


def move_entry(cache: Any, key: str, directory: Any) -> None:
    """Moves the file of an entry of a :func:`file_cache` into ``directory``."""
    name = f"{key}{_lru_cache._CACHE_SUFFIX}"
    (cache.path / name).replace(directory / name)


def user_cache_dir() -> str | None:
    """The compilation cache directory that JAX was given, if any."""
    return _config.compilation_cache_dir.value


# ---- values ------------------------------------------------------------------------------------------------


def abstract(value: Any) -> Any:
    """Shape, dtype and (where committed) sharding of an argument; a scalar is returned as it is."""
    if is_host_array(value) or isinstance(value, jax.ShapeDtypeStruct):
        return value
    aval = typeof(value)
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type,
                                sharding=value.sharding if is_committed(value) else None)


def is_committed(value: Any) -> bool:
    """Whether JAX may not move the array to another device."""
    return bool(getattr(value, "committed", False))


def device_assignment(sharding: Any) -> tuple[Any, ...]:
    """The devices of ``sharding``, in its order."""
    return tuple(sharding._device_assignment)


def uncommitted(value: Any) -> Any:
    """The same buffer as an array that JAX may move; a value that is no plain array is returned as it is.

    An executable with one committed input returns committed outputs only, also those that eager JAX computes
    from uncommitted values alone.
    """
    if type(value) is not ArrayImpl or not value._committed:
        return value
    return ArrayImpl(value.aval, value.sharding, value._arrays, committed=False, _skip_checks=True)


def committed(value: Any, device: Any) -> Any:
    """The same buffer, which is on ``device``, as an array that JAX may not move; a value that is no plain array is returned as
    it is."""
    if type(value) is not ArrayImpl:
        return value
    return ArrayImpl(value.aval, uncommitted_sharding(device), value._arrays, committed=True, _skip_checks=True)


numpy_array_p = _core.Primitive("numpy_array")
"""An array as NumPy has it: on no device of JAX's, though the operand may be committed to one."""
numpy_array_p.def_impl(lambda operand: uncommitted(operand.copy()))
numpy_array_p.def_abstract_eval(lambda aval: aval)
_mlir.register_lowering(numpy_array_p, lambda _, operand: [operand])


def inner_placement(primitive: Any, params: dict[str, Any]) -> tuple[Sequence[Any], bool]:
    """What an operation says of where things are: shardings and devices (of a call, of calls and constraints inside), and whether
    it moves anything to a kind of memory. Either makes JAX commit the results of a program."""
    moves = primitive.name in ("call_exported", "compute_on")
    shardings: list[Any] = [*params["in_shardings"], *params["out_shardings"]] if primitive.name in JIT_PRIMITIVES else []
    for jaxpr in jaxprs_in(params):
        inner = getattr(jaxpr, "jaxpr", jaxpr)
        shardings += [sharding for sharding, _ in _jax_dispatch.get_intermediate_shardings(inner)]
        moves = moves or bool(_pxla.jaxpr_transfer_mem_kinds(inner))
    return [sharding for sharding in shardings if sharding is not UNSPECIFIED], moves


def spans_devices(primitive: Any, params: dict[str, Any]) -> bool:
    """Whether an operation is, or calls, a function that was exported for several devices."""
    if primitive.name == "call_exported":
        return bool(params["exported"].nr_devices > 1)
    return any(spans_devices(eqn.primitive, eqn.params) for jaxpr in jaxprs_in(params) for eqn in jaxpr.eqns)


def takes_the_argument(params: dict[str, Any]) -> bool:
    """Whether a ``device_put`` with ``params`` gives away the memory of an argument."""
    return _array.xc.ArrayCopySemantics.DONATE_INPUT in params["copy_semantics"]


def is_cut_by_calls(dtype: Any) -> bool:
    """Whether a compiled call makes a scalar of ``dtype`` narrower: without 64-bit mode it does so, while 64-bit arrays, which
    0.12 makes on demand there, stay what they are."""
    return not _config.enable_x64.value and _dtypes.canonicalize_dtype(dtype) != dtype


conversion: Any = _lax_internal.convert_element_type_p
"""The primitive of conversions; its ``bind_with_trace`` is called with the trace, None while 0.12 processes another operation."""


def weak_scalar(value: Any) -> Any:
    """The plain Python number in one of JAX's typed scalars."""
    for python_type in (int, float, complex):
        if isinstance(value, python_type):
            return python_type(value)
    raise TypeError(type(value))


def stage(value: Any) -> Any:
    """``value`` (NumPy array or scalar) as a concrete array, as eager JAX makes it."""
    with set_current_trace(eval_trace):
        return eval_trace.stage_value(value)


def can_be_returned(aval: Any) -> bool:
    """Whether a program returns it as an array: no token, no reference, no float0, no type of element that JAX does not know."""
    return isinstance(aval, ShapedArray) and aval.dtype != float0 and not has_users_dtype(aval)


def has_users_dtype(aval: Any) -> bool:
    """Whether the elements of an array are neither numbers nor random keys: strings, or of a type that somebody added to JAX."""
    return isinstance(aval.dtype, _dtypes.ExtendedDType | np.dtypes.StringDType) and not is_key(aval)


def is_on_mesh(aval: Any) -> bool:
    """Whether the type of an array says how it lies on a mesh."""
    return not aval.sharding.mesh.empty


def is_key(aval: Any) -> bool:
    """Whether an array like ``aval`` holds random keys."""
    return jax.dtypes.issubdtype(aval.dtype, jax.dtypes.prng_key)


def concrete_array_has(aval: Any, name: str) -> bool:
    """Whether a concrete array of type ``aval`` has an attribute ``name``."""
    cls = _prng_key_array() if is_key(aval) else ArrayImpl
    return hasattr(cls, name) or name in getattr(cls, "__annotations__", ())


@functools.cache
def _prng_key_array() -> type:
    with set_current_trace(eval_trace):  # asked for while a thread is lazy, a key would be a lazy tensor
        return type(jax.random.key(0))


def array_attribute_error(aval: Any, name: str) -> AttributeError:
    """The error that eager JAX raises for an attribute that no array has."""
    cls = _prng_key_array() if is_key(aval) else ArrayImpl
    full = f"{cls.__module__}.{cls.__qualname__}" if cls is ArrayImpl else cls.__name__  # a C++ type writes its module
    return AttributeError(f"'{full}' object has no attribute '{name}'")


@functools.cache
def uncommitted_sharding(device: Any) -> Any:
    """The sharding of an uncommitted array on ``device``."""
    with set_current_trace(eval_trace), jax.default_device(device):
        return eval_trace.stage_value(np.zeros((), np.int32)).sharding


def is_concrete_sharding(sharding: Any) -> bool:
    """Whether a sharding names real devices, not an abstract mesh."""
    return bool(sharding._is_concrete)


@functools.cache
def stand_in(device: Any) -> Any:
    """Some array on ``device``."""
    with set_current_trace(eval_trace), jax.default_device(device):
        return eval_trace.stage_value(np.zeros((), np.float32))


# ---- values that outlive lazy mode ------------------------------------------------------------------------------------------

class DeviceGet:
    """``jax.device_get`` returns tracers as they are; a lazy tensor, which outlives lazy mode, has to give its value. JAX's own
    function is replaced for so long only as ``jax.device_get`` is about to read a lazy tensor."""

    def __init__(self) -> None:
        self._plain = _api._device_get
        self._caller = inspect.unwrap(_api.device_get).__code__
        self._threads: set[int] = set()  # those that are between the two halves of ``jax.device_get``
        self._ours: Any = None

    def register(self, is_lazy: Callable[[Any], bool], concrete: Callable[[Any], Any]) -> None:
        """Says what a lazy tensor is, and how it gives its value."""

        def device_get(leaf: Any) -> Any:
            self.done()  # JAX has hold of this function already
            return self._plain(concrete(leaf) if is_lazy(leaf) else leaf)

        self._ours = device_get

    def announced(self, caller: types.FrameType) -> None:
        """A lazy tensor was asked to come to the host, by ``caller``: the first half of ``jax.device_get``, if that is it."""
        frames = (caller, caller.f_back, caller.f_back and caller.f_back.f_back)  # 0.12 has two functions in between
        if any(frame is not None and frame.f_code is self._caller for frame in frames):
            self._threads.add(threading.get_ident())
            if _api._device_get is self._plain:
                _api._device_get = self._ours

    def done(self) -> None:
        """This thread is past it."""
        if self._threads:
            self._threads.discard(threading.get_ident())
        if not self._threads and _api._device_get is self._ours:
            _api._device_get = self._plain


device_get = DeviceGet()


def register_argument_type(cls: type, concrete: Callable[[Any], Any]) -> None:
    """Lets executables take arguments of type ``cls``, whose value is ``concrete(argument)``."""

    def shard(args: Sequence[Any], shardings: Any, layouts: Any, copy_semantics: Any) -> Any:
        return _pxla.shard_args(shardings, layouts, copy_semantics, [concrete(arg) for arg in args])

    _pxla.shard_arg_handlers[cls] = shard


def register_constant_type(cls: type, concrete: Callable[[Any], Any]) -> None:
    """Lets programs close over values of type ``cls``, a tracer's, that outlive the trace: what is traced ahead of time has them
    for constants, as it has arrays, and its lowering asks for ``concrete(constant)``.

    JAX makes leading arguments of the tracers that a jitted function closes over, and nobody hands them to what was compiled.
    """
    def init(traced: Any, types: Sequence[Any], params: dict[str, Any], in_tree: Any, out_tree: Any, consts: Sequence[Any],
             *more: Any) -> None:
        if consts and not any(isinstance(const, Tracer) and not isinstance(const, cls) for const in consts):
            types, params, consts = types[len(consts):], _closing_over(consts, params), []
        plain(traced, types, params, in_tree, out_tree, consts, *more)

    def constant(value: Any, aval: Any) -> Any:
        return _mlir.ir_constant(concrete(value), aval=aval)

    plain = _stages.Traced.__init__
    _stages.Traced.__init__ = functools.wraps(plain)(init)
    _mlir.register_constant_handler(cls, constant)


def register_placed_type(cls: type, placed: Callable[[Any], Any]) -> None:
    """Lets what is lowered ahead of time know where its arguments of type ``cls``, a tracer's, are: ``placed(argument)`` is a
    concrete array in the same place, or the sharding to which it is committed, or None where JAX may move it."""
    def type_of(argument: Any) -> Any:
        where = placed(argument) if isinstance(argument, cls) else None
        if where is None or isinstance(where, jax.sharding.Sharding):
            found = plain(argument)
            return found if where is None else _pjit.create_meta_ty(argument.aval, where, None, True, False)
        return plain(where)

    plain = _pjit.convert_to_metaty
    _pjit.convert_to_metaty = functools.wraps(plain)(type_of)


def register_own_files(directory: str) -> None:
    """Keeps JAX from taking lines of files in ``directory`` for the user's, in jaxprs and in what it compiles."""
    _source_info_util.register_exclusion(directory)


def _closing_over(consts: Sequence[Any], params: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a jitted function's call that closes over its first arguments, ``consts``."""
    count, jaxpr = len(consts), params["jaxpr"]
    if ClosedJaxpr is Jaxpr:
        closed = jaxpr.with_consts(consts)
    else:
        closed = ClosedJaxpr(_partial_eval.convert_invars_to_constvars(jaxpr.jaxpr, count), consts)
    rest = {name: params[name][count:] for name in ("in_shardings", "in_layouts", "donated_invars")}
    return {**params, "jaxpr": closed, **rest}


# ---- patches that hold while some thread is lazy -------------------------------------------------------------


def _core_seen_as_clean(is_lazy: Callable[[Any], bool]) -> types.ModuleType:
    """A view of ``jax._src.core`` in which the ambient lazy trace counts as no trace."""
    view = types.ModuleType(_core.__name__)
    view.__dict__.update(_core.__dict__)

    def trace_state_clean() -> bool:
        return _core.trace_state_clean() or is_lazy(_core.trace_ctx.trace)

    view.trace_state_clean = trace_state_clean  # type: ignore[attr-defined]
    view.trace_ctx = _TopLevelSeen(is_lazy)  # type: ignore[attr-defined]
    return view


class _TopLevelSeen:
    """JAX's context of tracing, in which the ambient lazy trace is the top level."""

    def __init__(self, is_lazy: Callable[[Any], bool]):
        self._is_lazy = is_lazy

    def __getattr__(self, name: str) -> Any:
        return getattr(_core.trace_ctx, name)

    def is_top_level(self) -> bool:
        return _core.trace_ctx.is_top_level() or (self._is_lazy(_core.trace_ctx.trace) and at_top_level())


# Meshes; a seed of one's own for ``stateful_rng``; whether an index fits a reference (0.10 does not ask).
_ASKING_FOR_THE_TOP_LEVEL = (_sharding_impls, _stateful_rng, _state_indexing)


def _core_without_tracers(cls: type) -> types.ModuleType:
    """A view of ``jax._src.core`` in which values of type ``cls`` are no tracers."""
    class Kind(type(Tracer)):  # type: ignore[misc]
        def __instancecheck__(self, value: Any) -> bool:
            return isinstance(value, _core.Tracer) and not isinstance(value, cls)

    view = types.ModuleType(_core.__name__)
    view.__dict__.update(_core.__dict__, Tracer=Kind("Tracer", (), {}))
    return view


def readable_errors(cls: type) -> tuple[Any, dict[str, Any]]:
    """Module and substitutes that let ``raise_if_error`` look at an error code of type ``cls``: it takes it for a traced one."""
    return _error_check, {"core": _core_without_tracers(cls)}


_INHERITED = object()
"""Stands for the value of a name that a class itself has not."""


class AmbientPatches:
    """What stands for something else while some thread is lazy. ``jax.set_mesh`` and others insist on a clean trace state,
    and executables compiled ahead of time refuse tracers: both are right for a transformation and wrong for a lazy notebook.

    Attributes:
      on: whether it is in place; None while that changes, and after a change that an interrupt ended: the next mends it.
    """

    def __init__(self, is_lazy: Callable[[Any], bool], concrete: Callable[[Any], Any]):
        self._concrete = concrete
        self._replaced: list[tuple[Any, dict[str, Any], dict[str, Any]]] = []
        self._turn: object = None
        self.on: bool | None = False
        self.substitute(_stages.Compiled, {"__call__": self._calling_concretely(_stages.Compiled.__call__)})
        for module in _ASKING_FOR_THE_TOP_LEVEL:
            self.substitute(module, {"core": _core_seen_as_clean(is_lazy)})

    def substitute(self, owner: Any, names: dict[str, Any]) -> None:
        """Lets ``names`` of the module or class ``owner`` stand for something else while some thread is lazy."""
        self._replaced.append((owner, names, {name: vars(owner).get(name, _INHERITED) for name in names}))

    def switch(self, on: bool) -> None:
        """Puts everything in place, or back. What somebody else has changed is theirs."""
        self._turn = turn = object()
        self.on = None
        for owner, ours, plain in self._replaced:
            now = vars(owner)
            if on:
                _assign(owner, {name: own for name, own in ours.items() if now.get(name, _INHERITED) is plain[name]})
            else:
                _assign(owner, {name: plain[name] for name, own in ours.items() if now.get(name) is own})
        if self._turn is turn:
            self.on = on
        else:  # another thread or a finalizer has switched in between: neither got what it wanted
            self._turn = self.on = None

    def _calling_concretely(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """An executable's ``__call__`` for arguments that may be lazy."""
        concrete = self._concrete

        def call_concrete(compiled: Any, /, *args: Any, **kwargs: Any) -> Any:
            if not is_eval(current_trace()):
                args, kwargs = jax.tree.map(concrete, (args, kwargs))
                if not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((args, kwargs))):
                    with set_current_trace(eval_trace):
                        return call(compiled, *args, **kwargs)
            return call(compiled, *args, **kwargs)

        return call_concrete


def _assign(owner: Any, names: dict[str, Any]) -> None:
    if isinstance(owner, types.ModuleType):
        vars(owner).update(names)
    else:
        for name, value in names.items():
            if value is _INHERITED:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


def is_ready(value: Any) -> bool:
    """Whether the value of a concrete array is there."""
    return bool(_plain(value).is_ready())


def _plain(value: Any) -> Any:
    """``value``, or the plain array that an array of random keys consists of."""
    return getattr(value, "_base_array", value)


def is_host_array(value: Any) -> bool:
    """Whether ``value`` is a NumPy array or scalar (JAX's typed arrays included)."""
    return isinstance(value, (np.ndarray, np.generic))




UNSPECIFIED = _sharding_impls.UNSPECIFIED
"""The sharding of an argument about which nothing was said."""

def elements(vector: Any, weak: bool) -> list[Any]:
    """The elements of a vector, weakly typed on demand: one operation for all of them, and one for each."""
    typed = _lax_internal._convert_element_type(vector, vector.dtype, weak_type=weak)
    return [jax.lax.squeeze(one, (0,)) for one in jax.lax.split(typed, [1] * vector.shape[0])]


def strongly_typed(value: Any) -> Any:
    """``value`` without weak type."""
    return _lax_internal._convert_element_type(value, typeof(value).dtype, weak_type=False)


no_effects = _core.no_effects


def capturing_call(compiled: Any) -> Callable[..., Any]:
    """What calls an executable with the least Python in between: JAX's C++ dispatch. Where that needs JAX's Python (the first
    call, one with arguments of another kind) the results are kept as soon as XLA gives them, see :class:`Captured`."""
    return _dispatch(compiled, compiled._executable.xla_executable) or compiled


def _dispatch(compiled: Any, loaded: Any) -> Callable[..., Any] | None:
    """JAX's C++ dispatch for ``compiled`` with ``loaded`` as XLA's executable; None where JAX has none for it."""
    executable, call = copy.copy(compiled._executable), copy.copy(compiled._executable.unsafe_call)
    executable.xla_executable, call.xla_executable = loaded, _Capturing(loaded)
    executable._unsafe_call = call
    found: Callable[..., Any] | None = executable.create_cpp_call(compiled._params._replace(executable=executable))
    return found


class Captured(threading.local):
    """Where the calls of this thread keep what XLA gave: first its own object for the results, then the arrays made of that.

    Between the two, and after them, runs Python code of JAX's in which an interrupt may arrive, when the memory of the inputs
    has been given away already.
    """

    into: list[Any] | None = None


captured = Captured()


def recovered(compiled: Any, kept: Sequence[Any]) -> Sequence[Any] | None:
    """The results that a call of ``compiled`` kept before it was interrupted; None if XLA gave none."""
    if not kept:
        return None
    if len(kept) == 1:
        return kept[0].consume_with_handlers(compiled._executable.unsafe_call.out_handler.handlers)
    return kept[1]


class _Capturing:
    """Stands for an executable of XLA's in JAX's Python code."""

    def __init__(self, loaded: Any):
        self._loaded = loaded

    def execute_sharded(self, buffers: Any, **more: Any) -> Any:
        into: list[Any] = captured.into if captured.into is not None else []
        if more:
            return self._loaded.execute_sharded(buffers, **more)
        into.clear()
        into.extend(map(self._loaded.execute_sharded, (buffers,)))  # C all the way: no signal is handled in between
        return _CapturingResults(into)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loaded, name)


class _CapturingResults:
    def __init__(self, into: list[Any]):
        self._into = into

    def consume_with_handlers(self, handlers: Any, **more: Any) -> Any:
        self._into.extend(map(functools.partial(self._into[0].consume_with_handlers, **more), (handlers,)))
        return self._into[1]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._into[0], name)


refusing_constants: list[tuple[Any, str]] = [(_lax_internal, "_trace_composite_to_jaxpr")]
"""Owner and name of what traces a function and raises where that closes over a tracer."""
if not hasattr(_stages.Traced, "with_consts_as_arg"):  # 0.12 makes arguments of them
    refusing_constants.append((_hijax.custom_vjp3, "__call__"))

attributed: list[tuple[Any, str]] = [(_lax_internal, "composite"), (jax.lax, "composite")]
"""Owner and name of what makes functions whose keyword arguments may be arrays, but no tracers."""

refusal_of_static: tuple[Any, str] = (_custom_derivatives, "_check_for_tracers")
"""Module and name of what raises where an argument of a custom_vjp function that is not differentiated holds a tracer."""

constant_taken: tuple[Any, str] = (_partial_eval.DynamicJaxprTrace, "new_const")
"""Class and name of what makes a value that a traced function closes over a constant of its jaxpr: ``(trace, value, ...)``."""

assembling: Any = _array
"""The module whose functions :data:`ASSEMBLING`, which are JAX's public ones too, make an array of others."""

ASSEMBLING = ("make_array_from_callback", "make_array_from_single_device_arrays", "make_array_from_process_local_data")

filling: Any = _lax_internal
"""The module whose ``full`` and ``full_like`` make arrays on a device."""


def call_here(compiled: Any, entry: bytes | None) -> Callable[..., Any] | None:
    """What runs an executable of XLA:CPU in the thread that calls it, so that the results are there when it returns; None where
    that cannot be had.

    XLA:CPU hands all but the cheapest programs (1,000 floating point operations) to a thread of its own, and JAX has no way to
    ask for anything else. Waking that thread takes longer than many a program runs. A program with a host callback, however,
    it runs in the calling thread. So the machine code is loaded once more, as one that has a callback, which it never calls.

    Arguments:
      entry: that of the persistent cache from which it was loaded, if it was: XLA cannot write down what it has read.
    """
    loaded: Any = compiled._executable.xla_executable
    devices = loaded.local_devices()
    if [device.platform for device in devices] != ["cpu"]:
        return None
    try:
        machine_code = loaded.serialize() if entry is None else _executable_in(entry)
        options = _compiler.get_compile_options(1, 1, device_assignment=np.array([[devices[0].id]]))
        again = loaded.client.deserialize_executable(
            machine_code, executable_devices=_xla_client.DeviceList(tuple(devices)), compile_options=options,
            host_callbacks=[_never_called])
    except Exception:  # a program that XLA cannot write down
        return None
    return _dispatch(compiled, again)


def _never_called(*_: Any) -> None:
    raise AssertionError("no program calls this")


linearisation: tuple[Any, str] = (_ad, "fallback_linearize_rule")
"""Module and name of what linearises a primitive that has no rule of its own:
``(primitive, is_vjp, nonzeros, *primals, **params)`` to results, nonzero tangents, residuals, ..., linear function."""


transposition: tuple[Any, str] = (_ad, "backward_pass3")
"""Module and name of what transposes a linear jaxpr: ``(jaxpr, transform_stack, consts, primals, cotangents)``, where the primals
that cotangents are wanted for are :class:`GradAccum`; a dictionary of logs on 0.12, None on 0.10."""
GradAccum = _ad.GradAccum
ValAccum = _ad.ValAccum
NullAccum = _ad.NullAccum
Zero = _ad.Zero



def new_accumulator(like: Any) -> Any:
    """An empty accumulator of the kind and type of ``like``."""
    return type(like)(like.aval)


def innermost(tracer: Any) -> Any:
    """The value that tracers of ``grad``, ``jvp`` and ``vmap`` around one another stand for; one of ``jit`` is its own."""
    while isinstance(tracer, (_ad.JVPTracer, LinearizeTracer, _batching.BatchTracer)):
        tracer = tracer.val if isinstance(tracer, _batching.BatchTracer) else tracer.primal
    return tracer


LinearizeTrace = _ad.LinearizeTrace
"""The trace of ``jax.grad``: ``parent_trace`` records operands, ``tangent_trace`` tangents."""
LinearizeTracer = _ad.LinearizeTracer


def traced(function: Callable[..., Sequence[Any]], avals: Sequence[Any]) -> Any:
    """``function`` as a closed jaxpr, for arguments of types ``avals``."""
    with set_current_trace(eval_trace), _checks_kept():
        return jax.make_jaxpr(function)(*[jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)
                                          for aval in avals])


as_function: Callable[[Any], Callable[..., list[Any]]] = _core.jaxpr_as_fun
"""A function that binds the equations of a closed jaxpr."""


def forwarded(jaxpr: Any) -> tuple[list[tuple[bool, int]], Callable[..., list[Any]] | None]:
    """For each output of a closed jaxpr, whether it is an input and the number of that, else the number of what the function
    returns, which computes the other outputs; None if there are none.

    Raises ValueError for a jaxpr with constants.
    """
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    if inner.constvars or any(isinstance(var, Literal) for var in inner.outvars):
        raise ValueError("constants")
    inputs = {var: number for number, var in enumerate(inner.invars)}
    fresh = list(dict.fromkeys(var for var in inner.outvars if var not in inputs))
    sources = [(var in inputs, inputs[var] if var in inputs else fresh.index(var)) for var in inner.outvars]
    return sources, as_function(closed_jaxpr(inner.invars, fresh, inner.eqns)) if fresh else None


def depending(jaxpr: Any, inputs: Sequence[Any]) -> list[bool]:
    """For each output of a closed jaxpr, whether it depends on one of the variables ``inputs``, as far as its equations tell."""
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    reached = set(inputs)
    for eqn in inner.eqns:
        if any(not isinstance(var, Literal) and var in reached for var in eqn.invars):
            reached.update(eqn.outvars)
    return [not isinstance(var, Literal) and var in reached for var in inner.outvars]


array_operators: dict[str, Callable[..., Any]] = dict(_array_methods._array_operators)
"""What ``+`` and the like do with an array, by name without underscores (``add``, ``radd``)."""

array_methods: dict[str, Any] = {
    name: method for name, method in _array_methods._array_methods.items()
    if name not in _array_methods._impl_only_array_methods}
"""The methods of an array that a tracer has too, by name."""


# ---- XLA's analyses --------------------------------------------------------------------------------------------------------

def cost_properties(text: str) -> dict[str, float] | None:
    """What XLA's cost analysis says of the HLO module ``text``, by XLA's names; None where this jaxlib or backend has none.

    A property that is 0 is left out; one that XLA does not know is -1 (or spoils the sum that it went into by -1).

    Raises:
      ValueError: XLA cannot read ``text``.
    """
    try:
        from jaxlib import _hlo, _jax
        analyse, read = _jax.hlo_module_cost_analysis, _hlo.hlo_module_from_text
    except (ImportError, AttributeError):
        return None
    try:
        module = read(text)
    except Exception as error:  # RuntimeError or one of XLA's own classes, by release
        raise ValueError(str(error).partition("\n")[0]) from None
    try:
        return dict(analyse(jax.local_devices()[0].client, module))
    except Exception:  # each backend has its own error for "not implemented"
        return None


@contextlib.contextmanager
def no_cache() -> Iterator[None]:
    """Compiles in its body without a persistent cache. JAX decides once a process whether it has one, at its first
    compilation; switching the cache off for that one alone would switch it off for good, hence the exchange."""
    with _cache_lock:
        before = {name: getattr(_compilation_cache, name) for name in _CACHE_STATE}
        vars(_compilation_cache).update(_cache_checked=True, _cache_used=False)
        try:
            yield
        finally:
            vars(_compilation_cache).update(before)


def new_profile() -> Any:
    """A running profiler session that records kernels and no Python calls; ``stop()`` ends it and returns the profile as bytes.

    ``jax.profiler.trace`` would write the same to a directory, take twice as long, and on 0.10 stay stuck for the rest of the
    process when it cannot write or when another session runs.

    Raises:
      RuntimeError: from ``stop()``, when another session was running already. The other one is none the worse for it.
    """
    from jaxlib import _profiler
    jax.local_devices()  # a session started before there is a backend records nothing of it
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    options.host_tracer_level = 2
    return _profiler.ProfilerSession(options)


# ---- whose memory an array has -----------------------------------------------------------------------------------------------


def buffers(value: Any) -> list[Any]:
    """The plain arrays, one a device, that a concrete array (or an array of random keys) consists of; none for other values, and
    for strings, which XLA keeps where nobody else can look."""
    plain = _plain(value)
    if type(plain) is not ArrayImpl or isinstance(plain.dtype, np.dtypes.StringDType):
        return []
    return [plain] if len(plain.sharding.device_set) == 1 else list(plain._arrays)


def with_buffers(value: Any, parts: Sequence[Any]) -> Any:
    """An array like ``value``, placement and commitment included, that consists of ``parts``; ``value`` may be deleted."""
    plain = _plain(value)
    made = ArrayImpl(plain.aval, plain.sharding, list(parts), committed=plain._committed, _skip_checks=True)
    return made if plain is value else type(value)(value._impl, made)


def moved(value: Any, others: Sequence[Any]) -> Any:
    """The memory of ``value`` as another array; ``value`` is deleted from here on.

    Arguments:
      others: arrays like its :func:`buffers`, which go in their place.
    """
    plain = _plain(value)
    taken = with_buffers(value, buffers(value))
    plain._replace_with(with_buffers(plain, others))
    plain.delete()
    return taken


def on_host(buffer: Any) -> bool:
    """Whether a plain array on one device lies in memory that Python code can reach."""
    return next(iter(buffer.sharding.device_set)).platform == "cpu"


def view(buffer: Any) -> Any:
    """What holds the memory of a plain array on one device of the host: while it lives the memory stays as it is, also when the
    array is deleted or donated (XLA then copies). Waits for the array.

    A DLPack capsule would do the same, but deleting an array that is still being computed then aborts the process (0.10, 0.12).
    """
    try:
        return memoryview(buffer)
    except BufferError:  # a type that Python's protocol has not. ``buffer`` would keep its view for good, hence another array
        return np.asarray(with_buffers(buffer, [buffer]))


def put(host: np.ndarray, buffer: Any) -> Any:
    """The NumPy array ``host`` as an array where ``buffer`` is, without a copy where its address allows that. That is no transfer
    of the user's, who may have guarded those."""
    if _guards_transfers():
        with _config.transfer_guard_host_to_device("allow"):
            return _pxla_batched_device_put(
                buffer.aval, buffer.sharding, [host], list(buffer.sharding.device_set), buffer._committed)
    return _pxla_batched_device_put(buffer.aval, buffer.sharding, [host], list(buffer.sharding.device_set), buffer._committed)


_pxla_batched_device_put = _pxla.batched_device_put


def watch_memory(borrowed: Callable[[Any, Any], None], shared: Callable[[Any], None]) -> None:
    """Reports arrays whose memory other code may write: ``borrowed(array, source)`` for one just made of memory of the host's
    (``source`` is None for DLPack), ``shared(array)`` for one handed out by DLPack.

    JAX takes over memory of NumPy arrays where it puts an array together from shards; 0.12 does that in C++ for arguments that it
    moves to devices. Nothing that the user sees is replaced.
    """
    def watched(handler: Callable[..., Any]) -> Callable[..., Any]:
        def shard(args: Sequence[Any], *rest: Any) -> Any:
            made = handler(args, *rest)
            for array, arg in zip(made, args):
                borrowed(array, arg)
            return made

        return shard

    def put_shards(aval: Any, sharding: Any, xs: Sequence[Any], *rest: Any, **more: Any) -> Any:
        made = _pxla_batched_device_put(aval, sharding, xs, *rest, **more)
        for x in xs:
            if is_host_array(x):
                borrowed(made, x)
        return made

    def place(array: Any, *rest: Any) -> Any:
        borrowed(array, None)
        return _place_array(array, *rest)

    def export(x: Any, *rest: Any, **more: Any) -> Any:
        shared(x)
        return _to_dlpack(x, *rest, **more)

    handlers = _pxla.shard_arg_handlers
    for cls, handler in list(handlers.items()) if hasattr(_config, "use_cpp_shard_args") else ():
        if isinstance(cls, type) and issubclass(cls, np.ndarray) and not issubclass(cls, np.ma.MaskedArray):
            handlers[cls] = watched(handler)
    _pxla.batched_device_put = put_shards
    _dlpack._place_array = place
    _dlpack._to_dlpack = export


_place_array, _to_dlpack = _dlpack._place_array, _dlpack._to_dlpack


def existing_arrays() -> list[Any]:
    """The arrays that exist; none where JAX was not used yet (asking would start its backends)."""
    return jax.live_arrays() if _xla_bridge.backends_are_initialized() else []


# ---- running and failing -----------------------------------------------------------------------------------------------------


def out_of_memory(size: int) -> Exception:
    """The error that eager JAX raises where ``size`` bytes cannot be had."""
    return jax.errors.JaxRuntimeError(f"RESOURCE_EXHAUSTED: Out of memory allocating {size} bytes.")


def deleted_awaited() -> Exception:
    """The error that eager JAX raises where a deleted array is waited for."""
    return jax.errors.JaxRuntimeError("INVALID_ARGUMENT: BlockHostUntilReady() called on deleted or donated buffer")
