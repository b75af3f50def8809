"""FlexAttention on device ``jax``: PyTorch's own formula, recorded, with its gradients.

PyTorch names the devices that have it, and gives the rest to Dynamo, which makes a kernel. Here XLA does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.attention import flex_attention as flex

from lazynb.torch.tensor import Tensor

_NAME = "_flex_attention_hop_wrapper"  # what PyTorch hands to torch.compile
_original: Any = None


def _validate(query: torch.Tensor, *others: torch.Tensor) -> None:
    if not isinstance(query, Tensor):
        _original(query, *others)


def install() -> None:
    """Allows FlexAttention on device ``jax``."""
    global _original
    _original = flex._validate_device
    flex._validate_device = _validate  # type: ignore[assignment]


def uninstall() -> None:
    """Undoes :func:`install`."""
    flex._validate_device = _original


def is_attention(function: Any) -> bool:
    """Whether ``torch.compile`` was given the inner part of FlexAttention."""
    return getattr(function, "__name__", None) == _NAME


def recorded(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """The inner part: PyTorch's formula for tensors on device ``jax``, ``compiled`` for others."""

    def inner(query: torch.Tensor, *others: Any) -> Any:
        from torch._higher_order_ops.flex_attention import math_attention

        return (math_attention if isinstance(query, Tensor) else compiled)(query, *others)

    return inner
