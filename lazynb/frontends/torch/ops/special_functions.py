"""Special functions and orthogonal polynomials with PyTorch's definitions."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from lazynb.frontends.torch.dispatch import op_rules
from lazynb.frontends.torch.dispatch.complex32 import jax_dtype
from lazynb.frontends.torch.dispatch.in_place_writes import store
from lazynb.frontends.torch.dispatch.op_rules import lowering
from lazynb.frontends.torch.dispatch.result_layouts import expected_results
from lazynb.frontends.torch.dispatch.torch_replay import arguments_by_name

aten = torch.ops.aten
lax = jax.lax


def _floats(x: Any) -> Any:
    return x if x.dtype.kind in "fV" else x.astype(jax_dtype(torch.get_default_dtype()))


def _wide(function: Any) -> Any:
    """``function``, computed in at least 32 bits."""

    def widened(x: Any, *others: Any) -> Any:
        wide = x.astype(np.float32) if x.dtype.itemsize < 4 else x
        return function(wide, *others).astype(x.dtype)

    return widened


@_wide
def _digamma(x: Any) -> Any:
    """Fixes ``lax.digamma`` at 0: it is NaN there, but PyTorch has the one-sided limit by the sign of 0."""
    return jnp.where(x == 0, -jnp.copysign(jnp.inf, x), lax.digamma(x))


@lowering(aten.digamma)
def digamma(x: Any) -> Any:
    return _digamma(_floats(x))


def _zeta(s: Any, q: Any) -> Any:
    """Hurwitz' zeta function. XLA's is inexact for negative ``q``, so these are shifted by the recurrence."""
    is_pole = (q <= 0) & (q == jnp.floor(q))
    start = jnp.where(is_pole, 1, q)

    def turn(state: Any) -> Any:
        at, total = state
        return jnp.where(at < 0, at + 1, at), jnp.where(at < 0, total + at**-s, total)

    at, total = lax.while_loop(lambda state: (state[0] < 0).any(), turn, (start, jnp.zeros_like(start)))
    return jnp.where(is_pole, jnp.inf, lax.zeta(s, at) + total)


@lowering(aten.special_zeta)
def zeta(s: Any, q: Any) -> Any:
    kinds = [one.dtype for one in (s, q) if hasattr(one, "dtype") and one.dtype.kind in "fV"]
    dtype = functools.reduce(jnp.promote_types, kinds or [jax_dtype(torch.get_default_dtype())])
    s, q = jnp.broadcast_arrays(*[jnp.asarray(one).astype(dtype) for one in (s, q)])
    is_defined = (q > 0) | (s == jnp.floor(s)) | (q == jnp.floor(q))
    whole = jnp.where(is_defined, s, 2)
    result = jnp.where(is_defined, _zeta(whole, q), jnp.nan)
    return jnp.where(s == 1, jnp.inf, jnp.where(s < 1, jnp.nan, result)).astype(dtype)


@lowering(aten.polygamma.default)
def polygamma(n: int, x: Any) -> Any:
    x = _floats(x)
    if n == 0:
        return _digamma(x)
    if n == 1:
        return _trigamma(x)
    factor = (1 if n % 2 else -1) * math.gamma(n + 1)
    return _wide(lambda at: _zeta(jnp.full_like(at, n + 1), at) * factor)(x)


def _polygamma_in_place(func: Any, args: Any, kwargs: Any) -> Any:
    """In-place ``polygamma``, the only operation whose functional variant has another argument order."""
    bound = arguments_by_name(func, args, kwargs)
    expected_results(func, args, kwargs, writes=True)  # raises PyTorch's error
    store(bound["self"], aten.polygamma.default(bound["n"], bound["self"])._elem)
    return bound["self"]


op_rules.special[aten.polygamma_.default] = _polygamma_in_place


@_wide
def _trigamma(x: Any) -> Any:
    """By reflection, recurrence and the asymptotic series (Abramowitz and Stegun 6.4)."""
    is_left = x < 0.5
    sine = jnp.sin(jnp.pi * x)
    total = jnp.where(is_left, -((jnp.pi / sine) ** 2), 0).astype(x.dtype)
    at = jnp.where(is_left, 1 - x, x)
    for _ in range(6):
        total = total + 1 / (at * at)
        at = at + 1
    square = 1 / (at * at)
    series = 1 + 1 / (2 * at) + square * (1 / 6 - square * (1 / 30 - square * (1 / 42)))
    total = total + series / at
    return jnp.where(is_left, -total, total)


@lowering(torch.ops.prims.spherical_bessel_j0.default)
def spherical_bessel_j0(x: Any) -> Any:
    small = 1 - x * x / 6 + x**4 / 120 - x**6 / 5040
    result = jnp.where(jnp.abs(x) < 0.5, small, jnp.sin(x) / x)
    return jnp.where(jnp.isinf(x), 0, result)


@lowering(aten.logaddexp.default)
def logaddexp(x: Any, y: Any) -> Any:
    return _complex_logaddexp(x, y) if "c" in (x.dtype.kind, y.dtype.kind) else jnp.logaddexp(x, y)


def _complex_logaddexp(x: Any, y: Any) -> Any:
    """PyTorch's formula, by the operand with the larger real part; the phase is not reduced to (-pi, pi]."""
    is_larger = x.real >= y.real
    larger, smaller = jnp.where(is_larger, x, y), jnp.where(is_larger, y, x)
    is_endless = ~jnp.isfinite(smaller.real) & (smaller.real == larger.real)
    plain = larger + jnp.log1p(jnp.exp(jnp.where(is_endless, 0, smaller - larger)))
    endless = jnp.where(smaller.real < 0, smaller, jnp.log(jnp.exp(smaller) + jnp.exp(larger)))
    result = jnp.where(is_endless, endless, plain)
    return jnp.where(jnp.isnan(x) | jnp.isnan(y), jnp.nan + 1j * jnp.nan, result)


@lowering(aten.logcumsumexp.default, aten._logcumsumexp.default)
def logcumsumexp(x: Any, dim: int) -> Any:
    if not x.ndim or x.dtype.kind != "c":
        return lax.cumlogsumexp(x, axis=dim % x.ndim) if x.ndim else x
    rows = jnp.moveaxis(x, dim, 0)
    start = jnp.full(rows.shape[1:], -jnp.inf, x.dtype)

    def step(total: Any, row: Any) -> Any:
        new = _complex_logaddexp(row, total)
        return new, new

    return jnp.moveaxis(lax.scan(step, start, rows)[1], 0, dim)


# ---- Orthogonal polynomials of tensor degrees --------------------------------------------------------------


def _next_chebyshev(x: Any, k: Any, now: Any, before: Any) -> Any:
    return 2 * x * now - before


def _next_legendre(x: Any, k: Any, now: Any, before: Any) -> Any:
    return ((2 * k + 1) * x * now - k * before) / (k + 1)


def _by_recurrence(x: Any, degree: Any, first: Any, step: Any) -> Any:
    """The polynomial of each ``degree`` at ``x``: 1, ``first``, and so on; 0 for a negative degree."""

    def turn(state: Any) -> Any:
        k, now, before = state
        is_left = k < degree
        new = step(x, k.astype(x.dtype), now, before)
        return k + 1, jnp.where(is_left, new, now), jnp.where(is_left, now, before)

    one = jnp.ones_like(x)
    most = degree.max(initial=0)
    start = jnp.ones((), degree.dtype), jnp.where(degree > 0, first, one), one
    value = lax.while_loop(lambda state: state[0] < most, turn, start)[1]
    return jnp.where(degree < 0, 0, value)


def _angular(x: Any, degree: Any, angular: Any, first: Any) -> Any:
    """Chebyshev polynomials; as in PyTorch, large degrees use the trigonometric form."""
    by_angle = (degree > 6) & (jnp.abs(x) < 1)
    value = _by_recurrence(x, jnp.where(by_angle, 0, degree), first, _next_chebyshev)
    angle = jnp.arccos(jnp.where(by_angle, x, 0))
    return jnp.where(by_angle, angular(degree.astype(x.dtype), angle), value)


def _t(x: Any, n: Any) -> Any:
    return _angular(x, n, lambda k, angle: jnp.cos(k * angle), x)


def _u(x: Any, n: Any) -> Any:
    return _angular(x, n, lambda k, angle: jnp.sin((k + 1) * angle) / jnp.sin(angle), 2 * x)


def _v(x: Any, n: Any) -> Any:
    return _angular(x, n, lambda k, angle: jnp.cos((k + 0.5) * angle) / jnp.cos(angle / 2), 2 * x - 1)


def _w(x: Any, n: Any) -> Any:
    return _angular(x, n, lambda k, angle: jnp.sin((k + 0.5) * angle) / jnp.sin(angle / 2), 2 * x + 1)


def _p(x: Any, n: Any) -> Any:
    return _by_recurrence(x, n, x, _next_legendre)


def _hermite(first: Any, step: Any) -> Any:
    """Hermite polynomials, up to PyTorch's maximum degree."""

    def polynomial(x: Any, n: Any) -> Any:
        most = 128 if x.dtype.itemsize < 8 else 512
        return jnp.where(n > most, jnp.nan, _by_recurrence(x, jnp.minimum(n, most), first(x), step))

    return polynomial


_h = _hermite(lambda x: 2 * x, lambda x, k, now, before: 2 * (x * now - k * before))
_he = _hermite(lambda x: x, lambda x, k, now, before: x * now - k * before)


def _l(x: Any, n: Any) -> Any:
    return _by_recurrence(
        x, n, 1 - x, lambda x, k, now, before: ((2 * k + 1 - x) * now - k * before) / (k + 1)
    )


def _of_degrees(polynomial: Any, shifted: bool) -> Any:
    """The operation: promotes and broadcasts its arguments, and truncates degrees to integers."""

    def operation(x: Any, n: Any) -> Any:
        kinds = [one.dtype for one in (x, n) if hasattr(one, "dtype") and one.dtype.kind in "fV"]
        dtype = kinds[0] if kinds else jax_dtype(torch.get_default_dtype())
        if len(kinds) > 1:
            dtype = jnp.promote_types(*kinds)
        at, degree = jnp.broadcast_arrays(jnp.asarray(x).astype(dtype), jnp.asarray(n).astype(np.int64))
        return polynomial(2 * at - 1 if shifted else at, degree)

    return operation


for _name, _polynomial in {
    "chebyshev_polynomial_t": _t,
    "chebyshev_polynomial_u": _u,
    "chebyshev_polynomial_v": _v,
    "chebyshev_polynomial_w": _w,
    "legendre_polynomial_p": _p,
    "hermite_polynomial_h": _h,
    "hermite_polynomial_he": _he,
    "laguerre_polynomial_l": _l,
}.items():
    _shifts = {"special_": False, "special_shifted_": True} if "chebyshev" in _name else {"special_": False}
    for _prefix, _shifted in _shifts.items():
        lowering(getattr(aten, _prefix + _name))(_of_degrees(_polynomial, _shifted))
