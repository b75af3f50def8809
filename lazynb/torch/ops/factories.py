"""New tensors: ranges, and arrays of one value."""

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
    """JAX's dtype for ``dtype``, or, if that is None, for what PyTorch makes of ``numbers``."""
    if dtype is None:
        has_float = any(isinstance(number, float) for number in numbers)
        dtype = torch.get_default_dtype() if has_float else torch.int64
    return d.jax_dtype(dtype)


@lowering(aten.arange.default)
def arange_end(end: Any, dtype: Any = None, **_: Any) -> Any:
    return arange(0, end, 1, dtype)


@lowering(aten.arange.start, aten.arange.start_step)
def arange(start: Any, end: Any, step: Any = 1, dtype: Any = None, **_: Any) -> Any:
    wanted = _type(dtype, start, end, step)
    count = max(0, int(np.ceil((end - start) / step)))
    if wanted.kind in "iu":
        numbers = lax.iota(wanted, count)
        start, step = int(start), int(step)
    else:
        numbers = lax.iota(np.dtype(np.float64), count)
    if step != 1:
        numbers = numbers * step
    if start:
        numbers = numbers + start
    return numbers


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
