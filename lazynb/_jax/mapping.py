"""``shard_map`` outside of a jitted function: what eager JAX, which runs its operations one by one, does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax._src import dispatch as _jax_dispatch, mesh as _mesh, shard_map as _shard_map
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec

from lazynb._jax.tracing import eval_trace


def eval_shard_map(primitive: Any, fun: Any, values: Sequence[Any], params: dict[str, Any]) -> Any:
    """Runs a shard_map at once."""
    trace: Any = eval_trace
    return trace.process_shard_map(primitive, fun, values, **params)


def mesh_of_mapped(mesh: Any, args: Sequence[Any]) -> Any:
    """The mesh on whose devices eager JAX runs a ``shard_map`` over ``mesh``, which may name none.

    Raises JAX's error if neither the mesh in force nor the shardings of ``args`` tell it.
    """
    if not isinstance(mesh, AbstractMesh):
        return mesh
    concrete = _mesh.get_concrete_mesh()
    return _shard_map.get_mesh_from_args(args, mesh if concrete.empty else concrete)


def mapped_shardings(eqn: Any, mesh: Any) -> list[NamedSharding] | None:
    """The shardings that eager JAX asks for of the results of a ``shard_map``; None if it asks for none.

    Arguments:
      mesh: that of :func:`mesh_of_mapped`.
    """
    if not isinstance(mesh, Mesh) or set(mesh.axis_names) != eqn.params["newly_manual_axes"]:
        return None
    specs: Sequence[PartitionSpec] = eqn.params["out_specs"]
    return [NamedSharding(mesh, spec) for spec in specs]


def is_refused_in_mapped(eqn: Any) -> bool:
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
