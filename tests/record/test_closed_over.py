"""A lazy tensor is a ``jax.Array`` and no tracer; a traced function that closes over one has it as an operand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from oracle import assert_same

import lazynb
from lazynb.recording.closure_constants import ClosureTracer

X = np.linspace(0.5, 1.5, 6, dtype=np.float32).reshape(2, 3)


def pending():
    x = jnp.asarray(X) * 2 + 1
    assert isinstance(x, lazynb.LazyTensor) and x.is_pending
    return x


def test_it_is_an_array_and_no_tracer():
    with lazynb.lazy():
        x = pending()
        assert isinstance(x, jax.Array) and issubclass(type(x), jax.Array)
        assert not isinstance(x, jax.core.Tracer) and not hasattr(x, "__jax_array__")
        assert x.is_pending


CLOSING = {
    "jit": lambda x: jax.jit(lambda v: v * x + x.sum())(jnp.ones(3)),
    "jit in jit": lambda x: jax.jit(lambda v: jax.jit(lambda u: u * x)(v) + x)(jnp.ones(3)),
    "jit that gives it back": lambda x: jax.jit(lambda v: (v, x))(jnp.ones(3)),
    "scan": lambda x: lax.scan(lambda c, _: (c * x, c), jnp.ones((2, 3)), None, length=3),
    "jit in scan": lambda x: lax.scan(
        lambda c, _: (jax.jit(lambda u: u + x)(c), None), jnp.ones((2, 3)), None, length=2
    ),
    "while": lambda x: lax.while_loop(lambda c: c.sum() < x.sum() * 5, lambda c: c + x, jnp.ones((2, 3))),
    "cond": lambda x: lax.cond(jnp.bool_(True), lambda v: v + x, lambda v: v * x, jnp.ones((2, 3))),
    "switch": lambda x: lax.switch(jnp.int32(1), [lambda: x, lambda: x * 2]),
    "fori_loop": lambda x: lax.fori_loop(0, 3, lambda i, c: c + x * i, jnp.zeros((2, 3))),
    "map": lambda x: lax.map(lambda row: row * x[0], jnp.ones((4, 3))),
    "vmap": lambda x: jax.vmap(lambda row: row / x[0])(jnp.ones((4, 3))),
    "checkpoint": lambda x: jax.grad(jax.checkpoint(lambda v: (jnp.sin(v * x) * x).sum()))(jnp.ones((2, 3))),
    "grad of jit": lambda x: jax.grad(jax.jit(lambda v: (v * x * x).sum()))(jnp.ones((2, 3))),
    "grad of scan": lambda x: jax.grad(
        lambda v: lax.scan(lambda c, _: (c * x, None), v, None, length=3)[0].sum()
    )(jnp.ones((2, 3))),
    "jvp": lambda x: jax.jvp(lambda v: jnp.sin(v) * x, (jnp.ones((2, 3)),), (jnp.ones((2, 3)),)),
    "vjp": lambda x: jax.vjp(lambda v: jnp.sin(v) * x, x)[1](x),
    "hessian": lambda x: jax.hessian(lambda v: (v**3 * x[0]).sum())(jnp.ones(3)),
    "reduce": lambda x: lax.reduce(x, np.float32(0), lax.add, (0,)),
    "associative_scan": lambda x: lax.associative_scan(lambda a, b: a * b, x),
    "custom_root": lambda x: lax.custom_root(
        lambda v: v - x, jnp.zeros((2, 3)), lambda f, g: g + x, lambda f, y: y
    ),
    "linalg": lambda x: jnp.linalg.solve(x @ x.T + jnp.eye(2), x),
}


@pytest.mark.parametrize("closing", CLOSING)
def test_functions_that_close_over_it_give_eager_values_without_a_break(closing, clean):
    expected = jax.tree.map(np.asarray, CLOSING[closing](jnp.asarray(X) * 2 + 1))
    for _ in range(2):
        with lazynb.lazy():
            x, before = pending(), len(lazynb.breaks())
            found = CLOSING[closing](x)
            assert len(lazynb.breaks()) == before and x.is_pending
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5), found, expected)
        lazynb.sync()
    lazynb.clear_cache()


@pytest.mark.parametrize("closing", ["jit", "jit in jit", "scan", "cond", "grad of jit", "checkpoint"])
def test_another_value_that_is_closed_over_compiles_nothing(closing, clean):
    for factor in (2.0, 3.0):
        with lazynb.lazy():
            x = jnp.asarray(X) * np.float32(factor)
            jax.block_until_ready(CLOSING[closing](x))
    assert lazynb.cache_info().misses == 1


SHOWING = {
    "make_jaxpr": lambda x: jax.make_jaxpr(lambda v: v * x)(x).consts,
    "make_jaxpr of jit": lambda x: jax.make_jaxpr(jax.jit(lambda v: v * x))(x).consts,
    "closure_convert": lambda x: jax.closure_convert(lambda v: v * x, x)[1],
    "vjp": lambda x: jax.tree.leaves(jax.vjp(lambda v: jnp.sin(v) * x, x)[1]),
    "vjp of jit": lambda x: jax.tree.leaves(jax.vjp(jax.jit(lambda v: jnp.sin(v) * x), x)[1]),
    "linearize": lambda x: jax.tree.leaves(jax.linearize(lambda v: jnp.sin(v) * x, x)[1]),
    "jit": lambda x: jax.jit(lambda v: (v, x))(x),
    "scan": lambda x: lax.scan(lambda c, _: (c, x), x, None, length=1),
    "cond": lambda x: lax.cond(True, lambda: x, lambda: x * 2),
    "grad of a function that gives it back": lambda x: jax.value_and_grad(
        jax.jit(lambda v: ((v * x).sum(), x)), has_aux=True
    )(x),
}


@pytest.mark.parametrize("showing", SHOWING)
def test_nobody_is_given_the_tracer(showing):
    with lazynb.lazy():
        given = jax.tree.leaves(SHOWING[showing](pending()))
        assert not any(isinstance(one, jax.core.Tracer) for one in given)
        assert not any(type(one) is ClosureTracer for one in given)
        for one in given:
            np.asarray(one)


def test_a_function_that_was_traced_lazily_runs_eagerly_and_the_other_way_round():
    with lazynb.lazy():
        x = pending()
        function = jax.jit(lambda v: v * x)
        scanned = jax.jit(lambda v: lax.scan(lambda c, _: (c * x, None), v, None, length=2)[0])
        lazily = function(jnp.ones(3)), scanned(jnp.ones((2, 3)))
    value = X * 2 + 1
    for found in (lazily, (function(jnp.ones(3)), scanned(jnp.ones((2, 3))))):
        np.testing.assert_allclose(found[0], np.broadcast_to(value, (2, 3)), rtol=1e-6)
        np.testing.assert_allclose(found[1], value**2, rtol=1e-6)
    eager = jax.jit(lambda v: v + x)
    np.testing.assert_allclose(eager(jnp.ones(3)), 1 + value, rtol=1e-6)
    with lazynb.lazy():
        np.testing.assert_allclose(eager(jnp.ones(3)), 1 + value, rtol=1e-6)
        with lazynb.eager():
            np.testing.assert_allclose(jax.jit(lambda v: v - x)(jnp.ones(3)), 1 - value, rtol=1e-6)


def test_a_function_compiled_ahead_of_time_closes_over_its_value():
    with lazynb.lazy():
        x = pending()
        compiled = jax.jit(lambda v: v * x).lower(jnp.ones(3)).compile()
        np.testing.assert_allclose(compiled(jnp.ones(3)), X * 2 + 1, rtol=1e-6)
        np.testing.assert_allclose(compiled(x[0] * 0 + 1), X * 2 + 1, rtol=1e-6)


def test_length_and_reversal_are_those_of_an_array():
    assert_same(lambda x: [len(x), *map(float, [row.sum() for row in reversed(x)])], X)
    for ask in (len, iter, lambda x: list(reversed(x))):
        assert_same(ask, np.float32(1), raises=True)


# ---- operations that the code asks to run at once ----------------------------------------------------------


def test_what_is_computed_at_compile_time_is_concrete(clean):
    with lazynb.lazy():
        x = pending()
        with jax.ensure_compile_time_eval():
            y = x + 1
            assert not getattr(y, "is_pending", False) and bool((y > 0).all())
            made = jnp.arange(3) * 2
            assert not getattr(made, "is_pending", False)
        z = y * 2
        assert z.is_pending
        np.testing.assert_allclose(z, (X * 2 + 2) * 2, rtol=1e-6)
    assert {one.kind for one in lazynb.breaks()} == {"eager", "asarray"}


def test_a_check_within_a_jitted_function_sees_a_concrete_value(clean):
    seen = []

    @jax.jit
    def checked(v):
        with jax.ensure_compile_time_eval():
            seen.append(bool((x > 0).all()))
        return v * x

    with lazynb.lazy():
        x = pending()
        np.testing.assert_allclose(checked(jnp.ones(3)), X * 2 + 1, rtol=1e-6)
    assert seen == [True]


def test_a_region_at_compile_time_adds_no_program(clean):
    """What is recorded before it and after it is recorded under the same settings."""
    for _ in range(2):
        with lazynb.lazy():
            x = jnp.ones(3) * 2
            with jax.ensure_compile_time_eval():
                bool((jnp.ones(2) > 0).all())
            jax.block_until_ready(x + 1)
    assert lazynb.cache_info().misses == 1


def test_its_class_equals_that_of_jax_s_own_arrays_and_is_another():
    own = jnp.ones(3)
    with lazynb.lazy():
        lazy = jnp.ones(3) * 1
        assert type(lazy) == type(own) and type(own) == type(lazy)  # noqa: E721
        assert not (type(lazy) != type(own) or type(own) != type(lazy))  # noqa: E721
        assert type(lazy) is not type(own) and len({type(lazy), type(own)}) == 2
        assert type(lazy) not in (int, np.ndarray, jax.Array, jax.core.Tracer)
        assert lazy.is_pending
