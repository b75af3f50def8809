"""Fourier transforms whose result is real."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import torch

from lazynb.torch.dispatch.registry import lowering

aten = torch.ops.aten
_NORMS = "forward", "ortho", "backward"  # of an inverse: no factor, 1 / sqrt(n), 1 / n


@lowering(aten._fft_c2r.default)
def fft_c2r(x: Any, dim: Sequence[int], normalization: int, last_dim_size: int) -> Any:
    """The inverse transform of what is half of a Hermitian array along the last of ``dim``."""
    sizes = [x.shape[axis] for axis in dim[:-1]] + [last_dim_size]
    return jnp.fft.irfftn(x, s=sizes, axes=tuple(dim), norm=_NORMS[normalization])
