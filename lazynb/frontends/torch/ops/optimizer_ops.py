"""Fused optimizer steps (``fused=True``), which the ``Trainer`` of Transformers uses.

They write to lists of tensors, so they consist of PyTorch operations.
"""

from __future__ import annotations

from typing import Any

import torch

from lazynb.frontends.torch.dispatch import op_rules

aten = torch.ops.aten


def _gradient(g: Any, maximize: bool, grad_scale: Any) -> Any:
    """The gradient for the step. A scaled gradient is unscaled in place."""
    if grad_scale is not None:
        g.div_(grad_scale)
    return -g if maximize else g


def _write_unless_inf(pairs: list[tuple[Any, Any]], found_inf: Any) -> None:
    for old, new in pairs:
        old.copy_(new if found_inf is None else torch.where(found_inf > 0, old, new))


def _adam(decoupled: bool) -> Any:
    def step(func: Any, args: Any, kwargs: Any) -> None:
        params, grads, means, squares, largest, counts = args
        for at in range(len(params)):
            _adam_step(
                (params[at], grads[at], means[at], squares[at], largest[at] if largest else None, counts[at]),
                decoupled,
                **kwargs,
            )

    return step


def _adam_step(
    tensors: Any,
    decoupled: bool,
    lr: Any,
    beta1: float,
    beta2: float,
    weight_decay: float,
    eps: float,
    amsgrad: bool,
    maximize: bool,
    grad_scale: Any = None,
    found_inf: Any = None,
) -> None:
    p, g, mean, square, largest, count = tensors
    g, old = _gradient(g, maximize, grad_scale), p
    if weight_decay and decoupled:
        p = p * (1 - lr * weight_decay)
    elif weight_decay:
        g = g + p * weight_decay
    new_mean = mean + (g - mean) * (1 - beta1)
    new_square = square * beta2 + g * g * (1 - beta2)
    pairs = [(mean, new_mean), (square, new_square)]
    spread = new_square
    if amsgrad:
        spread = torch.maximum(largest, new_square)
        pairs.append((largest, spread))
    first, second = 1 - beta1**count, 1 - beta2**count
    new = p - (lr / first).to(p.dtype) * (new_mean / ((spread.sqrt() / second.sqrt().to(p.dtype)) + eps))
    _write_unless_inf([*pairs, (old, new)], found_inf)


def _sgd(func: Any, args: Any, kwargs: Any) -> None:
    params, grads, buffers = args
    for at in range(len(params)):
        _sgd_step(params[at], grads[at], buffers[at] if buffers else None, **kwargs)


def _sgd_step(
    p: Any,
    g: Any,
    buffer: Any,
    weight_decay: float,
    momentum: float,
    lr: Any,
    dampening: float,
    nesterov: bool,
    maximize: bool,
    is_first_step: bool,
    grad_scale: Any = None,
    found_inf: Any = None,
) -> None:
    g = _gradient(g, maximize, grad_scale)
    if weight_decay:
        g = g + p * weight_decay
    pairs = []
    if momentum:
        new = g if is_first_step else buffer * momentum + g * (1 - dampening)
        pairs.append((buffer, new))
        g = g + new * momentum if nesterov else new
    _write_unless_inf([*pairs, (p, p - g * lr)], found_inf)


for _packet, _step in (
    (aten._fused_adamw_, _adam(True)),
    (aten._fused_adam_, _adam(False)),
    (aten._fused_sgd_, _sgd),
):
    op_rules.special[_packet] = _step


def _unscale(func: Any, args: Any, kwargs: Any) -> None:
    """``GradScaler``'s unscaling: divides gradients by the scale and records non-finite ones."""
    gradients, found_inf, inverse_scale = args
    for gradient in gradients:
        found_inf.copy_(torch.maximum(found_inf, (~gradient.isfinite()).any().to(found_inf.dtype)))
        gradient.mul_(inverse_scale)


op_rules.special[aten._amp_foreach_non_finite_check_and_unscale_.default] = _unscale
