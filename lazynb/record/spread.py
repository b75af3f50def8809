"""Moves of pending values to another sharding: recorded as calls of an identity with ``out_shardings``.

Eager JAX does so itself for a sharding constraint (``pjit._sharding_constraint_impl``). In a program XLA may
remove what it does not need; a result of the program has the sharding that was asked for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from lazynb import _jax as jc
from lazynb.record.tensor import LazyTensor


def can_be_spread(value: Any, target: Any, trace: Any) -> bool:
    """Whether ``value`` is pending in ``trace`` and a program can put it at ``target``.

    A program runs on one set of devices, so a committed value stays on its own; ``target`` says how it lies
    there. On a mesh of one device it is computed first: JAX names what comes of it by the mesh in its type,
    which a pending value's does not have on Auto axes, and XLA's answer for one device does not tell.
    """
    if not isinstance(value, LazyTensor) or value._pending is None or value._trace is not trace:
        return False
    if not jc.is_plainly_spread(target) or jc.is_key(value.aval) or target.num_devices == 1:
        return False
    committed = value._pending.owner(value._slot).devices
    return committed is None or committed == jc.device_assignment(target)


def spread(value: LazyTensor, target: Any, name: str) -> Any:
    """``value`` at the sharding ``target``; ``value`` itself if it is known to be there.

    Arguments:
      name: that of the function which moves it, for the graph.

    Raises JAX's error if the sharding does not fit.
    """
    if value._known_sharding() == target and value._committed:
        return value
    return _move(name, target)(value)


def on_mesh(value: LazyTensor, mesh: Any) -> Any:
    """``value``, whose type is on no mesh, whole on each device of the Explicit ``mesh`` in force."""
    return _typed("on_mesh", NamedSharding(mesh, PartitionSpec()))(value)


def typed(value: LazyTensor, target: Any) -> Any:
    """``value`` with a type that lies as ``target``, on Explicit axes, and with a sharding that is spelled as
    that: a type has all its axes, and ``P('data')`` and ``P('data', None)`` are two shardings to JAX."""
    return _typed("out_shardings", target)(value)


@functools.lru_cache(maxsize=64)
def _typed(name: str, target: Any) -> Callable[[Any], Any]:
    def reshard(value: Any) -> Any:
        return jax.sharding.reshard(value, target)

    reshard.__name__ = reshard.__qualname__ = name
    return jax.jit(reshard, out_shardings=target)


@functools.lru_cache(maxsize=256)
def _move(name: str, target: Any) -> Callable[[Any], Any]:
    def identity(value: Any) -> Any:
        return value

    identity.__name__ = identity.__qualname__ = name
    return jax.jit(identity, out_shardings=target)
