"""Tensor factories: ranges and constants. Small integer tensors stay on the host, see
:mod:`.host_operations`."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from lazynb.frontends.torch.dispatch import op_rules
from lazynb.frontends.torch.dispatch.complex32 import jax_dtype
from lazynb.frontends.torch.dispatch.host_operations import (
    Handler,
    NotOnHost,
    known_tensor,
    options_to_host,
    to_device,
    to_host,
)
from lazynb.frontends.torch.dispatch.known_integers import INTEGER_DTYPES, MAX_ELEMENTS
from lazynb.frontends.torch.dispatch.op_rules import fill, lowering
from lazynb.frontends.torch.dispatch.view_operations import set_storage
from lazynb.frontends.torch.torch_requirements import import_torchax
from lazynb.frontends.torch.torch_tensor import DEVICE, Tensor

aten = torch.ops.aten


def _like_factory(func: Any, handler: Handler) -> Handler:
    """The host path of ``zeros_like`` and similar factories, which copy a layout."""

    def first(called: Any, args: Any, kwargs: Any) -> Any:
        model = args[0]
        dtype = kwargs.get("dtype") or model.dtype
        if model.__class__ is not Tensor or dtype not in INTEGER_DTYPES or model.numel() > MAX_ELEMENTS:
            return handler(called, args, kwargs)
        return _host_factory(
            func, handler, torch.empty_strided(model.shape, model.stride(), dtype=dtype), args, kwargs
        )

    return first


def _new_factory(func: Any, handler: Handler) -> Handler:
    """The host path of ``new_zeros`` and similar factories, which copy a dtype."""

    def first(called: Any, args: Any, kwargs: Any) -> Any:
        dtype = kwargs.get("dtype") or args[0].dtype
        if dtype not in INTEGER_DTYPES or math.prod(args[1]) > MAX_ELEMENTS:
            return handler(called, args, kwargs)
        return _host_factory(func, handler, torch.empty(0, dtype=dtype), args, kwargs)

    return first


def _host_factory(func: Any, handler: Handler, model: torch.Tensor, args: Any, kwargs: Any) -> Any:
    try:
        rest, options = to_host(args[1:], floats=True), options_to_host(kwargs)
    except NotOnHost:
        return handler(func, args, kwargs)
    return to_device(func(model, *rest, **options))


def _is_small_range(start: Any, end: Any, step: Any, dtype: Any) -> bool:
    is_whole = isinstance(start, int) and isinstance(end, int) and isinstance(step, int)
    return is_whole and (dtype is None or dtype in INTEGER_DTYPES) and abs(end - start) <= MAX_ELEMENTS


def _arange_out(func: Any, handler: Handler) -> Handler:
    """The host path of ``arange``, whose ``out`` is a new tensor."""

    def first(called: Any, args: Any, kwargs: Any) -> Any:
        out = kwargs["out"]
        start, end, step = (*args, 1)[:3] if len(args) > 1 else (0, *args, 1)
        if out.numel() or out.__class__ is not Tensor or not _is_small_range(start, end, step, out.dtype):
            return handler(called, args, kwargs)
        new = known_tensor(torch.arange(start, end, step, dtype=out.dtype))
        set_storage(out, new)
        return out

    return first


def _arange(
    start: Any, end: Any, step: Any = 1, dtype: Any = None, layout: Any = None, device: Any = None, **_: Any
) -> Tensor:
    if _is_small_range(start, end, step, dtype):
        return to_device(torch.arange(start, end, step, dtype=dtype))  # type: ignore[no-any-return]
    wanted = torch.arange(start, end, step, dtype=dtype, device="meta").dtype
    out = torch.empty(0, dtype=wanted, device=DEVICE)
    aten.arange.start_out(start, end, step, out=out)
    assert isinstance(out, Tensor)
    return out


def install(library: Any) -> None:
    """Registers kernels that PyTorch calls without a tensor argument on device ``jax``."""
    for name in ("arange.start", "arange.start_step"):
        library.impl(name, _arange, "PrivateUse1")
    library.impl("arange", lambda end, **options: _arange(0, end, **options), "PrivateUse1")


def _register() -> None:
    befores = op_rules.befores
    for name in ("zeros_like", "ones_like", "full_like", "empty_like"):
        befores[getattr(aten, name).default] = _like_factory
    for name in ("new_zeros", "new_ones", "new_full", "new_empty"):
        befores[getattr(aten, name).default] = _new_factory
    for overload in (aten.arange.start_out, aten.arange.out):
        befores[overload] = _arange_out


_register()


# ---- Lowerings of the factories ----------------------------------------------------------------------------

lax = jax.lax
_env = import_torchax().default_env()


def _type(dtype: Any, *numbers: Any) -> Any:
    """JAX's dtype for ``dtype``; if that is None, for PyTorch's default dtype of ``numbers``."""
    if dtype is None:
        has_float = any(isinstance(number, float) for number in numbers)
        dtype = torch.get_default_dtype() if has_float else torch.int64
    return jax_dtype(dtype)


@lowering(aten.arange.default)
def arange_end(end: Any, dtype: Any = None, **_: Any) -> Any:
    return arange(0, end, 1, dtype)


@lowering(aten.arange.start, aten.arange.start_step)
def arange(start: Any, end: Any, step: Any = 1, dtype: Any = None, **_: Any) -> Any:
    wanted = _type(dtype, start, end, step)
    count = max(0, int(np.ceil((end - start) / step)))
    if wanted.kind in "iu":
        numbers = lax.iota(wanted, count)
        start, step = int(start), int(step)
    else:
        numbers = lax.iota(np.dtype(np.float64), count)
    if step != 1:
        numbers = numbers * step
    if start:
        numbers = numbers + start
    return numbers


@lowering(aten.linspace.default)
def linspace(start: Any, end: Any, steps: int, dtype: Any = None, **_: Any) -> Any:
    return jnp.linspace(start, end, steps, dtype=_type(dtype, 0.0))


@lowering(aten.eye.default, aten.eye.m)
def eye(n: int, m: int | None = None, dtype: Any = None, **_: Any) -> Any:
    return jnp.eye(n, m, dtype=_type(dtype, 0.0))


@lowering(aten.full.default)
def full(size: Any, value: Any, dtype: Any = None, **_: Any) -> Any:
    return jnp.full(tuple(size), value, dtype=None if dtype is None else jax_dtype(dtype))


@lowering(aten.zeros.default)
def zeros(size: Any, dtype: Any = None, **_: Any) -> Any:
    return jnp.zeros(tuple(size), _type(dtype, 0.0))


@lowering(aten.ones.default)
def ones(size: Any, dtype: Any = None, **_: Any) -> Any:
    return jnp.ones(tuple(size), _type(dtype, 0.0))


@lowering(aten.scalar_tensor.default)
def scalar_tensor(value: Any, dtype: Any = None, **_: Any) -> Any:
    return jnp.full((), value, _type(dtype, 0.0))


@fill(aten.zero_)
def zero(layout: Any) -> Any:
    return jnp.zeros(layout.shape, jax_dtype(layout.dtype))


@fill(aten.fill_.Scalar)
def fill_scalar(layout: Any, value: Any) -> Any:
    return jnp.full(layout.shape, value, jax_dtype(layout.dtype))
