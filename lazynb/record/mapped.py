"""A ``shard_map`` outside of a jitted function: recorded as a call of the jitted one.

Eager JAX runs its operations one by one, each over all devices of the mesh. A function that JAX cannot trace
(it branches on a value) still runs so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax


def call_mapped(primitive: Any, fun: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """The results of a ``shard_map``, in the form in which JAX's traces give them.

    Arguments:
      fun: what JAX gives its traces for the user's function.
      params: the parameters of the call.

    Raises whatever tracing the function raises.
    """
    form: list[Any] = []

    def shard_map(*values: Any) -> list[Any]:
        results = primitive.bind(*values, subfuns=(fun,), **params)
        flat: list[Any] = []
        form.append(results.map(lambda value: flat.append(value)))
        return flat

    results = iter(jax.jit(shard_map)(*args))
    return form[-1].map(lambda _: next(results))
