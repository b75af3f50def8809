"""Composite PyTorch operations (``linear``, ``matmul``, attention) executed as single operations.

PyTorch decomposes ``linear`` into four operations and attention into twenty, and each one passes through C++
and back to Python. If a gradient is required, only ``linear`` stays whole, because PyTorch has a gradient
rule for it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch.autograd import forward_ad

from lazynb.frontends.torch.dispatch.complex32 import jax_dtype
from lazynb.frontends.torch.dispatch.dispatcher import dispatch
from lazynb.frontends.torch.dispatch.op_rules import lowering
from lazynb.frontends.torch.ops.arithmetic_ops import addmm, at_least_float32, conjugate, softmax
from lazynb.frontends.torch.sparse_tensor import Sparse
from lazynb.frontends.torch.torch_tensor import Tensor

# ---- Grouped matrix products, as in mixtures of experts ----------------------------------------------------

aten = torch.ops.aten
lax = jax.lax


def _groups(ends: Any, length: int) -> Any:
    """A bool array: which of ``length`` rows is in which group, given the end index of each group."""
    at = lax.iota(np.dtype(np.int32), length)[:, None]
    starts = jnp.concatenate([jnp.zeros(1, ends.dtype), ends[:-1]])
    return (at >= starts) & (at < ends)


def _by_rows(x: Any, y: Any, ends: Any) -> Any:
    """Multiplies each group of rows of ``x`` by its matrix in ``y``; rows in no group give zeros."""
    sizes = jnp.diff(ends, prepend=jnp.zeros(1, ends.dtype)).astype(np.int32)
    return lax.ragged_dot(x, y, sizes)


@lowering(aten._grouped_mm.default)
def grouped_mm(x: Any, y: Any, ends: Any = None, bias: Any = None, out_dtype: Any = None) -> Any:
    """Grouped matrix products: groups of rows of ``x``, of columns of ``y``, or of the contracted axis.

    For groups of the contracted axis, the result has one matrix per group.
    """
    if bias is not None:
        raise NotImplementedError
    if ends is None:
        return x @ y
    if x.ndim == 2 and y.ndim == 3:
        return _by_rows(x, y, ends)
    if x.ndim == 3 and y.ndim == 2:
        return _by_rows(y.T, jnp.swapaxes(x, -1, -2), ends).T
    inside = _groups(ends, y.shape[0]).astype(x.dtype)
    return jnp.einsum("mk,kg,kn->gmn", x, inside, y, precision=lax.Precision.HIGHEST)


@lowering(aten.linear.default)
def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    if bias is None or x.ndim == 1 or weight.ndim == 1:
        product = x @ weight.T
        return product if bias is None else product + bias
    flat = addmm(bias, x.reshape((math.prod(x.shape[:-1]), x.shape[-1])), weight.T)
    return flat.reshape((*x.shape[:-1], weight.shape[0]))


@lowering(aten.linear_backward.default)
def linear_backward(x: Any, gradient: Any, weight: Any, wanted: Any) -> Any:
    """The gradients of :func:`linear`; that of ``x`` only if ``wanted``."""
    features = weight.shape[:-1]
    x, weight = conjugate(x), conjugate(weight)
    rows = gradient.reshape((math.prod(gradient.shape[: gradient.ndim - len(features)]), *features))
    of_x = None
    if wanted[0]:
        of_x = (rows @ weight if features else rows[:, None] * weight).reshape(x.shape)
    of_weight = rows.T @ x.reshape((rows.shape[0], x.shape[-1]))
    return of_x, of_weight, rows.sum(axis=0)


@lowering(aten.matmul.default)
def matmul(x: Any, y: Any) -> Any:
    return x @ y


@lowering(aten._safe_softmax.default)
def safe_softmax(x: Any, dim: int, dtype: Any = None) -> Any:
    """``softmax``, with zeros where all inputs are minus infinity."""
    if dtype is not None:
        x = x.astype(jax_dtype(dtype))
    none = (x == -jnp.inf).all(axis=dim, keepdims=True)
    result = softmax(x, dim, False)
    return jnp.where(none, jnp.zeros((), result.dtype), result)


@lowering(aten.scaled_dot_product_attention.default)
def attention(
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    dropout: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """The same formula as PyTorch's decomposition (``_scaled_dot_product_attention_math``)."""
    kept = q.dtype
    q, k, v = map(at_least_float32, (q, k, v))
    if enable_gqa:
        k, v = (jnp.repeat(x, q.shape[-3] // x.shape[-3], axis=-3) for x in (k, v))
    each = math.sqrt(1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    scores = (q * each) @ jnp.swapaxes(k * each, -1, -2)
    if is_causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
    if mask is not None and mask.dtype == bool:
        scores = jnp.where(mask, scores, -jnp.inf)
    elif mask is not None:
        scores = scores + mask.astype(scores.dtype)
    return (safe_softmax(scores, -1) @ v).astype(kept)


_Keys = torch._C.DispatchKey
# The dispatch keys of PyTorch's own gradient rule, which our kernel hides: the rule is the same for each
# device that supports the operation, and the class of our tensors decides below it.
_AUTOGRAD_KEYS = torch._C.DispatchKeySet(_Keys.AutogradPrivateUse2).add(_Keys.PrivateUse1).add(_Keys.Python)


def _composite_kernel(func: Any, can: Callable[..., bool], has_rule: bool) -> Callable[..., Any]:
    """The kernel of ``func``: one operation if ``can`` allows it, else PyTorch's decomposition.

    Arguments:
      has_rule: whether PyTorch has a gradient rule for the whole operation.
    """

    def kernel(*args: Any, **kwargs: Any) -> Any:
        if can(*args, **kwargs) and _is_ours(args):
            if not _wants_gradient(args):
                return Tensor.__torch_dispatch__(func, (), args, kwargs)
            if has_rule:
                return func.redispatch(_AUTOGRAD_KEYS, *args, **kwargs)
        return func.decompose(*args, **kwargs)

    return kernel


def _is_ours(args: Any) -> bool:
    """Whether all tensors are dense, on device ``jax``, without forward-mode gradients or dispatch modes."""
    if torch._C._len_torch_dispatch_stack() or forward_ad._current_level >= 0:
        return False
    for x in args:
        if x.__class__ is Tensor or not isinstance(x, torch.Tensor):
            continue
        if not isinstance(x, Tensor) or isinstance(x, Sparse):
            return False
    return True


def _wants_gradient(args: Any) -> bool:
    return torch.is_grad_enabled() and any(x.requires_grad for x in args if x.__class__ is Tensor)


def _is_deterministic_attention(
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    dropout: float = 0.0,
    is_causal: bool = False,
    *_: Any,
    **__: Any,
) -> bool:
    if dropout or not q.is_floating_point() or q.dim() <= 2 or 0 in q.shape + k.shape + v.shape:
        return False
    return mask is None or not is_causal or _applies_both()


@functools.cache
def _applies_both() -> bool:
    """Whether the CPU applies a mask together with ``is_causal``; since PyTorch 2.14 it refuses both."""
    x = torch.zeros(1, 1, 1, 1)
    try:
        torch.nn.functional.scaled_dot_product_attention(x, x, x, x, is_causal=True)
    except RuntimeError:
        return False
    return True


def _has_elements(x: Any, y: Any) -> bool:
    return 0 not in x.shape + y.shape


def _has_layer_shapes(x: Any, weight: Any, bias: Any = None) -> bool:
    """Whether ``linear`` has the shapes of a layer. For other shapes PyTorch's rule has no second
    derivative."""
    if 0 in x.shape or x.dim() < 2 or weight.dim() != 2 or x.shape[-1] != weight.shape[1]:
        return False
    return bias is None or bias.shape == weight.shape[:1]


def _is_not_of_floats(x: Any, *_: Any, **__: Any) -> bool:
    """Whether the CPU refuses ``max_pool1d``: it supports only floats, but its decomposition supports
    more."""
    return not x.is_floating_point()


def _always(*_: Any, **__: Any) -> bool:
    return True


# PyTorch's decompositions of these write to a reinterpreted view, or not to ``out`` itself.
_OUT_OVERLOADS = (
    aten.matmul.out,
    aten.linalg_matrix_rank.out,
    aten.linalg_matrix_rank.atol_rtol_tensor_out,
    aten.linalg_matrix_rank.atol_rtol_float_out,
    aten.linalg_matrix_rank.out_tol_tensor,
)


def install(library: Any) -> None:
    """Registers the kernels.

    Arguments:
      library: takes the kernels of ``aten``.
    """
    # Makes PyTorch use its gradient rule for ``linear``. This kernel is never called.
    library.impl("linear", lambda *args: dispatch(aten.linear.default, args, {}), "PrivateUse2")
    for func, can, has_rule in (
        (aten.linear.default, _has_layer_shapes, True),
        (aten.matmul.default, _has_elements, False),
        (aten.scaled_dot_product_attention.default, _is_deterministic_attention, False),
        (aten.max_pool1d.default, _is_not_of_floats, False),
    ):
        library.impl(func, _composite_kernel(func, can, has_rule), "AutogradPrivateUse1")
    for func in _OUT_OVERLOADS:
        library.impl(func, _composite_kernel(func, _always, False), "AutogradPrivateUse1")
