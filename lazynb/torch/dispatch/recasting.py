"""Views of the same memory as other numbers: ``view(dtype)``, ``view_as_real``, conjugates."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from lazynb.torch.dispatch.halves import jax_dtype
from lazynb.torch.dispatch.layout import Layout, layout as layout_with
from lazynb.torch.dispatch.view_step import ViewStep

aten = torch.ops.aten
lax = jax.lax

CONJUGATE = ViewStep(lambda x: jnp.conj(x), lambda x, new: jnp.conj(new))
NEGATIVE = ViewStep(lambda x: -x, lambda x, new: -new)


def recast_step(shape: tuple[int, ...], dtype: torch.dtype) -> ViewStep:
    """The step to the same bytes as an array of ``shape`` and ``dtype``."""
    wanted = jax_dtype(dtype)
    return ViewStep(lambda x: _recast(x, shape, wanted), lambda x, new: _recast(new, x.shape, x.dtype))


def _recast(x: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """The bytes of ``x``, row by row, as an array of ``shape`` and ``dtype``."""
    parts, part = _parts(x), _part_of(dtype)
    ratio = part.itemsize // parts.dtype.itemsize
    if ratio > 1:
        parts = parts.reshape((-1, ratio))
    parts = lax.bitcast_convert_type(parts, part).reshape(-1)
    if dtype.kind == "b":
        return (parts != 0).reshape(shape)
    if dtype.kind == "c":
        return lax.complex(parts[0::2], parts[1::2]).reshape(shape)
    return parts.reshape(shape)


def _parts(x: Any) -> Any:
    """The numbers of ``x`` in a row, in a dtype whose bits JAX can look at."""
    flat = x.reshape(-1)
    if x.dtype.kind == "b":
        return flat.astype(np.uint8)
    if x.dtype.kind == "c":
        return jnp.stack([jnp.real(flat), jnp.imag(flat)], axis=-1).reshape(-1)
    return flat


def _part_of(dtype: Any) -> Any:
    """The dtype of which a number of ``dtype`` consists."""
    if dtype.kind == "b":
        return np.dtype(np.uint8)
    if dtype.kind == "c":
        return np.dtype(f"float{4 * dtype.itemsize}")
    return dtype


def whole_as(whole: Layout, dtype: torch.dtype) -> Layout | None:
    """The layout of a storage's memory as ``dtype``; None for wider numbers, which need not lie together."""
    ratio, rest = divmod(whole.dtype.itemsize, dtype.itemsize)
    if rest or not ratio:
        return None
    if ratio == 1:
        return layout_with(whole.shape, whole.stride, whole.offset, dtype)
    stride = tuple([step * ratio for step in whole.stride])
    return layout_with((*whole.shape, ratio), (*stride, 1), whole.offset * ratio, dtype)
