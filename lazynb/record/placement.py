"""The placement of pending values: a move to the device where a value will be anyway runs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from lazynb import _jax as jc
from lazynb.record.tensor import LazyTensor


def own_device(target: Any) -> Any:
    """The single device of ``target``, a device or a sharding in the usual memory.

    Returns None for any other target.
    """
    if isinstance(target, jax.Device):
        return target
    if isinstance(target, jax.sharding.SingleDeviceSharding):
        (device,) = target.device_set
        if target == jc.uncommitted_sharding(device):
            return device
    return None


def stays(value: Any, target: Any, trace: Any) -> bool:
    """Whether ``value`` is pending in ``trace`` and will be at ``target``, a device or sharding."""
    if not isinstance(value, LazyTensor) or value._pending is None:
        return False
    if value._trace is not trace or jc.is_key(value.aval):
        return False
    device = own_device(target)
    return device is not None and value._known_devices() == (device,)


def committed_to(
    primitive: Any, params: dict[str, Any], devices: set[tuple[Any, ...]]
) -> set[tuple[Any, ...]]:
    """The sets of devices to which an operation commits its results. More than one set is an error.

    It is JAX's rule (``pxla.lower_sharding_computation``): a program runs on the devices of its arguments, of
    the shardings that it names, and of the mesh in force (``jax.set_mesh``), and any of them commits what it
    gives.

    Arguments:
      devices: the sets to which its operands are committed.
    """
    if primitive is jc.numpy_array_p:
        return set()
    if primitive.name == "device_put":
        device = own_device(params["devices"][0])
        if devices or device is None:
            return devices
        return {(device,)}
    shardings, moves = jc.inner_placement(primitive, params)
    named = {jc.device_assignment(sharding) for sharding in shardings if jc.is_concrete_sharding(sharding)}
    committed = devices | named | jc.mesh_in_force()
    if moves and not committed:
        return {(jc.default_device(),)}
    return committed


def take_in(args: Sequence[Any], shardings: Sequence[Any]) -> bool:
    """Whether the committed arguments of a jitted function are where its ``in_shardings`` say.

    JAX's rule (``pjit._resolve_in_shardings``): one that is elsewhere is an error, and is not moved. One of
    which only a run can tell where it is runs.
    """
    if shardings.count(jc.UNSPECIFIED) == len(shardings):
        return True
    for arg, sharding in zip(args, shardings, strict=True):
        if sharding is jc.UNSPECIFIED or not _is_committed(arg):
            continue
        pending = arg.__class__ is LazyTensor and arg._value is None
        there = arg._place() if pending else arg.sharding
        if there is None:
            there = arg._force("sharding", "in_shardings").sharding
        if not sharding.is_equivalent_to(there, arg.ndim):
            return False
    return True


def _is_committed(arg: Any) -> bool:
    if isinstance(arg, jc.Tracer):
        return False
    return isinstance(arg, jax.Array) and jc.is_committed(arg)


def fits_mesh(
    operation: Any, results: Sequence[Any], devices: tuple[Any, ...] | None, program: tuple[Any, ...]
) -> bool:
    """Whether the meshes that an operation and the types of its results name are of its devices.

    Arguments:
      devices: those to which it commits its results; None if JAX may move them.
      program: those on which it runs.
    """
    meshes = [aval.sharding.mesh for aval in results if jc.is_on_mesh(aval) and not jc.is_auto(aval)]
    if devices is None and meshes:
        return False
    sizes = {mesh.size for mesh in meshes} | jc.abstract_sizes(operation.primitive, operation.params)
    return sizes <= {len(program)}


def is_same(value: Any, sharding: Any) -> bool:
    """Whether a lazy tensor is known to have ``sharding``; None fits each tensor. Runs nothing."""
    if sharding is None:
        return True
    if isinstance(value._value, jax.Array):
        known = value._value.sharding
    else:
        known = value._known_sharding()
    return known is not None and bool(known == sharding)
