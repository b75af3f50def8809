"""The operations that PyTorch's decompositions are written in."""

from __future__ import annotations

import operator
from typing import Any

import jax
import jax.numpy as jnp
import torch

from lazynb.torch.dispatch import dispatch as d
from lazynb.torch.dispatch.registry import lowering
from lazynb.torch.torchax_import import import_torchax

aten = torch.ops.aten
lax = jax.lax
_env = import_torchax().default_env()
prims = torch.ops.prims


@lowering(prims.div.default)
def prim_div(x: Any, y: Any) -> Any:
    if x.dtype.kind not in "fcV":
        raise NotImplementedError
    return x / y


@lowering(prims.convert_element_type.default)
def prim_convert(x: Any, dtype: Any) -> Any:
    return lax.convert_element_type(x, d.jax_dtype(dtype))


@lowering(prims.sum.default)
def prim_sum(x: Any, dims: Any = None, output_dtype: Any = None) -> Any:
    return jnp.sum(x, axis=None if dims is None else tuple(dims))


@lowering(prims.var.default)
def prim_var(x: Any, dims: Any = None, correction: float = 1, output_dtype: Any = None) -> Any:
    return jnp.var(x, axis=None if dims is None else tuple(dims), ddof=int(correction))


@lowering(prims.broadcast_in_dim.default)
def prim_broadcast(x: Any, shape: Any, dimensions: Any) -> Any:
    return lax.broadcast_in_dim(x, tuple(shape), tuple(dimensions))


@lowering(prims.copy_strided.default)
def prim_copy(x: Any, stride: Any) -> Any:
    return x


for _name, _function in {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "neg": operator.neg,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "maximum": jnp.maximum,
    "minimum": jnp.minimum,
    "where": jnp.where,
    "pow": operator.pow,
    "exp": jnp.exp,
    "log": jnp.log,
    "sqrt": jnp.sqrt,
    "rsqrt": lax.rsqrt,
    "tanh": jnp.tanh,
    "abs": jnp.abs,
    "floor": jnp.floor,
    "ceil": jnp.ceil,
    "sin": jnp.sin,
    "cos": jnp.cos,
    "reciprocal": jnp.reciprocal,
    "sign": jnp.sign,
    "fmod": lax.rem,
    "remainder": jnp.remainder,
}.items():
    lowering(getattr(prims, _name).default)(_function)
