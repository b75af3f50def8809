"""Elementwise operations, matrix products and reductions, and PyTorch's ``prims``.

Python operators are preferred to functions, because their recording is replayed.
"""

from __future__ import annotations

import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from lazynb.frontends.torch.dispatch import op_rules
from lazynb.frontends.torch.dispatch.complex32 import jax_dtype
from lazynb.frontends.torch.dispatch.op_rules import lowering
from lazynb.frontends.torch.torch_requirements import import_torchax

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
    if alpha != 1:
        x = x * alpha
    return y - x


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
    (aten.fmod.Tensor, aten.fmod.Scalar): jnp.fmod,
}
for _operations, _function in _BINARY.items():
    lowering(*_operations)(_function)

# The tensors of these are promoted first, because PyTorch's promotion differs from JAX's.
op_rules.promotes_inputs.update(
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
    lowering(_operation)(_function)

lowering(aten.neg)(operator.neg)
lowering(aten.relu)(lambda x: jnp.maximum(x, 0))
lowering(aten.logical_not)(jnp.logical_not)
lowering(aten.bitwise_not)(operator.invert)
lowering(aten.where.self)(jnp.where)


def _integer_power(x: Any, y: Any) -> Any:
    """An integer power. As in PyTorch, a negative power is 0 unless the base is 1 or -1."""
    if hasattr(y, "aval") and not y.ndim:  # JAX would read the value of a scalar exponent
        return _integer_power(x, y.reshape(1)).reshape(jnp.shape(x))
    positive_power = jnp.power(x, jnp.maximum(y, 0))
    is_one, is_minus_one = jnp.equal(x, 1), jnp.equal(x, -1)
    sign = 1 - 2 * jnp.abs(jnp.remainder(y, 2))
    negative_power = jnp.where(is_one, 1, jnp.where(is_minus_one, sign, 0))
    return jnp.where(jnp.less(y, 0), negative_power, positive_power)


def _is_integer(operand: Any) -> bool:
    if isinstance(operand, int):
        return True
    return hasattr(operand, "dtype") and operand.dtype.kind in "iu"


@lowering(aten.nan_to_num.default)
def nan_to_num(x: Any, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Any:
    """Also replaces in both parts of complex numbers, which PyTorch's decomposition refuses."""
    return jnp.nan_to_num(x, nan=0.0 if nan is None else nan, posinf=posinf, neginf=neginf)


@lowering(aten.pow.Scalar, aten.pow.Tensor_Tensor)
def power(x: Any, y: Any) -> Any:
    if _is_integer(x) and _is_integer(y):
        return _integer_power(x, y)
    return jnp.power(x, y)


@lowering(aten.pow.Tensor_Scalar)
def power_by_number(x: Any, y: Any) -> Any:
    if y == 2:
        return x * x
    if y == 0.5 and x.dtype.kind == "f":
        return jnp.sqrt(x)
    return x**y


def _factor(x: Any, number: Any) -> Any:
    """``number``, truncated to an integer if ``x`` is integer, as in PyTorch."""
    return int(number) if x.dtype.kind in "iu" else number


@lowering(aten.addcmul.default)
def addcmul(x: Any, a: Any, b: Any, value: Any = 1) -> Any:
    value = _factor(x, value)
    product = a * b if value == 1 else value * a * b
    return x + product


@lowering(aten.addcdiv.default)
def addcdiv(x: Any, a: Any, b: Any, value: Any = 1) -> Any:
    quotient = a / b
    if value != 1:
        quotient = value * quotient
    return x + quotient


@lowering(aten.lerp.Scalar, aten.lerp.Tensor)
def lerp(x: Any, end: Any, weight: Any) -> Any:
    return x + weight * (end - x)


@lowering(aten.addmm.default)
def addmm(x: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    alpha, beta = _factor(a, alpha), _factor(a, beta)
    product = a @ b
    if alpha != 1:
        product = product * alpha
    if beta == 0:
        return product
    if beta != 1:
        x = x * beta
    return product + x


@lowering(aten.baddbmm.default)
def baddbmm(x: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    return addmm(x, a, b, beta, alpha)


@lowering(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    return jnp.where(mask, jnp.asarray(value, x.dtype), x)


@lowering(aten._softmax.default)
def softmax(x: Any, dim: int, half_to_float: bool) -> Any:
    if not x.ndim:
        return jnp.ones_like(x)
    return jax.nn.softmax(_to_float32(x, half_to_float), axis=dim)


@lowering(aten._log_softmax.default)
def log_softmax(x: Any, dim: int, half_to_float: bool) -> Any:
    if not x.ndim:
        return jnp.zeros_like(x)
    return jax.nn.log_softmax(_to_float32(x, half_to_float), axis=dim)


def _to_float32(x: Any, half_to_float: bool) -> Any:
    return x.astype(jnp.float32) if half_to_float else x


@lowering(aten._softmax_backward_data.default)
def softmax_backward(grad: Any, result: Any, dim: int, dtype: Any) -> Any:
    inner = grad * result
    return inner - result * inner.sum(axis=dim, keepdims=True)


@lowering(aten._log_softmax_backward_data.default)
def log_softmax_backward(grad: Any, result: Any, dim: int, dtype: Any) -> Any:
    return grad - jnp.exp(result) * grad.sum(axis=dim, keepdims=True)


def conjugate(x: Any) -> Any:
    """The conjugate of a complex ``x``, else ``x``: PyTorch multiplies gradients by it."""
    return x.conj() if x.dtype.kind == "c" else x


@lowering(aten.tanh_backward.default)
def tanh_backward(grad: Any, result: Any) -> Any:
    result = conjugate(result)
    return grad * (1 - result * result)


@lowering(aten.sigmoid_backward.default)
def sigmoid_backward(grad: Any, result: Any) -> Any:
    result = conjugate(result)
    return grad * (1 - result) * result


@lowering(aten.threshold_backward.default)
def threshold_backward(grad: Any, x: Any, threshold: Any) -> Any:
    return jnp.where(x <= threshold, jnp.zeros((), grad.dtype), grad)


@lowering(aten.gelu.default)
def gelu(x: Any, approximate: str = "none") -> Any:
    return jax.nn.gelu(x, approximate=approximate == "tanh")


@lowering(aten.gelu_backward.default)
def gelu_backward(grad: Any, x: Any, approximate: str = "none") -> Any:
    _, pull = jax.vjp(lambda at: gelu(at, approximate), x)
    return pull(grad)[0]


def _axes(x: Any, dim: Any) -> Any:
    """The axes of a reduction along ``dim``, or None for all axes."""
    if isinstance(dim, (list, tuple)):
        dim = tuple(dim)
    if dim == () or not x.ndim:
        return None
    return dim


@lowering(aten.sum.default, aten.sum.dim_IntList)
def sum_(x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    wanted = jax_dtype(dtype) if dtype is not None else None
    return jnp.sum(x, axis=_axes(x, dim), keepdims=keepdim and bool(x.ndim), dtype=wanted)


lowering(aten._is_all_true.default)(jnp.all)
lowering(aten._is_any_true.default)(jnp.any)


@lowering(aten.mean.default, aten.mean.dim)
def mean(x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    wanted = jax_dtype(dtype) if dtype is not None else None
    return jnp.mean(x, axis=_axes(x, dim), keepdims=keepdim and bool(x.ndim), dtype=wanted)


# ---- Accumulation precision of small floats ----------------------------------------------------------------


def at_least_float32(x: Any) -> Any:
    """``x``, cast to float32 if it is a smaller float."""
    return x.astype(np.float32) if x.dtype.itemsize < 4 and x.dtype.kind in "fV" else x


# ---- ``prims``, used by PyTorch's decompositions -----------------------------------------------------------

prims = torch.ops.prims


@lowering(prims.div.default)
def prim_div(x: Any, y: Any) -> Any:
    if x.dtype.kind not in "fcV":
        raise NotImplementedError
    return x / y


@lowering(prims.convert_element_type.default)
def prim_convert(x: Any, dtype: Any) -> Any:
    return lax.convert_element_type(x, jax_dtype(dtype))


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


for _name, _prim_function in {
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
    lowering(getattr(prims, _name).default)(_prim_function)
