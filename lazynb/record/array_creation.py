"""The creation of arrays on a device: JAX's ``full`` and ``full_like`` with a sharding.

For a tracer JAX's own functions ignore the sharding, which is right only inside of a program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from lazynb import _jax as jc
from lazynb._jax.names import PLACED
from lazynb.record.placement import own_device
from lazynb.record.runtime import runtime
from lazynb.record.stand_in import stand_in
from lazynb.record.tensor import LazyTensor
from lazynb.record.trace import LazyTrace


def _full(plain: Callable[..., Any]) -> Callable[..., Any]:
    def full(shape: Any, fill_value: Any, dtype: Any = None, *, sharding: Any = None) -> Any:
        if not _is_placed(sharding):
            return plain(shape, fill_value, dtype, sharding=sharding)
        if own_device(sharding) == jc.default_device():
            return jax.device_put(plain(shape, fill_value, dtype), sharding)
        return _at_once(lambda value: plain(shape, value, dtype, sharding=sharding), fill_value)

    return full


def _full_like(plain: Callable[..., Any]) -> Callable[..., Any]:
    def full_like(x: Any, fill_value: Any, dtype: Any = None, shape: Any = None, sharding: Any = None) -> Any:
        if sharding is None and x.__class__ is LazyTensor:
            sharding = _taken_over(x, dtype, shape)
        if not _is_placed(sharding) or own_device(sharding) == jc.default_device():
            return plain(x, fill_value, dtype, shape, sharding)  # it calls ``full``
        return _at_once(lambda value: plain(x, value, dtype, shape, sharding), fill_value)

    return full_like


def _is_placed(sharding: Any) -> bool:
    """Whether this thread records and ``sharding`` names devices."""
    if sharding is None or jc.current_trace().__class__ is not LazyTrace:
        return False
    return jc.is_concrete_sharding(sharding)


def _at_once(make: Callable[[Any], Any], fill_value: Any) -> Any:
    """A new array on another device than that of the programs, made at once: it needs no pending value."""
    trace = jc.current_trace()
    if fill_value.__class__ is LazyTensor:
        fill_value = fill_value._force("device_put", "full")
    with jc.set_current_trace(jc.eval_trace):
        array = make(fill_value)
    return LazyTensor(trace, jc.typeof(array), None, 0, array)


def _taken_over(x: LazyTensor, dtype: Any, shape: Any) -> Any:
    """The sharding that an array like ``x`` gets from it, by eager JAX's rule; None if it gets none."""
    if not x._committed or (dtype is None and x.weak_type):
        return None
    devices = x._known_devices()
    if devices is not None and len(devices) == 1:
        sharding = jc.uncommitted_sharding(devices[0])
    else:
        known = x._known_sharding()
        sharding = known if known is not None else runtime().eager_sharding(x)
        if sharding is None:
            sharding = x.sharding
    has_same_shape = shape is None or tuple(shape) == x.shape
    if sharding is not None and (has_same_shape or sharding.is_fully_replicated):
        return sharding
    return None


def substitutes() -> list[tuple[Any, dict[str, Any]]]:
    """The substitutes for JAX's own functions while some thread is lazy."""
    module = jc.filling
    own = {name: getattr(module, name) for name in PLACED}
    ours = {"full": _full(own["full"]), "full_like": _full_like(own["full_like"])}
    public = {name: stand_in(call, own[name], jax.lax, name) for name, call in ours.items()}
    return [(module, ours), (jax.lax, public)]
