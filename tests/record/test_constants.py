"""Functions with custom derivatives that close over arrays still pending, within control flow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

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
    "cond in scan": lambda f: lambda x: lax.scan(lambda c, _: (lax.cond(c.sum() > 0, f, jnp.sin, c), None), x, None, length=3)[0],
    "loop": lambda f: lambda x: lax.fori_loop(0, 3, lambda _, x: f(x), x),
    "map": lambda f: lambda x: lax.map(f, jnp.stack([x, x])),
    "scan in jit": lambda f: jax.jit(lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=3)[0]),
    "cond in checkpoint": lambda f: jax.checkpoint(lambda x: lax.cond(x.sum() > 0, f, jnp.sin, x)),
}


def over_an_array(rules):
    w = jnp.ones(3) * 2

    @jax.custom_vjp
    def f(x):
        return x * w

    f.defvjp(*rules(f, w))
    return f


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("rules", RULES)
def test_gradients(rules, place):
    def loss(x):
        return PLACES[place](over_an_array(RULES[rules]))(x).sum()

    call = jax.vmap(jax.grad(loss)) if place == "map" else jax.value_and_grad(loss)
    x = jnp.stack([X, X]) if place == "map" else jnp.asarray(X)
    expected = call(x)
    with lazynb.lazy():
        found = call(x * 1)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), found, expected)


def test_what_holds_no_pending_array_runs_nothing(clean):
    with lazynb.lazy():
        x = jnp.asarray(X) * 2
        y = jax.grad(lambda x: PLACES["scan"](jnp.sin)(x).sum())(x)
        assert y.is_pending and not lazynb.breaks()
