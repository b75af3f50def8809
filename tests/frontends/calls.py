"""For each public function of NumPy's that takes arrays: calls as text, the plainest first.

Each is run on NumPy's own arrays and on lazy tensors of the same values: F, G (float32, 3x4), S (float32, 3x3), P (the same, positive
definite), U, V (float32 vectors of 4), W (float32 vector of 6, sorted), I, J (int32, 3x4, positive), K (int32 vector of 4, places),
B (bool, 3x4), C (complex64, 3x4), H (uint8 vector), T (float32, 2x3x4). Capital letters followed by ``n`` are NumPy's own arrays in both.
M is F as an array that can be written to (``lazynb.numpy.mutable``), and what a call that returns nothing writes to it is its result.
"""

# ruff: noqa: E501 - a table

from __future__ import annotations

import numpy as np

_UNARY = """abs absolute acos arccos asin arcsin asinh arcsinh atan arctan cbrt ceil conj conjugate cos cosh deg2rad degrees exp
    exp2 expm1 fabs floor frexp isfinite isinf isnan log log10 log1p log2 logical_not modf negative positive rad2deg radians
    reciprocal rint sign signbit sin sinh spacing sqrt square tan tanh trunc""".split()
_BINARY = """add arctan2 atan2 copysign divide divmod equal float_power floor_divide fmax fmin fmod greater greater_equal heaviside
    hypot less less_equal logaddexp logaddexp2 logical_and logical_or logical_xor maximum minimum mod multiply nextafter not_equal
    pow power remainder subtract true_divide""".split()
_INTEGER = "bitwise_and bitwise_or bitwise_xor gcd lcm left_shift right_shift bitwise_left_shift bitwise_right_shift".split()

CALLS: dict[str, list[str]] = {
    **{f"np.{name}": [f"np.{name}(F)", f"np.{name}(I)"] for name in _UNARY},
    **{f"np.{name}": [f"np.{name}(F, G)", f"np.{name}(F, 2)", f"np.{name}(F, Fn)", f"np.{name}(I, J)", f"np.{name}(F, I)"]
       for name in _BINARY},
    **{f"np.{name}": [f"np.{name}(I, J % 5)", f"np.{name}(I, 2)"] for name in _INTEGER},
    "np.acosh": ["np.acosh(F * F + 1)"], "np.arccosh": ["np.arccosh(F * F + 1)"],
    "np.atanh": ["np.atanh(F / 10)"], "np.arctanh": ["np.arctanh(F / 10)"],
    "np.bitwise_count": ["np.bitwise_count(I)"], "np.bitwise_invert": ["np.bitwise_invert(I)"],
    "np.bitwise_not": ["np.bitwise_not(B)"], "np.invert": ["np.invert(I)", "np.invert(F)"],
    "np.isnat": ["np.isnat(F)"], "np.ldexp": ["np.ldexp(F, I)"],
    "np.matmul": ["np.matmul(F, G.T)", "np.matmul(F, G)", "np.matmul(I, J.T)", "np.matmul(U, V)"],
    "np.matvec": ["np.matvec(F, V)"], "np.vecmat": ["np.vecmat(V, F.T)"], "np.vecdot": ["np.vecdot(F, G)", "np.vecdot(C, C)"],
    # ---- functions
    "np.all": ["np.all(B)", "np.all(F, axis=1)"], "np.any": ["np.any(B)", "np.any(B, 0, keepdims=True)"],
    "np.allclose": ["np.allclose(F, G)"], "np.array_equal": ["np.array_equal(F, G)"],
    "np.array_equiv": ["np.array_equiv(F, G)"],
    "np.max": ["np.max(F)", "np.max(I, axis=0)", "np.max(F, axis=3)"], "np.amax": ["np.amax(F)"],
    "np.min": ["np.min(F)", "np.min(F, 1)"], "np.amin": ["np.amin(F)"],
    "np.angle": ["np.angle(C)", "np.angle(F)", "np.angle(C, deg=True)"],
    "np.append": ["np.append(F, G)", "np.append(F, G, axis=0)", "np.append(F, Gn)"],
    "np.apply_along_axis": ["np.apply_along_axis(lambda row: row[0] * 2, 1, F)", "np.apply_along_axis(np.diff, 0, F)", "np.apply_along_axis(np.max, 1, T)"],
    "np.apply_over_axes": ["np.apply_over_axes(np.sum, F, [0])"],
    "np.argmax": ["np.argmax(F)", "np.argmax(F, axis=1)"], "np.argmin": ["np.argmin(F)"],
    "np.argpartition": ["np.argpartition(U, 2)[2]"], "np.argsort": ["np.argsort(U)", "np.argsort(F, axis=0, kind='stable')"],
    "np.argwhere": ["np.argwhere(B)"], "np.around": ["np.around(F, 1)"], "np.round": ["np.round(F)", "np.round(F, 2)", "np.round(I, -1)"],
    "np.array2string": ["np.array2string(F)"], "np.array_repr": ["np.array_repr(F)"], "np.array_str": ["np.array_str(F)"],
    "np.array_split": ["np.array_split(F, 2)", "np.array_split(F, [1, 2])"],
    "np.astype": ["np.astype(F, np.float32)", "np.astype(F, np.int32)", "np.astype(F, np.float64)"],
    "np.atleast_1d": ["np.atleast_1d(F)", "np.atleast_1d(F, U)"], "np.atleast_2d": ["np.atleast_2d(U)"],
    "np.atleast_3d": ["np.atleast_3d(F)", "np.atleast_3d(U)"],
    "np.average": ["np.average(F)", "np.average(F, axis=1)", "np.average(F, weights=G)", "np.average(I)"],
    "np.bincount": ["np.bincount(K)"], "np.block": ["np.block([[F, G], [G, F]])"],
    "np.broadcast_arrays": ["np.broadcast_arrays(F, U)"], "np.broadcast_to": ["np.broadcast_to(U, (2, 4))", "np.broadcast_to(U, (3,))"],
    "np.busday_count": ["np.busday_count(F, G)"], "np.busday_offset": ["np.busday_offset(F, 1)"],
    "np.can_cast": ["np.can_cast(F.dtype, 'f8')"], "np.choose": ["np.choose([0, 1, 1, 0], [U, V])", "np.choose(K % 2, [U, V])", "np.choose(K, [U, V], mode='wrap')"],
    "np.clip": ["np.clip(F, -1, 1)", "np.clip(F, U, V)", "np.clip(I, 0.5, 2.5)", "np.clip(F, None, 1)", "np.clip(F)"],
    "np.column_stack": ["np.column_stack([U, V])"], "np.common_type": ["np.common_type(F, C)"],
    "np.compress": ["np.compress([True, False, True], F, axis=0)", "np.compress(B[0], F, axis=1)"],
    "np.concatenate": ["np.concatenate([F, G])", "np.concatenate([F, G], axis=1)", "np.concatenate([F, I])", "np.concatenate([F, U])",
                       "np.concatenate([F, Gn])", "np.concatenate([F, T])", "np.concatenate([F, G], axis=None)"],
    "np.concat": ["np.concat([F, G])"],
    "np.convolve": ["np.convolve(U, V)", "np.convolve(U, V, 'same')", "np.convolve(W, U, 'valid')"], "np.correlate": ["np.correlate(U, V)", "np.correlate(W, U, 'full')"],
    "np.copy": ["np.copy(F)"], "np.copyto": ["np.copyto(M, G)", "np.copyto(F, G)", "np.copyto(Fn.copy(), G)"],
    "np.corrcoef": ["np.corrcoef(F)"], "np.cov": ["np.cov(F)", "np.cov(F, dtype=np.float32)"],
    "np.count_nonzero": ["np.count_nonzero(B)"], "np.cross": ["np.cross(F[:, :3], G[:, :3])"],
    "np.cumprod": ["np.cumprod(F)", "np.cumprod(F, axis=1)", "np.cumprod(I)"], "np.cumsum": ["np.cumsum(F)", "np.cumsum(F, 0)", "np.cumsum(I, dtype=np.int32)"],
    "np.cumulative_prod": ["np.cumulative_prod(U)"], "np.cumulative_sum": ["np.cumulative_sum(U)", "np.cumulative_sum(U, include_initial=True)"],
    "np.datetime_as_string": ["np.datetime_as_string(F)"],
    "np.delete": ["np.delete(F, 1, axis=1)", "np.delete(F, [0, 2], axis=0)", "np.delete(U, 7)", "np.delete(U, K)"],
    "np.diag": ["np.diag(S)", "np.diag(U)", "np.diag(S, 1)"], "np.diag_indices_from": ["np.diag_indices_from(S)"],
    "np.diagflat": ["np.diagflat(U)"], "np.diagonal": ["np.diagonal(S)", "np.diagonal(T, 0, 1, 2)"],
    "np.diff": ["np.diff(F)", "np.diff(F, axis=0)", "np.diff(F, 2)", "np.diff(B)"], "np.digitize": ["np.digitize(U, Wn)"],
    "np.dot": ["np.dot(F, G.T)", "np.dot(U, V)", "np.dot(F, U)", "np.dot(F, G)"],
    "np.dsplit": ["np.dsplit(T, 2)"], "np.dstack": ["np.dstack([F, G])"], "np.ediff1d": ["np.ediff1d(U)"],
    "np.einsum": ["np.einsum('ij,ij->i', F, G)", "np.einsum('ij,kj', F, G)", "np.einsum('ii', S)"],
    "np.einsum_path": ["np.einsum_path('ij,kj', F, G)"], "np.empty_like": ["np.empty_like(F) * 0"],
    "np.expand_dims": ["np.expand_dims(F, 1)", "np.expand_dims(F, (0, 3))"], "np.extract": ["np.extract(B, F)"],
    "np.fill_diagonal": ["np.fill_diagonal(M, 1)", "np.fill_diagonal(S, 1)"], "np.fix": ["np.fix(F)", "np.fix(I)"], "np.flatnonzero": ["np.flatnonzero(B)"],
    "np.flip": ["np.flip(F)", "np.flip(F, 1)"], "np.fliplr": ["np.fliplr(F)"], "np.flipud": ["np.flipud(F)"],
    "np.full_like": ["np.full_like(F, 3)", "np.full_like(F, 3, dtype=np.int32)"],
    "np.geomspace": ["np.geomspace(abs(U) + 1, abs(V) + 2, 5)"], "np.gradient": ["np.gradient(U)", "np.gradient(F)", "np.gradient(F, 2.0, axis=1)"],
    "np.histogram": ["np.histogram(F)"], "np.histogram2d": ["np.histogram2d(U, V)"],
    "np.histogram_bin_edges": ["np.histogram_bin_edges(F)"], "np.histogramdd": ["np.histogramdd(F)"],
    "np.hsplit": ["np.hsplit(F, 2)"], "np.hstack": ["np.hstack([F, G])"], "np.i0": ["np.i0(U)"], "np.imag": ["np.imag(C)", "np.imag(F)"],
    "np.inner": ["np.inner(F, G)", "np.inner(U, V)"], "np.insert": ["np.insert(U, 1, 9)", "np.insert(F, 1, 5, axis=1)"],
    "np.interp": ["np.interp(U, Wn, Wn)", "np.interp(U, W, W)"], "np.intersect1d": ["np.intersect1d(F, G)"],
    "np.is_busday": ["np.is_busday(F)"], "np.isclose": ["np.isclose(F, G)", "np.isclose(F, F + 1e-7)", "np.isclose(I, J)"],
    "np.iscomplex": ["np.iscomplex(C)", "np.iscomplex(F)"], "np.iscomplexobj": ["np.iscomplexobj(C)"],
    "np.isin": ["np.isin(I, J)", "np.isin(F, Fn)"], "np.isneginf": ["np.isneginf(F)"], "np.isposinf": ["np.isposinf(F)"],
    "np.isreal": ["np.isreal(C)", "np.isreal(F)"], "np.isrealobj": ["np.isrealobj(C)"], "np.ix_": ["np.ix_(K, K)"],
    "np.kron": ["np.kron(S, S)", "np.kron(U, V)"], "np.lexsort": ["np.lexsort((U, V))"],
    "np.linspace": ["np.linspace(U, V, 5)"], "np.logspace": ["np.logspace(U, V, 5)"],
    "np.matrix_transpose": ["np.matrix_transpose(F)"], "np.may_share_memory": ["np.may_share_memory(F, G)"],
    "np.mean": ["np.mean(F)", "np.mean(F, axis=0)", "np.mean(I)", "np.mean(I, dtype=np.float32)", "np.mean(F, axis=4)"],
    "np.median": ["np.median(F)", "np.median(F, axis=1)", "np.median(I)"], "np.meshgrid": ["np.meshgrid(U, V)", "np.meshgrid(U, V, indexing='ij')"],
    "np.min_scalar_type": ["np.min_scalar_type(F)", "np.min_scalar_type(F[0, 0])"], "np.moveaxis": ["np.moveaxis(T, 0, 2)"],
    "np.nan_to_num": ["np.nan_to_num(F)", "np.nan_to_num(F, nan=1.0)", "np.nan_to_num(F, copy=False)"],
    "np.nanargmax": ["np.nanargmax(F)"], "np.nanargmin": ["np.nanargmin(F)"], "np.nancumprod": ["np.nancumprod(F)"],
    "np.nancumsum": ["np.nancumsum(F, axis=1)"], "np.nanmax": ["np.nanmax(F)"], "np.nanmean": ["np.nanmean(F)", "np.nanmean(F, 0)"],
    "np.nanmedian": ["np.nanmedian(F)"], "np.nanmin": ["np.nanmin(F)"], "np.nanpercentile": ["np.nanpercentile(F, 30)"],
    "np.nanprod": ["np.nanprod(F)"], "np.nanquantile": ["np.nanquantile(F, 0.3)"], "np.nanstd": ["np.nanstd(F)"],
    "np.nansum": ["np.nansum(F)", "np.nansum(I)"], "np.nanvar": ["np.nanvar(F)"], "np.ndim": ["np.ndim(F)"],
    "np.nonzero": ["np.nonzero(B)"], "np.ones_like": ["np.ones_like(F)", "np.ones_like(I, dtype=np.float32)"],
    "np.outer": ["np.outer(U, V)"], "np.packbits": ["np.packbits(B)", "np.packbits(B, axis=1)"],
    "np.pad": ["np.pad(F, 1)", "np.pad(F, ((0, 1), (2, 0)), mode='edge')", "np.pad(F, 1, constant_values=3)", "np.pad(F, 1, mode='reflect')"],
    "np.partition": ["np.partition(U, 2)[2]"], "np.percentile": ["np.percentile(F, 30)", "np.percentile(F, [20, 80], axis=1)", "np.percentile(F, 130)"],
    "np.permute_dims": ["np.permute_dims(T, (2, 0, 1))"], "np.piecewise": ["np.piecewise(U, [U > 0], [1, 2])", "np.piecewise(U, [U > 0], [abs, -1])"],
    "np.place": ["np.place(M, B, [1])", "np.place(F, B, [1])"], "np.poly": ["np.poly(U)", "np.poly(S)"], "np.polyadd": ["np.polyadd(U, W)"], "np.polyder": ["np.polyder(U)"],
    "np.polydiv": ["np.polydiv(W, U)"], "np.polyfit": ["np.polyfit(U, V, 1)"], "np.polyint": ["np.polyint(U)"],
    "np.polymul": ["np.polymul(U, V)"], "np.polysub": ["np.polysub(U, V)"], "np.polyval": ["np.polyval(U, V)"],
    "np.prod": ["np.prod(F)", "np.prod(I)", "np.prod(F, axis=(0, 1))"], "np.ptp": ["np.ptp(F)", "np.ptp(F, axis=1)"], "np.put": ["np.put(M, 0, 1)", "np.put(F, 0, 1)"],
    "np.put_along_axis": ["np.put_along_axis(M, np.array([[0]]), 1, 0)", "np.put_along_axis(F, np.array([[0]]), 1, 0)"], "np.putmask": ["np.putmask(M, B, 1)", "np.putmask(F, B, 1)"],
    "np.quantile": ["np.quantile(F, 0.3)", "np.quantile(F, 0.5, axis=0, method='nearest')"],
    "np.ravel": ["np.ravel(F)", "np.ravel(F, order='F')"], "np.ravel_multi_index": ["np.ravel_multi_index((K, K), (9, 9))"],
    "np.real": ["np.real(C)", "np.real(F)"], "np.real_if_close": ["np.real_if_close(C)"],
    "np.repeat": ["np.repeat(F, 2)", "np.repeat(F, 2, axis=0)", "np.repeat(U, [1, 0, 2, 1])", "np.repeat(U, K)"],
    "np.reshape": ["np.reshape(F, (4, 3))", "np.reshape(F, -1)", "np.reshape(F, (5, 2))", "np.reshape(F, (4, 3), order='F')"],
    "np.resize": ["np.resize(F, (2, 3))"], "np.result_type": ["np.result_type(F, I)"],
    "np.roll": ["np.roll(F, 1)", "np.roll(F, 1, axis=0)"], "np.rollaxis": ["np.rollaxis(T, 2)"], "np.roots": ["np.roots(U)"],
    "np.rot90": ["np.rot90(F)"], "np.save": ["np.save(FILE, F)"], "np.savetxt": ["np.savetxt(FILE, F)"],
    "np.savez": ["np.savez(FILE, F)"], "np.savez_compressed": ["np.savez_compressed(FILE, F)"],
    "np.searchsorted": ["np.searchsorted(W, U)", "np.searchsorted(W, U, side='right')"], "np.select": ["np.select([B, F > 0], [F, G], 0)"],
    "np.setdiff1d": ["np.setdiff1d(F, G)"], "np.setxor1d": ["np.setxor1d(F, G)"], "np.shape": ["np.shape(F)"],
    "np.shares_memory": ["np.shares_memory(F, G)"], "np.sinc": ["np.sinc(F)"], "np.size": ["np.size(F)"],
    "np.sort": ["np.sort(F)", "np.sort(F, axis=0)", "np.sort(F, axis=None)"], "np.sort_complex": ["np.sort_complex(F)", "np.sort_complex(C)", "np.sort_complex(H)"],
    "np.split": ["np.split(F, 2, axis=1)", "np.split(F, 2)", "np.split(U, [1, 3])"], "np.squeeze": ["np.squeeze(F[:1])", "np.squeeze(F, 0)"],
    "np.stack": ["np.stack([F, G])", "np.stack([F, G], axis=2)", "np.stack([F, U])"],
    "np.std": ["np.std(F)", "np.std(F, axis=1, ddof=1)", "np.std(I)"],
    "np.sum": ["np.sum(F)", "np.sum(F, axis=0)", "np.sum(F, 1, keepdims=True)", "np.sum(I)", "np.sum(I, dtype=np.int32)", "np.sum(B)", "np.sum(F, 7)",
               "np.sum(F, where=B)", "np.sum(F, initial=1)"],
    "np.swapaxes": ["np.swapaxes(T, 0, 2)"],
    "np.take": ["np.take(F, [0, 2], axis=1)", "np.take(F, 1)", "np.take(F, 99)", "np.take(F, K)", "np.take(F, K * 50, mode='clip')", "np.take(F, np.array([-1, 2]))"],
    "np.take_along_axis": ["np.take_along_axis(F, np.array([[0], [1], [2]]), 1)", "np.take_along_axis(F, np.argsort(F, 1), 1)"],
    "np.tensordot": ["np.tensordot(F, G, ((1,), (1,)))", "np.tensordot(T, G.T, 1)"], "np.tile": ["np.tile(F, 2)", "np.tile(F, (2, 1))"],
    "np.trace": ["np.trace(S)", "np.trace(S, 1)"], "np.transpose": ["np.transpose(F)", "np.transpose(T, (1, 0, 2))", "np.transpose(F, (0, 1, 2))"],
    "np.trapezoid": ["np.trapezoid(U)", "np.trapezoid(F, dx=0.5)"], "np.tril": ["np.tril(S)"], "np.tril_indices_from": ["np.tril_indices_from(S)"],
    "np.trim_zeros": ["np.trim_zeros(U)"], "np.triu": ["np.triu(S, 1)"], "np.triu_indices_from": ["np.triu_indices_from(S)"],
    "np.union1d": ["np.union1d(F, G)"], "np.unique": ["np.unique(F)"], "np.unique_all": ["np.unique_all(F)"],
    "np.unique_counts": ["np.unique_counts(F)"], "np.unique_inverse": ["np.unique_inverse(F)"], "np.unique_values": ["np.sort(np.unique_values(F))"],
    "np.unpackbits": ["np.unpackbits(H)"], "np.unravel_index": ["np.unravel_index(K, (9, 9))"], "np.unstack": ["np.unstack(F)"],
    "np.unwrap": ["np.unwrap(U)"], "np.vander": ["np.vander(U)", "np.vander(U, 3, increasing=True)"], "np.var": ["np.var(F)", "np.var(F, 0)"],
    "np.vdot": ["np.vdot(U, V)", "np.vdot(C, C)"], "np.vsplit": ["np.vsplit(F, 3)"], "np.vstack": ["np.vstack([F, G])", "np.vstack([U, V])"],
    "np.where": ["np.where(B, F, G)", "np.where(B, F, 0)", "np.where(B, F, I)", "np.where(B)", "np.where(B, 1.0, U)"],
    "np.zeros_like": ["np.zeros_like(F)", "np.zeros_like(F, dtype=np.int32)"],
    # ---- conversions
    "np.array": ["np.array(F)"], "np.asarray": ["np.asarray(F)"], "np.asanyarray": ["np.asanyarray(F)"],
    "np.ascontiguousarray": ["np.ascontiguousarray(F)"], "np.asfortranarray": ["np.asfortranarray(F)"],
    "np.asarray_chkfinite": ["np.asarray_chkfinite(F)"], "np.asmatrix": ["np.asmatrix(F)"], "np.require": ["np.require(F)"],
    # ---- linalg
    **{f"np.linalg.{name}": [f"np.linalg.{name}(P)"] for name in "cholesky cond inv pinv matrix_rank eigvalsh svdvals".split()},
    "np.linalg.eig": ["np.linalg.eig(P)[0].sum()"], "np.linalg.eigh": ["np.linalg.eigh(P)[0]"], "np.linalg.eigvals": ["np.linalg.eigvals(P).sum()"],
    "np.linalg.svd": ["np.linalg.svd(P, compute_uv=False)"],
    "np.linalg.cross": ["np.linalg.cross(F[:, :3], G[:, :3])"], "np.linalg.det": ["np.linalg.det(S)", "np.linalg.det(F)"],
    "np.linalg.diagonal": ["np.linalg.diagonal(S)"], "np.linalg.lstsq": ["np.linalg.lstsq(S, F)[0]"], "np.linalg.matmul": ["np.linalg.matmul(S, F)"],
    "np.linalg.matrix_norm": ["np.linalg.matrix_norm(F)", "np.linalg.matrix_norm(F, ord=2)"],
    "np.linalg.matrix_power": ["np.linalg.matrix_power(S, 3)", "np.linalg.matrix_power(P, -1)"],
    "np.linalg.matrix_transpose": ["np.linalg.matrix_transpose(F)"], "np.linalg.multi_dot": ["np.linalg.multi_dot([S, F, G.T])"],
    "np.linalg.norm": ["np.linalg.norm(F)", "np.linalg.norm(F, axis=1)", "np.linalg.norm(U, 1)", "np.linalg.norm(F, 'nuc')", "np.linalg.norm(I)"],
    "np.linalg.outer": ["np.linalg.outer(U, V)"], "np.linalg.qr": ["abs(np.linalg.qr(P)[1])", "abs(np.linalg.qr(P, mode='r'))"],
    "np.linalg.slogdet": ["np.linalg.slogdet(S)"], "np.linalg.solve": ["np.linalg.solve(P, F)"],
    "np.linalg.tensordot": ["np.linalg.tensordot(F, G, axes=((1,), (1,)))"], "np.linalg.tensorinv": ["np.linalg.tensorinv(P.reshape(3, 3, 1), 1)", "np.linalg.tensorinv(P, 1)"],
    "np.linalg.tensorsolve": ["np.linalg.tensorsolve(P, U[:3])"], "np.linalg.trace": ["np.linalg.trace(S)"],
    "np.linalg.vecdot": ["np.linalg.vecdot(F, G)"], "np.linalg.vector_norm": ["np.linalg.vector_norm(F)", "np.linalg.vector_norm(F, axis=1, ord=1)"],
    # ---- fft
    **{f"np.fft.{name}": [f"np.fft.{name}(F)"] for name in "fft ifft rfft fft2 ifft2 rfft2 fftn ifftn rfftn ihfft fftshift ifftshift".split()},
    **{f"np.fft.{name}": [f"np.fft.{name}(C)"] for name in "irfft irfft2 irfftn hfft".split()},
}
CALLS["np.fft.fft"] += ["np.fft.fft(U, 8, norm='ortho')", "np.fft.fft(F, axis=5)", "np.fft.fft(C, axis=0)"]


def arrays() -> dict[str, np.ndarray]:
    """By letter, the arrays of the calls."""
    rng = np.random.default_rng(7)

    def floats(*shape: int) -> np.ndarray:
        return (rng.normal(size=shape) * 2).astype(np.float32)

    square = floats(3, 3)
    found = {"F": floats(3, 4), "G": floats(3, 4), "S": square, "P": (square @ square.T + 3 * np.eye(3)).astype(np.float32),
             "U": floats(4), "V": floats(4), "W": np.sort(floats(6)), "I": rng.integers(1, 20, (3, 4)).astype(np.int32),
             "J": rng.integers(1, 9, (3, 4)).astype(np.int32), "K": np.array([1, 0, 3, 2], np.int32), "B": rng.random((3, 4)) > 0.5,
             "C": (floats(3, 4) + 1j * floats(3, 4)).astype(np.complex64), "H": np.array([3, 200, 17], np.uint8), "T": floats(2, 3, 4)}
    return found
