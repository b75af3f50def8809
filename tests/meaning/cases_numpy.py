"""Calls of `jax.numpy`: function name -> samples. `jax.numpy.linalg` and `jax.numpy.fft` are in cases_linalg."""

# ruff: noqa: E501 (one line a function, however many samples it has)
# fmt: off

from __future__ import annotations

import io

import jax.numpy as jnp
import numpy as np

from .samples import (
    RAW_KEY,
    SPECIAL,
    WEAK,
    E,
    L,
    R,
    S,
    Sample,
    V,
    b,
    binary,
    c,
    f,
    h,
    i,
    p,
    reduction,
    u,
    unary,
)

CASES: dict[str, list[Sample]] = {}


def _all(names: str, samples: list[Sample]) -> None:
    CASES.update({name: samples for name in names.split()})


# ---- elementwise

_all(
    "acos acosh arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh angle cos cosh exp exp2 expm1 log log10"
    " log1p log2 reciprocal sin sinc sinh sqrt square tan tanh deg2rad degrees rad2deg radians",
    unary("fibch"),
)
_all(
    "abs absolute conj conjugate imag iscomplex isfinite isinf isnan isreal logical_not nan_to_num positive real rint",
    unary("fibch"),
)
_all("cbrt ceil fabs floor frexp i0 isneginf isposinf modf signbit spacing trunc", unary("fibh"))
_all("negative sign", unary("fich"))
_all("around round", [*unary("fich"), S(f(2, 3), 1), R(S(i(3), -1))])
_all("bitwise_count bitwise_invert bitwise_not invert", unary("ib"))
_all(
    "add multiply true_divide divide equal not_equal greater greater_equal less less_equal maximum minimum fmax fmin"
    " logaddexp logaddexp2 float_power arctan2 atan2",
    binary("fibch", ""),
)
_all("power pow", [*binary("fibch", ""), S(f(3), 0.5), S(2.0, f(3)), S(i(3), np.array([1, 2, 3])), R(S(i(3), -1))])
_all("logical_and logical_or logical_xor", binary("fibch", "", scalar=True))
_all("subtract", binary("fich"))
_all("copysign divmod floor_divide fmod heaviside hypot mod nextafter remainder", binary("fibh"))
_all("bitwise_and bitwise_or bitwise_xor", binary("ib"))
_all("bitwise_left_shift bitwise_right_shift left_shift right_shift", [S(i(3), p(3).astype(np.int32)), S(i(2, 3), 2), S(u(3), 1)])
_all("gcd lcm", [*binary("i"), S(u(3), u(3, salt=1))])
CASES["ldexp"] = [S(f(2, 3), i(2, 3)), S(f(3), 2), S(h(3), i(3)), S(i(3), i(3)), R(S(f(3), f(3)))]
CASES["nan_to_num"] = [*CASES["nan_to_num"], S(SPECIAL, nan=1.0, posinf=2.0, neginf=-2.0)]
CASES["clip"] = [S(f(2, 3), -0.5, 0.5), S(f(3), f(3) - 1, None), S(i(3), 0, 2), S(h(3), min=0), S(SPECIAL, max=1.0), R(S(c(3), 0))]
CASES["isclose"] = [S(f(3), f(3) + 1e-6), S(SPECIAL, SPECIAL, equal_nan=True), S(i(3), i(3)), S(f(3), 1.0, rtol=1.0)]
CASES["allclose"] = [S(f(3), f(3) + 1e-6), S(f(3), f(3, salt=1)), S(SPECIAL, SPECIAL), S(c(2), c(2))]
CASES["array_equal"] = [S(f(3), f(3)), S(f(3), f(2)), S(SPECIAL, SPECIAL, equal_nan=True), S(i(3), 1)]
CASES["array_equiv"] = [S(f(3), f(2, 3)), S(f(1, 3), f(1, 3)), R(S(f(3), f(2)))]
CASES["unwrap"] = [S(f(5) * 6), S(f(2, 5) * 6, axis=0), S(i(5), period=4)]

# ---- reductions

_all("sum mean prod std var nansum nanmean nanprod nanstd nanvar", reduction("fibch", where=True))
_all("all any", reduction("fibch", where=True))
_all("max min amax amin nanmax nanmin", [*reduction("fibch", empty=False), S(f(0, 3), initial=1.0), S(f(3), where=b(3), initial=0)])
_all("ptp", reduction("fich", refused="b", empty=False))
_all("argmax argmin nanargmax nanargmin", [S(f()), S(f(5)), S(f(2, 3), axis=0), S(i(2, 3), axis=1, keepdims=True), S(b(4)), S(h(4)), S(SPECIAL), R(S(f(0))), R(S(c(3)))])
_all("sum nansum", [*CASES["sum"], S(f(2, 3), dtype=jnp.int32), S(i(3), dtype=jnp.float32), S(b(3), initial=2), S(f(2, 3), promote_integers=False)])
_all("std var", [*CASES["var"], S(f(2, 3), ddof=1), S(f(2, 3), axis=0, correction=1), S(f(3), mean=f())])
_all("nansum", CASES["mean"])
_all("average", [S(f(2, 3)), S(f(2, 3), axis=1, weights=p(3)), S(i(3), weights=p(3), returned=True), S(c(2, 3), axis=0)])
_all("median nanmedian", [S(f(5)), S(f(2, 4), axis=1), S(i(4), keepdims=True), S(h(3)), S(SPECIAL), R(S(c(3)))])
_all(
    "quantile nanquantile",
    [S(f(5), 0.3), S(f(2, 5), p(3), axis=1), S(i(4), 0.5, keepdims=True), S(SPECIAL, 0.5), R(S(f(3), 1)), R(S(c(3), 0.5))]
    + [S(f(5), 0.3, method=m) for m in ("lower", "higher", "midpoint", "nearest")],
)
_all("percentile nanpercentile", [S(f(5), 30), S(f(2, 5), p(3) * 100, axis=0), S(i(4), 50, method="nearest")])
_all("count_nonzero", [S(f(2, 3)), S(i(2, 3), axis=0), S(b(2, 3), axis=1, keepdims=True), S(c(3))])
_all("cumsum cumprod nancumsum nancumprod", [S(f(2, 3)), S(f(2, 3), axis=1), S(i(2, 3), 0), S(b(3)), S(c(3)), S(h(3)), S(f(3), dtype=jnp.int32), S(SPECIAL), S(f(0, 3))])
_all("cumulative_sum cumulative_prod", [S(f(3)), S(i(2, 3), axis=1), S(f(2, 3), axis=0, include_initial=True), S(b(3)), R(S(f(2, 3)))])
_all("minmax", [S(f(2, 3)), S(i(2, 3), axis=0)])
_all("cov corrcoef", [S(f(3, 4)), S(f(4, 3), rowvar=False), S(f(4), f(4, salt=1)), S(i(2, 4)), S(c(2, 4))])
CASES["cov"] = [*CASES["cov"], S(f(2, 4), ddof=0), S(f(2, 4), aweights=p(4)), S(f(2, 4), fweights=np.array([1, 2, 1, 1]))]

# ---- making arrays

_all("array asarray", [*E(*unary("fibch")), *E(S(2), S(2.5), S(True), S(1j), S([1, 2]), S([[1.0], [2]]), S([f(2), f(2)]), S(f(3), dtype=jnp.int32), S(f(3), copy=True), S(np.float32(2)), S([WEAK, 1.0]), S(f(3), jnp.bfloat16)), R(S("a")), R(S([[1], [1, 2]])), R(S(None))])
CASES["array"] = [*CASES["array"], *E(S(f(3), ndmin=3), S(range(3)), S(((1, 2), (3, 4))))]
_all("zeros ones empty", E(S(3), S((2, 3)), S((0, 3), jnp.int32), S((), bool), S((2,), jnp.bfloat16), S((2,), jnp.complex64), R(S(-1)), R(S((2,), "no"))))
_all("zeros_like ones_like empty_like", E(*unary("fibch"), S(f(2, 3), dtype=jnp.int32), S(f(2, 3), shape=(4,)), S(2.0), S(WEAK), R(S([1, 2]))))
# JAX 0.12 notices a negative size of `empty` only when it lowers it; 0.10 at once. See exceptions.py for such errors.
CASES["empty"] = [sample for sample in CASES["empty"] if sample.args != (-1,)]
CASES["full"] = E(S(3, 1.5), S((2, 3), 2), S((2,), f()), S((2, 3), f(3)), S((2,), 1, jnp.bfloat16), S((), True), R(S((2,), f(3))))
CASES["full_like"] = E(S(f(2, 3), 2), S(i(2, 3), 1.5), S(f(2, 3), f(3)), S(f(3), 1, dtype=bool, shape=(2,)), S(2, 3.5))
CASES["arange"] = E(S(4), S(1, 5), S(0, 1, 0.25), S(5, 0, -2), S(3.0), S(4, dtype=jnp.float32), S(0), S(2, 8, dtype=jnp.bfloat16), R(S("a")))
CASES["linspace"] = [S(0, 1, 5), S(f(3), f(3, salt=1), 4, axis=1), S(0, 1, 4, endpoint=False, retstep=True), S(0, 9, 4, dtype=int), S(0, 1j, 3), S(0, 1, 0)]
CASES["logspace"] = [S(0, 2, 5), S(f(3), f(3, salt=1), 4), S(0, 2, 3, base=2.0, endpoint=False)]
CASES["geomspace"] = [S(1, 8, 4), S(p(3), p(3, salt=1), 4), S(1, 8, 3, endpoint=False), S(1j, 8j, 3)]
CASES["eye"] = E(S(3), S(2, 3, 1), S(3, k=-1, dtype=jnp.int32), S(0), S(3, 3, i() * 0))
CASES["identity"] = E(S(3), S(2, jnp.int32))
CASES["tri"] = E(S(3), S(2, 3, 1), S(3, k=-1, dtype=bool))
_all("bartlett blackman hamming hanning", [S(5), S(1), S(0), S(2.5)])
CASES["kaiser"] = [S(5, 2.0), S(1, 2), S(4, f())]
CASES["indices"] = E(S((2, 3)), S((2, 3), jnp.float32), S((2, 3), sparse=True))
CASES["fromfunction"] = [S(lambda x, y: x * 2 + y, (2, 3)), S(lambda x: jnp.sin(x).sum(), (4,), dtype=jnp.float32)]
CASES["fromstring"] = E(S("1 2 3", dtype=jnp.int32, sep=" "), S("1.5,2", sep=","))
CASES["frombuffer"] = E(S(b"\x01\x02\x03\x04", dtype=jnp.uint8), S(bytes(8), dtype=jnp.float32, count=1, offset=4))
CASES["from_dlpack"] = E(S(f(2, 3)), S(i(3)), S(b(2)), S(c(3)), R(S(3)))
_all("fromfile fromiter", [R(S("name"))])
CASES["meshgrid"] = E(S(f(2), f(3)), S(f(2), i(3), indexing="ij"), S(f(2), f(3), sparse=True), S(f(2)), R(S(f(2), f(2, 2))))
CASES["mgrid"] = [V(lambda g: g[0:3, 1:3]), V(lambda g: g[0:1:4j])]
CASES["ogrid"] = [V(lambda g: g[0:3, 1:3]), V(lambda g: g[0:1:4j])]
CASES["r_"] = E(V(lambda r, x: r[x, 0.0, x], f(3)), V(lambda r: r[1:4, 0]), V(lambda r, x: r["0,2", x, x], f(3)))
CASES["c_"] = E(V(lambda c_, x: c_[x, x], f(3)))
_all("s_ index_exp", [V(lambda s, x: x[s[1:, None]], f(3))])
CASES["copy"] = E(*unary("fibch"), S(2), S(WEAK), R(S([1.5])))
CASES["astype"] = [S(f(3), t) for t in (jnp.int32, bool, jnp.bfloat16, jnp.complex64, jnp.uint8)]
CASES["astype"] += [S(i(3), jnp.float32), S(b(3), jnp.int32), S(h(3), jnp.float32), S(c(3), jnp.complex64), S(i(3), bool)]
CASES["astype"] += [S(SPECIAL, jnp.int32), S(f(3), None), R(S(f(3), "no")), R(S(f(3), jnp.dtype("V4")))]
CASES["load"] = E(V(lambda load: load(io.BytesIO(_npy(f(2, 3))))))
CASES["save"] = [V(lambda save, x: (save(out := io.BytesIO(), x), out.getvalue())[1], f(2, 3))]
CASES["savez"] = [V(lambda savez, x: (savez(out := io.BytesIO(), x=x), np.load(io.BytesIO(out.getvalue()))["x"])[1], f(2, 3))]


def _npy(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


# The dtypes' constructors make arrays.
_all(
    "bfloat16 bool bool_ cdouble complex128 complex64 complex_ csingle double float16 float32 float64 float_ int16 int32 int64"
    " int8 int_ single uint uint16 uint32 uint64 uint8",
    E(S(1), S(f(3)), S(i(2, 3)), S([1, 0]), S(True)),
)
_all(
    "float4_e2m1fn float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz"
    " float8_e5m2 float8_e5m2fnuz float8_e8m0fnu int4 uint4 int2 uint2",
    E(S(1), S(f(3)), S(b(3))),
)

# ---- shape and place: nothing is computed, so floats stay as they are to the last bit

_all("reshape", E(S(f(2, 3), (3, 2)), S(f(2, 3), -1), S(i(6), (2, -1)), S(f(2, 3), (3, 2), order="F"), S(f(0, 3), (3, 0)), S(f(), (1, 1)), R(S(f(2, 3), 4)), R(S(f(2, 3), (-1, -1)))))
CASES["ravel"] = E(*unary("fibch"), S(f(2, 3), order="F"))
_all("transpose matrix_transpose", E(*unary("fibch", shapes=((2, 3), (2, 3, 2), (0, 3)))))
CASES["transpose"] = [*CASES["transpose"], *E(S(f()), S(f(2, 3, 4), (1, 2, 0))), R(S(f(2, 3), (0, 0)))]
CASES["permute_dims"] = E(S(f(2, 3, 4), (1, 2, 0)), S(i(2, 3), (1, 0)), R(S(f(2, 3), (0,))))
CASES["moveaxis"] = E(S(f(2, 3, 4), 0, -1), S(f(2, 3, 4), (0, 1), (1, 0)), R(S(f(2, 3), 2, 0)))
CASES["swapaxes"] = E(S(f(2, 3, 4), 0, 2), S(i(2, 3), -1, 0), R(S(f(2), 0, 1)))
CASES["rollaxis"] = E(S(f(2, 3, 4), 2), S(f(2, 3, 4), 0, 2))
CASES["squeeze"] = E(S(f(1, 3, 1)), S(f(1, 3, 1), 0), S(i(1)), S(f()), R(S(f(2, 3), 0)))
CASES["expand_dims"] = E(S(f(3), 0), S(f(2, 3), (0, 3)), S(f(), -1), R(S(f(3), 3)))
_all("atleast_1d atleast_2d atleast_3d", E(*unary("fibch"), S(f(), f(2)), S(2.0)))
CASES["broadcast_to"] = E(S(f(3), (2, 3)), S(i(), (2,)), S(f(2, 1), (2, 3)), S(2.0, (2,)), R(S(f(3), (2,))))
CASES["broadcast_arrays"] = E(S(f(3), f(2, 1)), S(f(), i(2)), S(), R(S(f(2), f(3))))
_all("concatenate concat", E(S([f(2, 3), f(1, 3)]), S([f(2, 3), i(2, 1)], axis=1), S([f(3), h(3)]), S(f(2, 3)), S([i(2), b(2)]), S([f(0, 3), f(2, 3)]), R(S([])), R(S([f(2, 3), f(2, 2)])), R(S([f()]))))
CASES["concatenate"] = [*CASES["concatenate"], *E(S([f(2, 3), f(3)], axis=None), S([f(2), i(2)], dtype=jnp.float16))]
CASES["stack"] = E(S([f(3), f(3)]), S([f(3), i(3)], axis=1), S(f(2, 3), axis=-1), S([1.0, WEAK]), R(S([f(3), f(2)])), R(S([])))
_all("vstack hstack dstack column_stack", E(S([f(3), f(3)]), S([f(2, 3), i(2, 3)]), S(f(2, 3)), S([1.0, f()])))
CASES["block"] = E(S([[f(2, 2), f(2, 1)], [f(1, 2), f(1, 1)]]), S([f(2), 1.0]), S(f(2)), R(S([[f(2, 2), f(1)]])))
CASES["append"] = E(S(f(3), f(2)), S(f(2, 3), f(1, 3), axis=0), S(i(2), 1.5))
CASES["split"] = E(S(f(4), 2), S(f(4, 3), [1, 3]), S(f(2, 4), 2, axis=1), R(S(f(3), 2)))
CASES["array_split"] = E(S(f(5), 2), S(f(5, 3), [1, 3]))
CASES["hsplit"] = E(S(f(2, 4), 2), S(f(4), [1]))
CASES["vsplit"] = E(S(f(4, 2), 2))
CASES["dsplit"] = E(S(f(2, 2, 4), 2))
CASES["unstack"] = E(S(f(2, 3)), S(f(2, 3), axis=1), S(i(3)), R(S(f())))
CASES["tile"] = E(S(f(3), 2), S(f(2, 3), (2, 1, 2)), S(i(), 3), S(f(3), 0))
CASES["repeat"] = E(S(f(2, 3), 2), S(f(2, 3), 2, axis=0), S(i(3), np.array([1, 0, 2])), S(f(3), np.array([1, 2, 1]), total_repeat_length=5))
CASES["resize"] = E(S(f(2, 3), (3, 3)), S(f(3), 2))
CASES["flip"] = E(S(f(2, 3)), S(f(2, 3), 0), S(i(3), -1), S(f(2, 3, 2), (0, 2)), R(S(f(3), 1)))
_all("flipud fliplr", E(S(f(2, 3)), S(i(2, 3, 2))))
CASES["rot90"] = E(S(f(2, 3)), S(i(2, 3), 2), S(f(2, 3, 2), 3, axes=(1, 2)))
CASES["roll"] = E(S(f(5), 2), S(f(2, 3), 1), S(f(2, 3), (1, -1), (0, 1)), S(f(2, 3), 1, axis=1), S(f(3), i()), S(f(0), 1))
CASES["pad"] = E(S(f(2, 3), 1), S(f(2, 3), ((1, 0), (0, 2)), constant_values=2.0), S(i(3), (1, 2), mode="edge"), S(f(4), 2, mode="reflect"), S(f(4), 2, mode="symmetric"), S(f(4), 2, mode="wrap"), S(f(2, 3), 1, mode="empty"), R(S(f(3), -1)), R(S(f(3), 1, mode="no"))) + [S(f(4), 2, mode=m) for m in ("mean", "maximum", "minimum", "median", "linear_ramp")]
_all("tril triu", E(*unary("fibch", shapes=((2, 3), (2, 3, 3), (0, 3))), S(f(3, 3), 1), S(f(3, 3), k=-1), R(S(f(3)))))
CASES["diag"] = E(S(f(3)), S(f(3, 4)), S(i(3), 1), S(f(3, 3), k=-1), R(S(f())))
CASES["diagflat"] = E(S(f(2, 2)), S(i(3), 1))
CASES["diagonal"] = E(S(f(3, 4)), S(f(3, 4), 1), S(f(2, 3, 4), 0, 1, 2), R(S(f(3))))
CASES["trace"] = [S(f(3, 3)), S(i(3, 4), 1), S(f(2, 3, 3), axis1=1, axis2=2), S(b(3, 3)), S(c(2, 2), dtype=jnp.complex64), R(S(f(3)))]
_all("tril_indices triu_indices", E(S(3), S(3, 1), S(2, -1, 3)))
_all("tril_indices_from triu_indices_from", E(S(f(3, 3)), S(f(2, 3), 1), R(S(f(3)))))
CASES["diag_indices"] = E(S(3), S(2, 3))
CASES["diag_indices_from"] = E(S(f(3, 3)), R(S(f(2, 3))))
CASES["mask_indices"] = E(S(3, jnp.triu), S(3, jnp.tril, k=-1))
CASES["ix_"] = E(S(i(2), i(3)), R(S(b(3))))
CASES["ndim"] = CASES["size"] = CASES["shape"] = [S(f(2, 3)), S(2.0), S([1, 2]), S(h())]

# ---- choosing, sorting, searching

CASES["where"] = E(S(b(2, 3), f(2, 3), f(2, 3, salt=1)), S(b(3), f(2, 3), 0.0), S(b(3), 1, 2), S(f(3), i(3), h(3)), S(b(4)), S(f(2, 3) > 0), S(b(4), size=3), R(S(b(2), f(3), f(3))), R(S(b(3), f(3))))
CASES["select"] = E(S([b(3), b(3, salt=1)], [f(3), f(3, salt=1)]), S([b(3)], [i(3)], default=7), R(S([b(3)], [])))
CASES["choose"] = E(S(np.array([0, 1, 0]), [f(3), f(3, salt=1)]), S(np.array([0, 3, -1]), [f(3), 1.0], mode="clip"))
CASES["piecewise"] = [S(f(5), [f(5) < 0, f(5) >= 0], [lambda x: -x, lambda x: x * 2]), S(f(3), [b(3)], [1.0, 2.0])]
CASES["extract"] = E(S(b(5), f(5)), S(i(2, 3), f(2, 3)), S(b(5), f(5), size=2, fill_value=9.0))
CASES["compress"] = E(S(np.array([True, False, True]), f(3)), S(np.array([False, True]), f(2, 3), axis=0))
CASES["take"] = E(S(f(5), np.array([0, 2, -1])), S(f(2, 3), 1, axis=1), S(f(3), np.array([0, 9])), S(f(3), np.array([0, 9]), mode="clip"), S(f(3), np.array([4, -5]), mode="wrap"), S(f(3), i(2) * 0, mode="fill", fill_value=7), R(S(f(3), f(2))))
CASES["take_along_axis"] = E(S(f(2, 3), np.array([[0], [2]]), axis=1), S(f(3), np.array([2, 0]), axis=None), S(f(2, 3), np.array([[1, 0, 1]]), axis=0), R(S(f(2, 3), np.array([0]), axis=1)))
CASES["put"] = E(S(f(5), np.array([0, 2]), 9.0, inplace=False), S(f(2, 3), np.array([0, 9]), f(2), mode="clip", inplace=False), R(S(f(5), np.array([0]), 1.0)))
CASES["put_along_axis"] = E(S(f(2, 3), np.array([[0], [2]]), 9.0, axis=1, inplace=False), R(S(f(2, 3), np.array([[0]]), 1.0, axis=1)))
CASES["place"] = E(S(f(5), b(5), f(2), inplace=False), R(S(f(5), b(5), f(2))))
CASES["fill_diagonal"] = E(S(f(3, 3), 9.0, inplace=False), S(f(2, 3), f(2), inplace=False), R(S(f(3, 3), 1.0)), R(S(f(3), 1.0, inplace=False)))
CASES["insert"] = E(S(f(4), 1, 9.0), S(f(2, 3), 1, f(2), axis=1), S(f(4), np.array([0, 2]), f(2)), S(f(4), slice(0, 2), 1.0))
CASES["delete"] = E(S(f(4), 1), S(f(2, 3), np.array([0, 2]), axis=1), S(f(4), slice(0, 2)), S(f(5), np.array([0, 1]), assume_unique_indices=True))
CASES["trim_zeros"] = E(S(np.array([0.0, 0, 1, 0, 2, 0], np.float32)), S(i(4), "f"))
CASES["sort"] = E(*unary("fibch", shapes=((3,), (2, 3), (0, 3))), S(f(2, 3), axis=0), S(f(2, 3), axis=None), S(f(5), descending=True), R(S(f())))
CASES["argsort"] = [S(f(5)), S(f(2, 3), axis=0), S(i(5), descending=True), S(b(4)), S(c(3)), S(h(3)), S(SPECIAL), S(f(2, 3), axis=None), S(f(0))]
CASES["lexsort"] = [S((i(5), f(5))), S(f(2, 3)), R(S(()))]
CASES["sort_complex"] = E(S(c(4)), S(f(4)), S(i(4)))
_all("partition", [S(f(5), 2), S(i(2, 5), 1, axis=1), R(S(f(3), 5))])
_all("argpartition", [S(f(5), 2), S(i(2, 5), 1, axis=1), R(S(f(3), 5))])
CASES["top_k"] = [S(f(5), 2), S(i(2, 5), 3)]
_all("nonzero argwhere flatnonzero", [S(f(3)), S(i(2, 3)), S(b(5)), S(b(5), size=3), S(b(5), size=7, fill_value=-1), S(f(0, 3))])
CASES["searchsorted"] = [S(np.sort(f(5)), f(2, 3), method=m) for m in ("scan", "sort", "compare_all")]
CASES["searchsorted"] += [S(np.arange(5), 2, side="right"), S(f(5), f(), sorter=np.argsort(f(5))), R(S(f(2, 2), 1.0))]
CASES["digitize"] = [S(f(5), np.array([-1.0, 0.0, 1.0])), S(i(2, 3), np.array([4, 2, 0]), right=True)]
_all("unique unique_all unique_counts unique_inverse unique_values", [S(i(2, 3)), S(f(4)), S(b(4)), S(SPECIAL), S(i(5), size=3), S(i(0))])
CASES["unique"] = [*CASES["unique"], S(i(3, 2), axis=0, return_index=True, return_inverse=True, return_counts=True), S(i(4), size=6, fill_value=9)]
_all("intersect1d setdiff1d setxor1d union1d", [S(i(5), i(4)), S(f(4), f(3)), S(i(5), i(4), size=4)])
CASES["intersect1d"] = [*CASES["intersect1d"], S(i(5), i(4), return_indices=True)]
CASES["isin"] = [S(i(2, 3), i(2)), S(f(3), f(3), invert=True), S(i(3), 1), S(i(5), i(4), method="sort")]

# ---- linear algebra and signals

_all("dot", [S(f(3), f(3)), S(f(2, 3), f(3)), S(f(2, 3), f(3, 2)), S(i(2, 3), i(3)), S(2.0, f(3)), S(c(3), f(3)), S(h(3), h(3)), S(b(2, 2), b(2, 2)), S(f(2, 0), f(0, 3)), S(f(3), f(3), precision="highest", preferred_element_type=jnp.float32), R(S(f(2, 3), f(2)))])
_all("matmul", [S(f(3), f(3)), S(f(2, 3), f(3)), S(f(4, 2, 3), f(3, 2)), S(i(2, 3), i(3, 2)), S(h(2, 3), h(3, 2)), S(c(2, 2), c(2, 2)), S(f(2, 3), i(3)), S(f(2, 3), f(3), preferred_element_type=jnp.float16), R(S(2.0, f(3))), R(S(f(2, 3), f(2)))])
_all("inner outer vdot", [S(f(3), f(3)), S(i(3), i(3)), S(c(3), c(3, salt=4)), S(h(2), f(2)), S(2.0, 3.0)])
CASES["inner"] = [*CASES["inner"], S(f(2, 3), f(4, 3)), R(S(f(2, 3), f(2)))]
CASES["vecdot"] = [S(f(3), f(3)), S(c(2, 3), c(3)), S(f(2, 3), f(2, 3), axis=0), R(S(f(3), f(2)))]
CASES["matvec"] = [S(f(2, 3), f(3)), S(i(4, 2, 3), i(3)), R(S(f(3), f(3)))]
CASES["vecmat"] = [S(f(2), f(2, 3)), S(c(2), c(2, 3)), R(S(f(3), f(3)))]
CASES["tensordot"] = [S(f(2, 3), f(3, 2), 1), S(f(2, 3, 4), f(3, 4)), S(f(2, 3), f(2, 3), ([0, 1], [0, 1])), S(i(2), i(3), 0), R(S(f(2, 3), f(2, 3), 1))]
CASES["kron"] = [S(f(2, 2), f(3)), S(i(2), i(2, 2)), S(c(2), f(2))]
CASES["cross"] = [S(f(3), f(3, salt=1)), S(f(2, 3), f(3)), S(i(3), i(3, salt=1)), R(S(f(4), f(4)))]
CASES["einsum"] = [S("ij,jk->ik", f(2, 3), f(3, 2)), S("ii", f(3, 3)), S("ij->ji", i(2, 3)), S("...i,...i", f(2, 3), f(3)), S("i,j,k->ijk", f(2), f(2), f(2)), S(f(2, 3), [0, 1], [1, 0]), S("ij,j", c(2, 3), f(3)), R(S("ij,jk", f(2, 3), f(2, 3))), R(S("i->ij", f(2)))]
CASES["einsum_path"] = [V(lambda ep, *a: ep(*a)[0], "ij,jk,kl->il", f(2, 3), f(3, 2), f(2, 4))]
_all("convolve correlate", [S(f(5), f(3)), S(f(5), f(3), mode="same"), S(f(3), f(5), mode="valid"), S(i(4), i(2), "full"), S(c(3), c(2)), R(S(f(2, 2), f(2))), R(S(f(0), f(2)))])
CASES["interp"] = [S(f(5), np.sort(f(4)), f(4, salt=1)), S(f(), np.sort(f(4)), f(4), left=-9.0, right=9.0), S(f(3), np.sort(f(4)), f(4), period=2.0), S(f(3), np.arange(3.0), c(3))]
CASES["gradient"] = [S(f(5)), S(f(3, 4)), S(f(3, 4), 2.0, axis=1), S(i(5)), S(f(5), np.cumsum(p(5))), R(S(f(1)))]
CASES["diff"] = [S(f(5)), S(f(2, 3), axis=0), S(i(5), 2), S(b(4)), S(f(3), prepend=0.0, append=f(2)), R(S(f()))]
CASES["ediff1d"] = [S(f(5)), S(i(2, 3), to_begin=0, to_end=np.array([1, 2])), S(c(3))]
CASES["trapezoid"] = [S(f(5)), S(f(2, 5), dx=0.5), S(f(5), np.cumsum(p(5))), S(f(5, 2), axis=0), S(i(4)), S(c(4))]
CASES["histogram"] = [S(f(9)), S(f(9), 4, (-1.0, 1.0)), S(f(9), np.array([-1.0, 0.0, 1.0]), weights=p(9)), S(i(9), 3, density=True)]
CASES["histogram_bin_edges"] = [S(f(9)), S(i(9), 4), S(f(9), 3, (0.0, 1.0))]
CASES["histogram2d"] = [S(f(9), f(9, salt=1), 3), S(f(9), f(9, salt=1), [2, 3], density=True)]
CASES["histogramdd"] = [S(f(9, 2), 3), S(f(9, 2), [2, 3], weights=p(9))]
CASES["bincount"] = [S(np.array([0, 1, 1, 3])), S(np.array([0, 1, 1]), weights=f(3)), S(np.array([0, 2]), minlength=5), S(np.array([0, 9, 1]), length=3), R(S(f(3)))]
CASES["vander"] = [S(f(3)), S(i(3), 2, increasing=True), R(S(f(2, 2)))]
CASES["poly"] = [*L(4, S(f(3)), S(f(3, 3))), S(f(0))]
_all("polyadd polysub", [S(f(3), f(2)), S(i(2), i(3)), S(c(2), f(2))])
CASES["polymul"] = [S(f(3), f(2)), S(i(2), i(3)), S(np.array([0.0, 0.0, 1.0]), f(2), trim_leading_zeros=True)]
CASES["polydiv"] = [S(f(4), f(2)), S(i(4), np.array([1, 2])), S(np.array([0.0, 1.0, 2.0]), f(2), trim_leading_zeros=True)]
CASES["polyder"] = [S(f(4)), S(i(4), 2), S(f(1))]
CASES["polyint"] = [S(f(4)), S(f(3), 2, np.array([1.0, 2.0])), S(i(3), k=1)]
CASES["polyval"] = [S(f(3), f(2, 3)), S(i(3), 2), S(f(3), c(2)), S(f(3), f(2), unroll=2)]
# The least-squares solution loses digits in proportion to the matrix's condition.
CASES["polyfit"] = L(20, S(f(6), f(6, salt=1), 2), S(f(6), f(6, 2), 1), S(f(6), f(6, salt=1), 1, w=p(6)), S(f(6), f(6, salt=1), 1, cov=True), S(f(6), f(6, salt=1), 1, full=True))
CASES["roots"] = L(4, S(f(4)), S(np.array([0.0, 1.0, -3.0, 2.0, 0.0])), S(f(3), strip_zeros=False))

# ---- bits, indices, and functions of functions

CASES["packbits"] = [S(b(9)), S(i(2, 9), axis=1), S(b(9), bitorder="little"), R(S(f(3)))]
CASES["unpackbits"] = [S(u(3)), S(u(2, 3), axis=1, count=5), S(u(3), bitorder="little"), R(S(i(3)))]
CASES["ravel_multi_index"] = [S((np.array([0, 1]), np.array([2, 0])), (2, 3)), S((np.array([0, 5]), np.array([2, -1])), (2, 3), mode="clip"), S((np.array([0, 5]), np.array([2, -1])), (2, 3), mode="wrap", order="F"), R(S((np.array([5]), np.array([0])), (2, 3)))]
CASES["unravel_index"] = [S(np.array([0, 4, 9]), (2, 3)), S(3, (2, 3)), S(f(2), (2, 3))]
CASES["apply_along_axis"] = [S(jnp.sort, 1, f(2, 3)), S(lambda x: x.sum() * 2, 0, f(2, 3)), S(lambda x: jnp.stack([x, x]), 0, i(3, 2))]
CASES["apply_over_axes"] = [S(jnp.sum, f(2, 3, 2), [0, 2]), S(jnp.max, i(2, 3), [1])]
CASES["vectorize"] = [
    V(lambda vec, x, y: vec(lambda a, b_: a * b_ + 1)(x, y), f(2, 3), f(3)),
    V(lambda vec, x, y: vec(jnp.dot, signature="(n),(n)->()")(x, y), f(2, 3), f(3)),
    V(lambda vec, x: vec(lambda a, k: a**k, excluded={1})(x, 2), f(3)),
    R(V(lambda vec, x: vec(jnp.dot, signature="(n),(n)->()")(x, x[:, :2]), f(2, 3))),
]
CASES["frompyfunc"] = [
    V(lambda fp, x, y: fp(lambda a, b_: a + 2 * b_, 2, 1)(x, y), f(2, 3), f(3)),
    V(lambda fp, x: fp(jnp.add, 2, 1, identity=0).reduce(x), f(2, 3)),
]
CASES["ufunc"] = [
    V(lambda _, x: [jnp.add.reduce(x), jnp.multiply.accumulate(x), jnp.add.outer(x[0], x[1])], f(2, 3)),
    V(lambda _, x: [jnp.add.at(x, 1, 2.0, inplace=False), jnp.maximum.reduce(x, axis=1)], f(2, 3)),
    V(lambda _, x: jnp.add.reduceat(x, np.array([0, 2])), f(4)),
]

# ---- answers about arrays that are not arrays

_all("iscomplexobj isrealobj", [S(f(3)), S(c(3)), S(2), S([1j])])
CASES["isscalar"] = [S(2), S(f()), S(f(3)), S("a"), S(np.float32(1))]
CASES["iterable"] = [S(f(3)), S(f()), S(2)]
CASES["result_type"] = [S(f(3), i(3)), S(h(3), 1.0), S(WEAK, i(2)), S(jnp.int8, b(2)), S(RAW_KEY)]
CASES["array_repr"] = [S(f(3)), S(i(2, 3)), S(b()), S(WEAK)]
CASES["array_str"] = [S(f(3)), S(i(2, 3))]  # NumPy wants its own type for a scalar

# Second names of a function: a few samples are enough to see that the name works.
for _names in (
    "abs absolute|arccos acos|arccosh acosh|arcsin asin|arcsinh asinh|arctan atan|arctanh atanh|arctan2 atan2|max amax|min amin|round around"
    "|invert bitwise_invert bitwise_not|left_shift bitwise_left_shift|right_shift bitwise_right_shift|power pow|divide true_divide"
    "|rad2deg degrees|deg2rad radians|conj conjugate|remainder mod|concatenate concat|nonzero argwhere flatnonzero"
    "|unique_all unique_counts unique_inverse unique_values"
).split("|"):
    _, *_second_names = _names.split()
    for _name in _second_names:
        CASES[_name] = CASES[_name][:2] + CASES[_name][-1:]

# ---- public callables that neither take nor make arrays, and why each is here

_DTYPE = "an abstract dtype or a helper on dtypes, no arrays in or out"
_PRINT = "NumPy's own printing options, no arrays in or out"
NOT_ARRAY_FUNCTIONS: dict[str, str] = {
    **{name: _DTYPE for name in "character complexfloating flexible floating generic inexact integer number object_".split()},
    **{name: _DTYPE for name in "signedinteger unsignedinteger dtype finfo iinfo isdtype issubdtype can_cast promote_types".split()},
    **{name: _PRINT for name in "get_printoptions set_printoptions printoptions".split()},
    "ComplexWarning": "a warning's class",
    "ndarray": "the array type itself; tested in cases_array",
    **{name: "a dtype that XLA's CPU backend does not have" for name in "int1 uint1 float6_e2m3fn float6_e3m2fn".split()},
    "broadcast_shapes": "on tuples of integers",
}
