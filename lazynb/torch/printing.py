"""A tensor as text: as PyTorch prints it where the values are there, without running anything where they are
not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from lazynb import _jax as jc
from lazynb.record.pending import closure
from lazynb.record.tensor import LazyTensor

ToCpu = Callable[[Any, str], torch.Tensor]


def look(tensor: Any, to_cpu: ToCpu) -> str:
    """The tensor as ``repr`` shows it; runs nothing.

    Arguments:
      to_cpu: see :func:`lazynb.torch.tensor.to_cpu`.
    """
    value = (
        tensor._elem
        if not tensor._steps or tensor._seen == tensor._storage.version
        else tensor._storage.value
    )
    if isinstance(value, LazyTensor) and value.is_pending:
        count = sum(map(len, closure([value])))
        name = "Parameter" if isinstance(tensor, torch.nn.Parameter) else "tensor"
        shape = ", ".join(map(str, tensor.shape))
        return (
            f"{name}(..., device='jax:0', size=({shape}), dtype={tensor.dtype}, pending: {count} "
            f"operation{'s' * (count != 1)})"
        )
    with jc.set_current_trace(jc.eval_trace):
        return text(tensor, to_cpu(tensor, "print"))


def text(tensor: Any, plain: torch.Tensor) -> str:
    """The tensor as PyTorch prints it.

    Arguments:
      plain: the same on the CPU, where PyTorch can print it.
    """
    with torch.no_grad():
        plain_text = torch._tensor_str._str(plain)  # type: ignore[attr-defined]
    said = ["device='jax:0'"]
    if tensor.grad_fn is not None:
        said.append(f"grad_fn=<{type(tensor.grad_fn).__name__}>")
    elif tensor.requires_grad:
        said.append("requires_grad=True")
    body, _, tail = plain_text.rpartition(")")
    dtype = f", dtype={plain.dtype})"
    if plain_text.endswith(dtype):
        body, tail = plain_text[: -len(dtype)], dtype[:-1]
        shown = f"{body}, {said[0]}{tail}" + "".join(f", {one}" for one in said[1:]) + ")"
    else:
        shown = f"{body}, {', '.join(said)})"
    return f"Parameter containing:\n{shown}" if isinstance(tensor, torch.nn.Parameter) else shown
