"""Factorisations, inverses, solutions and real Fourier transforms, with LAPACK's ``info`` codes.

PyTorch's ``linalg.inv`` is ``linalg.inv_ex`` and a check of ``info``, which
:func:`lazynb.frontends.torch.dispatch.value_checks.check_linalg_info` makes a part of the program.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from lazynb.frontends.torch.dispatch import op_rules
from lazynb.frontends.torch.dispatch.op_execution import decompose_or_run_on_cpu, fit_results
from lazynb.frontends.torch.dispatch.op_rules import lowering
from lazynb.frontends.torch.dispatch.result_layouts import expected_results
from lazynb.frontends.torch.dispatch.tensor_layout import contiguous
from lazynb.frontends.torch.dispatch.torch_replay import wrap_results
from lazynb.frontends.torch.dispatch.value_checks import checker
from lazynb.frontends.torch.torch_tensor import wrap

# ---- Fourier transforms with a real result -----------------------------------------------------------------

aten = torch.ops.aten
_NORMS = "forward", "ortho", "backward"  # of an inverse: no factor, 1 / sqrt(n), 1 / n


@lowering(aten._fft_c2r.default)
def fft_c2r(x: Any, dim: Sequence[int], normalization: int, last_dim_size: int) -> Any:
    """The inverse transform of half of a Hermitian array along the last of ``dim``."""
    sizes = [x.shape[axis] for axis in dim[:-1]] + [last_dim_size]
    return jnp.fft.irfftn(x, s=sizes, axes=tuple(dim), norm=_NORMS[normalization])


lax = jax.lax


def _zero_pivot(lu: Any) -> Any:
    """The 1-based index of the first zero on U's diagonal, or 0, as in LAPACK's ``getrf``."""
    zero = jnp.diagonal(lu, axis1=-2, axis2=-1) == 0
    if not zero.shape[-1]:
        return jnp.zeros(zero.shape[:-1], np.int32)
    return jnp.where(zero.any(axis=-1), jnp.argmax(zero, axis=-1) + 1, 0).astype(np.int32)


def _failing_minor(x: Any) -> Any:
    """The order of the first leading minor that is not positive, or 0, as in LAPACK's ``potrf``."""
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
    info = none if not x.size else lax.cond(fails, _failing_minor, lambda _: none, lower)
    return (jnp.conj(jnp.swapaxes(factor, -1, -2)) if upper else factor), info


def _mirrored(x: Any, upper: bool) -> Any:
    """The whole Hermitian matrix, given one triangle."""
    if upper:
        x = jnp.conj(jnp.swapaxes(x, -1, -2))
    strict = jnp.tril(x, -1)
    diagonal = jnp.real(jnp.diagonal(x, axis1=-2, axis2=-1)).astype(x.dtype)
    middle = diagonal[..., None] * jnp.eye(x.shape[-1], dtype=x.dtype)
    return strict + middle + jnp.conj(jnp.swapaxes(strict, -1, -2))


def _cholesky(func: Any, args: Any, kwargs: Any) -> Any:
    """``torch.cholesky``, which checks ``info`` itself."""
    factor, info = aten.linalg_cholesky_ex.default(args[0], upper=(*args[1:], kwargs.get("upper", False))[0])
    aten._linalg_check_errors.default(info, "cholesky", is_matrix=args[0].dim() == 2)
    return factor


if hasattr(aten, "cholesky"):  # until PyTorch 2.14
    op_rules.special[aten.cholesky.default] = _cholesky


@lowering(aten.linalg_lu_factor_ex.default)
def lu_factor_ex(x: Any, pivot: bool = True, check_errors: bool = False) -> Any:
    if not pivot:
        raise NotImplementedError
    lu, pivots, _ = lax.linalg.lu(x)
    return lu, pivots + 1, _zero_pivot(lu)


@lowering(aten.lu_unpack.default)
def lu_unpack(lu: Any, pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """The permutation and both factors; a factor that is not requested is empty."""
    rows, columns = lu.shape[-2:]
    least = min(rows, columns)
    nothing = jnp.zeros((0,), lu.dtype)
    permutation = lower = upper = nothing
    if unpack_pivots:
        order = lax.linalg.lu_pivots_to_permutation(pivots - 1, rows)
        permutation = jnp.swapaxes(jnp.eye(rows, dtype=lu.dtype)[order], -1, -2)
    if unpack_data:
        lower = jnp.tril(lu[..., :least], -1) + jnp.eye(rows, least, dtype=lu.dtype)
        upper = jnp.triu(lu[..., :least, :])
    return permutation, lower, upper


@lowering(aten.linalg_lu.default)
def lu(x: Any, pivot: bool = True) -> Any:
    if not pivot:
        raise NotImplementedError
    factors, pivots, _ = lax.linalg.lu(x)
    return lu_unpack(factors, pivots + 1)


@lowering(aten.linalg_inv_ex.default)
def inv_ex(x: Any, check_errors: bool = False) -> Any:
    if not x.size:
        return x, jnp.zeros(x.shape[:-2], np.int32)
    lu, _, order = lax.linalg.lu(x)
    return _lu_solve(lu, order, jnp.broadcast_to(jnp.eye(x.shape[-1], dtype=x.dtype), x.shape)), _zero_pivot(
        lu
    )


def _lu_solve(lu: Any, order: Any, b: Any) -> Any:
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
    solved = _lu_solve(factors, jnp.broadcast_to(order, (*lead, order.shape[-1])), right)
    if is_vector:
        solved = solved[..., 0]
    elif not left:
        solved = jnp.swapaxes(solved, -1, -2)
    return solved, lu, pivots + 1, _zero_pivot(lu)


@lowering(aten.cholesky_solve.default)
def cholesky_solve(b: Any, factor: Any, upper: bool = False) -> Any:
    lead = jnp.broadcast_shapes(b.shape[:-2], factor.shape[:-2])
    b = jnp.broadcast_to(b, (*lead, *b.shape[-2:]))
    factor = jnp.broadcast_to(factor, (*lead, *factor.shape[-2:]))
    lower = jnp.conj(jnp.swapaxes(factor, -1, -2)) if upper else factor
    solve = functools.partial(lax.linalg.triangular_solve, lower, left_side=True, lower=True)
    return solve(solve(b), transpose_a=True, conjugate_a=True)


@checker(aten.cholesky_inverse.default)
def _invertible(bound: dict[str, Any]) -> None:
    """Checks that the factor has no zero on its diagonal, which would mean a singular matrix."""
    factor = bound["self"]
    info = wrap(_zero_pivot(factor._elem), contiguous(tuple(factor.shape[:-2]), torch.int32))
    aten._linalg_check_errors.default(info, "cholesky_inverse", is_matrix=factor.dim() == 2)


def _sign_of_order(pivots: Any) -> Any:
    """The sign of the permutation given by 0-based ``pivots``."""
    moved = pivots != jnp.arange(pivots.shape[-1])
    return 1 - 2 * (moved.sum(axis=-1) % 2)


def det(x: Any) -> Any:
    """The determinant, the factors and the pivots, which the gradient uses."""
    lu, pivots, _ = lax.linalg.lu(x)
    diagonal = jnp.diagonal(lu, axis1=-2, axis2=-1)
    return diagonal.prod(axis=-1) * _sign_of_order(pivots).astype(x.dtype), lu, pivots + 1


def slogdet(x: Any) -> Any:
    lu, pivots, _ = lax.linalg.lu(x)
    diagonal = jnp.diagonal(lu, axis1=-2, axis2=-1)
    signs = jnp.sign(diagonal).prod(axis=-1) * _sign_of_order(pivots).astype(x.dtype)
    return signs, jnp.log(jnp.abs(diagonal)).sum(axis=-1), lu, pivots + 1


def _with_lapack_layout(function: Any) -> Any:
    """A handler that factorises the transpose of a real row-major matrix, as PyTorch does. PyTorch's
    gradients rely on this layout."""

    def handler(func: Any, args: Any, kwargs: Any) -> Any:
        x, known = args[0], expected_results(func, args, kwargs)
        value = x._elem
        if x.is_contiguous() and not x.is_complex():
            value = jnp.swapaxes(value, -1, -2)
        try:
            values = function(value)
        except NotImplementedError:  # small floats: LAPACK lacks them, PyTorch's CPU refuses
            return decompose_or_run_on_cpu(func, args, kwargs)
        return wrap_results(fit_results(values, known.tree), known.tree)

    return handler


op_rules.special[aten._linalg_det.default] = _with_lapack_layout(det)
op_rules.special[aten._linalg_slogdet.default] = _with_lapack_layout(slogdet)


@lowering(aten.geqrf.default)
def geqrf(x: Any) -> Any:
    """Householder vectors below the diagonal of R, and their factors."""
    raw, factors = jnp.linalg.qr(x, mode="raw")
    return jnp.swapaxes(raw, -1, -2), factors


@lowering(aten.ormqr.default)
def ormqr(x: Any, factors: Any, other: Any, left: bool = True, transpose: bool = False) -> Any:
    return lax.linalg.ormqr(x, factors, other, left=left, transpose=transpose)


def _pinv(x: Any, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    """PyTorch's formula, by its factorisations. Values up to the tolerance count as 0."""
    if not x.numel():
        return x.new_empty((*x.shape[:-2], x.shape[-1], x.shape[-2]))
    if atol is None:
        atol = x.new_zeros((), dtype=torch.float64)
    if rtol is None:
        least = torch.finfo(x.dtype).eps * max(x.shape[-2:])
        rtol = torch.where(atol > 0, 0.0, least)
    if hermitian:
        values, right = torch.linalg.eigh(x)
        left, sizes = right, values.abs()
    else:
        left, values, adjoint = torch.linalg.svd(x, full_matrices=False)
        right, sizes = adjoint.mH, values
    most = sizes.amax(-1, keepdim=True)
    limit = torch.maximum(atol.unsqueeze(-1).double(), rtol.unsqueeze(-1) * most)
    inverse = torch.where(sizes > limit, values.reciprocal(), 0.0).to(x.dtype)
    return (right * inverse.unsqueeze(-2)) @ left.mH


op_rules.parts[aten.linalg_pinv.atol_rtol_tensor] = _pinv
