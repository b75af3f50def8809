"""New tensors."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from lazynb.torch.dispatch import dispatch as d
from lazynb.torch.dispatch.registry import fill, lowering
from lazynb.torch.torchax_import import import_torchax

aten = torch.ops.aten
lax = jax.lax
_env = import_torchax().default_env()


def _type(dtype: Any, *numbers: Any) -> Any:
    if dtype is not None:
        return d.jax_dtype(dtype)
    return d.jax_dtype(
        torch.get_default_dtype() if any(isinstance(n, float) for n in numbers) else torch.int64
    )


@lowering(aten.arange.default)
def arange_end(end: Any, dtype: Any = None, **_: Any) -> Any:
    return arange(0, end, 1, dtype)


@lowering(aten.arange.start, aten.arange.start_step)
def arange(start: Any, end: Any, step: Any = 1, dtype: Any = None, **_: Any) -> Any:
    wanted = _type(dtype, start, end, step)
    count = max(0, int(np.ceil((end - start) / step)))
    found = lax.iota(wanted if wanted.kind in "iu" else np.dtype(np.float64), count)
    if wanted.kind in "iu":
        start, step = int(start), int(step)
    return (found if step == 1 else found * step) + start if start else (found if step == 1 else found * step)


@lowering(aten.linspace.default)
def linspace(start: Any, end: Any, steps: int, dtype: Any = None, **_: Any) -> Any:
    return jnp.linspace(start, end, steps, dtype=_type(dtype, 0.0))


@lowering(aten.eye.default, aten.eye.m)
def eye(n: int, m: int | None = None, dtype: Any = None, **_: Any) -> Any:
    return jnp.eye(n, m, dtype=_type(dtype, 0.0))


@lowering(aten.full.default)
def full(size: Any, value: Any, dtype: Any = None, **_: Any) -> Any:
    return jnp.full(tuple(size), value, dtype=None if dtype is None else d.jax_dtype(dtype))


@lowering(aten.zeros.default)
def zeros(size: Any, dtype: Any = None, **_: Any) -> Any:
    return jnp.zeros(tuple(size), _type(dtype, 0.0))


@lowering(aten.ones.default)
def ones(size: Any, dtype: Any = None, **_: Any) -> Any:
    return jnp.ones(tuple(size), _type(dtype, 0.0))


@lowering(aten.scalar_tensor.default)
def scalar_tensor(value: Any, dtype: Any = None, **_: Any) -> Any:
    return jnp.full((), value, _type(dtype, 0.0))


@fill(aten.zero_)
def zero(layout: Any) -> Any:
    return jnp.zeros(layout.shape, d.jax_dtype(layout.dtype))


@fill(aten.fill_.Scalar)
def fill_scalar(layout: Any, value: Any) -> Any:
    return jnp.full(layout.shape, value, d.jax_dtype(layout.dtype))
