"""Functions that are traced, lowered, compiled or exported before they are called, and close over lazy
arrays."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from oracle import assert_same

import lazynb
from lazynb.recording.lazy_tensor import LazyTensor


def compiled(function, *args):
    return jax.jit(function).lower(*args).compile()


AHEAD = {
    "compiled": lambda f, x: compiled(f, x)(x),
    "compiled from a trace": lambda f, x: jax.jit(f).trace(x).lower().compile()(x),
    "compiled twice": lambda f, x: [compiled(f, x)(x), compiled(f, x)(x * 2)],
    "compiled under another jit": lambda f, x: compiled(lambda y: jax.jit(f)(y) * 2, x)(x),
    "compiled gradient": lambda f, x: compiled(jax.grad(lambda y: f(y).sum()), x)(x),
    "compiled and batched": lambda f, x: compiled(jax.vmap(f, (None,), axis_size=2), x)(x),
    "compiled in a loop": lambda f, x: compiled(lambda y: jax.lax.fori_loop(0, 3, lambda _, z: f(z), y), x)(
        x
    ),
    "compiled with a static argument": lambda f, x: (
        jax.jit(lambda y, n: f(y) * n, static_argnums=1).lower(x, 3).compile()(x)
    ),
    "compiled, an argument dead": lambda f, x: compiled(lambda y, _: f(y), x, jnp.ones(24))(x, jnp.ones(24)),
    "compiled and donating": lambda f, x: jax.jit(f, donate_argnums=0).lower(x + 0).compile()(x + 0),
    "compiled, called under jit's evaluation": lambda f, x: jax.core.eval_jaxpr(
        *_parts(jax.make_jaxpr(f)(x)), x
    ),
    "a trace called": lambda f, x: jax.jit(f).trace(x)(x),
    "exported": lambda f, x: export.export(jax.jit(f))(x).call(x),
    "the shapes of its arguments": lambda f, x: [aval.shape for aval in compiled(f, x).in_avals[0]],
    "their shardings": lambda f, x: compiled(f, x).input_shardings,
    "the shape of its result": lambda f, x: jax.tree.map(
        lambda one: (one.shape, one.dtype), jax.jit(f).lower(x).out_info
    ),
    "its text": lambda f, x: jax.jit(f).lower(x).as_text(),
}


def _parts(closed):
    return closed.jaxpr, closed.consts


@pytest.mark.parametrize("how", AHEAD)
def test_functions_over_pending_arrays_equal_eager_when_made_ahead(how):
    def program(x):
        weights, shift = x * 3 + jnp.arange(4.0), jnp.float32(2) * 3
        return AHEAD[how](lambda y: jnp.sin(y) * weights + shift, x)

    assert_same(program, jnp.linspace(0, 1, 4))


def test_tracing_runs_nothing_and_lowering_what_it_needs():
    with lazynb.lazy():
        weights, other = jnp.arange(4.0) + 1, jnp.arange(3.0) + 1
        traced = jax.jit(lambda y: y * weights).trace(jnp.ones(4))
        jax.make_jaxpr(lambda y: y * weights)(jnp.ones(4))
        jax.eval_shape(lambda y: y * weights, jnp.ones(4))
        assert weights.is_pending
        traced.lower()
        assert not weights.is_pending and isinstance(other, LazyTensor)


def test_a_lazy_array_outlives_lazy_mode():
    with lazynb.lazy():
        weights = jnp.arange(4.0) + 1
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(compiled(lambda y: y * weights, x)(x), x * (np.arange(4.0) + 1))
    with lazynb.lazy(), lazynb.eager():
        np.testing.assert_array_equal(compiled(lambda y: y * weights, x)(x), x * (np.arange(4.0) + 1))


def test_a_tracer_closed_over_under_grad_stays_a_tracer():
    """Under grad the closed-over array is a tracer of JAX's too: nothing changes there."""

    def program(x):
        scale = jnp.float32(2) * 2
        return jax.grad(lambda w: jax.jit(lambda y: y * w * scale).trace(x).jaxpr.in_avals and (w * scale))(
            jnp.float32(3)
        )

    assert_same(program, jnp.linspace(0, 1, 4))


@pytest.mark.parametrize("where", ["sharding of one device", "device", "nowhere", "nowhere, pending"])
def test_a_lowered_function_has_the_input_shardings_of_eager_jax(where):
    device = jax.devices()[0]
    mesh = jax.make_mesh((1,), ("a",), axis_types=(jax.sharding.AxisType.Auto,))
    places = {"sharding of one device": jax.sharding.NamedSharding(mesh, jax.P("a")), "device": device}

    def program(x):
        x = jax.device_put(x, places[where]) if where in places else x
        lowered = jax.jit(lambda y: jnp.sin(y) * 2).lower(x * 1 if where.endswith("pending") else x)
        return lowered.compile().input_shardings, lowered.as_text(), lowered.compile()(x)

    assert_same(program, jnp.linspace(0, 1, 4))


def test_lowering_with_a_committed_pending_argument_runs_nothing():
    x = jax.device_put(jnp.ones(3), jax.devices()[0])
    with lazynb.lazy():
        y = x * 2
        lowered = jax.jit(lambda a, b: a + b).lower(y, y)
        assert y.is_pending  # its place is known
        assert lowered.compile()(y, y).device == jax.devices()[0]


TRANSFORMED = {
    "vmap": (lambda: jax.vmap(jnp.vdot, in_axes=(0, None)), lambda x: (jnp.ones((2, 4)), x)),
    "vmap of vmap": (
        lambda: jax.vmap(jax.vmap(jnp.vdot, (0, None)), (None, 1)),
        lambda x: (jnp.ones((2, 4)), jnp.ones((4, 3))),
    ),
    "grad": (lambda: jax.grad(jnp.vdot), lambda x: (x, x)),
    "checkpoint": (lambda: jax.checkpoint(jnp.square), lambda x: (x,)),
    "wraps": (lambda: functools.wraps(jnp.sort)(lambda x: x[:2]), lambda x: (x,)),
    "itself": (lambda: jnp.sort, lambda x: (x,)),
}


@pytest.mark.parametrize("how", TRANSFORMED)
def test_transformed_jax_functions_are_lowered_as_eagerly(how):
    make, arguments = TRANSFORMED[how]

    def program(x):
        args, function = arguments(x), make()
        return (
            str(jax.make_jaxpr(function)(*args)),
            compiled(function, *args)(*args),
            jax.jit(function)(*args),
            jax.tree.map(lambda one: one.shape, jax.eval_shape(function, *args)),
        )

    assert_same(program, jnp.linspace(0, 1, 4))
