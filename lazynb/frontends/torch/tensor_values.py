"""The text of a tensor: PyTorch's if its values are known, else a summary without a flush."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from lazynb import jax_compat as jc
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.pending_trace import pending_dependencies

ToCpu = Callable[[Any, str], torch.Tensor]


def repr_without_run(tensor: Any, to_cpu: ToCpu) -> str:
    """The ``repr`` of a tensor, without a flush.

    Arguments:
      to_cpu: see :func:`lazynb.frontends.torch.torch_tensor.to_cpu`.
    """
    host = tensor._storage.host
    if host is not None and host.plain is None:
        waiting, taken = host.pending()
        return _pending_text(tensor, waiting, taken)
    value = _value(tensor) if host is None else None
    if isinstance(value, LazyTensor) and value.is_pending:
        return _pending_text(tensor, 0, [value])
    with jc.set_current_trace(jc.eval_trace):
        return value_text(tensor, to_cpu(tensor, "print"))


def sparse_repr_without_run(tensor: Any) -> str:
    """The ``repr`` of a sparse tensor, without a flush."""
    parts = tensor._parts.all()
    hosts = [part._storage.host for part in parts]
    waits = [host.pending() for host in hosts if host is not None and host.plain is None]
    values = [_value(part) for part, host in zip(parts, hosts, strict=True) if host is None]
    values = [value for value in values if isinstance(value, LazyTensor) and value.is_pending]
    if waits or values:
        waiting, taken = sum(count for count, _ in waits), [one for _, some in waits for one in some]
        return _pending_text(tensor, waiting, [*taken, *values])
    with jc.set_current_trace(jc.eval_trace):
        return sparse_value_text(tensor, tensor.on_cpu("print"))


def _value(tensor: Any) -> Any:
    """The tensor's array; its storage's array if the tensor's own is not computed yet."""
    if not tensor._steps or tensor._value_version == tensor._storage.version:
        return tensor._elem
    return tensor._storage.value


def _pending_text(tensor: Any, waiting: int, taken: list[LazyTensor]) -> str:
    """The text of a pending tensor: ``waiting`` deferred operations, and the pending arrays ``taken``."""
    count = waiting + (sum(map(len, pending_dependencies(taken))) if taken else 0)
    name = "Parameter" if isinstance(tensor, torch.nn.Parameter) else "tensor"
    shape = ", ".join(map(str, tensor.shape))
    return (
        f"{name}(..., device='jax:0', size=({shape}), dtype={tensor.dtype}, pending: {count} "
        f"operation{'s' * (count != 1)})"
    )


def value_text(tensor: Any, plain: torch.Tensor) -> str:
    """The tensor as PyTorch prints it.

    Arguments:
      plain: a CPU copy, which PyTorch can print.
    """
    with torch.no_grad():
        plain_text = torch._tensor_str._str(plain)  # type: ignore[attr-defined]
    return _with_grad(tensor, _on_device(plain, plain_text))


def sparse_value_text(tensor: Any, plain: torch.Tensor) -> str:
    """A sparse tensor as PyTorch prints it, see :func:`value_text`."""
    with torch.no_grad():
        plain_text = torch._tensor_str._str(plain)  # type: ignore[attr-defined]
    before, size, after = plain_text.rpartition("size=(")
    return _with_grad(tensor, [f"{before}device='jax:0', {size}{after}".removesuffix(")")])


def _on_device(plain: torch.Tensor, plain_text: str) -> list[str]:
    dtype = f"dtype={plain.dtype}"
    device = "device='jax:0'"
    if plain_text.endswith(f", {dtype})"):
        parts = [plain_text.removesuffix(f", {dtype})"), device, dtype]
    else:
        parts = [plain_text.rpartition(")")[0], device]
    return parts


def _with_grad(tensor: Any, parts: list[str]) -> str:
    """Joins ``parts`` with PyTorch's suffixes for autograd."""
    if tensor.grad_fn is not None:
        parts.append(f"grad_fn=<{type(tensor.grad_fn).__name__}>")
    elif tensor.requires_grad:
        parts.append("requires_grad=True")
    shown = ", ".join(parts) + ")"
    if isinstance(tensor, torch.nn.Parameter):
        return f"Parameter containing:\n{shown}"
    return shown
