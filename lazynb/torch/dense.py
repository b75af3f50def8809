"""What device ``jax`` does not have: quantised and nested tensors, and arrays of sparse ones. One message."""

from __future__ import annotations

from typing import Any, NoReturn

import torch


class NotDense(NotImplementedError):
    """Something asks for a dense tensor of device ``jax``, and there is none."""


_CURES = {
    "sparse": "call .to_dense() first",
    "quantised": "call .dequantize() before a tensor is moved, or leave it on the CPU",
    "nested": "pad it (torch.nested.to_padded_tensor), or leave it on the CPU",
}


def refuse(kind: str) -> NoReturn:
    """
    Raises:
      NotDense: always.
    """
    raise NotDense(f"lazynb.torch: an array of JAX's is dense, and this tensor is {kind}: {_CURES[kind]}")


def check_dense(tensor: torch.Tensor) -> None:
    """
    Raises:
      NotDense: ``tensor`` is sparse, quantised or nested.
    """
    if tensor.is_nested:
        refuse("nested")
    if tensor.is_quantized:
        refuse("quantised")
    if tensor.layout is not torch.strided:
        refuse("sparse")


def _quantised(*args: Any, **kwargs: Any) -> NoReturn:
    refuse("quantised")


def install(library: Any) -> None:
    """Registers what PyTorch calls for a quantised tensor that is moved, or made there."""
    for name in ("empty_quantized", "_empty_affine_quantized", "_empty_per_channel_affine_quantized"):
        library.impl(name, _quantised, "QuantizedPrivateUse1")
