"""Moving a pending value to where it will be anyway: recorded, since nothing has to run for it."""

from __future__ import annotations

from typing import Any

import jax

from lazynb import _jax_compat as jc
from lazynb.record.tensor import LazyTensor


def own_device(target: Any) -> Any:
    """The device that ``target`` (a device or a sharding) stands for, in its usual memory; None for any other
    target."""
    if isinstance(target, jax.Device):
        return target
    if isinstance(target, jax.sharding.SingleDeviceSharding):
        (device,) = target.device_set
        return device if target == jc.uncommitted_sharding(device) else None
    return None


def stays(value: Any, target: Any, trace: Any) -> bool:
    """Whether ``value`` is pending in ``trace`` and its program will leave it at ``target``, a device or
    sharding."""
    if (
        not isinstance(value, LazyTensor)
        or value._pending is None
        or value._trace is not trace
        or jc.is_key(value.aval)
    ):
        return False
    device = own_device(target)
    return device is not None and value._known_devices() == (device,)


def committed_to(
    primitive: Any, params: dict[str, Any], devices: set[tuple[Any, ...]]
) -> set[tuple[Any, ...]]:
    """The devices to which an operation commits its results, or what it would: several are an error.

    Arguments:
      devices: those to which its operands are committed.
    """
    if primitive is jc.numpy_array_p:
        return set()
    if primitive.name == "device_put":
        device = own_device(params["devices"][0])
        return devices or ({(device,)} if device is not None else devices)
    shardings, moves = jc.inner_placement(primitive, params)
    named = devices | {(device,) for device in map(own_device, shardings) if device is not None}
    return named or ({(jc.default_device(),)} if moves and not shardings else named)


def is_same(value: Any, sharding: Any) -> bool:
    """Whether a lazy tensor has ``sharding``, as far as that is known without running anything; None asks for
    nothing."""
    if sharding is None:
        return True
    known = value._value.sharding if isinstance(value._value, jax.Array) else value._known_sharding()
    return known is not None and bool(known == sharding)
