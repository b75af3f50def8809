"""Primitives: the facts that JAX knows of an operation before it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax._src import array as _array, core as _core, dispatch as _jax_dispatch
from jax._src.interpreters import ad as _ad, mlir as _mlir, pxla as _pxla
from jax._src.lax import lax as _lax_internal, linalg as _linalg
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec

from lazynb._jax.arrays import UNSPECIFIED
from lazynb._jax.building import jaxprs_in
from lazynb._jax.config import lowering_settings, settings_kept
from lazynb._jax.tracing import eval_trace, set_current_trace

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


def may_be_refused(primitive: Any, avals: Sequence[Any], params: dict[str, Any]) -> bool:
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


def hands_on(eqn: Any) -> bool:
    """Whether transposing an equation of a linear program hands on the cotangent itself: to the backward rule
    of a user's function, or through a copy."""
    return eqn.primitive is _ad.custom_lin_p or eqn.primitive is _lax_internal.copy_p


def can_be_lowered(primitive: Any) -> bool:
    """Whether a primitive can be part of a program. A user's own may have an evaluating function only."""
    return primitive in _mlir._lowerings or any(
        primitive in rules for rules in _mlir._platform_specific_lowerings.values()
    )


def runs_by_itself(primitive: Any) -> bool:
    """Whether eager JAX runs ``primitive`` by a function of its own and does not compile it. The shapes of
    the results then need not be known beforehand."""
    return (
        getattr(primitive.impl, "func", None) is not _jax_dispatch.apply_primitive
        and primitive.name not in JIT_PRIMITIVES
    )


_LAPACK = {value for value in vars(_linalg).values() if isinstance(value, _core.Primitive)}


def lower_alone(primitive: Any, avals: Sequence[Any], params: dict[str, Any]) -> None:
    """Lowers an operation. Raises what JAX raises."""
    with settings_kept(), lowering_settings(), set_current_trace(eval_trace):
        jax.jit(lambda *values: primitive.bind(*values, **params)).lower(
            *[jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type) for aval in avals]
        )


def inner_placement(primitive: Any, params: dict[str, Any]) -> tuple[Sequence[Any], bool]:
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


def mesh_of_call(primitive: Any, params: dict[str, Any]) -> set[tuple[Any, ...]]:
    """The devices of the mesh in whose context a jitted function is called; an empty set without one.

    Only ``pjit`` has a context that :func:`lazynb._jax.mesh_in_force` does not know, ``with mesh:``.
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


def abstract_sizes(primitive: Any, params: dict[str, Any]) -> set[int]:
    """The sizes of the meshes that an operation names without devices, in what it calls too."""
    sizes = set()
    for value in params.values():
        mesh = getattr(value, "mesh", value) if isinstance(value, NamedSharding | AbstractMesh) else None
        if not isinstance(mesh, AbstractMesh) or mesh.empty or _says_nothing(primitive, value):
            continue
        sizes.add(mesh.size)
    for jaxpr in jaxprs_in(params):
        for eqn in jaxpr.eqns:
            sizes |= abstract_sizes(eqn.primitive, eqn.params)
    return sizes


def _says_nothing(primitive: Any, sharding: Any) -> bool:
    """Whether JAX runs an operation that names ``sharding`` on any devices: on Auto axes it is only the type
    of the result. In a gradient the cotangent of a sharded value has such a type before it meets the value.
    """
    if primitive.name == "sharding_constraint" or not isinstance(sharding, NamedSharding):
        return False
    return bool(sharding.mesh.are_all_axes_auto)


def spans_devices(primitive: Any, params: dict[str, Any]) -> bool:
    """Whether an operation is, or calls, a function that was exported for several devices, or puts an array
    of a host's on those of all hosts: in a program that one hands on its argument."""
    if primitive.name in _BETWEEN_HOSTS:
        return True
    if primitive.name == "call_exported":
        return bool(params["exported"].nr_devices > 1)
    return any(spans_devices(eqn.primitive, eqn.params) for jaxpr in jaxprs_in(params) for eqn in jaxpr.eqns)


_BETWEEN_HOSTS = {"host_local_array_to_global_array", "global_array_to_host_local_array"}


def takes_the_argument(params: dict[str, Any]) -> bool:
    """Whether a ``device_put`` with ``params`` gives away the memory of an argument."""
    return _array.xc.ArrayCopySemantics.DONATE_INPUT in params["copy_semantics"]


def function_called_back(params: dict[str, Any]) -> Any:
    """The user's function in the parameters of a ``pure_callback``."""
    return params["callback"].callback_func
