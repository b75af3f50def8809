"""A ``shard_map`` outside of a jitted function: recorded as a call of the jitted one.

Eager JAX runs its operations one by one, each over all devices of the mesh. A function that JAX cannot trace
(it branches on a value), or that eager JAX alone refuses, still runs so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from lazynb import _jax as jc
from lazynb.record.tensor import LazyTensor


class NotAsJitted(Exception):
    """Eager JAX refuses the call; a jitted function may make it."""


def call_mapped(trace: Any, primitive: Any, fun: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """The results of a ``shard_map``, in the form in which JAX's traces give them.

    Arguments:
      trace: that which records the call.
      fun: what JAX gives its traces for the user's function.
      params: the parameters of the call.

    Raises NotAsJitted, and whatever tracing the function raises.
    """
    form: list[Any] = []

    def shard_map(*values: Any) -> list[Any]:
        results = primitive.bind(*values, subfuns=(fun,), **params)
        flat: list[Any] = []
        form.append(results.map(lambda value: flat.append(value)))
        return flat

    mesh = jc.mesh_of_mapped(params["mesh"], [arg for arg in args if _tells_its_sharding(arg)])
    with jc.set_current_trace(_NamingShardings(trace, mesh)):
        results = iter(jax.jit(shard_map)(*args))
    return form[-1].map(lambda _: next(results))


def _tells_its_sharding(arg: Any) -> bool:
    return arg.__class__ is not LazyTensor or not arg.is_pending or arg._known_sharding() is not None


class _NamingShardings(jc.Trace):
    """Hands a call of a jitted ``shard_map`` on, with the ``out_shardings`` that eager JAX gives it.

    They are known when the function is traced, and it is traced once, as eager JAX runs it once.
    """

    def __init__(self, trace: Any, mesh: Any):
        super().__init__()
        self._trace, self._mesh = trace, mesh

    def process_primitive(self, primitive: Any, tracers: Sequence[Any], params: dict[str, Any], /) -> Any:
        (mapped,) = [eqn for eqn in params["jaxpr"].eqns if eqn.primitive.name == "shard_map"]
        if any(map(jc.is_refused_in_mapped, mapped.params["jaxpr"].eqns)):
            raise NotAsJitted
        shardings = jc.mapped_shardings(mapped, self._mesh)
        if shardings is not None:
            params = {**params, "out_shardings": tuple(shardings)}
        return self._trace.process_primitive(primitive, tracers, params)
