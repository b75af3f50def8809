"""Calls of `jax.numpy.linalg`, `jax.numpy.fft` and `jax.lax.linalg`: function name -> samples."""

# ruff: noqa: E501 (one line a function, however many samples it has)
# fmt: off

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from .samples import E, L, R, S, Sample, V, c, f, h, i, spd

A = spd(3)
HERMITIAN = (c(3, 3) + np.conj(c(3, 3).T)).astype(np.complex64)

# Factorisations of LAPACK get inputs that differ in the last bits and lose digits in proportion to the condition.
NUMPY_LINALG: dict[str, list[Sample]] = {
    "cholesky": [S(A), S(np.stack([A, A * 2])), S(A, upper=True), S(-A), S(HERMITIAN @ HERMITIAN, symmetrize_input=False), R(S(f(2, 3)))],
    "cond": L(10, S(f(3, 3)), S(f(2, 3)), S(f(3, 3), p=1), S(f(3, 3), p="fro"), S(i(3, 3) + 5 * np.eye(3, dtype=np.int32))),
    "cross": [S(f(3), f(3, salt=1)), S(f(2, 3), f(2, 3, salt=1)), R(S(f(2), f(2)))],
    "det": L(10, S(f(3, 3)), S(f(2, 2)), S(f(2, 4, 4)), S(i(3, 3)), S(c(2, 2)), S(f(0, 0)), R(S(f(2, 3)))),
    "diagonal": E(S(f(3, 4)), S(i(2, 3, 3), offset=1)),
    "eig": L(10, S(A), S(c(3, 3)), R(S(f(2, 3)))),
    "eigh": L(10, S(A), S(HERMITIAN), S(A, UPLO="U"), S(A, symmetrize_input=False), R(S(A, "X"))),
    "eigvals": L(10, S(A), S(c(3, 3))),
    "eigvalsh": L(10, S(A), S(HERMITIAN, "U"), S(i(2, 2))),
    "inv": L(10, S(A), S(np.stack([A, A * 2])), S(c(2, 2)), S(i(2, 2)), R(S(f(2, 3)))),
    "lstsq": L(10, S(f(4, 2), f(4)), S(f(4, 2), f(4, 3)), S(f(2, 4), f(2), numpy_resid=True), R(S(f(4, 2), f(3)))),
    "matmul": [S(f(2, 3), f(3, 2)), S(f(4, 2, 3), f(3)), S(h(2, 2), f(2, 2)), R(S(f(2, 3), f(2)))],
    "matrix_norm": [S(f(2, 3)), S(f(2, 3), ord=1, keepdims=True), *L(4, S(f(2, 3), ord="nuc"), S(c(2, 2), ord=2))],
    "matrix_power": L(4, S(A, 3), S(A, 0), S(A, -2), S(i(2, 2), 5), R(S(f(2, 3), 2)), R(S(A, 1.5))),
    "matrix_rank": [S(A), S(f(2, 3)), S(np.ones((3, 3), np.float32)), S(f(4)), S(A, rtol=0.5)],
    "matrix_transpose": E(S(f(2, 3)), S(c(2, 3, 4)), R(S(f(3)))),
    "multi_dot": [S([f(2, 3), f(3, 4), f(4, 2)]), S([f(3), f(3, 2)]), S([f(2, 2), f(2, 2)]), R(S([f(3)]))],
    "norm": [S(f(3)), S(f(2, 3)), S(f(2, 3), axis=0), S(f(3), np.inf), S(f(3), 3), S(f(2, 3), "fro"), S(c(2, 3), 1, (0, 1)), S(i(3)), S(f(3), 0), R(S(f(3), "no"))],
    "outer": [S(f(2), f(3)), S(c(2), f(2)), R(S(f(2, 2), f(2)))],
    "pinv": L(20, S(f(2, 3)), S(A), S(A, hermitian=True), S(c(3, 2)), S(f(2, 3, 2))),
    "qr": L(4, S(f(3, 2)), S(f(2, 3), mode="complete"), S(f(3, 2), mode="r"), S(f(3, 2), mode="raw"), S(c(2, 2)), R(S(f(3)))),
    "slogdet": L(10, S(A), S(f(3, 3)), S(c(2, 2)), S(f(2, 3, 3)), S(A, method="qr")),
    "solve": L(10, S(A, f(3)), S(A, f(3, 2)), S(np.stack([A, A]), f(2, 3, 1)), S(c(3, 3), f(3)), R(S(f(2, 3), f(2)))),
    "svd": L(10, S(f(2, 3)), S(f(3, 2), full_matrices=False), S(f(3, 2), compute_uv=False), S(A, hermitian=True), S(c(2, 2))),
    "svdvals": L(4, S(f(2, 3)), S(c(2, 2))),
    "tensordot": [S(f(2, 3), f(3, 2), axes=1), S(f(2, 3), f(2, 3), axes=([0], [0]))],
    "tensorinv": L(10, S(f(2, 2, 4), 2), R(S(f(2, 2, 3)))),
    "tensorsolve": L(10, S(f(2, 2, 4), f(2, 2)), R(S(f(2, 3), f(2)))),
    "trace": [S(f(3, 3)), S(f(2, 3, 3), offset=1), S(i(2, 2), dtype=jnp.float32)],
    "vecdot": [S(f(3), f(3)), S(c(2, 3), c(2, 3), axis=0)],
    "vector_norm": [S(f(3)), S(f(2, 3), axis=1, keepdims=True), S(f(3), ord=1), S(f(3), ord=np.inf), S(c(3), ord=3)],
}

_complex = [S(f(5)), S(c(2, 5)), S(i(4)), S(c(5), norm="ortho"), S(c(5), norm="forward"), S(h(4)), R(S(f()))]
_one = [*_complex, S(c(5), 3), S(c(5), 8), S(c(3, 2), axis=0), R(S(c(5), 0)), R(S(c(5), axis=1)), R(S(c(5), norm="no"))]
_half = [S(f(6)), S(f(2, 5)), S(f(6), 4), S(f(3, 2), axis=0), S(i(4), norm="ortho"), R(S(f()))]
_many = [S(f(2, 3)), S(c(2, 3, 4)), S(f(2, 3), (4, 2)), S(f(2, 3, 4), axes=(0, 1)), S(c(2, 3), norm="ortho"), R(S(f(2, 3), axes=(0, 5)))]
NUMPY_FFT: dict[str, list[Sample]] = {
    **{name: _one for name in ("fft", "ifft", "hfft", "irfft")},
    **{name: [*_half, R(S(c(4)))] for name in ("rfft", "ihfft")},
    **{name: _many for name in ("fft2", "ifft2", "irfft2", "fftn", "ifftn", "irfftn")},
    **{name: [S(f(2, 3)), S(f(2, 3), (4, 2)), S(i(2, 3), norm="forward"), R(S(c(2, 3)))] for name in ("rfft2", "rfftn")},
    **{name: E(S(f(5)), S(f(2, 3)), S(c(2, 3), axes=1), S(i(4))) for name in ("fftshift", "ifftshift")},
    **{name: [S(5), S(4, 0.5), S(4, dtype=jnp.float32), S(4, d=f()), S(2.5)] for name in ("fftfreq", "rfftfreq")},
}

_lu = f(3, 3)
LAX_LINALG: dict[str, list[Sample]] = {
    "cholesky": [S(A), S(np.stack([A, A])), S(-A), S(A, symmetrize_input=False), S(i(3, 3)), R(S(f(2, 3)))],
    "cholesky_update": L(4, S(np.linalg.cholesky(A).T.astype(np.float32), f(3)), R(S(A, f(2)))),
    "eig": L(10, S(A), S(c(3, 3), compute_left_eigenvectors=False), R(S(i(3, 3)))),
    "eigh": L(10, S(A), S(HERMITIAN, lower=False), S(A, sort_eigenvalues=False), R(S(f(2, 3)))),
    "hessenberg": L(10, S(f(3, 3)), S(c(3, 3)), R(S(i(3, 3)))),
    "householder_product": L(4, S(f(3, 2), f(2)), R(S(f(3, 2), f(3)))),
    "lu": [S(f(3, 3)), S(f(3, 2)), S(c(2, 2)), S(f(2, 3, 3)), R(S(i(3, 3)))],
    "lu_pivots_to_permutation": [S(np.array([1, 2, 2], np.int32), 3), S(np.array([[0, 1], [1, 1]], np.int32), 4)],
    "ormqr": L(4, S(f(3, 2), f(2), f(3, 2)), S(f(3, 2), f(2), f(2, 3), left=False, transpose=True)),
    "qdwh": L(20, V(lambda qdwh, x: qdwh(x)[:2], A), V(lambda qdwh, x: qdwh(x, is_hermitian=True)[:2], A)),
    "qr": L(4, S(f(3, 2)), S(f(2, 3), full_matrices=False), S(c(2, 2)), S(f(3, 2), pivoting=True), R(S(i(2, 2)))),
    "schur": L(10, S(f(3, 3)), S(c(2, 2)), S(f(3, 3), compute_schur_vectors=False)),
    "svd": L(10, S(f(3, 2)), S(f(2, 3), full_matrices=False), S(f(2, 3), compute_uv=False), S(c(2, 2)), R(S(i(2, 2)))),
    "symmetric_product": [S(f(3, 2), A), S(f(3, 2), A, alpha=2.0, beta=0.5, symmetrize_output=True)],
    "triangular_solve": L(4, S(A, f(2, 3)), S(A, f(3, 2), left_side=True, lower=True), S(A, f(3), left_side=True, transpose_a=True), S(A, f(3, 1), left_side=True, unit_diagonal=True), S(HERMITIAN + 5 * np.eye(3, dtype=np.complex64), c(2, 3), conjugate_a=True), R(S(A, f(2, 2)))),
    "tridiagonal": L(10, S(A), S(A, lower=False)),
    "tridiagonal_solve": L(4, S(np.float32([0, 1, 2]), np.float32([5, 6, 7]), np.float32([1, 2, 0]), f(3, 2)), R(S(f(3), f(3), f(2), f(3, 2)))),
}

_ENUM = "an enumeration of implementations"
LAX_LINALG_NOT_ARRAY_FUNCTIONS = {name: _ENUM for name in ("EigImplementation", "EighImplementation", "SvdAlgorithm")}
