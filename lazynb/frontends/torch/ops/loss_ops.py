"""The CTC loss (Graves et al. 2006) with lengths on either device, and margin losses, with gradients."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from lazynb.frontends.torch.dispatch import op_rules, tensor_layout as layouts
from lazynb.frontends.torch.dispatch.op_rules import lowering
from lazynb.frontends.torch.dispatch.result_layouts import to_arrays
from lazynb.frontends.torch.dispatch.value_checks import IndexRange, checked_index, known_values
from lazynb.frontends.torch.torch_tensor import wrap

aten = torch.ops.aten
lax = jax.lax
# Stands for log(0). With -inf the derivative of ``logaddexp(-inf, -inf)`` is -inf - -inf.
_LOG_ZERO = -1e30
_PLACE = "(while checking arguments for ctc_loss_allocate_outputs)"


def _lengths(x: Any) -> torch.Tensor:
    if isinstance(x, torch.Tensor):
        return x.long() if x.dim() else x.reshape(1).long()
    return torch.tensor(list(x), dtype=torch.int64)


def _check(bound: dict[str, Any]) -> None:
    """Raises PyTorch's CPU error. Calls PyTorch's own check if something may be wrong."""
    scores, targets = bound["log_probs"], bound["targets"]
    given, wanted = (known_values(bound[name]) for name in ("input_lengths", "target_lengths"))
    is_sound = (
        scores.dim() == 3
        and scores.dtype in (torch.float32, torch.float64)
        and targets.dtype in (torch.int64, torch.int32)
        and targets.dim() in (1, 2)
    )
    if is_sound and given is not None and wanted is not None:
        steps, batch, classes = scores.shape
        room = targets.shape[1] if targets.dim() == 2 else wanted.sum() == targets.shape[0] and wanted.max()
        is_sound = (
            given.size == wanted.size == batch
            and given.min() >= 0
            and given.max() <= steps
            and wanted.min() >= 0
            and wanted.max() <= room
            and 0 <= bound["blank"] < classes
        )
    if not is_sound:
        plain: list[Any] = [_of_zeros(scores), _of_zeros(targets)]
        plain += [torch.zeros(scores.shape[1]).tolist() if x is None else x.tolist() for x in (given, wanted)]
        aten._ctc_loss.default(*plain, bound["blank"])
    _check_pending(bound)


def _of_zeros(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros((), dtype=x.dtype).expand(x.shape)


def _check_pending(bound: dict[str, Any]) -> None:
    steps, targets = bound["log_probs"].shape[0], bound["targets"]
    text = "Expected input_lengths to have value at most {}, but got value {} " + _PLACE
    demand = IndexRange(0, steps + 1, lambda at: RuntimeError(text.format(steps, at)))
    bound["input_lengths"] = checked_index(bound["input_lengths"], demand)
    if targets.dim() == 2:
        room = targets.shape[1]
        text_of_room = (
            "Expected tensor to have size at least {} at dimension 1, but got size {} for argument #2"
        )
        end = f" 'targets' {_PLACE}"
        demand = IndexRange(0, room + 1, lambda at: RuntimeError(text_of_room.format(at, room) + end))
        bound["target_lengths"] = checked_index(bound["target_lengths"], demand)


def _max_target_length(bound: dict[str, Any]) -> int:
    """The length of the longest target, or an upper bound."""
    targets, known = bound["targets"], known_values(bound["target_lengths"])
    if known is not None and known.size:
        return int(known.max())
    return targets.shape[-1]


@functools.partial(jax.jit, static_argnums=(1,))
def padded(targets: Any, most: int, lengths: Any) -> Any:
    """Splits concatenated targets into rows of ``most`` labels."""
    starts = jnp.cumsum(lengths) - lengths
    places = starts[:, None] + jnp.arange(most)
    return jnp.take(targets, places, mode="clip")


def _labels(targets: Any, blank: int) -> Any:
    batch, most = targets.shape
    blanks = jnp.full((batch, most + 1), blank, targets.dtype)
    between = jnp.stack([blanks[:, :-1], targets], axis=2).reshape((batch, 2 * most))
    return jnp.concatenate([between, blanks[:, :1]], axis=1)


def _shifted(x: Any, by: int) -> Any:
    return jnp.pad(x, ((0, 0), (by, 0)), constant_values=_LOG_ZERO)[:, : x.shape[1]]


@functools.partial(jax.jit, static_argnums=(4,))
def ctc_loss(scores: Any, targets: Any, given: Any, wanted: Any, blank: int) -> Any:
    """The loss of each sequence, and the forward variables (batch, steps, 2 * labels + 1)."""
    labels = _labels(targets, blank)
    places = jnp.arange(labels.shape[1])
    inside = places < 2 * wanted[:, None] + 1
    before = jnp.concatenate([labels[:, :1], labels[:, :1], labels], axis=1)[:, : labels.shape[1]]
    may_skip = (places >= 2) & (labels != blank) & (labels != before)

    def at(row: Any) -> Any:
        scored = jnp.maximum(jnp.take_along_axis(row, labels, axis=1, mode="clip"), _LOG_ZERO)
        return jnp.where(inside, scored, _LOG_ZERO)

    def step(alpha: Any, now: Any) -> Any:
        time, row = now
        come = jnp.logaddexp(alpha, _shifted(alpha, 1))
        come = jnp.logaddexp(come, jnp.where(may_skip, _shifted(alpha, 2), _LOG_ZERO))
        new = jnp.where((time < given)[:, None], come + at(row), alpha)
        return new, new

    first = jnp.where(places < 2, at(scores[0]), _LOG_ZERO)
    last, others = lax.scan(step, first, (jnp.arange(1, scores.shape[0]), scores[1:]))
    end = jnp.logaddexp(
        _at_end(last, wanted), _at_end(jnp.where(places > 0, _shifted(last, 1), _LOG_ZERO), wanted)
    )
    alphas = jnp.swapaxes(jnp.concatenate([first[None], others]), 0, 1)
    return -_with_infinities(end), _with_infinities(alphas)


def _at_end(alpha: Any, wanted: Any) -> Any:
    return jnp.take_along_axis(alpha, 2 * wanted[:, None], axis=1)[:, 0]


def _with_infinities(x: Any) -> Any:
    return jnp.where(x <= _LOG_ZERO / 10, -jnp.inf, x)


@functools.partial(jax.jit, static_argnums=(5, 6))
def ctc_gradient(
    grad: Any, scores: Any, targets: Any, given: Any, wanted: Any, blank: int, zero_infinity: bool
) -> Any:
    """PyTorch's gradient: it includes the derivative of ``log_softmax``, as if ``scores`` were its output."""
    losses, pull = jax.vjp(lambda x: ctc_loss(x, targets, given, wanted, blank)[0], scores)
    each = jnp.exp(scores) + pull(jnp.ones_like(losses))[0]
    lost = jnp.isinf(losses)[None, :, None]
    each = jnp.where(lost, 0 if zero_infinity else jnp.nan, each * grad[None, :, None])
    return jnp.where((jnp.arange(scores.shape[0])[:, None] < given)[..., None], each, 0)


def _bound_and_arrays(func: Any, args: Any, kwargs: Any) -> tuple[dict[str, Any], list[Any]]:
    """The arguments by name, and the arrays: scores, targets as rows, and both lengths."""
    bound = {one.name: one.default_value for one in func._schema.arguments if one.has_default_value()}
    bound |= dict(zip([one.name for one in func._schema.arguments], args, strict=False)) | kwargs
    for name in ("input_lengths", "target_lengths"):
        bound[name] = _lengths(bound[name])
    if "grad" not in bound:
        _check(bound)
    targets = to_arrays(bound["targets"]).astype(np.int64)
    given, wanted = to_arrays(bound["input_lengths"]), to_arrays(bound["target_lengths"])
    most = _max_target_length(bound)
    rows = targets[:, :most] if targets.ndim == 2 else padded(targets, most, wanted)
    return bound, [to_arrays(bound["log_probs"]), rows, given, wanted]


def _loss(func: Any, args: Any, kwargs: Any) -> Any:
    bound, arrays = _bound_and_arrays(func, args, kwargs)
    dtype = bound["log_probs"].dtype
    results = ctc_loss(*arrays, bound["blank"])
    return tuple([wrap(x, layouts.contiguous(tuple(x.shape), dtype)) for x in results])


def _loss_backward(func: Any, args: Any, kwargs: Any) -> Any:
    bound, arrays = _bound_and_arrays(func, args, kwargs)
    result = ctc_gradient(to_arrays(bound["grad"]), *arrays, bound["blank"], bound["zero_infinity"])
    return wrap(result, layouts.contiguous(tuple(result.shape), bound["log_probs"].dtype))


def install(library: Any) -> None:
    """Allows the lengths on the CPU, as on every PyTorch device."""
    composite = aten.ctc_loss.Tensor

    def on_one_device(scores: Any, targets: Any, given: Any, wanted: Any, *options: Any) -> Any:
        here = [x.to(scores.device) for x in (targets, given, wanted)]
        return composite.decompose(scores, *here, *options)

    library.impl("ctc_loss.Tensor", on_one_device, "AutogradPrivateUse1")


op_rules.special.update(
    {
        aten._ctc_loss.default: _loss,
        aten._ctc_loss.Tensor: _loss,
        aten._ctc_loss_backward.default: _loss_backward,
        aten._ctc_loss_backward.Tensor: _loss_backward,
    }
)


# ---- Margin losses and their gradients ---------------------------------------------------------------------


def _positive(x: Any) -> Any:
    """``x`` where positive, else 0; as in PyTorch, the gradient at 0 is 0."""
    return jnp.where(x > 0, x, 0)


def _reduced(losses: Any, shape: Any, reduction: int) -> Any:
    if reduction:
        return losses.mean() if reduction == 1 else losses.sum()
    return losses.reshape(shape)


@lowering(aten.multi_margin_loss.default)
def multi_margin_loss(
    x: Any, target: Any, p: Any = 1, margin: Any = 1, weight: Any = None, reduction: int = 1
) -> Any:
    rows, chosen = jnp.atleast_2d(x), target.reshape(-1, 1)
    gaps = _positive(margin - jnp.take_along_axis(rows, chosen, axis=1) + rows)
    each = gaps if p == 1 else gaps * gaps
    if weight is not None:
        each = each * weight[chosen]
    others = jnp.arange(rows.shape[1]) != chosen
    losses = jnp.where(others, each, 0).sum(axis=1) / rows.shape[1]
    return _reduced(losses, target.shape, reduction)


@lowering(aten.multi_margin_loss_backward.default)
def multi_margin_loss_backward(grad: Any, x: Any, *options: Any) -> Any:
    loss = functools.partial(_of_first, multi_margin_loss, options)
    return jax.vjp(loss, x)[1](grad)[0]


def _of_first(function: Any, options: Any, x: Any) -> Any:
    return function(x, *options)


@lowering(aten.multilabel_margin_loss_forward.default)
def multilabel_margin_loss(x: Any, target: Any, reduction: int) -> Any:
    """Replaces PyTorch 2.13's decomposition, which also counts positions after a row's last label."""
    losses, is_target = _of_labels(target, x)
    return _reduced(losses, x.shape[:-1], reduction), is_target.astype(x.dtype).reshape(target.shape)


def _of_labels(target: Any, x: Any) -> Any:
    """The loss of each row, and which classes are its labels."""
    rows, labels = jnp.atleast_2d(x), jnp.atleast_2d(target)
    count, classes = rows.shape
    kept = jnp.cumsum(labels == -1, axis=1) == 0
    chosen = jnp.take_along_axis(rows, jnp.where(kept, labels, 0), axis=1)
    places = jnp.arange(count)[:, None], jnp.where(kept, labels, classes)
    is_target = jnp.zeros(rows.shape, bool).at[places].set(True, mode="drop")
    margins = _positive(1 - chosen[:, :, None] + rows[:, None, :]) / classes
    counted = kept[:, :, None] & ~is_target[:, None, :]
    return jnp.where(counted, margins, 0).sum(axis=(1, 2)), is_target


@lowering(aten.multilabel_margin_loss_backward.default)
def multilabel_margin_loss_backward(grad: Any, x: Any, target: Any, reduction: int, is_target: Any) -> Any:
    def loss(at: Any) -> Any:
        return _reduced(_of_labels(target, at)[0], x.shape[:-1], reduction)

    return jax.vjp(loss, x)[1](grad.astype(x.dtype))[0]
