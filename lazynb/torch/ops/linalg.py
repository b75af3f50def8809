"""Factorisations, inverses and solutions, with the numbers that say where they fail.

PyTorch's ``linalg.inv`` is ``linalg.inv_ex`` and a check of these numbers (``info``), which
:func:`lazynb.torch.dispatch.demands.linalg_errors` makes a part of the program.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from lazynb.torch.dispatch import dispatch as d
from lazynb.torch.dispatch.registry import lowering

aten = torch.ops.aten
lax = jax.lax


def _zero_pivot(lu: Any) -> Any:
    """The number, from 1, of the first zero on the diagonal of U, or 0. As LAPACK's ``getrf``."""
    zero = jnp.diagonal(lu, axis1=-2, axis2=-1) == 0
    if not zero.shape[-1]:
        return jnp.zeros(zero.shape[:-1], np.int32)
    return jnp.where(zero.any(axis=-1), jnp.argmax(zero, axis=-1) + 1, 0).astype(np.int32)


def _bad_minor(x: Any) -> Any:
    """The order of the first leading minor that is not positive; 0 if there is none.

    As LAPACK's ``potrf``.
    """
    size = x.shape[-1]

    def step(at: int, state: tuple[Any, Any]) -> tuple[Any, Any]:
        rest, found = state
        column = rest[..., :, at]
        pivot = jnp.real(column[..., at])
        found = jnp.where((found == 0) & ~(pivot > 0), at + 1, found)
        safe = jnp.where(pivot > 0, pivot, 1)[..., None, None]
        outer = column[..., :, None] * jnp.conj(column)[..., None, :]
        return rest - outer / safe, found

    start = x, jnp.zeros(x.shape[:-2], np.int32)
    return lax.fori_loop(0, size, step, start)[1].astype(np.int32)


@lowering(aten.linalg_cholesky_ex.default)
def cholesky_ex(x: Any, upper: bool = False, check_errors: bool = False) -> Any:
    lower = _mirrored(x, upper)
    factor = lax.linalg.cholesky(lower, symmetrize_input=False)
    fails = ~jnp.isfinite(jnp.diagonal(factor, axis1=-2, axis2=-1)).all()
    none = jnp.zeros(x.shape[:-2], np.int32)
    info = none if not x.size else lax.cond(fails, _bad_minor, lambda _: none, lower)
    return (jnp.conj(jnp.swapaxes(factor, -1, -2)) if upper else factor), info


def _mirrored(x: Any, upper: bool) -> Any:
    """The whole Hermitian matrix of which one triangle is given."""
    if upper:
        x = jnp.conj(jnp.swapaxes(x, -1, -2))
    strict = jnp.tril(x, -1)
    diagonal = jnp.real(jnp.diagonal(x, axis1=-2, axis2=-1)).astype(x.dtype)
    middle = diagonal[..., None] * jnp.eye(x.shape[-1], dtype=x.dtype)
    return strict + middle + jnp.conj(jnp.swapaxes(strict, -1, -2))


def _cholesky(func: Any, args: Any, kwargs: Any) -> Any:
    """``torch.cholesky``, which checks by itself."""
    factor, info = aten.linalg_cholesky_ex.default(args[0], upper=(*args[1:], kwargs.get("upper", False))[0])
    aten._linalg_check_errors.default(info, "cholesky", is_matrix=args[0].dim() == 2)
    return factor


d.special[aten.cholesky.default] = _cholesky


@lowering(aten.linalg_lu_factor_ex.default)
def lu_factor_ex(x: Any, pivot: bool = True, check_errors: bool = False) -> Any:
    if not pivot:
        raise NotImplementedError
    lu, pivots, _ = lax.linalg.lu(x)
    return lu, pivots + 1, _zero_pivot(lu)


@lowering(aten.linalg_inv_ex.default)
def inv_ex(x: Any, check_errors: bool = False) -> Any:
    if not x.size:
        return x, jnp.zeros(x.shape[:-2], np.int32)
    lu, _, order = lax.linalg.lu(x)
    return _lu_solved(lu, order, jnp.broadcast_to(jnp.eye(x.shape[-1], dtype=x.dtype), x.shape)), _zero_pivot(
        lu
    )


def _lu_solved(lu: Any, order: Any, b: Any) -> Any:
    """The solution of A X = B, given A's factors and the order of its rows."""
    permuted = jnp.take_along_axis(b, order[..., None], axis=-2)
    triangular = functools.partial(lax.linalg.triangular_solve, left_side=True)
    return triangular(lu, triangular(lu, permuted, lower=True, unit_diagonal=True))


@lowering(aten._linalg_solve_ex.default)
def solve_ex(a: Any, b: Any, left: bool = True, check_errors: bool = False) -> Any:
    is_vector = b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])
    lu, pivots, order = lax.linalg.lu(a if left else jnp.swapaxes(a, -1, -2))
    right = b[..., None] if is_vector else b
    if not left and not is_vector:
        right = jnp.swapaxes(right, -1, -2)
    lead = jnp.broadcast_shapes(a.shape[:-2], right.shape[:-2])
    right = jnp.broadcast_to(right, (*lead, *right.shape[-2:]))
    factors = jnp.broadcast_to(lu, (*lead, *lu.shape[-2:]))
    solved = _lu_solved(factors, jnp.broadcast_to(order, (*lead, order.shape[-1])), right)
    if is_vector:
        solved = solved[..., 0]
    elif not left:
        solved = jnp.swapaxes(solved, -1, -2)
    return solved, lu, pivots + 1, _zero_pivot(lu)
