"""The sharding of a pending value on Auto axes is told without a run, as eager JAX has it, and is so."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

import lazynb

MESH = Mesh(np.array(jax.devices()[:2]), ("data",), axis_types=(AxisType.Auto,))
ROWS, COLUMNS = NamedSharding(MESH, P("data")), NamedSharding(MESH, P(None, "data"))


def by(sharding, shape=(4, 6)):
    return jax.device_put(np.arange(np.prod(shape), dtype=np.float32).reshape(shape) / 8, sharding)


def mixed(x):
    running = jnp.zeros(6)
    return 0.9 * running + 0.1 * x.mean(0)


ASKED = {
    "elementwise": lambda x: jnp.tanh(x) * 2,
    "a sum over the axis": lambda x: x.sum(0),
    "a sum beside it": lambda x: x.sum(1),
    "a product": lambda x: x @ x.T,
    "a transposition": lambda x: x.T,
    "a part": lambda x: x[:, 1:3],
    "with what is nowhere": mixed,
    "a jitted function": lambda x: jax.jit(lambda v: jnp.where(v > 1, v, 0) + 1)(x),
    "a gradient": lambda x: jax.grad(lambda v: (jnp.sin(v) * x).sum())(x),
    "two results": lambda x: jnp.linalg.qr(x)[1],
    "a scan": lambda x: jax.lax.scan(lambda c, row: (c + row, c), jnp.zeros(6), x)[1],
    "a shape of its own": lambda x: x.reshape(2, 12),
    "a sort": lambda x: jnp.sort(x, axis=0),
    "the columns": lambda x: jax.device_put(x, COLUMNS) * 2,
}


@pytest.mark.parametrize("name", ASKED)
def test_the_sharding_of_a_pending_value_is_that_of_eager_jax(name, clean):
    make = ASKED[name]
    eager = make(by(ROWS))
    with lazynb.lazy():
        lazy = make(by(ROWS))
        asked = lazy.sharding
        assert lazy.is_pending and not lazynb.breaks()
        assert asked.is_equivalent_to(eager.sharding, eager.ndim)
        assert lazy.is_fully_replicated == eager.is_fully_replicated
        after = jax.device_put(lazy, NamedSharding(MESH, P()))  # a program may choose what fits this
        np.testing.assert_allclose(lazy, eager, rtol=1e-6)
        np.testing.assert_allclose(after, eager, rtol=1e-6)
        assert lazy._value.sharding.is_equivalent_to(asked, eager.ndim) and lazy.committed


def training(steps, asks):
    """As Flax's BatchNorm: the next value of a variable is compared with the last one."""
    mean, w, x = by(NamedSharding(MESH, P()), (6,)), by(NamedSharding(MESH, P()), (6,)), by(ROWS)
    losses, kept = [], []
    for _ in range(steps):
        following = 0.9 * mean + 0.1 * x.mean(0)
        kept.append(not asks or following.sharding == mean.sharding)
        mean = following if kept[-1] else jax.device_put(following, mean.sharding)
        w = w - 0.1 * jax.grad(lambda v, mean=mean: (((x - mean) @ v) ** 2).mean())(w)
        losses.append(float(w.sum()))
    return losses, kept, mean


def test_a_loop_that_reads_shardings_breaks_only_at_float_and_compiles_twice_at_most(clean):
    losses, kept, mean = training(5, asks=True)
    lazynb.clear_cache()
    with lazynb.lazy():
        mine, asked, last = training(5, asks=True)
        assert {one.kind for one in lazynb.breaks()} == {"float"} and asked == kept
        assert lazynb.cache_info().misses <= 2
    np.testing.assert_allclose(mine, losses, rtol=1e-5)
    assert last.sharding.is_equivalent_to(mean.sharding, 1)


def test_a_sharding_of_an_unsettled_input_needs_a_run(clean):
    """An input that is still computed in another trace, whose program XLA has not seen."""
    with lazynb.lazy():
        x = by(ROWS) * 2
        x._trace.seal()
        y = x + 1
        assert y.sharding.is_equivalent_to(ROWS, 2)
        assert [one.kind for one in lazynb.breaks()] == ["attribute"]


def test_the_graph_shows_a_sharding_query_as_a_node(clean):
    with lazynb.lazy():
        y = jnp.tanh(by(ROWS)) * 2
        assert y.sharding.is_equivalent_to(ROWS, 2)
        last = repr(lazynb.graph(y)).splitlines()[-1]
        assert "sharding" in last and "→ y" in last and "y.sharding" in last


def test_the_sharding_is_known_outside_lazy_mode(clean):
    with lazynb.lazy():
        y = by(ROWS) * 2
    assert y.sharding.is_equivalent_to(ROWS, 2)
    np.testing.assert_allclose(y, np.asarray(by(ROWS)) * 2)
