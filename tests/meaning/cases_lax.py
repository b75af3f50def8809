"""Calls of `jax.lax`: function name -> samples. `jax.lax.linalg` is in cases_linalg."""

# ruff: noqa: E501 (one line a function, however many samples it has)
# fmt: off

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

from .samples import (
    SPECIAL,
    WEAK,
    E,
    L,
    R,
    S,
    Sample,
    V,
    b,
    c,
    f,
    h,
    i,
    p,
    u,
    unary,
)

LAX: dict[str, list[Sample]] = {}


def _all(names: str, samples: list[Sample]) -> None:
    LAX.update({name: samples for name in names.split()})


def _binary(dtypes: str) -> list[Sample]:
    """Unlike jax.numpy's, these promote nothing but Python scalars."""
    refused = "".join(d for d in "fibch" if d not in dtypes)
    make = {"f": f, "i": i, "b": b, "c": c, "h": h}
    first = make[dtypes[0]]
    return [
        *(S(first(*shape), first(*shape, salt=9)) for shape in ((), (2, 3), (0, 3))),
        *(S(make[d](2, 3), make[d](2, 3, salt=9)) for d in dtypes[1:]),
        R(S(first(2, 3), first(2))),
        *(R(S(make[d](2, 3), make[d](2, 3, salt=9))) for d in refused),
    ]


# ---- elementwise

_all("acos acosh asin asinh atan atanh cos cosh exp exp2 expm1 log log1p logistic rsqrt sin sinh sqrt tan tanh log2", unary("fch"))
_all("reciprocal", unary("fch"))
_all("abs neg sign square", unary("fich"))
_all("bessel_i0e bessel_i1e cbrt ceil digamma erf erf_inv erfc floor is_finite lgamma round", unary("fh"))
LAX["round"] = [*LAX["round"], S(f(3) * 2, lax.RoundingMethod.TO_NEAREST_EVEN)]
_all("one_minus_square", unary("f", refused=""))
_all("bitwise_not", unary("ib"))
_all("clz population_count", [*unary("i"), S(u(3))])
_all("conj", unary("fc", refused="ib"))
_all("imag real", unary("c", refused="fib"))
_all("stop_gradient optimization_barrier", E(*unary("fibch")))
_all("add sub mul div", [*_binary("fich"), S(f(3), 2.0), S(2.0, f(3)), S(f(3), f()), R(S(f(3), i(3)))])
_all("atan2", [*_binary("fch"), S(SPECIAL, SPECIAL[::-1].copy())])
_all("nextafter", [*_binary("fh"), S(SPECIAL, SPECIAL[::-1].copy())])
_all("pow", [*_binary("fch"), S(f(3), 2.0), S(f(3), i(3)), R(S(i(3), f(3)))])
_all("rem", [*_binary("fih"), S(f(3), 2.0)])
_all("eq ne", [*_binary("fibch"), S(SPECIAL, SPECIAL)])
_all("lt le gt ge", [*_binary("fibh"), S(SPECIAL, SPECIAL)])
_all("max min", _binary("fibch"))
_all("bitwise_and bitwise_or bitwise_xor", _binary("ib"))
_all("shift_left shift_right_arithmetic shift_right_logical", [S(i(3), np.array([1, 2, 0], np.int32)), S(u(3), np.full(3, 2, np.uint8)), R(S(u(3), 2))])
_all("mulhi", [S(i(3), i(3)), S(np.full(3, 2**30, np.int32), np.full(3, 12, np.int32)), R(S(f(3), f(3)))])
_all("igamma igammac igamma_grad_a random_gamma_grad", L(4, S(p(3), p(3, salt=1)), R(S(i(3), i(3)))))
_all("zeta polygamma", L(4, S(p(3) + 2, p(3)), R(S(i(3), i(3)))))
LAX["polygamma"] = L(4, S(np.array([1.0, 2.0, 0.0], np.float32), p(3)), R(S(i(3), i(3))))
LAX["betainc"] = L(4, S(p(3), p(3, salt=1), p(3, salt=2)), S(p(), p(), p()))
LAX["polynomial"] = [S(f(3), [1.0, 2.0, 3.0])]
LAX["complex"] = E(S(f(3), f(3)), S(f(), 0.0), R(S(i(3), i(3))))
LAX["integer_pow"] = [S(f(3), 3), S(i(3), 2), S(f(3), -1), S(c(3), 0), R(S(i(3), -1))]
LAX["clamp"] = E(S(-0.5, f(3), 0.5), S(f(3) - 1, f(3), f(3) + 1), S(0, i(3), 2), R(S(0, f(3), 1)))
LAX["reduce_precision"] = [S(f(3), 5, 4), S(h(3), 8, 3), R(S(i(3), 5, 4))]
_all("select", E(S(b(3), f(3), f(3, salt=1)), S(b(), i(3), i(3)), R(S(b(3), f(3), i(3)))))
LAX["select_n"] = E(S(b(3), f(3), f(3, salt=1)), S(np.array([0, 2, 1], np.int32), i(3), i(3), i(3)), R(S(b(2), f(3), f(3))))
LAX["convert_element_type"] = [S(x, t) for x in (f(3), i(3), b(3), h(3), WEAK) for t in (jnp.float32, jnp.int32, bool, jnp.bfloat16, jnp.complex64)]
LAX["convert_element_type"] += [S(SPECIAL, jnp.int32), S(2, jnp.float32), R(S(f(3), "no"))]
LAX["bitcast_convert_type"] = E(S(f(3), jnp.int32), S(i(2), jnp.uint8), S(u(2, 4), jnp.float32), R(S(f(3), jnp.complex64)))

# ---- shape and place

LAX["broadcast"] = E(S(f(3), (2,)), S(i(), (2, 3)), S(f(3), ()))
LAX["broadcast_in_dim"] = E(S(f(3), (2, 3), (1,)), S(i(2, 1), (2, 3), (0, 1)), R(S(f(3), (2, 4), (1,))))
LAX["broadcast_like"] = E(S(f(3), f(2, 3)), S(f(), i(2)))
LAX["broadcast_to_rank"] = E(S(f(3), 3), S(f(), 1))
LAX["broadcasted_iota"] = E(S(jnp.int32, (2, 3), 1), S(jnp.float32, (3,), 0), R(S(jnp.int32, (3,), 1)))
LAX["iota"] = E(S(jnp.int32, 4), S(jnp.float32, 0), R(S(bool, 3)))
LAX["full"] = E(S((2, 3), 1.5), S((), 2), S((2,), 1, jnp.bfloat16), S((2,), f()), R(S((2,), f(3))))
LAX["full_like"] = E(S(f(2, 3), 2), S(i(3), 1.5), S(f(3), 1, jnp.int32, (2,)), S(f(0, 3), 1))
LAX["empty"] = E(S((2, 3), jnp.float32))
LAX["collapse"] = E(S(f(2, 3, 4), 1), S(f(2, 3, 4), 0, 2), S(f(3), 0, 0))
LAX["concatenate"] = E(S([f(2, 3), f(1, 3)], 0), S([i(2)], 0), R(S([f(2), i(2)], 0)), R(S([f(2), f(2)], 1)), R(S([], 0)))
LAX["stack"] = E(S([f(3), f(3)]), S([i(3), i(3)], axis=1))
LAX["unstack"] = E(S(f(2, 3)), S(i(2, 3), axis=1))
LAX["split"] = E(S(f(4), [1, 3]), S(f(2, 4), (2, 2), 1), R(S(f(4), [1, 2])))
LAX["expand_dims"] = E(S(f(3), (0,)), S(f(2, 3), (0, 2)), S(f(), (0,)), R(S(f(3), (5,))))
LAX["squeeze"] = E(S(f(1, 3), (0,)), S(f(1, 1), (0, 1)), R(S(f(2, 3), (0,))))
LAX["reshape"] = E(S(f(2, 3), (3, 2)), S(f(2, 3), (6,), (1, 0)), S(f(), (1,)), R(S(f(2, 3), (-2,))))
LAX["transpose"] = E(S(f(2, 3), (1, 0)), S(i(2, 3, 4), (2, 0, 1)), R(S(f(2, 3), (0, 0))))
LAX["rev"] = E(S(f(3), (0,)), S(i(2, 3), (0, 1)), R(S(f(3), (1,))))
LAX["tile"] = E(S(f(3), (2,)), S(i(2, 3), (1, 2)))
LAX["pad"] = E(S(f(3), 0.0, [(1, 2, 0)]), S(i(2, 3), 7, [(0, 1, 1), (-1, 0, 0)]), S(f(3), f(), [(0, 0, 2)]), R(S(f(3), 0.0, [])), R(S(f(3), i(), [(1, 1, 0)])))
LAX["slice"] = E(S(f(5), (1,), (4,)), S(i(3, 4), (0, 1), (3, 4), (2, 2)), S(f(3), (2,), (2,)), R(S(f(3), (1,), (5,))))
LAX["slice_in_dim"] = E(S(f(5), 1, 4), S(f(3, 4), 0, None, 2, axis=1), S(f(5), -2, None))
LAX["index_in_dim"] = E(S(f(3), 1), S(f(2, 3), -1, axis=1, keepdims=False), R(S(f(3), 5)))
LAX["index_take"] = E(S(f(3, 4), (np.array([0, 2]), np.array([1, 3])), (0, 1)), S(f(5), (np.array([4, 0]),), (0,)))
LAX["dynamic_slice"] = E(S(f(5), (1,), (3,)), S(f(3, 4), (i(), 9), (2, 2)), S(f(5), np.array([-2]), (2,)), R(S(f(5), (1,), (6,))), R(S(f(5), (1, 2), (2,))))
LAX["dynamic_slice_in_dim"] = E(S(f(5), 1, 3), S(f(3, 4), i(), 2, axis=1), S(f(5), -2, 2))
LAX["dynamic_index_in_dim"] = E(S(f(3), 1), S(f(2, 3), i(), 1, keepdims=False), S(f(3), -1))
LAX["dynamic_update_slice"] = E(S(f(5), f(2), (1,)), S(f(3, 4), f(2, 2), (i(), 9)), R(S(f(5), i(2), (1,))), R(S(f(2), f(3), (0,))))
LAX["dynamic_update_slice_in_dim"] = E(S(f(5), f(2), 1, 0), S(f(3, 4), f(3, 2), i(), 1))
LAX["dynamic_update_index_in_dim"] = E(S(f(3), f(), 1, 0), S(f(2, 3), f(2), i(), 1))
LAX["shape_as_value"] = [S((2, 3)), S(())]
LAX["dce_sink"] = [S(f(3))]

_gather = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
_scatter = lax.ScatterDimensionNumbers(update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
_ids = np.array([[0], [2], [2]], np.int32)
LAX["gather"] = E(
    S(f(3, 4), _ids, _gather, (1, 4)),
    S(f(3, 4), _ids + 1, _gather, (1, 2), mode="fill", fill_value=7.0),
    S(i(3, 4), _ids + 5, _gather, (1, 4), mode=lax.GatherScatterMode.CLIP),
    R(S(f(3, 4), _ids, _gather, (2, 4))),
)
_all(
    "scatter scatter_add scatter_sub scatter_mul scatter_min scatter_max",
    [S(f(3, 4), _ids[:2], f(2, 4), _scatter), S(i(3, 4), _ids + 1, i(3, 4), _scatter, mode="drop"), S(i(3, 4), _ids, i(3, 4), _scatter), R(S(f(3, 4), _ids, i(3, 4), _scatter)), R(S(f(3, 4), _ids, f(3, 3, 3), _scatter))],
)
LAX["scatter"] = E(*LAX["scatter"][:2], *LAX["scatter"][3:])  # which of two updates of one place stays is not defined
LAX["scatter_apply"] = [S(f(3, 4), _ids[:2], jnp.sin, _scatter, update_shape=(2, 4))]

# ---- reductions, sorting

_all("reduce_sum reduce_prod", [S(f(2, 3), (0,)), S(f(2, 3), (0, 1)), S(i(2, 3), (1,)), S(c(3), (0,)), S(h(3), (0,)), S(f(0, 3), (0,)), R(S(f(3), (1,)))])
_all("reduce_max reduce_min", [S(f(2, 3), (0,)), S(i(2, 3), (0, 1)), S(b(3), (0,)), S(h(3), (0,)), S(SPECIAL, (0,)), R(S(f(3), (0, 0)))])
_all("reduce_and reduce_or reduce_xor", [S(b(2, 3), (0,)), S(i(2, 3), (1,)), R(S(f(3), (0,)))])
_all("argmax argmin", [S(f(2, 3), 1, jnp.int32), S(i(3), 0, jnp.uint8), S(SPECIAL, 0, jnp.int32), R(S(f(3), 1, jnp.int32)), R(S(f(3), 0, jnp.float32))])
LAX["reduce"] = [
    S(f(2, 3), np.float32(0), lax.add, (0,)),
    S(i(2, 3), np.int32(1), lambda x, y: x * y, (0, 1)),
    S((f(3), i(3)), (np.float32(0), np.int32(0)), lambda x, y: (x[0] + y[0], lax.max(x[1], y[1])), (0,)),
]
LAX["reduce_window"] = [
    S(f(5), -np.inf, lax.max, (2,), (1,), "VALID"),
    S(f(4, 4), np.float32(0), lax.add, (2, 2), (2, 2), "SAME"),
    S(i(5), np.int32(1), lambda x, y: x * y, (3,)),
    S(f(5), np.inf, lax.min, (2,), (1,), ((1, 1),), window_dilation=(2,)),
]
_all("cumsum cumprod cummax cummin", [S(f(2, 3)), S(f(2, 3), axis=1, reverse=True), S(i(3)), S(c(3)), S(h(3)), S(f(0, 3)), R(S(f(3), axis=1))])
LAX["cumlogsumexp"] = [S(f(3)), S(f(2, 3), axis=1, reverse=True), R(S(i(3)))]
LAX["sort"] = E(S(f(5)), S(f(2, 3), 0), S(SPECIAL), S((i(4), f(4)), num_keys=1), S((i(4), i(4, salt=1), f(4)), num_keys=2), S(c(3)), R(S(f(3), 1)), R(S(f())))
LAX["sort_key_val"] = E(S(f(5), i(5)), S(i(2, 3), f(2, 3), dimension=0))
LAX["top_k"] = E(S(f(5), 2), S(i(2, 5), 3), S(f(3, 2), 2, axis=0), R(S(f(3), 5)), R(S(f(), 1)))
_all("approx_max_k approx_min_k", E(S(f(5), 2), S(f(2, 5), 1, reduction_dimension=0)))

# ---- products and convolutions

LAX["dot"] = [S(f(3), f(3)), S(f(2, 3), f(3)), S(f(2, 3), f(3, 2), precision="highest"), S(i(2, 3), i(3)), S(h(3), h(3), preferred_element_type=jnp.float32), R(S(f(2, 3), f(2)))]
LAX["dot_general"] = [S(f(2, 3, 4), f(2, 4, 5), (((2,), (1,)), ((0,), (0,)))), S(f(3), i(3), (((0,), (0,)), ((), ()))), S(c(2, 2), c(2, 2), (((1,), (0,)), ((), ()))), R(S(f(2, 3), f(2), (((1,), (0,)), ((), ()))))]
LAX["batch_matmul"] = [S(f(4, 2, 3), f(4, 3, 2)), R(S(f(2, 3), f(3)))]
LAX["scaled_dot"] = [S(h(4, 32), h(32, 4))]
LAX["ragged_dot"] = [S(f(4, 3), f(2, 3, 2), np.array([1, 3], np.int32)), R(S(f(4, 3), f(2, 2, 2), np.array([1, 3], np.int32)))]
LAX["ragged_dot_general"] = [S(f(4, 3), f(2, 3, 2), np.array([1, 3], np.int32), lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0]))]
LAX["conv"] = [S(f(1, 2, 5, 5), f(3, 2, 2, 2), (1, 1), "SAME"), S(f(1, 2, 5), f(3, 2, 2), (2,), "VALID"), R(S(f(1, 2, 5), f(3, 1, 2), (1,), "SAME"))]
LAX["conv_with_general_padding"] = [S(f(1, 2, 5), f(3, 2, 2), (1,), ((1, 0),), None, (2,))]
LAX["conv_general_dilated"] = [
    S(f(1, 5, 5, 2), f(2, 2, 2, 3), (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
    S(f(1, 4, 5), f(4, 1, 2), (1,), "VALID", feature_group_count=4),
    S(h(1, 2, 5), h(3, 2, 2), (1,), ((1, 1),), lhs_dilation=(2,)),
    R(S(f(1, 2, 5), f(3, 2), (1,), "SAME")),
]
LAX["conv_general_dilated_local"] = [S(f(1, 2, 4), f(3, 4, 3), (1,), "VALID", (2,))]
LAX["conv_general_dilated_patches"] = [S(f(1, 2, 4, 4), (2, 2), (1, 1), "VALID")]
LAX["conv_transpose"] = [S(f(1, 3, 3, 2), f(2, 2, 2, 3), (2, 2), "SAME"), S(f(1, 3, 2), f(2, 2, 3), (2,), "VALID", transpose_kernel=False)]
LAX["fft"] = [S(c(4), "fft", (4,)), S(c(2, 4), lax.FftType.IFFT, (4,)), S(f(4), "rfft", (4,)), S(c(3), "irfft", (4,)), R(S(f(4), "fft", (5,)))]

# ---- random bits

LAX["rng_bit_generator"] = E(S(np.array([1, 2, 3, 4], np.uint32), (3,)))

# ---- control flow

LAX["cond"] = [
    S(True, jnp.sin, jnp.cos, f(3)),
    V(lambda cond, x: cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, x), f(3)),
    V(lambda cond, x, y: cond(x.sum() > 0, lambda: (x, y), lambda: (x + 1, y)), f(3), i()),
    R(V(lambda cond, x: cond(x > 0, lambda x: x, lambda x: x, x), f(3))),
    R(V(lambda cond, x: cond(True, lambda x: x, lambda x: x.sum(), x), f(3))),
    R(V(lambda cond, x: cond(True, lambda x: x, lambda x: x > 0, x), f(3))),
]
LAX["switch"] = [S(1, [jnp.sin, jnp.cos, jnp.tan], f(3)), S(i(), [lambda x: x, lambda x: x * 2], f(3)), S(0, [jnp.sin], f(3)), R(S(1.0, [jnp.sin, jnp.cos], f(3))), R(S(0, [], f(3)))]
LAX["scan"] = [
    S(lambda c_, x: (c_ + x, c_ * x), f(), f(5)),
    S(lambda c_, x: (c_ @ x, None), f(2, 2), f(3, 2, 2), reverse=True),
    S(lambda c_, _: (c_ * 2, c_), f(2), None, length=3),
    S(lambda c_, x: (c_ + x["a"], {"b": c_}), i(), {"a": i(4)}, unroll=2),
    S(lambda c_, x: (c_ + x, c_), f(), f(0)),
    R(S(lambda c_, x: (x > 0, c_), f(), f(3))),
    R(S(lambda c_, x: (c_, x), f(), (f(3), f(2)))),
]
LAX["while_loop"] = [
    S(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] * 2), (0, f(3))),
    S(lambda x: x.sum() < 100, lambda x: x * 2 + 1, p(3)),
    S(lambda x: False, lambda x: x, f(3)),
    R(S(lambda x: x > 0, lambda x: x, f(3))),
    R(S(lambda x: True, lambda x: x.sum(), f(3))),
]
LAX["fori_loop"] = [S(0, 4, lambda n, x: x + n, f(3)), S(0, np.int32(3), lambda n, x: x * 2, f(2)), S(3, 0, lambda n, x: x, f(2)), R(S(0, 3, lambda n, x: x > 0, f(3))), R(S(0.0, 3, lambda n, x: x, f(3)))]
LAX["map"] = [S(jnp.sin, f(3)), S(lambda x: (x.sum(), x * 2), f(3, 2)), S(lambda x: x["a"] + x["b"], {"a": f(4), "b": i(4)}, batch_size=2)]
LAX["associative_scan"] = [S(jnp.add, f(5)), S(jnp.maximum, i(2, 4), reverse=True, axis=1), S(jnp.matmul, f(3, 2, 2))]
LAX["platform_dependent"] = [S(f(3), cpu=jnp.sin, default=jnp.cos), S(f(3), default=jnp.cos)]
LAX["composite"] = [V(lambda composite, x: composite(lambda x: x * 2, name="my.double")(x), f(3))]
LAX["custom_root"] = [S(lambda x: x**2 - 2.0, f() * 0 + 1, lambda g, x0: lax.fori_loop(0, 20, lambda _, x: x - g(x) / (2 * x), x0), lambda g, y: y / g(1.0))]
LAX["custom_linear_solve"] = [
    S(lambda x: 2.0 * x, f(3), lambda matvec, y: y / 2.0, symmetric=True),
    V(lambda solve, y: jax.grad(lambda y: solve(lambda x: 2.0 * x, y, lambda _, y: y / 2.0, symmetric=True).sum())(y), f(3)),
]

# ---- collectives, under a named axis


def _named(*args: Sample | object) -> Sample:
    """fn(x, "i", *args), mapped over x's first axis."""
    return V(lambda fn, x: jax.vmap(lambda row: fn(row, "i", *args), axis_name="i")(x), f(4, 4))


_all("psum pmean pmax pmin", [_named(), V(lambda fn, x: jax.vmap(lambda r: fn({"a": r}, "i"), axis_name="i")(x), i(4)), R(S(f(3), "no"))])
LAX["psum"] = [*LAX["psum"], V(lambda psum: jax.vmap(lambda r: r + psum(1, "i"), axis_name="i")(jnp.arange(3)))]
LAX["ppermute"] = [_named([(0, 1), (1, 2), (2, 3), (3, 0)])]
LAX["pshuffle"] = [_named([1, 0, 3, 2])]
LAX["pswapaxes"] = [_named(0)]
LAX["all_to_all"] = [_named(0, 0)]
LAX["all_gather"] = [_named(), R(S(f(3), "no"))]
LAX["psum_scatter"] = [_named()]
LAX["axis_index"] = [V(lambda fn, x: jax.vmap(lambda row: row + fn("i"), axis_name="i")(x), f(4)), R(S("no"))]
LAX["axis_size"] = [V(lambda fn, x: jax.vmap(lambda row: row * fn("i"), axis_name="i")(x), f(4)), R(S("no"))]


def _in_shard_map(fn, x):
    mesh = jax.make_mesh((1,), ("i",))
    return jax.shard_map(lambda x: fn(x), mesh=mesh, in_specs=P(), out_specs=P("i"))(x)


LAX["pcast"] = [V(lambda pcast, x: _in_shard_map(lambda x: pcast(x, "i", to="varying"), x), f(3))]
LAX["with_sharding_constraint"] = [
    V(lambda fn, x: fn(x * 2, jax.sharding.NamedSharding(jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,)), P("i"))), f(4)),
    V(lambda fn, x: fn(x, jax.sharding.SingleDeviceSharding(jax.devices()[0])), f(4)),
]

# ---- public callables without samples, and why each is here

_CLASS = "a class of settings, not a function of arrays"
_SHAPES = "on shapes and settings, no arrays in or out"
_DEVICES = "needs several devices or an accelerator"
NOT_ARRAY_FUNCTIONS: dict[str, str] = {
    **{
        name: _CLASS
        for name in (
            "AccuracyMode ConvDimensionNumbers ConvGeneralDilatedDimensionNumbers DotAlgorithm DotAlgorithmPreset FftType DotDimensionNumbers"
            " GatherDimensionNumbers GatherScatterMode Precision PrecisionLike RaggedDotDimensionNumbers RandomAlgorithm"
            " RoundingMethod ScatterDimensionNumbers Tolerance"
        ).split()
    },
    **{
        name: _SHAPES
        for name in (
            "broadcast_shapes conv_dimension_numbers conv_general_permutations conv_general_shape_tuple conv_shape_tuple"
            " conv_transpose_shape_tuple padtype_to_pads reduce_window_shape_tuple"
        ).split()
    },
    **{name: _DEVICES for name in "pbroadcast psend precv psum_scatter_start ragged_all_to_all".split()},
    "after_all": "orders tokens, which hold no values",
    "create_token": "makes a token, which holds no values",
    "dtype": "the dtype of an array: the helper is on dtypes",
    "rng_uniform": "a stateful generator: gives other values at each call, eagerly too",
    "stage": "takes a program of jax.stages",
}
