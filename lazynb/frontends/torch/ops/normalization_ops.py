"""Layer, batch and group normalisation, losses with gradients, and writes to a part of an array."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from lazynb.frontends.torch.dispatch import op_rules, tensor_layout as layouts, torch_replay, view_steps
from lazynb.frontends.torch.dispatch.complex32 import jax_dtype
from lazynb.frontends.torch.dispatch.in_place_writes import store
from lazynb.frontends.torch.dispatch.op_rules import lowering
from lazynb.frontends.torch.dispatch.replay_context import record_or_replay
from lazynb.frontends.torch.dispatch.result_layouts import LayoutUnknown, expected_results, to_arrays
from lazynb.frontends.torch.dispatch.tensor_layout import Layout
from lazynb.frontends.torch.dispatch.torch_replay import arguments_by_name, key_and_operands
from lazynb.frontends.torch.ops.arithmetic_ops import at_least_float32
from lazynb.frontends.torch.torch_requirements import import_torchax
from lazynb.frontends.torch.torch_tensor import wrap

aten = torch.ops.aten
lax = jax.lax
_env = import_torchax().default_env()


@lowering(aten.native_layer_norm.default)
def layer_norm(x: Any, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    axes = tuple(range(x.ndim - len(shape), x.ndim))
    wide = at_least_float32(x)
    mean = wide.mean(axis=axes, keepdims=True)
    centred = wide - mean
    scale = lax.rsqrt((centred * centred).mean(axis=axes, keepdims=True) + eps)
    result = (centred * scale).astype(x.dtype)
    if weight is not None:
        result = result * weight
    if bias is not None:
        result = result + bias
    return result, mean, scale


@lowering(aten.native_layer_norm_backward.default)
def layer_norm_backward(
    grad: Any, x: Any, shape: Any, mean: Any, scale: Any, weight: Any, bias: Any, output_mask: Any
) -> Any:
    axes = tuple(range(x.ndim - len(shape), x.ndim))
    lead = tuple(range(x.ndim - len(shape)))
    wide = np.float32 if x.dtype.itemsize < 4 else x.dtype
    normal = (x.astype(wide) - mean) * scale
    inner = (grad if weight is None else grad * weight).astype(wide)
    grad_x = (
        inner
        - inner.mean(axis=axes, keepdims=True)
        - normal * (inner * normal).mean(axis=axes, keepdims=True)
    ) * scale
    grad_weight = grad_bias = None
    if output_mask[1] and weight is not None:
        grad_weight = (grad * normal).sum(axis=lead)
    if output_mask[2] and bias is not None:
        grad_bias = grad.sum(axis=lead)
    return grad_x if output_mask[0] else None, grad_weight, grad_bias


def _channels(x: Any, per_channel: Any) -> Any:
    """``per_channel`` reshaped to broadcast with ``x``."""
    return per_channel.reshape((1, -1) + (1,) * (x.ndim - 2))


def _normalised(x: Any, weight: Any, bias: Any, mean: Any, scale: Any) -> Any:
    result = (x - _channels(x, mean)) * _channels(x, scale)
    if weight is not None:
        result = result * _channels(x, weight)
    if bias is not None:
        result = result + _channels(x, bias)
    return result


def batch_norm(arrays: list[Any], training: bool, momentum: float, eps: float) -> tuple[Any, ...]:
    """The result, mean, 1/deviation, and the new running mean and variance (None where not given).

    Arguments:
      arrays: input, weight, bias, running mean and running variance; all but the input may be None.
    """
    x, weight, bias, running_mean, running_var = arrays
    if not training:
        scale = lax.rsqrt(running_var + eps)
        nothing = jnp.zeros((0,), x.dtype)
        return _normalised(x, weight, bias, running_mean, scale), nothing, nothing, running_mean, running_var
    axes = (0, *range(2, x.ndim))
    mean = x.mean(axis=axes)
    centred = x - _channels(x, mean)
    var = (centred * centred).mean(axis=axes)
    scale = lax.rsqrt(var + eps)
    count = x.size // x.shape[1]
    new_mean = new_var = None
    if running_mean is not None:
        new_mean = running_mean * (1 - momentum) + mean * momentum
    if running_var is not None:
        new_var = running_var * (1 - momentum) + var * (momentum * (count / max(count - 1, 1)))
    return _normalised(x, weight, bias, mean, scale), mean, scale, new_mean, new_var


@lowering(aten.native_batch_norm_backward.default)
def batch_norm_backward(
    grad: Any,
    x: Any,
    weight: Any,
    running_mean: Any,
    running_var: Any,
    mean: Any,
    scale: Any,
    train: bool,
    eps: float,
    output_mask: Any,
) -> Any:
    axes = (0, *range(2, x.ndim))
    if not train:
        mean, scale = running_mean, lax.rsqrt(running_var + eps)
    normal = (x - _channels(x, mean)) * _channels(x, scale)
    grad_bias = grad.sum(axis=axes)
    grad_weight = (grad * normal).sum(axis=axes)
    factor = scale if weight is None else scale * weight
    grad_x = grad
    if train:
        count = x.size // x.shape[1]
        grad_x = grad - _channels(x, grad_bias / count) - normal * _channels(x, grad_weight / count)
    return (
        grad_x * _channels(x, factor) if output_mask[0] else None,
        grad_weight if output_mask[1] else None,
        grad_bias if output_mask[2] else None,
    )


@lowering(aten._weight_norm_interface_backward.default)
def weight_norm_backward(grad: Any, v: Any, g: Any, norms: Any, dim: int) -> Any:
    axes = tuple(axis for axis in range(v.ndim) if axis != dim % v.ndim)
    along = (grad * v).sum(axis=axes, keepdims=True).astype(norms.dtype)
    grad_g = along / norms
    return (g / norms) * (grad - v * (grad_g / norms)), grad_g


def _picked(x: Any, target: Any, weight: Any, ignore: int) -> tuple[Any, Any, Any]:
    """``x`` at the target class, the weight of each target, and the targets with ignored ones set to 0."""
    kept = target != ignore
    safe = jnp.where(kept, target, 0)
    axis = _class_axis(x)
    chosen = jnp.take_along_axis(x, jnp.expand_dims(safe, axis), axis=axis)
    class_weights = jnp.ones((), x.dtype) if weight is None else weight[safe]
    weights = jnp.where(kept, class_weights, jnp.zeros((), x.dtype))
    return chosen.reshape(target.shape), weights, safe


def _class_axis(x: Any) -> int:
    """The class axis: the first axis, or the second if there is a batch axis."""
    return 1 if x.ndim > 1 else 0


@lowering(aten.nll_loss_forward.default, aten.nll_loss2d_forward.default)
def nll_loss(x: Any, target: Any, weight: Any, reduction: int, ignore: int) -> Any:
    chosen, weights, _ = _picked(x, target, weight, ignore)
    losses, total = -chosen * weights, weights.sum()
    if reduction == 0:
        return losses, jnp.zeros((), x.dtype)
    loss = losses.sum()
    if reduction == 1:
        loss = loss / total
    return loss, total


@lowering(aten.nll_loss_backward.default, aten.nll_loss2d_backward.default)
def nll_loss_backward(
    grad: Any, x: Any, target: Any, weight: Any, reduction: int, ignore: int, total: Any
) -> Any:
    _, weights, safe = _picked(x, target, weight, ignore)
    axis = _class_axis(x)
    if reduction == 1:
        grad = grad / total
    each = -grad * weights
    chosen = jnp.expand_dims(safe, axis) == lax.broadcasted_iota(safe.dtype, x.shape, axis)
    return jnp.where(chosen, jnp.expand_dims(each, axis), jnp.zeros((), x.dtype))


@lowering(aten._linalg_eigh.default)
def eigh(x: Any, uplo: str = "L", compute_v: bool = True) -> Any:
    values, vectors = jnp.linalg.eigh(x, UPLO=uplo, symmetrize_input=False)
    if not compute_v:
        vectors = jnp.zeros((0,), x.dtype)
    return values, vectors


@lowering(aten.slice_scatter.default)
def slice_scatter(
    x: Any, source: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    return view_steps.slice_step(x.shape, dim, start, end, step).write(x, source)


@lowering(aten.select_scatter.default)
def select_scatter(x: Any, source: Any, dim: int, index: int) -> Any:
    return view_steps.select_step(x.shape, dim, index).write(x, source)


@lowering(aten.slice_backward.default)
def slice_backward(grad: Any, sizes: Any, dim: int, start: int, end: int, step: int) -> Any:
    view = view_steps.slice_step(tuple(sizes), dim, start, end, step)
    return view.write(jnp.zeros(tuple(sizes), grad.dtype), grad)


@lowering(aten.select_backward.default)
def select_backward(grad: Any, sizes: Any, dim: int, index: int) -> Any:
    view = view_steps.select_step(tuple(sizes), dim, index)
    return view.write(jnp.zeros(tuple(sizes), grad.dtype), grad)


@lowering(aten.put.default)
def put(x: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    flat = x.reshape(-1)
    at = jnp.where(index < 0, index + flat.size, index).reshape(-1)
    values = source.reshape(-1)
    if accumulate:
        flat = flat.at[at].add(values)
    else:
        flat = flat.at[at].set(values)
    return flat.reshape(x.shape)


# ---- Batch normalisation -----------------------------------------------------------------------------------
# PyTorch's schema does not declare that the running statistics are written to.

_NO_RESERVE = layouts.contiguous((0,), torch.uint8)
_ARRAYS = ("input", "weight", "bias", "running_mean", "running_var")


class BatchNormPlan:
    """The part of a batch normalisation that calls with equal layouts and options share.

    Attributes:
      result: layout of the result.
      training: whether the statistics of the batch are used.
    """

    def __init__(self, func: Any, args: Any, kwargs: Any) -> None:
        with contextlib.suppress(LayoutUnknown):
            expected_results(func, args, kwargs, writes=True)  # raises PyTorch's error
        self.func = func  # keeps the id in the key valid
        bound = arguments_by_name(func, args, kwargs)
        self.result = layouts.layout_of(torch.empty_like(bound["input"]._layout.meta()))
        self.training = bool(bound.get("training", not re.search("no_training|no_update", str(func))))
        self._options = bound["momentum"], bound["eps"]
        self._given = [bound.get(name) is not None for name in _ARRAYS]
        self._statistics: list[Layout] | None = None
        # other backends return a workspace for the gradient; here it is empty
        self.keeps = len(func._schema.returns) == 4

    def compute(self, *given: Any) -> list[Any]:
        """The result, the batch's statistics, and in training the new running statistics.

        Arguments:
          given: the arrays that are not None.
        """
        values = iter(given)
        arrays = [next(values) if is_given else None for is_given in self._given]
        result, *others = batch_norm(arrays, self.training, *self._options)
        result = result.astype(jax_dtype(self.result.dtype))
        if not self.training:  # these statistics have no elements
            return [result, *others[:2]]
        return [result, *[x for x in others if x is not None]]

    def tensors(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """The tensors that the call returns, from the results of :meth:`compute`."""
        result, *statistics = arrays[:3]
        if self._statistics is None:
            self._statistics = [self._layout_of(x) for x in statistics]
        tensors = [wrap(result, self.result), *map(wrap, statistics, self._statistics)]
        if self.keeps:
            tensors.append(wrap(None, _NO_RESERVE))
        return tuple(tensors)

    def layouts(self) -> list[Layout]:
        """The layouts of the results of :meth:`tensors`, without the workspace."""
        return [self.result, *(self._statistics or ())]

    def _layout_of(self, statistic: Any) -> Layout:
        """The layout of ``statistic``, in float32 or the dtype of the result."""
        kind = torch.float32 if statistic.dtype == jnp.float32 else self.result.dtype
        return layouts.contiguous(statistic.shape, kind)


_known: dict[Any, BatchNormPlan] = {}


def _normalise(func: Any, args: Any, kwargs: Any) -> Any:
    key, row = key_and_operands(func, args, kwargs, False)
    known = _known.get(key)
    if known is None:
        if len(_known) > layouts.MAX_CACHED_RESULTS:
            _known.clear()
        known = _known[key] = BatchNormPlan(func, args, kwargs)
    bound = arguments_by_name(func, args, kwargs)
    if row is None:  # a tensor is on the CPU
        row = [bound[name] for name in _ARRAYS if bound.get(name) is not None]
    arrays = record_or_replay(known, known.compute, tuple(to_arrays(row)))
    if known.training:
        running = [x for x in (bound.get("running_mean"), bound.get("running_var")) if x is not None]
        for target, new in zip(running, arrays[3:], strict=True):
            store(target, new)
    tensors = known.tensors(arrays)
    if not (known.training or known.keeps):
        torch_replay.allow_replay(func, key, known.layouts(), known)
    return tensors


for _overload in (
    aten.native_batch_norm.default,
    aten._native_batch_norm_legit.default,
    aten._native_batch_norm_legit.no_stats,
    aten._native_batch_norm_legit_no_training.default,
    aten._batch_norm_with_update.default,
    aten._batch_norm_no_update.default,
):
    op_rules.special[_overload] = _normalise
