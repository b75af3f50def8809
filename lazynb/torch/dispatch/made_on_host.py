"""New tensors of small whole numbers: ranges, zeros, ones. They are known, see :mod:`.on_host`."""

from __future__ import annotations

import math
from typing import Any

import torch

from lazynb.torch.dispatch import dispatch as d
from lazynb.torch.dispatch.known import MOST, WHOLE
from lazynb.torch.dispatch.on_host import Elsewhere, Handler, down, named, tensor_of, up
from lazynb.torch.tensor import DEVICE, Tensor

aten = torch.ops.aten


def _like(func: Any, handler: Handler) -> Handler:
    """Before ``zeros_like`` and its kind: a tensor of the layout of another."""

    def first(called: Any, args: Any, kwargs: Any) -> Any:
        model = args[0]
        dtype = kwargs.get("dtype") or model.dtype
        if model.__class__ is not Tensor or dtype not in WHOLE or model.numel() > MOST:
            return handler(called, args, kwargs)
        return _made(
            func, handler, torch.empty_strided(model.shape, model.stride(), dtype=dtype), args, kwargs
        )

    return first


def _new(func: Any, handler: Handler) -> Handler:
    """Before ``new_zeros`` and its kind: a tensor of the dtype of another."""

    def first(called: Any, args: Any, kwargs: Any) -> Any:
        dtype = kwargs.get("dtype") or args[0].dtype
        if dtype not in WHOLE or math.prod(args[1]) > MOST:
            return handler(called, args, kwargs)
        return _made(func, handler, torch.empty(0, dtype=dtype), args, kwargs)

    return first


def _made(func: Any, handler: Handler, model: torch.Tensor, args: Any, kwargs: Any) -> Any:
    try:
        rest, options = down(args[1:], floats=True), named(kwargs)
    except Elsewhere:
        return handler(func, args, kwargs)
    return up(func(model, *rest, **options))


def _is_small_range(start: Any, end: Any, step: Any, dtype: Any) -> bool:
    is_whole = isinstance(start, int) and isinstance(end, int) and isinstance(step, int)
    return is_whole and (dtype is None or dtype in WHOLE) and abs(end - start) <= MOST


def _range(func: Any, handler: Handler) -> Handler:
    """Before ``arange``: what it writes to was made for it."""

    def first(called: Any, args: Any, kwargs: Any) -> Any:
        out = kwargs["out"]
        start, end, step = (*args, 1)[:3] if len(args) > 1 else (0, *args, 1)
        if out.numel() or out.__class__ is not Tensor or not _is_small_range(start, end, step, out.dtype):
            return handler(called, args, kwargs)
        new = tensor_of(torch.arange(start, end, step, dtype=out.dtype))
        d.replace(out, new)
        return out

    return first


def _new_range(
    start: Any, end: Any, step: Any = 1, dtype: Any = None, layout: Any = None, device: Any = None, **_: Any
) -> Tensor:
    """``arange`` without a tensor to write to."""
    if _is_small_range(start, end, step, dtype):
        return up(torch.arange(start, end, step, dtype=dtype))  # type: ignore[no-any-return]
    wanted = torch.arange(start, end, step, dtype=dtype, device="meta").dtype
    out = torch.empty(0, dtype=wanted, device=DEVICE)
    aten.arange.start_out(start, end, step, out=out)
    assert isinstance(out, Tensor)
    return out


def install(library: Any) -> None:
    """Registers what PyTorch calls when no tensor of ours is among the arguments."""
    for name in ("arange.start", "arange.start_step"):
        library.impl(name, _new_range, "PrivateUse1")
    library.impl("arange", lambda end, **options: _new_range(0, end, **options), "PrivateUse1")


def _register() -> None:
    befores = d.befores
    for name in ("zeros_like", "ones_like", "full_like", "empty_like"):
        befores[getattr(aten, name).default] = _like
    for name in ("new_zeros", "new_ones", "new_full", "new_empty"):
        befores[getattr(aten, name).default] = _new
    for overload in (aten.arange.start_out, aten.arange.out):
        befores[overload] = _range


_register()
