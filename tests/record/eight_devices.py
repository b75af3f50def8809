"""Programs over eight devices, eagerly and lazily; ``test_eight_devices.py`` runs this in a process of its own.

Prints what differs, one line each, and ends with 1 if anything does.
"""

from __future__ import annotations

import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import shard_map
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P
from oracle import Call, Different, Make, assert_all_same

import lazynb
from lazynb.recording.lazy_trace import LazyTrace

DEVICES = np.array(jax.devices())
AUTO = Mesh(DEVICES.reshape(4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
EXPLICIT = Mesh(DEVICES.reshape(4, 2), ("data", "model"), axis_types=(AxisType.Explicit,) * 2)
HALF = Mesh(DEVICES[:4], ("data",), axis_types=(AxisType.Auto,))
OTHER = Mesh(DEVICES[4:], ("data",), axis_types=(AxisType.Auto,))


def on(mesh, *spec):
    return NamedSharding(mesh, P(*spec))


def array(sharding, shape=(8, 4)):
    return Make(
        lambda: jax.device_put(np.arange(np.prod(shape), dtype=np.float32).reshape(shape) / 8, sharding)
    )


ROWS, TILES, WHOLE = on(AUTO, "data"), on(AUTO, "data", "model"), on(AUTO)
X, T, W = array(ROWS), array(TILES), array(on(AUTO, None, "model"), (4, 6))
E, ET = array(on(EXPLICIT, "data", None)), array(on(EXPLICIT, "data", "model"))


def both(call):
    """``call`` under the Explicit mesh."""

    def under(*args):
        with jax.set_mesh(EXPLICIT):
            return call(*args)

    under.__name__ = call.__name__
    return under


def torn(x):
    y = jnp.tanh(x)
    c = jnp.arange(4.0) + 1
    z = y * 2
    return y, c, z, z + c


def back_and_forth(x):
    scale = jnp.arange(4.0)
    for _ in range(3):
        x, scale = x * scale, scale + 1
    return x, scale


def two_sets(x):
    first, second = (
        jax.device_put(np.ones(4), on(HALF, "data")),
        jax.device_put(np.ones(4), on(OTHER, "data")),
    )
    for _ in range(2):
        first, second, x = first + 1, second * 2, x - 1
    return first, second, x


def set_and_left(x):
    with jax.set_mesh(AUTO):
        y = x * 2
    z = y + 1
    with jax.set_mesh(AUTO):
        return z * y


def key_of_uncommitted(x):
    key = jax.random.key(0)
    return x + jax.random.normal(key, x.shape), jax.random.bits(key, (3,))


def gradient(x, w):
    return jax.value_and_grad(lambda w: jnp.mean((x @ w) ** 2))(w)


def scanned(x):
    return jax.lax.scan(lambda c, row: (c + row, c.sum()), 0 * x[0], x)


def permuted(x):
    pairs = [(n, (n + 1) % 4) for n in range(4)]
    ring = shard_map(
        lambda v: jax.lax.ppermute(v, "data", pairs), mesh=AUTO, in_specs=P("data"), out_specs=P("data")
    )
    return ring(ring(x))


def refused(x):
    return jax.jit(lambda v: v, in_shardings=WHOLE)(x)


def switched(x):
    index = jax.sharding.reshard(jnp.array([0, 1, 2, 4]), P("data"))
    branches = [lambda v, n: v + n, lambda v, n: v * n]
    return jax.vmap(lambda n: jax.lax.switch(n, branches, jnp.ones(()), n))(index), x * 2


def two_devices(x):
    return x + jax.device_put(np.ones(4), on(HALF, "data"))


def moved_gradient(x):
    return jax.grad(lambda v: jax.device_put(v * 2, WHOLE).sum())(x)


def vjp_of(function):
    """The result of ``function`` and its gradients, for a cotangent of ones."""

    def call(*args):
        out, back = jax.vjp(function, *args)
        return out, back(jnp.ones_like(out))

    call.__name__ = function.__name__
    return call


def masked(x):
    """A number, a mask that is on no mesh, and a constant in JAX's own rules (maximum, softmax, gelu)."""
    seen = jnp.tril(jnp.ones((4, 4), bool))[0]
    return jax.nn.gelu(jax.nn.softmax(jnp.where(seen, jnp.maximum(0.0, x), -1e9) + 1e-6, 0) * 0.5)


def left_on_one_device(x):
    """The gradient depends on nothing that is on the mesh."""
    return (x * 0.5).sum() * 3.0


def both_places(x, z):
    """``z`` is on one device, and what is made of it before it meets ``x`` is smaller than ``z``."""
    return x * jnp.mean(z * z, keepdims=True) + z.astype(jnp.float32)[:4]


def again(call):
    """``call`` as it is recorded, and as it is recalled."""

    def twice(*args):
        return [call(*args) for _ in range(3)]

    twice.__name__ = call.__name__
    return twice


AUTO_CALLS = [
    Call(vjp_of(masked), (X,)),
    Call(vjp_of(left_on_one_device), (X,)),
    Call(vjp_of(both_places), (X, Make(lambda: jnp.arange(64, dtype=jnp.bfloat16) / 32))),
    Call(again(vjp_of(masked)), (X,)),
    Call(again(vjp_of(both_places)), (X, Make(lambda: jnp.arange(64, dtype=jnp.bfloat16) / 32))),
    Call(again(jax.grad(left_on_one_device)), (X,)),
    Call(again(jax.value_and_grad(lambda x: masked(x).mean())), (X,)),
    Call(torn, (X,)),
    Call(back_and_forth, (X,)),
    Call(two_sets, (X,)),
    Call(set_and_left, (X,)),
    Call(key_of_uncommitted, (X,)),
    Call(gradient, (X, W)),
    Call(permuted, (X,)),
    Call(refused, (X,), raises=True),
    Call(two_devices, (X,), raises=True),
    Call(moved_gradient, (X,)),
    Call(lambda x: jax.device_put(x, TILES), (X,)),
    Call(lambda x: jax.device_put(x, ROWS), (X,)),
    Call(lambda x: jax.lax.with_sharding_constraint(x, TILES) * 2, (X,)),
    Call(lambda x: jax.jit(lambda v: v.T, out_shardings=WHOLE)(x), (T,)),
    Call(lambda x: jax.jit(lambda v: v + 1, in_shardings=ROWS)(x), (X,)),
    Call(lambda x: x.sum(), (T,)),
    Call(lambda x: (x > 1).any(), (T,)),
    Call(lambda x: jnp.concatenate([x, x], 1)[:, 1:3], (X,)),
    Call(lambda x: x.astype(jnp.bfloat16) * 2, (X,)),
    Call(lambda x: jnp.where(x > 2, x, 0.0), (X,)),
    Call(lambda x: 2 * x[0], (X,)),
    Call(lambda x: jnp.zeros_like(x) + jnp.ones(4), (X,)),
    Call(lambda x: jax.vmap(lambda row: row - row.mean())(x), (X,)),
    Call(
        lambda x: jax.jit(shard_map(lambda v: v * 2, mesh=AUTO, in_specs=P("data"), out_specs=P("data")))(x),
        (X,),
    ),
    Call(lambda: jax.pmap(lambda v: v + 1)(np.ones((8, 2)))),
    Call(lambda: jax.pmap(lambda v: jax.lax.psum(v, "i"), axis_name="i")(jnp.arange(8.0))),
    Call(lambda: jax.pmap(lambda v: v * 2, devices=jax.devices()[::-1])(jnp.ones((8, 2)))),
    Call(lambda: jax.jit(lambda v: v * 2, out_shardings=ROWS)(jnp.ones((8, 4)) * 3)),
    Call(lambda: jax.jit(lambda v: v * 2, in_shardings=ROWS)(np.ones((8, 4)))),
    Call(lambda: jnp.full((8, 4), 2.0, device=ROWS) * 2),
]
EXPLICIT_CALLS = [
    Call(both(torn), (E,)),
    Call(both(switched), (E,)),
    Call(both(lambda x: [row * 2 for row in x]), (E,)),
    Call(both(scanned), (array(on(EXPLICIT, None, "data"), (3, 4)),)),
    Call(both(lambda x: jax.sharding.reshard(x, P(None, "model")) * 2), (E,)),
    Call(both(lambda x: x.T @ x), (array(on(EXPLICIT, None, "model")),), raises=True),
    Call(both(lambda x: x.sum(0)), (ET,)),
    Call(both(lambda x: jnp.mean(x, 1, keepdims=True) - x), (ET,)),
    Call(both(lambda x: jax.grad(lambda v: (v * v).sum())(x)), (ET,)),
    Call(both(lambda: jnp.arange(8.0) + 1)),
    Call(both(lambda: jnp.zeros((8, 4), out_sharding=P("data")) + 1)),
    Call(both(lambda: jax.random.normal(jax.random.key(1), (8, 4), out_sharding=P("data", "model")))),
    Call(both(lambda: jax.jit(lambda v: v * 2, out_shardings=P("data", None))(jnp.ones((8, 4))))),
    Call(both(lambda: jax.jit(lambda v: v * 2, out_shardings=P("data"))(jnp.ones((8, 4))))),
    Call(both(lambda: jax.jit(lambda v: v, out_shardings=P(unreduced={"data"}))(jnp.arange(4)).sharding)),
    Call(both(lambda x: x + jnp.ones((8, 4), out_sharding=P("model"))), (ET,), raises=True),
    Call(both(lambda x: jax.jit(lambda v: v * 2 + jnp.ones(4))(x)), (E,)),
    Call(lambda x: x * 2, (ET,)),
]


# ---- training ----------------------------------------------------------------------------------------------


def trained(mesh, specs, steps=4, explicit=False):
    """The losses of a two-layer model with momentum, its parameters and momenta."""
    source = np.random.default_rng(0)

    def make(shape, spec):
        return jax.device_put(source.normal(size=shape).astype(np.float32) / 4, on(mesh, *spec))

    shapes = {"w1": (8, 16), "w2": (16, 4), "b": (4,)}
    params = {name: make(shape, specs[name]) for name, shape in shapes.items()}
    momenta = jax.tree.map(jnp.zeros_like, params)

    def gathered(w):
        return jax.sharding.reshard(w, P()) if explicit else w

    def loss_of(params, x, y):
        hidden = jnp.tanh(x @ gathered(params["w1"]))
        out = hidden @ gathered(params["w2"]) + gathered(params["b"])
        return jnp.mean(((out - y) * (jnp.arange(4.0) + 1)) ** 2)

    losses, count = [], jnp.zeros((), jnp.int32)
    for _ in range(steps):
        x, y = make((16, 8), ("data", None)), make((16, 4), ("data", None))
        loss, grads = jax.value_and_grad(loss_of)(params, x, y)
        count = count + 1
        rate = 0.1 / (1 + 0.1 * count.astype(jnp.float32))
        momenta = jax.tree.map(lambda m, g: 0.9 * m + g, momenta, grads)
        params = jax.tree.map(lambda p, m, rate=rate: p - rate * m, params, momenta)
        losses.append(float(loss))
    return losses, params, momenta, count


KINDS = {
    "data parallel": (AUTO, {"w1": (), "w2": (), "b": ()}),
    "fully sharded": (AUTO, {"w1": ("data",), "w2": ("data", None), "b": ()}),
    "tensor parallel": (AUTO, {"w1": (None, "model"), "w2": ("model", None), "b": ()}),
    "explicit": (EXPLICIT, {"w1": ("data", None), "w2": ("data", None), "b": (None,)}),
}


def training_problems(kind):
    mesh, specs = KINDS[kind]

    def run():
        if mesh is AUTO:
            return trained(mesh, specs)
        with jax.set_mesh(mesh):
            return trained(mesh, specs, explicit=True)

    lazynb.clear_cache()
    eager = run()
    with lazynb.lazy():
        lazy = run()
        breaks = {(one.kind, one.location.text) for one in lazynb.breaks()}
    if not np.allclose(eager[0], lazy[0], rtol=1e-6, atol=1e-6):
        yield f"losses {lazy[0]}, eagerly {eager[0]}"
    if breaks != {("float", "losses.append(float(loss))")}:
        yield f"breaks {breaks}"
    for e, g in zip(jax.tree.leaves(eager[1:]), jax.tree.leaves(lazy[1:]), strict=True):
        if not e.sharding.is_equivalent_to(g.sharding, e.ndim) or e.committed != g.committed:
            yield f"{g.shape} is at {g.sharding}, {g.committed}; eagerly {e.sharding}, {e.committed}"
        if not np.allclose(e, g, rtol=1e-4, atol=1e-5):
            yield f"{g.shape} holds other values"


def recorded_problems():
    """A training step over the mesh is recalled: the second time JAX's rules are asked for next to nothing."""
    names = []
    record = LazyTrace._record

    def noting(trace, primitive, *rest):
        names.append(primitive.name)
        return record(trace, primitive, *rest)

    step = jax.value_and_grad(lambda x: (jax.nn.relu(masked(x)) + jnp.maximum(0.0, x)).mean())
    x, counts = X.make(), []
    LazyTrace._record = noting
    try:
        for _ in range(4):
            with lazynb.lazy():
                jax.block_until_ready(step(x))
            counts.append(len(names))
            names.clear()
    finally:
        LazyTrace._record = record
    if counts[-1] > counts[0] / 4:
        yield f"{counts} operations went through JAX's rules"


def spread_of_a_number(n):
    """Nothing that it reads is on the mesh, and its result is."""
    return jax.lax.with_sharding_constraint(jnp.arange(8.0)[:, None] * n, ROWS)


def sum_of_what_is_spread(n):
    return spread_of_a_number(n).sum()


def told_problems():
    """Asked for a sharding, a value has it as eagerly, and nothing runs."""

    def told():
        y, s = jax.jit(spread_of_a_number)(2.0), jax.jit(sum_of_what_is_spread)(2.0)
        return [(y + 1).sharding, y.sharding, (s * jnp.float32(3)).sharding, (y * jnp.arange(4.0)).sharding]

    eagerly = told()
    lazynb.clear_cache()
    with lazynb.lazy():
        lazily = told()
    if eagerly != lazily:
        yield f"told {lazily}; eagerly {eagerly}"
    if breaks := list(lazynb.breaks()):
        yield f"asking breaks the trace: {breaks}"


def main():
    count = 0
    for problem in [*recorded_problems(), *told_problems()]:
        print(problem)
        count += 1
    for calls in (AUTO_CALLS, EXPLICIT_CALLS):
        try:
            assert_all_same(calls)
        except Different as difference:
            print(difference)
            count += 1
    for kind in KINDS:
        for problem in training_problems(kind):
            print(f"{kind}: {problem}")
            count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
