"""Elementwise operations, with operators wherever there is one, as their recording is recalled; products and
reductions."""

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


@lowering(aten.add.Tensor, aten.add.Scalar)
def add(x: Any, y: Any, alpha: Any = 1) -> Any:
    return x + y if alpha == 1 else x + y * alpha


@lowering(aten.sub.Tensor, aten.sub.Scalar)
def sub(x: Any, y: Any, alpha: Any = 1) -> Any:
    return x - y if alpha == 1 else x - y * alpha


@lowering(aten.rsub.Tensor, aten.rsub.Scalar)
def rsub(x: Any, y: Any, alpha: Any = 1) -> Any:
    return y - (x if alpha == 1 else x * alpha)


@lowering(aten.div.Tensor, aten.div.Scalar, aten.true_divide)
def div(x: Any, y: Any) -> Any:
    return x / y


_BINARY = {
    (aten.mul.Tensor, aten.mul.Scalar): operator.mul,
    (aten.eq.Tensor, aten.eq.Scalar): operator.eq,
    (aten.ne.Tensor, aten.ne.Scalar): operator.ne,
    (aten.lt.Tensor, aten.lt.Scalar): operator.lt,
    (aten.le.Tensor, aten.le.Scalar): operator.le,
    (aten.gt.Tensor, aten.gt.Scalar): operator.gt,
    (aten.ge.Tensor, aten.ge.Scalar): operator.ge,
    (aten.bitwise_and.Tensor, aten.bitwise_and.Scalar): operator.and_,
    (aten.bitwise_or.Tensor, aten.bitwise_or.Scalar): operator.or_,
    (aten.bitwise_xor.Tensor, aten.bitwise_xor.Scalar): operator.xor,
    (aten.maximum.default,): jnp.maximum,
    (aten.minimum.default,): jnp.minimum,
    (aten.logical_and.default,): jnp.logical_and,
    (aten.logical_or.default,): jnp.logical_or,
    (aten.logical_xor.default,): jnp.logical_xor,
    (aten.mm.default,): operator.matmul,
    (aten.bmm.default,): operator.matmul,
    (aten.mv.default,): operator.matmul,
    (aten.dot.default,): operator.matmul,
}
for _operations, _function in _BINARY.items():
    lowering(*_operations)(_function)

# Tensors of different dtypes are brought to one before these: PyTorch's rule for it differs from JAX's.
d.promoting.update(
    {
        aten.add.Tensor,
        aten.sub.Tensor,
        aten.mul.Tensor,
        aten.div.Tensor,
        aten.eq.Tensor,
        aten.ne.Tensor,
        aten.lt.Tensor,
        aten.le.Tensor,
        aten.gt.Tensor,
        aten.ge.Tensor,
        aten.maximum.default,
        aten.minimum.default,
        aten.bitwise_and.Tensor,
        aten.bitwise_or.Tensor,
        aten.bitwise_xor.Tensor,
        aten.pow.Tensor_Tensor,
        aten.remainder.Tensor,
        aten.fmod.Tensor,
        aten.floor_divide.default,
        aten.div.Tensor_mode,
    }
)


def _floating(function: Any) -> Any:
    """Integers become the default floating type first, as PyTorch does."""

    def on_floats(x: Any) -> Any:
        return function(x if x.dtype.kind in "fcV" else x.astype(d.jax_dtype(torch.get_default_dtype())))

    return on_floats


for _operation, _function in {
    aten.exp: jnp.exp,
    aten.log: jnp.log,
    aten.sqrt: jnp.sqrt,
    aten.rsqrt: lax.rsqrt,
    aten.sin: jnp.sin,
    aten.cos: jnp.cos,
    aten.tanh: jnp.tanh,
    aten.sigmoid: jax.nn.sigmoid,
    aten.log1p: jnp.log1p,
    aten.expm1: jnp.expm1,
    aten.erf: jax.scipy.special.erf,
    aten.reciprocal: lambda x: 1 / x,
    aten.log2: jnp.log2,
    aten.exp2: jnp.exp2,
}.items():
    lowering(_operation)(_floating(_function))

lowering(aten.neg)(operator.neg)
lowering(aten.relu)(lambda x: jnp.maximum(x, 0))
lowering(aten.logical_not)(jnp.logical_not)
lowering(aten.bitwise_not)(operator.invert)
lowering(aten.where.self)(jnp.where)


def _whole_power(x: Any, y: Any) -> Any:
    """Integers: a negative power of anything but 1 and -1 is 0, as PyTorch has it."""
    found = jnp.power(x, jnp.maximum(y, 0))
    unit = jnp.where(jnp.equal(x, 1), 1, jnp.where(jnp.equal(x, -1), 1 - 2 * jnp.abs(jnp.remainder(y, 2)), 0))
    return jnp.where(jnp.less(y, 0), unit, found)


@lowering(aten.pow.Scalar, aten.pow.Tensor_Tensor)
def power(x: Any, y: Any) -> Any:
    whole = all(isinstance(one, int) or (hasattr(one, "dtype") and one.dtype.kind in "iu") for one in (x, y))
    return _whole_power(x, y) if whole else jnp.power(x, y)


lowering(aten.pow.Tensor_Scalar)(
    lambda x, y: x * x if y == 2 else jnp.sqrt(x) if y == 0.5 and x.dtype.kind == "f" else x**y
)


@lowering(aten.addcmul.default)
def addcmul(x: Any, a: Any, b: Any, value: Any = 1) -> Any:
    return x + (a * b if value == 1 else value * a * b)


@lowering(aten.addcdiv.default)
def addcdiv(x: Any, a: Any, b: Any, value: Any = 1) -> Any:
    return x + (a / b if value == 1 else value * (a / b))


@lowering(aten.lerp.Scalar, aten.lerp.Tensor)
def lerp(x: Any, end: Any, weight: Any) -> Any:
    return x + weight * (end - x)


@lowering(aten.addmm.default)
def addmm(x: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    product = a @ b if alpha == 1 else (a @ b) * alpha
    return product + (x if beta == 1 else x * beta) if beta != 0 else product


@lowering(aten.baddbmm.default)
def baddbmm(x: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    return addmm(x, a, b, beta, alpha)


@lowering(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    return jnp.where(mask, jnp.asarray(value, x.dtype), x)


@lowering(aten._softmax.default)
def softmax(x: Any, dim: int, half_to_float: bool) -> Any:
    return (
        jax.nn.softmax(x.astype(jnp.float32) if half_to_float else x, axis=dim)
        if x.ndim
        else jnp.ones_like(x)
    )


@lowering(aten._log_softmax.default)
def log_softmax(x: Any, dim: int, half_to_float: bool) -> Any:
    return (
        jax.nn.log_softmax(x.astype(jnp.float32) if half_to_float else x, axis=dim)
        if x.ndim
        else jnp.zeros_like(x)
    )


@lowering(aten._softmax_backward_data.default)
def softmax_backward(grad: Any, result: Any, dim: int, dtype: Any) -> Any:
    inner = grad * result
    return inner - result * inner.sum(axis=dim, keepdims=True)


@lowering(aten._log_softmax_backward_data.default)
def log_softmax_backward(grad: Any, result: Any, dim: int, dtype: Any) -> Any:
    return grad - jnp.exp(result) * grad.sum(axis=dim, keepdims=True)


@lowering(aten.tanh_backward.default)
def tanh_backward(grad: Any, result: Any) -> Any:
    return grad * (1 - result * result)


@lowering(aten.sigmoid_backward.default)
def sigmoid_backward(grad: Any, result: Any) -> Any:
    return grad * (1 - result) * result


@lowering(aten.threshold_backward.default)
def threshold_backward(grad: Any, x: Any, threshold: Any) -> Any:
    return jnp.where(x <= threshold, jnp.zeros((), grad.dtype), grad)


@lowering(aten.gelu.default)
def gelu(x: Any, approximate: str = "none") -> Any:
    return jax.nn.gelu(x, approximate=approximate == "tanh")


@lowering(aten.gelu_backward.default)
def gelu_backward(grad: Any, x: Any, approximate: str = "none") -> Any:
    return jax.vjp(lambda at: gelu(at, approximate), x)[1](grad)[0]


def _axes(x: Any, dim: Any) -> Any:
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return None
    if not x.ndim:
        return None
    return tuple(dim) if isinstance(dim, (list, tuple)) else dim


@lowering(aten.sum.default, aten.sum.dim_IntList)
def sum_(x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    wanted = d.jax_dtype(dtype) if dtype is not None else None
    return jnp.sum(x, axis=_axes(x, dim), keepdims=keepdim and bool(x.ndim), dtype=wanted)


@lowering(aten.mean.default, aten.mean.dim)
def mean(x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    wanted = d.jax_dtype(dtype) if dtype is not None else None
    return jnp.mean(x, axis=_axes(x, dim), keepdims=keepdim and bool(x.ndim), dtype=wanted)
