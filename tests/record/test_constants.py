"""Functions with custom derivatives that close over arrays still pending, within control flow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from oracle import assert_same

import lazynb

X = np.linspace(0.5, 1.5, 3, dtype=np.float32)
RULES = {
    "the array is a residual": lambda f, w: (lambda x: (f(x), w), lambda r, g: (g * r,)),
    "the array in the backward rule": lambda f, w: (lambda x: (x * w, x), lambda r, g: (g * r * w,)),
    "the array in the forward rule": lambda f, w: (lambda x: (jnp.sin(x) * w, None), lambda r, g: (g * 3,)),
}
PLACES = {
    "cond": lambda f: lambda x: lax.cond(x.sum() > 0, f, lambda x: x, x),
    "switch": lambda f: lambda x: lax.switch(1, [jnp.sin, f, jnp.cos], x),
    "scan": lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=3)[0],
    "cond in scan": lambda f: (
        lambda x: lax.scan(lambda c, _: (lax.cond(c.sum() > 0, f, jnp.sin, c), None), x, None, length=3)[0]
    ),
    "loop": lambda f: lambda x: lax.fori_loop(0, 3, lambda _, x: f(x), x),
    "map": lambda f: lambda x: lax.map(f, jnp.stack([x, x])),
    "scan in jit": lambda f: jax.jit(lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=3)[0]),
    "cond in checkpoint": lambda f: jax.checkpoint(lambda x: lax.cond(x.sum() > 0, f, jnp.sin, x)),
}


def assert_as_eagerly(program):
    expected = program()
    with lazynb.lazy():
        found = program()
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), found, expected)


def over_an_array(rules):
    w = jnp.ones(3) * 2

    @jax.custom_vjp
    def f(x):
        return x * w

    f.defvjp(*rules(f, w))
    return f


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("rules", RULES)
def test_gradients_through_custom_derivatives_equal_eager(rules, place):
    def loss(x):
        return PLACES[place](over_an_array(RULES[rules]))(x).sum()

    call = jax.vmap(jax.grad(loss)) if place == "map" else jax.value_and_grad(loss)
    x = jnp.stack([X, X]) if place == "map" else jnp.asarray(X)
    expected = call(x)
    with lazynb.lazy():
        found = call(x * 1)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), found, expected)


@pytest.mark.parametrize(
    "wrap", [jax.jit, jax.vmap, lambda f: jax.vmap(jax.jit(f)), lambda f: jax.jit(jax.vmap(f))]
)
def test_gradients_of_a_custom_jvp_in_a_scan_that_closes_over_an_array_equal_eager(wrap):
    def gradient(x):
        w = jnp.cos(x) * 2

        @jax.custom_jvp
        def f(x):
            return x * w.sum()

        f.defjvp(lambda primals, tangents: (f(*primals), 2 * tangents[0]))
        scanned = wrap(lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0])
        return jax.grad(lambda x: scanned(x).sum())(x)

    assert_same(gradient, X)


def test_a_function_without_pending_arrays_runs_nothing(clean):
    with lazynb.lazy():
        x = jnp.asarray(X) * 2
        y = jax.grad(lambda x: PLACES["scan"](jnp.sin)(x).sum())(x)
        assert y.is_pending and not lazynb.breaks()


def composites():
    w = jnp.ones(3) * 2

    def inner(x):
        return jnp.sin(x) * w

    scaled = lax.composite(lambda x, factor: x * w * factor, name="my.scaled")
    nested = lax.composite(lambda x: lax.cond(x.sum() > 0, inner, jnp.cos, x) + w, name="my.nested")
    x = jnp.asarray(X) + 1
    return {
        "called": scaled(x, factor=3),
        "jitted": jax.jit(lambda x: scaled(x, factor=2))(x),
        "nested": nested(x),
        "scanned": lax.scan(lambda c, _: (nested(c), None), x, None, 3)[0],
        "beside a gradient": jax.grad(lambda y: (y * nested(x)).sum())(x),
    }


def test_composites_over_pending_arrays_equal_eager():
    assert_as_eagerly(composites)


def test_a_composite_over_a_value_that_is_differentiated_is_refused_as_eagerly():
    def loss(v):
        return lax.composite(lambda x: x * v, name="my.product")(jnp.ones(3)).sum()

    with pytest.raises(jax.errors.UnexpectedTracerError) as eager:
        jax.grad(loss)(jnp.ones(3))
    with lazynb.lazy(), pytest.raises(jax.errors.UnexpectedTracerError) as lazily:
        jax.grad(loss)(jnp.ones(3) * 1)
    assert str(lazily.value) == str(eager.value)


def closures():
    w = jnp.ones(3) * 2
    x = jnp.asarray(X) * 1
    converted, constants = jax.closure_convert(lambda x: jnp.sin(x) * w, x)
    assert not constants  # nothing that is differentiated

    @jax.custom_vjp
    def summed(x):
        return converted(x, *constants).sum()

    summed.defvjp(lambda x: (summed(x), x), lambda x, g: (g * x * w,))

    def hoisted(v):
        function, values = jax.closure_convert(lambda x: x * v * w, x)
        return function(v, *values).sum()

    return (
        jax.grad(summed)(x),
        jax.jit(jax.grad(summed))(x),
        jax.grad(hoisted)(x),
        jax.vmap(jax.grad(summed))(jnp.stack([x, x])),
        jax.grad(lambda x: lax.scan(lambda c, _: (c * summed(c), None), x, None, 3)[0].sum())(x),
    )


@pytest.mark.parametrize("kind", [False, True])
def test_converted_closures_equal_eager(kind):
    """Of both of JAX's implementations of custom_vjp."""
    before = jax.config.jax_custom_vjp3
    jax.config.update("jax_custom_vjp3", kind)
    try:
        expected = closures()
        with lazynb.lazy():
            found = closures()
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), found, expected)
    finally:
        jax.config.update("jax_custom_vjp3", before)


def not_differentiated():
    """``nondiff_argnums`` of arrays, alone and in a container."""
    w = jnp.ones(3) * 2

    def product(a, x):
        return (a["w"] * x).sum()

    f = jax.custom_vjp(product, nondiff_argnums=(0,))
    f.defvjp(lambda a, x: (product(a, x), x), lambda a, r, g: (a["w"] * g * 3,))
    x, a = jnp.asarray(X) * 1, {"w": w}
    return (
        f(a, x),
        jax.grad(f, 1)(a, x),
        jax.jit(lambda x: f(a, x))(x),
        jax.vmap(lambda x: f(a, x))(jnp.stack([x, x])),
        jax.jit(jax.grad(lambda x: f(a, x)))(x),
        jax.grad(lambda x: lax.scan(lambda c, _: (c * f(a, c), None), x, None, 2)[0].sum())(x),
    )


def test_nondifferentiated_arguments_equal_eager():
    assert_as_eagerly(not_differentiated)


def test_a_tracer_that_is_not_differentiated_is_refused_as_eagerly():
    f = jax.custom_vjp(lambda a, x: a * x, nondiff_argnums=(0,))
    f.defvjp(lambda a, x: (a * x, None), lambda a, r, g: (g,))
    with lazynb.lazy(), pytest.raises(jax.errors.UnexpectedTracerError):
        jax.jit(lambda a: jax.grad(f, 1)(a, 2.0))(jnp.ones(()) * 1)


ATTRIBUTES = {
    "a scalar": lambda call, w: call(w, scale=w[0]),
    "an array": lambda call, w: call(w, scale=w * 2),
    "NumPy's": lambda call, w: call(w, scale=np.float32(3)),
    "a number": lambda call, w: call(w, scale=3.0),
    "in a jitted function": lambda call, w: jax.jit(lambda x: call(x, scale=w))(w),
    "one that is differentiated": lambda call, w: jax.grad(lambda x: call(w, scale=x).sum())(w[0]),
}


@pytest.mark.parametrize("how", ATTRIBUTES)
def test_pending_attributes_of_a_composite_equal_eager(how):
    def program(x):
        return ATTRIBUTES[how](lax.composite(lambda x, *, scale: x * scale, "my.scaled"), x + 1)

    assert_same(program, jnp.linspace(0, 1, 4))
