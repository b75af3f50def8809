"""What device ``jax`` does not have: sparse, quantised and nested tensors. One message for all of them."""

from __future__ import annotations

from typing import Any

import torch


class NotDense(NotImplementedError):
    """Something asks for a tensor on device ``jax`` that is not dense."""


_CURES = {
    "sparse": "where a gradient is sparse, write sparse=False (torch.nn.Embedding, EmbeddingBag) or "
    "sparse_grad=False (torch.gather); call .to_dense() before a tensor is moved, or leave it on the CPU",
    "quantised": "call .dequantize() before a tensor is moved, or leave it on the CPU",
    "nested": "pad it (torch.nested.to_padded_tensor), or leave it on the CPU",
}


def refuse(kind: str) -> None:
    """
    Raises:
      NotDense: always.
    """
    raise NotDense(f"lazynb.torch: tensors on device jax are dense, and this one is {kind}: {_CURES[kind]}")


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


def _sparse(*args: Any, **kwargs: Any) -> None:
    refuse("sparse")


def install(library: Any) -> None:
    """Registers what PyTorch calls for a tensor that is sparse from the start."""
    for key in ("SparsePrivateUse1", "SparseCsrPrivateUse1"):
        library.impl("empty.memory_format", _sparse, key)
