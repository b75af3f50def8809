"""Facts about an operation before it runs: types, effects, shardings, placement; calls of jitted
functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CodeType, FrameType
from typing import Any

import jax
import numpy as np
from jax._src import (
    array as _array,
    core as _core,
    dispatch as _jax_dispatch,
    dtypes as _dtypes,
    mesh as _mesh,
    pjit as _pjit,
    shard_map as _shard_map,
    traceback_util as _traceback_util,
    tree_util as _tree_util,
)
from jax._src.interpreters import ad as _ad, mlir as _mlir, pxla as _pxla
from jax._src.lax import lax as _lax_internal, linalg as _linalg
from jax._src.lib import jax_jit as _jax_jit
from jax._src.random import prng as _prng
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec

from lazynb.jax_compat.jax_arrays import UNSPECIFIED, ShapedArray
from lazynb.jax_compat.jax_config import lowering_settings, settings_preserved
from lazynb.jax_compat.jaxprs import jaxprs_in, no_effects
from lazynb.jax_compat.tracers import eval_trace, set_current_trace

# ---- Eager shard_map ------------------------------------------------------------------------------------


def eval_shard_map(primitive: Any, fun: Any, values: Sequence[Any], params: dict[str, Any]) -> Any:
    """Runs a shard_map at once."""
    trace: Any = eval_trace
    return trace.process_shard_map(primitive, fun, values, **params)


def eager_shard_map_mesh(mesh: Any, args: Sequence[Any]) -> Any:
    """The mesh on whose devices eager JAX runs a ``shard_map`` over ``mesh``, which may be abstract. Raises
    JAX's error if neither the current mesh nor the shardings of ``args`` determine it."""
    if not isinstance(mesh, AbstractMesh):
        return mesh
    concrete = _mesh.get_concrete_mesh()
    return _shard_map.get_mesh_from_args(args, mesh if concrete.empty else concrete)


def eager_shard_map_shardings(eqn: Any, mesh: Any) -> list[NamedSharding] | None:
    """The shardings that eager JAX requires of the results of a ``shard_map``; None if it requires none.

    Arguments:
      mesh: the result of :func:`eager_shard_map_mesh`.
    """
    if not isinstance(mesh, Mesh) or set(mesh.axis_names) != eqn.params["newly_manual_axes"]:
        return None
    specs: Sequence[PartitionSpec] = eqn.params["out_specs"]
    return [NamedSharding(mesh, spec) for spec in specs]


def eager_shard_map_refuses(eqn: Any) -> bool:
    """Whether eager JAX refuses an operation in a ``shard_map`` that it accepts in a jitted one."""
    if eqn.primitive is _jax_dispatch.device_put_p:
        return any(device is not None for device in eqn.params["devices"])
    return _shard_map.eager_rules.get(eqn.primitive) is _shard_map._ref_raise_valueerror


def register_mapped_type(cls: type, concrete: Callable[[Any], Any]) -> None:
    """Lets an eager ``shard_map`` close over values of ``cls``, a class of tracers.

    Arguments:
      concrete: returns the array that is the value of a tracer.
    """

    def to_val_mat_pair(trace: Any, value: Any) -> Any:
        return plain(trace, concrete(value) if isinstance(value, cls) else value)

    plain = _shard_map.ShardMapTrace.to_val_mat_pair
    _shard_map.ShardMapTrace.to_val_mat_pair = to_val_mat_pair


JIT_PRIMITIVES = ("jit",)
"""Names of the primitives that a call of a jitted function binds."""

# These parameters serve differentiation only, and do not belong to the program that runs.
DIFFERENTIATION_PARAMS = {
    "custom_jvp_call": {"jvp_jaxpr_fun"},
    "custom_vjp_call": {"fwd_jaxpr_thunk", "bwd", "out_trees"},
}


def abstract_eval(primitive: Any, avals: Sequence[Any], params: dict[str, Any]) -> tuple[list[Any], Any]:
    """The types of the results of ``primitive``, and its effects. Raises the errors of tracing it."""
    out, effects = primitive.abstract_eval(*avals, **params)
    return (list(out) if primitive.multiple_results else [out]), effects


def may_fail_lowering(primitive: Any, avals: Sequence[Any], params: dict[str, Any]) -> bool:
    """Whether JAX may refuse the operation when it lowers it, and not before.

    It refuses types for which LAPACK has no routine, a way to multiply that the device does not have, a seed
    that is no integer, forward-mode differentiation of a function with only a reverse rule, a function that
    was exported for other platforms, and a sort that is neither stable nor unstable. ``np.argsort`` of a JAX
    array requests such a sort, and continues after the refusal.
    """
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


def transpose_forwards_cotangent(eqn: Any) -> bool:
    """Whether the transposition of an equation of a linear program forwards the cotangent itself: to the
    backward rule of a user's function, or through a copy."""
    return eqn.primitive is _ad.custom_lin_p or eqn.primitive is _lax_internal.copy_p


def can_be_lowered(primitive: Any) -> bool:
    """Whether a primitive can be part of a program. A user's own may have only an evaluating function."""
    return primitive in _mlir._lowerings or any(
        primitive in rules for rules in _mlir._platform_specific_lowerings.values()
    )


def has_python_impl(primitive: Any) -> bool:
    """Whether eager JAX runs ``primitive`` by a Python function and does not compile it. Then the shapes of
    the results need not be known before."""
    return (
        getattr(primitive.impl, "func", None) is not _jax_dispatch.apply_primitive
        and primitive.name not in JIT_PRIMITIVES
    )


_LAPACK = {value for value in vars(_linalg).values() if isinstance(value, _core.Primitive)}


def lower_single(primitive: Any, avals: Sequence[Any], params: dict[str, Any]) -> None:
    """Lowers an operation. Raises JAX's errors."""
    with settings_preserved(), lowering_settings(), set_current_trace(eval_trace):
        jax.jit(lambda *values: primitive.bind(*values, **params)).lower(
            *[jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type) for aval in avals]
        )


def named_placement(primitive: Any, params: dict[str, Any]) -> tuple[Sequence[Any], bool]:
    """The shardings and devices that an operation names, and whether it moves anything to a memory kind. They
    belong to a call, or to calls and constraints inside. Both make JAX commit the results of a program."""
    moves = primitive.name in ("call_exported", "compute_on")
    shardings: list[Any] = []
    if primitive.name in JIT_PRIMITIVES:
        shardings += [*params["in_shardings"], *params["out_shardings"]]
    shardings += _of_mesh(primitive, params)
    for jaxpr in jaxprs_in(params):
        inner = getattr(jaxpr, "jaxpr", jaxpr)
        shardings += [sharding for sharding, _ in _jax_dispatch.get_intermediate_shardings(inner)]
        moves = moves or bool(_pxla.jaxpr_transfer_mem_kinds(inner))
    return [sharding for sharding in shardings if sharding is not UNSPECIFIED], moves


def _of_mesh(primitive: Any, params: dict[str, Any]) -> list[Any]:
    """A sharding on the mesh that a ``shard_map`` names, if that has devices."""
    if primitive.name != "shard_map" or isinstance(params["mesh"], AbstractMesh):
        return []
    return [NamedSharding(params["mesh"], PartitionSpec())]


def context_mesh_devices(primitive: Any, params: dict[str, Any]) -> set[tuple[Any, ...]]:
    """The devices of the mesh in whose context a jitted function is called; an empty set without one. Only
    ``pjit`` has a context that :func:`lazynb.jax_compat.current_mesh_devices` does not return, ``with
    mesh:``."""
    mesh = params.get("ctx_mesh") if primitive.name in JIT_PRIMITIVES else None
    if not isinstance(mesh, Mesh) or mesh.empty:
        return set()
    return {mesh._flat_devices_tuple}


def names_layouts(params: dict[str, Any]) -> bool:
    """Whether a jitted function names memory layouts, which only a separate program obeys."""
    return any(
        layouts.count(None) < len(layouts) for layouts in (params["in_layouts"], params["out_layouts"])
    )


def abstract_mesh_sizes(primitive: Any, params: dict[str, Any]) -> set[int]:
    """The sizes of the meshes that an operation names without devices, nested calls included."""
    sizes = set()
    for value in params.values():
        mesh = getattr(value, "mesh", value) if isinstance(value, NamedSharding | AbstractMesh) else None
        if not isinstance(mesh, AbstractMesh) or mesh.empty or _ignores_sharding(primitive, value):
            continue
        sizes.add(mesh.size)
    for jaxpr in jaxprs_in(params):
        for eqn in jaxpr.eqns:
            sizes |= abstract_mesh_sizes(eqn.primitive, eqn.params)
    return sizes


def _ignores_sharding(primitive: Any, sharding: Any) -> bool:
    """Whether JAX runs an operation that names ``sharding`` on any devices: on Auto axes the sharding only
    belongs to the type of the result. In a gradient the cotangent of a sharded value has such a type before
    it meets the value."""
    if primitive.name == "sharding_constraint" or not isinstance(sharding, NamedSharding):
        return False
    return bool(sharding.mesh.are_all_axes_auto)


def spans_devices(primitive: Any, params: dict[str, Any]) -> bool:
    """Whether an operation is, or calls, a function that was exported for several devices, or puts a host
    array on the devices of all hosts: in a program such an operation forwards its argument."""
    if primitive.name in _HOST_LOCAL_PRIMITIVES:
        return True
    if primitive.name == "call_exported":
        return bool(params["exported"].nr_devices > 1)
    return any(spans_devices(eqn.primitive, eqn.params) for jaxpr in jaxprs_in(params) for eqn in jaxpr.eqns)


_HOST_LOCAL_PRIMITIVES = {"host_local_array_to_global_array", "global_array_to_host_local_array"}


def donates_operand(params: dict[str, Any]) -> bool:
    """Whether a ``device_put`` with ``params`` donates an argument."""
    return _array.xc.ArrayCopySemantics.DONATE_INPUT in params["copy_semantics"]


def function_called_back(params: dict[str, Any]) -> Any:
    """The user's function in the parameters of a ``pure_callback``."""
    return params["callback"].callback_func


# ---- Calls of jitted functions in Python ----------------------------------------------------------------
# ``jax.jit`` handles concrete arrays in C++. For a call with any tracer it calls Python: first to find the
# program for the arguments (:data:`INFER_PARAMS`), then to run it (:data:`RUN_PJIT`), and last to decide
# whether the program must be rebuilt (:data:`NEED_TO_REBUILD`).

pjit_module: Any = _pjit
INFER_PARAMS, RUN_PJIT, NEED_TO_REBUILD = "_infer_params", "_run_python_pjit", "_need_to_rebuild_with_fdo"
"""The module, and the names of three functions of it. They take ``(function, info, args, kwargs)``,
``(program, operands, function, args, kwargs)``, and a profiler; the second gets the result of the first."""

jit_primitive: Any = _pjit.jit_p

cache_miss_code: CodeType | None = next(
    (one for one in _pjit._cpp_pjit.__code__.co_consts if getattr(one, "co_name", "") == "cache_miss"), None
)
"""The code object that makes such a call. ``lower``, ``trace``, ``eval_shape`` only find the program."""


def enclosing_cache_miss_frame(frame: FrameType | None) -> FrameType | None:
    """The nearest frame of :data:`cache_miss_code`, at or above ``frame``."""
    while frame is not None and frame.f_code is not cache_miss_code:
        frame = frame.f_back
    return frame


def caller_of_jit(call: FrameType) -> FrameType:
    """The frame that called a jitted function; ``call`` is the frame of :data:`cache_miss_code`."""
    caller = call.f_back or call
    if caller.f_code.co_filename == _traceback_util.__file__ and caller.f_back is not None:
        return caller.f_back
    return caller


KeyArray = _prng.PRNGKeyArray
"""An array of random keys, which is not a plain array."""

canonical_value = _dtypes.canonicalize_value
"""The conversion of an argument before JAX binds a primitive: a NumPy array gets a type of JAX."""


def call_signature(info: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, list[Any]]:
    """The key of a call apart from the array types: the tree structure of each argument, and the values of
    static arguments; and the arrays in the arguments."""
    signature, leaves = _jax_jit.parse_arguments(
        args,
        tuple(kwargs.values()),
        tuple(kwargs.keys()),
        info.static_argnums,
        info.static_argnames,
        _tree_util.tracing_registry,
    )
    return signature, leaves


def _anchor() -> None:
    """A function for the cache key in :func:`keep_until_caches_cleared`."""


def keep_until_caches_cleared(thing: Any) -> None:
    """Keeps ``thing`` alive as long as JAX keeps its current trace caches: until ``jax.clear_caches()``, or
    ``clear_cache()`` of any jitted function. It becomes part of a key in JAX's own cache."""
    _pjit._infer_params_cached(_anchor, thing, None, (), None)


def is_pure_call(info: Any, program: Any) -> bool:
    """Whether a call of the program only computes: its arguments and results may lie anywhere, and the
    program depends only on the types of its arguments."""
    params = program.params
    jaxpr = params["jaxpr"]
    return (
        not (info.use_resource_env or params["compiler_options_kvs"] or names_layouts(params))
        and all(one is UNSPECIFIED for one in (*params["in_shardings"], *params["out_shardings"]))
        and jaxpr.effects == no_effects
        and not getattr(jaxpr, "is_high", False)
        and not getattr(getattr(jaxpr, "jaxpr", None), "is_high", False)
        and all(isinstance(aval, ShapedArray) for aval in program.in_avals)
        and not _mesh.get_abstract_mesh()._any_axis_manual
    )
