"""JAX's transformations, callbacks and tools give the same around and inside lazy code as eagerly."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import flatten_util, lax
from jax.experimental import sparse
from oracle import Call, assert_all_same

import lazynb

from .samples import KEY, WEAK, c, f, h, i, p


def same(fn, *args):
    """Lazy is as eager, and eager works."""
    # Derivatives go through more sums and products than one function: a few more units in the last place.
    assert_all_same([Call(fn, args, loose=4)])


def net(w, x):
    return jnp.tanh(x @ w).sum()


@jax.custom_jvp
def clipped(x):
    return jnp.clip(x, -1.0, 1.0)


clipped.defjvp(lambda primals, tangents: (clipped(*primals), tangents[0] * 2.0))


@jax.custom_vjp
def halved(x):
    return x / 2


halved.defvjp(lambda x: (x / 2, x), lambda x, g: (g * jnp.cos(x),))


@functools.partial(jax.jit, static_argnames="k")
def power_sum(x, k):
    return (x**k).sum()


def sparsified(fun):
    """``fun`` of a sparse array, each result made dense."""

    def call(x):
        result = sparse.sparsify(fun, use_tracer=True)(sparse.BCOO.fromdense(x, nse=x.size))
        return result.todense() if isinstance(result, sparse.JAXSparse) else result

    return call


class Pair(NamedTuple):
    a: Any
    b: Any


@jax.tree_util.register_pytree_node_class
class Tagged:
    def __init__(self, x, tag):
        self.x, self.tag = x, tag

    def tree_flatten(self):
        return (self.x,), self.tag

    @classmethod
    def tree_unflatten(cls, tag, children):
        return cls(*children, tag)


@jax.tree_util.register_dataclass
@dataclass
class Layer:
    w: Any
    b: Any


W, X = f(3, 2), f(4, 3)

# One line, one program. Each is a test of its own: name -> (function, arguments).
PROGRAMS = {
    # sparse arrays
    "sparsify": (lambda x: sparsified(lambda m: -jnp.sin(m * 2).T @ (jnp.ones(4) + 1))(x), f(4, 3)),
    "sparsify a slice": (lambda x: sparsified(lambda m: lax.slice(m, (0, 1), (2, 3)))(x), f(4, 3)),
    "sparsify of what is dense": (
        lambda x: sparse.sparsify(lambda m: m.astype(jnp.float32) @ m.T, use_tracer=True)(x),
        f(4, 3),
    ),
    "entries of a sparse array counted": (
        lambda x: (
            sparse.BCOO((x[:, 0], jnp.array([[0], [2], [0], [1]])), shape=(3,)).sum_duplicates().indices
        ),
        f(4, 3),
    ),
    # differentiation
    "grad": (lambda w, x: jax.grad(net)(w, x), W, X),
    "grad argnums": (lambda w, x: jax.grad(net, argnums=(0, 1))(w, x), W, X),
    "grad has_aux": (lambda w, x: jax.grad(lambda w: (net(w, x), {"n": x.sum()}), has_aux=True)(w), W, X),
    "grad closure": (lambda w, x: jax.grad(lambda w: net(w * 2, x * 3))(w + 1), W, X),
    "grad of grad": (lambda x: jax.grad(jax.grad(lambda x: jnp.sin(x) ** 3))(x), f()),
    "grad of int": (lambda x: jax.grad(lambda x: (x * 2.0).sum(), allow_int=True)(x), i(3)),
    "grad of complex": (lambda x: jax.grad(lambda x: (x * x).real.sum(), holomorphic=False)(x), c(3)),
    "grad of bfloat16": (lambda x: jax.grad(lambda x: (x * x).sum())(x), h(3)),
    "grad with a branch": (lambda x: jax.grad(lambda x: x.sum() * 2 if x.sum() > 0 else -x.sum())(x), f(3)),
    "grad of a tree": (
        lambda w, x: jax.grad(lambda q: net(q["w"], x) + q["b"][0])({"w": w, "b": [x.sum(), 1.0]}),
        W,
        X,
    ),
    "value_and_grad": (lambda w, x: jax.value_and_grad(net)(w, x), W, X),
    "three steps": (
        lambda w, x: functools.reduce(lambda w, _: w - 0.1 * jax.grad(net)(w, x), range(3), w),
        W,
        X,
    ),
    "jvp": (lambda x, t: jax.jvp(lambda x: jnp.sin(x) * x, (x,), (t,)), f(3), f(3, salt=1)),
    "vjp": (
        lambda x, t: (lambda y, back: (y, back(t)))(*jax.vjp(lambda x: jnp.sin(x) * x, x)),
        f(3),
        f(3, salt=1),
    ),
    "linearize": (
        lambda x, t: (lambda y, lin: (y, lin(t), lin(t * 2)))(*jax.linearize(lambda x: jnp.exp(x) * x, x)),
        f(3),
        f(3),
    ),
    "linear_transpose": (lambda x, t: jax.linear_transpose(lambda x: x * 3.0, x)(t), f(3), f(3)),
    "hessian": (lambda x: jax.hessian(lambda x: (x**3).sum() + x[0] * x[1])(x), f(3)),
    "jacfwd": (lambda x: jax.jacfwd(lambda x: jnp.sin(x) * x[0])(x), f(3)),
    "jacrev": (lambda x: jax.jacrev(lambda x: jnp.sin(x) * x[0])(x), f(3)),
    "custom_jvp": (lambda x: (clipped(x), jax.grad(lambda x: clipped(x).sum())(x)), f(3)),
    "custom_vjp": (lambda x: (halved(x), jax.grad(lambda x: halved(x).sum())(x)), f(3)),
    "custom_vjp under vmap": (lambda x: jax.vmap(jax.grad(halved))(x), f(3)),
    "custom_gradient": (
        lambda x: jax.grad(jax.custom_gradient(lambda x: (x**2, lambda g: (g * 5.0,))))(x),
        f(),
    ),
    "checkpoint": (lambda w, x: jax.grad(jax.checkpoint(net))(w, x), W, X),
    "remat": (lambda x: jax.grad(lambda x: jax.remat(lambda x: jnp.sin(jnp.sin(x)))(x).sum())(x), f(3)),
    "stop_gradient": (lambda x: jax.grad(lambda x: (x * lax.stop_gradient(x)).sum())(x), f(3)),
    "grad through linalg": (
        lambda x: jax.grad(lambda x: jnp.linalg.slogdet(x @ x.T + jnp.eye(3))[1])(x),
        f(3, 3),
    ),
    # vmap
    "vmap": (lambda x: jax.vmap(lambda r: r.sum() * r)(x), f(2, 3)),
    "vmap in_axes": (lambda x, y: jax.vmap(lambda a, b: a @ b, in_axes=(1, None))(x, y), f(3, 2), f(3)),
    "vmap in_axes tree": (
        lambda x, y: jax.vmap(lambda d: d["a"] + d["b"], in_axes=({"a": 0, "b": None},))({"a": x, "b": y}),
        f(3),
        f(),
    ),
    "vmap out_axes": (lambda x: jax.vmap(lambda r: r * 2, out_axes=1)(x), f(2, 3)),
    "vmap out_axes None": (lambda x, y: jax.vmap(lambda r: (r, y * 2), out_axes=(0, None))(x), f(2, 3), f(3)),
    "vmap closure": (lambda x, y: jax.vmap(lambda r: r + (y * 2))(x), f(2, 3), f(3)),
    "vmap axis_name": (lambda x: jax.vmap(lambda r: r / lax.psum(r, "n"), axis_name="n")(x), p(4)),
    "vmap of grad": (lambda w, x: jax.vmap(jax.grad(net), in_axes=(None, 0))(w, x), W, X),
    "vmap of random": (lambda k: jax.vmap(lambda k: jax.random.normal(k, (2,)))(jax.random.split(k, 3)), KEY),
    "vectorize": (lambda x, y: jnp.vectorize(jnp.dot, signature="(n),(n)->()")(x, y), f(2, 3), f(3)),
    # jit
    "jit": (lambda x: jax.jit(lambda x: jnp.sin(x) + 1)(x), f(3)),
    "jit closure": (lambda x, y: jax.jit(lambda x: x + y * 2)(x), f(3), f(3)),
    "jit closure over pending": (lambda x: (lambda y: jax.jit(lambda x: x + y)(x))(x * 2), f(3)),
    "jit static": (lambda x: [power_sum(x, k=2), power_sum(x, k=3)], f(3)),
    "jit static_argnums": (lambda x: jax.jit(lambda n, x: x * n, static_argnums=0)(3, x), f(3)),
    "jit donate": (lambda x: jax.jit(lambda x: x * 2, donate_argnums=0)(x + 1), f(3)),
    "jit donate deletes": (
        lambda x: (lambda y: (jax.jit(lambda y: y * 2, donate_argnums=0)(y), y.is_deleted()))(x + 1),
        f(3),
    ),
    "jit of jit": (lambda x: jax.jit(lambda x: jax.jit(jnp.sin)(x) * jax.jit(jnp.cos)(x))(x), f(3)),
    "jit of a tree": (
        lambda x: jax.jit(lambda d: {"s": d["a"] + d["b"], "t": (d["a"],)})({"a": x, "b": x * 2}),
        f(3),
    ),
    "jit with a scalar": (lambda x: [jax.jit(lambda x, s: x * s)(x, s) for s in (2, 2.5, True)], f(3)),
    "jit with weak": (lambda x: jax.jit(lambda x: x * 2)(x), WEAK),
    "jit identity": (lambda x: jax.jit(lambda x: x)(x), f(3)),
    "jit of nothing": (lambda: jax.jit(lambda: jnp.arange(3))(),),
    "jit returning a constant": (lambda x: jax.jit(lambda x: (x, 1.0, jnp.ones(2)))(x), f(3)),
    "grad of jit": (lambda w, x: jax.grad(jax.jit(net))(w, x), W, X),
    "jit of grad of vmap": (
        lambda w, x: jax.jit(jax.grad(lambda w: jax.vmap(lambda r: net(w, r))(x).sum()))(w),
        W,
        X,
    ),
    "aot": (lambda x: jax.jit(lambda x: x * 2).lower(x).compile()(x), f(3)),
    "aot of a shape": (
        lambda x: jax.jit(lambda x: x * 2).lower(jax.ShapeDtypeStruct((3,), jnp.float32)).compile()(x),
        f(3),
    ),
    "disable_jit": (
        lambda x: _with(jax.disable_jit(), lambda: jax.jit(lambda x: x + 1 if x.sum() > 0 else x)(x)),
        f(3),
    ),
    # control flow
    "scan": (lambda x: lax.scan(lambda c_, x: (c_ + x, c_ * x), 0.0, x), f(5)),
    "scan closure": (lambda x, w: lax.scan(lambda c_, x: (c_ + x * w.sum(), c_), x[0], x), f(5), f(2)),
    "scan of a tree": (
        lambda x: lax.scan(lambda c_, d: ({"s": c_["s"] + d[0]}, d[1]), {"s": x.sum()}, (x, x * 2)),
        f(4),
    ),
    "grad of scan": (lambda x: jax.grad(lambda x: lax.scan(lambda c_, x: (c_ * x, c_), 1.0, x)[0])(x), p(4)),
    "vmap of scan": (lambda x: jax.vmap(lambda r: lax.scan(lambda c_, x: (c_ + x, c_), 0.0, r))(x), f(2, 3)),
    "while_loop": (
        lambda x: lax.while_loop(lambda s: s[1] < 5, lambda s: (s[0] * 1.5, s[1] + 1), (x, 0)),
        f(3),
    ),
    "while_loop closure": (
        lambda x, y: lax.while_loop(lambda s: s.sum() < y * 10, lambda s: s + y, x),
        p(3),
        p(),
    ),
    "fori_loop": (lambda x: lax.fori_loop(0, 4, lambda n, x: x * 1.1 + n, x), f(3)),
    "grad of fori_loop": (lambda x: jax.grad(lambda x: lax.fori_loop(0, 3, lambda n, x: x * x, x))(x), p()),
    "cond": (lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x), f(3)),
    "cond closure": (lambda x, y: lax.cond(x.sum() > 0, lambda: x * y, lambda: x - y), f(3), f(3)),
    "switch": (lambda x, n: lax.switch(n, [jnp.sin, jnp.cos, lambda x: x], x), f(3), i()),
    "map": (lambda x: lax.map(lambda r: r.sum() * r, x), f(3, 2)),
    "associative_scan": (lambda x: lax.associative_scan(jnp.multiply, x), p(5)),
    # random numbers
    "keys": (lambda k: [k, jax.random.split(k), jax.random.fold_in(k, 3), jax.random.key_data(k)], KEY),
    "key chain": (lambda: _key_chain(jax.random.key(1)),),
    "raw key chain": (lambda: _key_chain(jax.random.PRNGKey(1)),),
    "keys move": (
        lambda k: (lambda s: [s.reshape(2, 2), s[1:], jnp.stack([s[0], k]), jnp.where(True, s[0], s[1])])(
            jax.random.split(k, 4)
        ),
        KEY,
    ),
    "scan over keys": (
        lambda k: lax.scan(lambda c_, k: (c_ + jax.random.normal(k), None), 0.0, jax.random.split(k, 3))[0],
        KEY,
    ),
    # trees, shapes, types
    "tree map": (lambda x: jax.tree.map(lambda a: a * 2, {"a": x, "b": (x, [x + 1]), "n": None}), f(3)),
    "tree reduce": (lambda x: jax.tree.reduce(jnp.add, [x, x * 2, x * 3]), f(3)),
    "tree transpose": (
        lambda x: jax.tree.transpose(
            jax.tree.structure([0, 0]), jax.tree.structure((0, 0)), [(x, x + 1), (x, x + 2)]
        ),
        f(3),
    ),
    "namedtuple": (lambda x: jax.jit(lambda q: Pair(q.b, q.a * 2))(Pair(x, x + 1)), f(3)),
    "dataclass": (lambda x: jax.grad(lambda m: (m.w * m.b).sum())(Layer(x, x + 1)), f(3)),
    "custom pytree": (
        lambda x: jax.tree.leaves(jax.jit(lambda t: Tagged(t.x * 2, t.tag))(Tagged(x, "t"))),
        f(3),
    ),
    "ravel_pytree": (
        lambda x: (lambda flat, back: (flat, back(flat * 2)))(
            *flatten_util.ravel_pytree({"a": x, "b": x[0]})
        ),
        f(2, 3),
    ),
    "eval_shape": (
        lambda x: [(s.shape, s.dtype, s.weak_type) for s in [jax.eval_shape(lambda x: x @ x.T, x)]],
        f(2, 3),
    ),
    "ShapeDtypeStruct": (lambda x: jnp.zeros_like(jax.ShapeDtypeStruct(x.shape, x.dtype)), f(2, 3)),
    "typeof": (lambda x: str(jax.typeof(x)), f(2, 3)),
    "make_jaxpr": (lambda x: str(jax.make_jaxpr(lambda y: jnp.sin(y) * 2)(x)), f(3)),
    "device_put": (
        lambda x: [
            jax.device_put(x),
            jax.device_put(x, jax.devices()[0]),
            jax.device_put({"a": x, "b": 1.0}),
        ],
        f(3),
    ),
    "device_get": (lambda x: jax.device_get({"a": x, "b": [x * 2]}), f(3)),
    "block_until_ready": (lambda x: jax.block_until_ready({"a": x * 2}), f(3)),
    "with_sharding": (
        lambda x: jax.device_put(x, jax.sharding.SingleDeviceSharding(jax.devices()[0])) * 2,
        f(3),
    ),
    "jax copies": (lambda x: [jnp.array(x, copy=True), jnp.asarray(x), x.copy()], f(3)),
    "numpy operand": (
        lambda x: [x + np.ones(3, np.float32), np.ones(3, np.float32) + x],
        f(3),
    ),  # np.add(x, 1): tests/frontends
    # callbacks
    "pure_callback": (
        lambda x: jax.pure_callback(lambda x: np.asarray(x) * 2, jax.ShapeDtypeStruct((3,), jnp.float32), x),
        f(3),
    ),
    "pure_callback under vmap": (
        lambda x: jax.vmap(
            lambda r: jax.pure_callback(
                lambda r: np.asarray(r) + 1,
                jax.ShapeDtypeStruct((), jnp.float32),
                r,
                vmap_method="sequential",
            )
        )(x),
        f(3),
    ),  # noqa: E501
    # scopes and contexts
    "named_scope": (lambda x: _with(jax.named_scope("mine"), lambda: x * 2 + 1), f(3)),
    "named_call": (lambda x: jax.named_call(lambda x: x * 2, name="mine")(x), f(3)),
    "compile-time eval": (
        lambda x: _with(jax.ensure_compile_time_eval(), lambda: jnp.arange(3).sum() * 2) + x,
        f(3),
    ),
    "compile-time eval in jit": (
        lambda x: jax.jit(
            lambda x: x * int(_with(jax.ensure_compile_time_eval(), lambda: jnp.arange(3).sum()))
        )(x),
        f(3),
    ),
    "matmul precision": (lambda x: _with(jax.default_matmul_precision("highest"), lambda: x @ x.T), f(2, 3)),
    "default device": (lambda x: _with(jax.default_device(jax.devices()[0]), lambda: jnp.ones(3) + x), f(3)),
    "x64": (lambda x: _with(jax.enable_x64(True), lambda: [jnp.arange(3), jnp.ones(2) * 2, x * 2]), f(3)),
    "rank promotion": (lambda x: _with(jax.numpy_rank_promotion("raise"), lambda: x + x[:1]), f(2, 3)),
    "dtype promotion": (lambda x: _with(jax.numpy_dtype_promotion("strict"), lambda: x * 2 + x), f(3)),
    "debug nans": (lambda x: _with(jax.debug_nans(True), lambda: float((x - x).sum() / 1.0)), f(3)),
    "nested lazy": (lambda x: _with(lazynb.lazy(), lambda: _with(lazynb.lazy(), lambda: x * 2) + 1), f(3)),
    "lazy in jit": (lambda x: jax.jit(lambda x: _with(lazynb.lazy(), lambda: x * 2) + 1)(x), f(3)),
    "eager in lazy": (lambda x: _with(lazynb.eager(), lambda: x * 2) + 1, f(3)),
}


def _with(context, run):
    with context:
        return run()


def _key_chain(key):
    values = []
    for _ in range(3):
        key, sub = jax.random.split(key)
        values.append(jax.random.normal(sub, (2,)))
    return values, key


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore")
def test_each_transformation_gives_what_eager_gives(name):
    fn, *args = PROGRAMS[name]
    same(fn, *args)
