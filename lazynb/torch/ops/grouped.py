"""Products of matrices in groups, as mixtures of experts have them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from lazynb.torch.dispatch.registry import lowering

aten = torch.ops.aten
lax = jax.lax


def _groups(ends: Any, length: int) -> Any:
    """Which of ``length`` rows is in which group, by the ends of the groups: an array of bools."""
    at = lax.iota(np.dtype(np.int32), length)[:, None]
    starts = jnp.concatenate([jnp.zeros(1, ends.dtype), ends[:-1]])
    return (at >= starts) & (at < ends)


def _by_rows(x: Any, y: Any, ends: Any) -> Any:
    """Each group of the rows of ``x`` times its own matrix of ``y``; zeros for rows in no group."""
    sizes = jnp.diff(ends, prepend=jnp.zeros(1, ends.dtype)).astype(np.int32)
    return lax.ragged_dot(x, y, sizes)


@lowering(aten._grouped_mm.default)
def grouped_mm(x: Any, y: Any, ends: Any = None, bias: Any = None, out_dtype: Any = None) -> Any:
    """Products of groups: of the rows of ``x``, of the columns of ``y``, or of the axis that is summed over.

    Each of the last is a matrix of the result.
    """
    if bias is not None:
        raise NotImplementedError
    if ends is None:
        return x @ y
    if x.ndim == 2 and y.ndim == 3:
        return _by_rows(x, y, ends)
    if x.ndim == 3 and y.ndim == 2:
        return _by_rows(y.T, jnp.swapaxes(x, -1, -2), ends).T
    inside = _groups(ends, y.shape[0]).astype(x.dtype)
    return jnp.einsum("mk,kg,kn->gmn", x, inside, y, precision=lax.Precision.HIGHEST)
