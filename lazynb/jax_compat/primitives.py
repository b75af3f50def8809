"""Primitives: the facts that JAX knows of an operation before it runs."""

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

# ---- ``shard_map`` outside of a jitted function: what eager JAX, which runs its operations one by one, does


def eval_shard_map(primitive: Any, fun: Any, values: Sequence[Any], params: dict[str, Any]) -> Any:
    """Runs a shard_map at once."""
    trace: Any = eval_trace
    return trace.process_shard_map(primitive, fun, values, **params)


def eager_shard_map_mesh(mesh: Any, args: Sequence[Any]) -> Any:
    """The mesh on whose devices eager JAX runs a ``shard_map`` over ``mesh``, which may name none.

    Raises JAX's error if neither the mesh in force nor the shardings of ``args`` tell it.
    """
    if not isinstance(mesh, AbstractMesh):
        return mesh
    concrete = _mesh.get_concrete_mesh()
    return _shard_map.get_mesh_from_args(args, mesh if concrete.empty else concrete)


def eager_shard_map_shardings(eqn: Any, mesh: Any) -> list[NamedSharding] | None:
    """The shardings that eager JAX asks for of the results of a ``shard_map``; None if it asks for none.

    Arguments:
      mesh: that of :func:`mesh_of_mapped`.
    """
    if not isinstance(mesh, Mesh) or set(mesh.axis_names) != eqn.params["newly_manual_axes"]:
        return None
    specs: Sequence[PartitionSpec] = eqn.params["out_specs"]
    return [NamedSharding(mesh, spec) for spec in specs]


def eager_shard_map_refuses(eqn: Any) -> bool:
    """Whether eager JAX refuses an operation of a ``shard_map`` that it takes in a jitted one."""
    if eqn.primitive is _jax_dispatch.device_put_p:
        return any(device is not None for device in eqn.params["devices"])
    return _shard_map.eager_rules.get(eqn.primitive) is _shard_map._ref_raise_valueerror


def register_mapped_type(cls: type, concrete: Callable[[Any], Any]) -> None:
    """Lets a ``shard_map`` that runs at once close over values of ``cls``, a class of tracers.

    Arguments:
      concrete: gives the array that is the value of one.
    """

    def to_val_mat_pair(trace: Any, value: Any) -> Any:
        return plain(trace, concrete(value) if isinstance(value, cls) else value)

    plain = _shard_map.ShardMapTrace.to_val_mat_pair
    _shard_map.ShardMapTrace.to_val_mat_pair = to_val_mat_pair


JIT_PRIMITIVES = ("jit",)
"""Names of the primitives that a call of a jitted function binds."""

# These parameters serve differentiation only. What they hold is no part of the program that runs.
DIFFERENTIATION_PARAMS = {
    "custom_jvp_call": {"jvp_jaxpr_fun"},
    "custom_vjp_call": {"fwd_jaxpr_thunk", "bwd", "out_trees"},
}


def abstract_eval(primitive: Any, avals: Sequence[Any], params: dict[str, Any]) -> tuple[list[Any], Any]:
    """The types of the results of ``primitive``, and its effects. Raises what tracing it raises."""
    out, effects = primitive.abstract_eval(*avals, **params)
    return (list(out) if primitive.multiple_results else [out]), effects


def may_fail_lowering(primitive: Any, avals: Sequence[Any], params: dict[str, Any]) -> bool:
    """Whether JAX may refuse the operation, and does so only when it lowers it.

    It refuses types for which LAPACK has no routine, a way to multiply that the device does not have, a seed
    that is no integer, forward-mode differentiation of a function with a reverse rule only, a function that
    was exported for other platforms, and a sort that is neither stable nor unstable. ``np.argsort`` of an
    array of JAX's asks for such a sort, and goes on by itself when it is refused.
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
    """Whether transposing an equation of a linear program hands on the cotangent itself: to the backward rule
    of a user's function, or through a copy."""
    return eqn.primitive is _ad.custom_lin_p or eqn.primitive is _lax_internal.copy_p


def can_be_lowered(primitive: Any) -> bool:
    """Whether a primitive can be part of a program. A user's own may have an evaluating function only."""
    return primitive in _mlir._lowerings or any(
        primitive in rules for rules in _mlir._platform_specific_lowerings.values()
    )


def has_python_impl(primitive: Any) -> bool:
    """Whether eager JAX runs ``primitive`` by a function of its own and does not compile it. The shapes of
    the results then need not be known beforehand."""
    return (
        getattr(primitive.impl, "func", None) is not _jax_dispatch.apply_primitive
        and primitive.name not in JIT_PRIMITIVES
    )


_LAPACK = {value for value in vars(_linalg).values() if isinstance(value, _core.Primitive)}


def lower_single(primitive: Any, avals: Sequence[Any], params: dict[str, Any]) -> None:
    """Lowers an operation. Raises what JAX raises."""
    with settings_preserved(), lowering_settings(), set_current_trace(eval_trace):
        jax.jit(lambda *values: primitive.bind(*values, **params)).lower(
            *[jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type) for aval in avals]
        )


def named_placement(primitive: Any, params: dict[str, Any]) -> tuple[Sequence[Any], bool]:
    """The shardings and devices that an operation names, and whether it moves anything to a kind of memory.

    They are those of a call, and of calls and constraints inside. Either makes JAX commit the results
    of a program.
    """
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
    """A sharding on the mesh that a ``shard_map`` names, if it names devices."""
    if primitive.name != "shard_map" or isinstance(params["mesh"], AbstractMesh):
        return []
    return [NamedSharding(params["mesh"], PartitionSpec())]


def context_mesh_devices(primitive: Any, params: dict[str, Any]) -> set[tuple[Any, ...]]:
    """The devices of the mesh in whose context a jitted function is called; an empty set without one.

    Only ``pjit`` has a context that :func:`lazynb.jax_compat.current_mesh_devices` does not know, ``with
    mesh:``.
    """
    mesh = params.get("ctx_mesh") if primitive.name in JIT_PRIMITIVES else None
    if not isinstance(mesh, Mesh) or mesh.empty:
        return set()
    return {mesh._flat_devices_tuple}


def names_layouts(params: dict[str, Any]) -> bool:
    """Whether a jitted function says how arrays lie in memory, which only a program of its own obeys."""
    return any(
        layouts.count(None) < len(layouts) for layouts in (params["in_layouts"], params["out_layouts"])
    )


def abstract_mesh_sizes(primitive: Any, params: dict[str, Any]) -> set[int]:
    """The sizes of the meshes that an operation names without devices, in what it calls too."""
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
    """Whether JAX runs an operation that names ``sharding`` on any devices: on Auto axes it is only the type
    of the result. In a gradient the cotangent of a sharded value has such a type before it meets the value.
    """
    if primitive.name == "sharding_constraint" or not isinstance(sharding, NamedSharding):
        return False
    return bool(sharding.mesh.are_all_axes_auto)


def spans_devices(primitive: Any, params: dict[str, Any]) -> bool:
    """Whether an operation is, or calls, a function that was exported for several devices, or puts an array
    of a host's on those of all hosts: in a program that one hands on its argument."""
    if primitive.name in _HOST_LOCAL_PRIMITIVES:
        return True
    if primitive.name == "call_exported":
        return bool(params["exported"].nr_devices > 1)
    return any(spans_devices(eqn.primitive, eqn.params) for jaxpr in jaxprs_in(params) for eqn in jaxpr.eqns)


_HOST_LOCAL_PRIMITIVES = {"host_local_array_to_global_array", "global_array_to_host_local_array"}


def donates_operand(params: dict[str, Any]) -> bool:
    """Whether a ``device_put`` with ``params`` gives away the memory of an argument."""
    return _array.xc.ArrayCopySemantics.DONATE_INPUT in params["copy_semantics"]


def function_called_back(params: dict[str, Any]) -> Any:
    """The user's function in the parameters of a ``pure_callback``."""
    return params["callback"].callback_func


# ---- Calls of jitted functions that JAX makes in Python ---------------------------------------------------
# ``jax.jit`` knows concrete arrays in C++. For a call with any tracer it asks Python: first which program the
# arguments want (:data:`infer`), then what that gives (:data:`run`), and last whether the program is to be
# made anew (:data:`finish`).

pjit_module: Any = _pjit
INFER_PARAMS, RUN_PJIT, NEED_TO_REBUILD = "_infer_params", "_run_python_pjit", "_need_to_rebuild_with_fdo"
"""The module, and the names of three functions of it. They take ``(function, info, args, kwargs)``,
``(program, operands, function, args, kwargs)``, and a profiler; the second gets what the first returned."""

jit_primitive: Any = _pjit.jit_p

cache_miss_code: CodeType | None = next(
    (one for one in _pjit._cpp_pjit.__code__.co_consts if getattr(one, "co_name", "") == "cache_miss"), None
)
"""The code that makes such a call. Others ask for the program alone: ``lower``, ``trace``, ``eval_shape``."""


def enclosing_cache_miss_frame(frame: FrameType | None) -> FrameType | None:
    """The nearest frame of :data:`calling`, from ``frame`` on."""
    while frame is not None and frame.f_code is not cache_miss_code:
        frame = frame.f_back
    return frame


def caller_of_jit(call: FrameType) -> FrameType:
    """The frame that called a jitted function, whose call is made in the frame ``call``."""
    caller = call.f_back or call
    if caller.f_code.co_filename == _traceback_util.__file__ and caller.f_back is not None:
        return caller.f_back
    return caller


KeyArray = _prng.PRNGKeyArray
"""An array of random keys, which is no plain array."""

canonical_value = _dtypes.canonicalize_value
"""What JAX makes of an argument before it binds a primitive to it: a NumPy array has a type of JAX's then."""


def call_signature(info: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, list[Any]]:
    """What identifies the arguments of a call apart from the types of the arrays: the structure of each, and
    the values of those that are static; and the arrays in it."""
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
    """Stands for a function in :func:`keep_as_traced`."""


def keep_until_caches_cleared(thing: Any) -> None:
    """Keeps ``thing`` as long as JAX keeps what it has traced until now: until ``jax.clear_caches()``, or
    ``clear_cache()`` of any jitted function. It becomes part of a key in JAX's own cache."""
    _pjit._infer_params_cached(_anchor, thing, None, (), None)


def is_pure_call(info: Any, program: Any) -> bool:
    """Whether a call of the program does nothing but compute: its arguments and results may lie anywhere, and
    nothing but the types of its arguments decides what it is."""
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
