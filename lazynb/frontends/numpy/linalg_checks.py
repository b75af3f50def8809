"""``np.linalg`` functions whose errors depend on the values: the compiled program does the check.

NumPy raises ``LinAlgError`` at the call. Reading a pending matrix would flush the trace, so the program
computes an error flag beside the result, and the flush raises the error with the line of the call
(:mod:`lazynb.recording.operation_checks`). NumPy computes in 64 bits. The program does the same, even in
32-bit mode, so that it detects singular matrices at the same precision. Each result has NumPy's dtype.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lazynb.frontends.numpy import numpy_arguments
from lazynb.frontends.numpy.numpy_arguments import (
    NumpyFallback,
    errstate_raises,
    is_jax_dtype,
    leaves,
    map_leaves,
    small_shapes,
    without_weak_type,
)
from lazynb.recording.operation_checks import add_check

Function = Callable[..., Any]


class CheckedLinalg(NamedTuple):
    """A linear algebra function with a check of the values.

    Attributes:
      compute: returns the results and a bool array: whether to raise.
      text: the error message.
    """

    compute: Function
    text: str

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Returns the results. One operation computes results and flag, so no invalid result is used."""
        results, bad = _as_one_operation(self.compute, *args, **options)
        add_check(bad, lambda found: np.linalg.LinAlgError(self.text) if found.any() else None)
        return results


def _as_one_operation(function: Function, *args: Any, **options: Any) -> Any:
    """Records ``function(*args, **options)`` as one operation of the trace. Raises :class:`NumpyFallback` if
    an option is a JAX array, whose value would select the computation."""
    if any(isinstance(option, jax.Array) for option in options.values()):
        raise NumpyFallback("numpy_values", "np.linalg with an option that is an array")
    return _jitted(function, tuple(sorted(options.items())))(*args)


@functools.lru_cache(maxsize=256)
def _jitted(function: Function, options: tuple[tuple[str, Any], ...]) -> Function:
    return jax.jit(functools.partial(function, **dict(options)))


# ---- Results and error flags, in 64 bits -------------------------------------------------------------------


def _solve(a: Any, b: Any) -> Any:
    return jnp.linalg.solve(a, b), _is_singular(a)


def _inv(a: Any) -> Any:
    return jnp.linalg.inv(a), _is_singular(a)


def _negative_power(a: Any, *, n: int) -> Any:
    return jnp.linalg.matrix_power(jnp.linalg.inv(a), -n), _is_singular(a)


def _is_singular(a: Any) -> Any:
    factors = jax.lax.linalg.lu(a)[0]
    return (jnp.diagonal(factors, axis1=-2, axis2=-1) == 0).any()


def _cholesky(a: Any, *, upper: bool) -> Any:
    factor = jnp.linalg.cholesky(a, upper=upper, symmetrize_input=False)
    read = jnp.triu(a) if upper else jnp.tril(a)
    return factor, jnp.isnan(factor).any() & jnp.isfinite(read).all()


def _svd(a: Any, *, full_matrices: bool, compute_uv: bool) -> Any:
    results = jnp.linalg.svd(a, full_matrices=full_matrices, compute_uv=compute_uv)
    return tuple(results) if compute_uv else results, jnp.isnan(a).any()


def _eigh(a: Any, *, UPLO: str) -> Any:
    return tuple(jnp.linalg.eigh(a, UPLO=UPLO, symmetrize_input=False))


_CHECKED_SVD = CheckedLinalg(_svd, "SVD did not converge")


def _singular_values(a: Any) -> Any:
    """Singular values, cast to the dtype of NumPy's further computation."""
    return _CHECKED_SVD(_to_64_bit(a), full_matrices=False, compute_uv=False).astype(_real_type(a))


def _real_type(a: Any) -> Any:
    return np.empty(0, a.dtype).real.dtype if a.dtype.kind in "fc" else np.dtype(float)


# ---- Functions with NumPy's arguments ----------------------------------------------------------------------


def _of_cholesky(a: Any, /, *, upper: bool = False) -> Any:
    return CheckedLinalg(_cholesky, "Matrix is not positive definite")(_to_64_bit(a), upper=upper)


def _of_eigh(a: Any, UPLO: str = "L") -> Any:
    return _as_one_operation(_eigh, _to_64_bit(a), UPLO=UPLO.upper())


def _of_svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    if hermitian:
        raise NumpyFallback("numpy_function", "np.linalg.svd with hermitian=")
    return _CHECKED_SVD(_to_64_bit(a), full_matrices=full_matrices, compute_uv=compute_uv)


def _pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = np._NoValue) -> Any:
    if hermitian or isinstance(rcond, jax.Array) or isinstance(rtol, jax.Array):
        raise NumpyFallback("numpy_function", "np.linalg.pinv of these arguments")
    dtype = _real_type(a)
    if rcond is None and rtol is None:
        rcond = max(a.shape[-2:]) * np.finfo(dtype).eps
    elif rcond is None:
        rcond = 1e-15 if rtol is np._NoValue else rtol
    parts = _CHECKED_SVD(_to_64_bit(jnp.conj(a)), full_matrices=False, compute_uv=True)
    u, s, vt = [part.astype(dtype if part.dtype.kind == "f" else a.dtype) for part in parts]
    limit = np.asarray(rcond, dtype)[..., None] * s.max(axis=-1, keepdims=True)
    inverse = jnp.where(s > limit, 1 / s, jnp.zeros((), dtype))
    return jnp.matmul(jnp.swapaxes(vt, -1, -2), inverse[..., None] * jnp.swapaxes(u, -1, -2))


def _matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    if hermitian or tol is not None or rtol is not None or A.ndim < 2:
        raise NumpyFallback("numpy_function", "np.linalg.matrix_rank of these arguments")
    s = _singular_values(A)
    limit = s.max(axis=-1, keepdims=True) * np.asarray(max(A.shape[-2:]) * np.finfo(s.dtype).eps, s.dtype)
    return jnp.sum(s > limit, axis=-1)


def _cond(x: Any, p: Any = None) -> Any:
    if isinstance(p, jax.Array) or p not in (None, 2, -2):
        raise NumpyFallback("numpy_function", "np.linalg.cond of this norm")
    if _cond_raises():
        s = _singular_values(x)
    else:
        s = _as_one_operation(_svd, _to_64_bit(x), full_matrices=False, compute_uv=False)[0].astype(
            _real_type(x)
        )
    ratio = s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    is_given = jnp.isnan(x).any(axis=(-2, -1))
    return jnp.where(jnp.isnan(ratio) & ~is_given, jnp.asarray(np.inf, ratio.dtype), ratio)


@functools.cache
def _cond_raises() -> bool:
    """Whether NumPy raises for NaN in the matrix; since NumPy 2.5 the result is NaN."""
    try:
        np.linalg.cond(np.full((2, 2), np.nan))
    except np.linalg.LinAlgError:
        return True
    return False


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    if axis is not None or keepdims or x.ndim != 2:
        raise NumpyFallback("numpy_values", "np.linalg.norm raises an error that depends on the values")
    singular_values = _singular_values(x)
    if ord == "nuc":
        return jnp.sum(singular_values)
    return jnp.max(singular_values) if ord == 2 else jnp.min(singular_values)


_FUNCTIONS: dict[str, Function] = {
    "solve": lambda a, b: CheckedLinalg(_solve, "Singular matrix")(_to_64_bit(a), _to_64_bit(b)),
    "inv": lambda a: CheckedLinalg(_inv, "Singular matrix")(_to_64_bit(a)),
    "matrix_power": lambda a, n: CheckedLinalg(_negative_power, "Singular matrix")(_to_64_bit(a), n=n),
    "cholesky": _of_cholesky,
    "eigh": _of_eigh,
    "eigvalsh": lambda a, UPLO="L": _of_eigh(a, UPLO)[0],
    "svd": _of_svd,
    "svdvals": lambda x, /: _of_svd(x, compute_uv=False),
    "pinv": _pinv,
    "matrix_rank": _matrix_rank,
    "cond": _cond,
    "norm": _norm,
    "matrix_norm": lambda x, /, *, keepdims=False, ord="fro": _norm(x, ord, None, keepdims),
}
"""Functions with NumPy's arguments, by their name in ``np.linalg``."""


# ---- Trial calls of NumPy with stand-ins -------------------------------------------------------------------


def _with_numpy_types(name: str, compute: Function) -> Function:

    def call(*args: Any, **kwargs: Any) -> Any:
        if errstate_raises():
            raise NumpyFallback("numpy_values", f"np.linalg.{name} under np.errstate")
        answer = _numpy_answer(getattr(np.linalg, name), args, kwargs)
        for leaf in leaves(answer):
            dtype = np.dtype(getattr(leaf, "dtype", type(leaf)))
            if not is_jax_dtype(dtype):
                raise NumpyFallback("numpy_dtype", f"np.linalg.{name} gives {dtype.name}")
        if any(0 in leaf.shape for leaf in leaves((args, kwargs)) if hasattr(leaf, "shape")):
            raise NumpyFallback("numpy_function", f"np.linalg.{name} of an empty array")
        with numpy_arguments.x64_context():
            found = compute(*map_leaves(_as_array, args), **map_leaves(_as_array, kwargs))
            results = iter(list(leaves(found)))
            return map_leaves(lambda leaf: without_weak_type(next(results).astype(leaf.dtype)), answer)

    return call


def _to_64_bit(leaf: Any) -> Any:
    """An array cast to the dtype in which NumPy computes."""
    array = _as_array(leaf)
    if not isinstance(array, jax.Array):
        return array
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _as_array(leaf: Any) -> Any:
    if not isinstance(leaf, np.ndarray):
        return leaf
    if not is_jax_dtype(leaf.dtype):
        raise NumpyFallback("numpy_dtype", f"an array of {leaf.dtype.name}")
    return jnp.asarray(leaf)


def _numpy_answer(function: Function, args: Any, kwargs: Any) -> Any:
    """NumPy's result for regular matrices of these dtypes and ranks. Raises: NumPy's error for these dtypes
    and shapes."""
    shapes = [leaf.shape for leaf in leaves((args, kwargs)) if isinstance(leaf, jax.Array | np.ndarray)]
    small = small_shapes(shapes)

    def stand_in(leaf: Any) -> Any:
        if not isinstance(leaf, jax.Array | np.ndarray):
            return leaf
        shape = small[leaf.shape]
        if len(shape) < 2:
            return np.ones(shape, leaf.dtype)[()]  # a scalar if there is no axis
        return np.broadcast_to(np.eye(*shape[-2:], dtype=leaf.dtype), shape)

    with np.errstate(all="ignore"):
        return function(*map_leaves(stand_in, args), **map_leaves(stand_in, kwargs))


CHECKED_FORMS: dict[str, Function] = {
    f"np.linalg.{name}": _with_numpy_types(name, compute) for name, compute in _FUNCTIONS.items()
}
"""The functions by NumPy's name. :data:`lazynb.frontends.numpy.function_rules.CHECKED_LINALG` has the
conditions on the arguments."""
