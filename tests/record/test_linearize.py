"""Gradients whose rules are remembered are JAX's gradients, the first time and every other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import assert_same

import lazynb
from lazynb import jax_compat as jc
from lazynb.recording.replay import linearize_cache

X = np.linspace(-1.0, 2.0, 6, dtype=np.float32).reshape(2, 3)
W = np.linspace(0.5, 1.5, 9, dtype=np.float32).reshape(3, 3)


@jax.custom_vjp
def clipped(x):
    return jnp.tanh(x)


clipped.defvjp(lambda x: (jnp.tanh(x), x), lambda x, g: (jnp.clip(g, -0.1, 0.1) * x,))


@jax.custom_jvp
def odd(x):
    return jnp.sin(x)


odd.defjvp(lambda primals, tangents: (jnp.sin(primals[0]), 2 * jnp.cos(primals[0]) * tangents[0]))

LOSSES = {
    "operators": lambda x, w: ((x @ w) * 2.0 - x / 3 + x**2 - (-x)).sum(),
    "methods": lambda x, w: (x.mean(-1, keepdims=True) * x.T.reshape(2, 3)).sum() + x.max() + x.std(),
    "functions": lambda x, w: jnp.sum(jnp.tanh(jnp.dot(x, w)) + jnp.exp(-jnp.abs(x))),
    "softmax": lambda x, w: jax.nn.softmax(x @ w, axis=-1)[:, 0].sum(),
    "where": lambda x, w: jnp.where(x > 0, jnp.log(jnp.where(x > 0, x, 1.0)), 0.0).sum(),
    "indices": lambda x, w: x[0] @ w[:, 1] + x[1, 2] * w[0, 0] + x[:, ::-1].sum(),
    "concatenate": lambda x, w: jnp.concatenate([x, x @ w]).std() + jnp.stack([x, x * x]).mean(),
    "normalise": lambda x, w: ((x * x - x.mean(0)) / jnp.sqrt(x.var(0) + 0.5) * w[0]).sum(),
    "integers": lambda x, w: (
        (x * jnp.arange(3)).sum() + (x > 0).sum() + x[jnp.array([0, 1]), jnp.array([1, 2])].sum()
    ),
    "stop": lambda x, w: (jax.lax.stop_gradient(x) * x).sum(),
    "custom_vjp": lambda x, w: clipped(x @ w).sum(),
    "custom_jvp": lambda x, w: odd(x * w[0]).sum(),
    "relu": lambda x, w: (jax.nn.relu(x @ w) + jax.nn.gelu(x) + jax.nn.silu(x)).sum(),
    "jit": lambda x, w: jax.jit(lambda x: jnp.sin(x @ w).sum())(x),
    "checkpoint": lambda x, w: jax.checkpoint(lambda x: jnp.sin(jnp.sin(x @ w)).sum())(x),
    "scan": lambda x, w: jax.lax.scan(lambda c, _: (jnp.tanh(c @ w), None), x, None, length=3)[0].sum(),
    "cond": lambda x, w: jax.lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x).sum(),
    "vmap": lambda x, w: jax.vmap(lambda row: jnp.tanh(row @ w).sum())(x).sum(),
    "branch": lambda x, w: (x * 2).sum() if float(x.sum()) > 0 else x.sum(),
    "einsum": lambda x, w: jnp.einsum("ij,jk,ik->", x, w, x),
    "constant": lambda x, w: jnp.ones(3).sum() * 2.0,
    "same twice": lambda x, w: (x + x).sum() + (x * x).sum(),
    "divmod": lambda x, w: (jnp.divmod(x, 0.7)[1] + jnp.modf(x)[0] + jnp.maximum(x, 0.2)).sum(),
    "linalg": lambda x, w: jnp.linalg.norm(x @ w) + jnp.linalg.det(w + jnp.eye(3) * 3),
    "half": lambda x, w: (
        (x.astype(jnp.float16) * 2).astype(jnp.float32).sum()
        + x.astype(jnp.bfloat16).astype(jnp.float32).sum()
    ),
    "complex": lambda x, w: jnp.abs(jax.lax.complex(x, x * 2) ** 2).sum(),
    "long": lambda x, w: sum(jnp.sin(x * k).sum() for k in range(1, 8)),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_jax_s(name):
    loss = LOSSES[name]
    for _ in range(2):
        assert_same(lambda x, w: jax.value_and_grad(loss, argnums=(0, 1))(x, w), X, W)
        assert_same(lambda x, w: jax.grad(loss)(x, w), X, W)


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: jax.vmap(jax.grad(f), in_axes=(0, None)),
        lambda f: jax.jacrev(jax.grad(f)),
        lambda f: jax.hessian(f),
        lambda f: lambda x, w: jax.jvp(lambda x: jax.grad(f)(x, w), (x,), (x,)),
        lambda f: jax.jit(jax.grad(f)),
        lambda f: lambda x, w: jax.grad(lambda x: (jax.grad(f)(x, w) ** 2).sum())(x),
        lambda f: lambda x, w: jax.vjp(f, x, w)[1](1.0),
        lambda f: lambda x, w: jax.linearize(f, x, w)[1](x, w),
    ],
)
@pytest.mark.parametrize("name", ["operators", "functions", "normalise", "relu"])
def test_transformations_of_gradients_equal_eager(transform, name):
    def loss(x, w):
        return LOSSES[name](jnp.atleast_2d(x), w)

    assert_same(lambda x, w: transform(loss)(x, w), X, W)


def test_gradients_with_other_numbers_and_types_equal_eager():
    def loss(x, scale, power):
        return (x * scale).sum() + (x**power).sum()

    for scale, power in [(2.0, 2), (3.0, 2), (2, 3), (jnp.float16(2), 2), (True, 2)]:
        for x in (X, X.astype(np.float16), X[:1]):
            assert_same(lambda x: jax.grad(loss)(x, scale, power), x)


def vjp_with(slope):
    @jax.custom_vjp
    def f(x):
        return x * 2

    f.defvjp(lambda x: (f(x), None), lambda _, g: (g * slope,))
    return f


def jvp_with(slope):
    @jax.custom_jvp
    def f(x):
        return x * 2

    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * slope))
    return f


@pytest.mark.parametrize(
    "place",
    [
        lambda f: f,
        jax.checkpoint,
        lambda f: jax.checkpoint(lambda x: jnp.where(x > 0, jax.jit(f)(x), 0)),
        lambda f: jax.checkpoint(lambda x: jax.lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0]),
    ],
)
@pytest.mark.parametrize("make", [vjp_with, jvp_with])
def test_functions_with_different_derivative_rules_are_told_apart(make, place):
    for slope in (3.0, 5.0):
        expected = jax.grad(lambda x: place(make(slope))(x).sum())(jnp.asarray(X))
        with lazynb.lazy():
            found = jax.grad(lambda x: place(make(slope))(x).sum())(jnp.asarray(X))
        assert np.array_equal(found, expected)


SCALARS = {
    "identity": lambda x: x,
    "product": lambda x: x * 2,
    "sin": lambda x: jnp.sin(x) * 2.0,
    "power": lambda x: x**2,
    "strong": lambda x: x * jnp.ones(()),
    "asarray": lambda x: jnp.asarray(x),
    "array": lambda x: jnp.array(x),
}


def kinds(tree):
    return [(isinstance(one, jax.Array), jc.typeof(one), float(one)) for one in jax.tree.leaves(tree)]


@pytest.mark.parametrize("name", SCALARS)
@pytest.mark.parametrize(
    "transform",
    [
        lambda f: jax.grad(f)(1.0),
        lambda f: jax.grad(f)(jnp.float32(1)),
        lambda f: jax.vjp(f, 1.0)[1](jnp.float32(1)),
        lambda f: jax.vjp(f, jnp.float32(1.0))[1](1.0),
        lambda f: jax.jvp(f, (1.0,), (2.0,)),
        lambda f: jax.grad(jax.grad(f))(1.0),
        lambda f: jax.vjp(f, 1.0)[0],
        lambda f: jax.value_and_grad(f)(1.0),
    ],
)
def test_numbers_have_the_types_that_they_have_eagerly(name, transform):
    expected = kinds(transform(SCALARS[name]))
    with lazynb.lazy():
        assert kinds(transform(SCALARS[name])) == expected


def test_a_backward_rule_sees_the_types_of_eager_jax():
    @jax.custom_vjp
    def product(x, y):
        return x * y

    product.defvjp(lambda x, y: (product(x, y), None), lambda _, g: (99.0, g))
    for args in ((3.0, 4.0), (jnp.float32(3), 4.0)):
        expected = kinds(jax.vjp(product, *args)[1](1.0))
        with lazynb.lazy():
            assert kinds(jax.vjp(product, *args)[1](1.0)) == expected


def printing(x):
    jax.debug.print("x is {}", x)
    return x * 2


@jax.custom_vjp
def printing_rules(x):
    jax.debug.print("primal {}", x)
    return x


printing_rules.defvjp(
    lambda x: (jax.debug.print("forward {}", x), (x, None))[1],
    lambda _, g: (jax.debug.print("backward {}", g), (g,))[1],
)


@pytest.mark.parametrize(
    "run",
    [
        lambda: jax.vjp(lambda x: jax.debug.print("only {}", x), 1.0),
        lambda: jax.grad(printing)(1.0),
        lambda: jax.jvp(printing, (1.0,), (1.0,)),
        lambda: jax.grad(jax.checkpoint(printing))(1.0),
        lambda: jax.grad(printing_rules)(1.0),
        lambda: jax.grad(jax.jit(printing_rules))(1.0),
        lambda: jax.grad(lambda x: printing_rules((jax.debug.print("before {}", x), x)[1]) ** 2)(
            jnp.float32(1)
        ),
        lambda: jax.grad(jax.checkpoint(printing_rules))(1.0),
        lambda: jax.grad(
            lambda x: jax.lax.scan(lambda c, _: (printing_rules(c), None), x, None, length=2)[0]
        )(1.0),
    ],
)
def test_debug_prints_under_a_derivative_equal_eager(run, capsys):
    run()
    jax.effects_barrier()
    expected = capsys.readouterr().out
    assert expected
    for _ in range(2):
        with lazynb.lazy():
            run()
            jax.effects_barrier()
        assert capsys.readouterr().out == expected


def test_remembered_rules_do_not_grow_with_new_constants():
    x = jnp.asarray(X)
    with lazynb.lazy():
        for step in range(60):
            np.asarray(jax.grad(lambda x: (x ** (step + 0.5)).sum())(x * 1))
        before = len(linearize_cache._rules)
        for step in range(60, 120):
            np.asarray(jax.grad(lambda x: (x ** (step + 0.5)).sum())(x * 1))
    assert len(linearize_cache._rules) - before <= linearize_cache.MAX_FAMILY


def test_a_repeated_step_derives_each_rule_once(monkeypatch):
    made = []
    monkeypatch.setattr(
        linearize_cache,
        "cached_rule",
        lambda key, family, make, plain=linearize_cache.cached_rule: (
            made.append(family) if key not in linearize_cache._rules else None,
            plain(key, family, make),
        )[1],
    )
    x, w = jnp.asarray(X), jnp.asarray(W)
    with lazynb.lazy():
        for step in range(3):
            if step == 2:
                made.clear()
            value, grads = jax.value_and_grad(LOSSES["normalise"], argnums=(0, 1))(x, w)
            lazynb.sync()
    assert not made and np.isfinite(float(value))


def test_a_backward_function_defined_in_each_call_equals_eager():
    def loss(x, limit):
        @jax.custom_vjp
        def limited(x):
            return x * 2

        limited.defvjp(lambda x: (x * 2, None), lambda _, g: (jnp.minimum(g, limit),))
        y = limited(x)
        for _ in range(10):
            y = jnp.sin(y)
        return y.sum()

    for limit in (0.1, 0.2, 0.1):
        assert_same(lambda x: jax.grad(loss)(x, limit), X)


def test_errors_are_jax_s():
    assert_same(lambda x: jax.grad(lambda x: x * 2)(x), X)
    assert_same(lambda x: jax.grad(lambda x: (x @ x).sum())(x), X)
    assert_same(lambda x: jax.grad(lambda x: x.reshape(7).sum())(x), X)
    assert_same(lambda x: jax.grad(lambda x: jnp.sin(x, x).sum())(x), X)


def test_gradients_after_lazy_mode_are_plain_jax_arrays():
    grads = jax.grad(LOSSES["operators"])(X, W)
    with lazynb.lazy():
        pass
    assert type(grads) is type(jax.grad(LOSSES["operators"])(X, W)) is type(jnp.ones(1))


def test_references_under_grad_equal_eager():
    """What is read of a reference, or asked of one that is no array, is what eager JAX gives."""

    def squared(x):
        total = jax.new_ref(jnp.zeros_like(x))
        total[...] = x * x
        return jnp.sin(total[...]).sum() + total[0]

    def accumulated(x):
        total = jax.new_ref(x)
        total[1:] = total[1:] * x[:-1]
        total[0] += x[2]
        return total[...].sum()

    def in_scan(x):
        def body(total, y):
            total[0] += jnp.sin(y)
            return total[0] * y

        total = jax.new_ref(x)
        return jax.lax.scan(lambda _, y: (None, body(total, y)), None, x)[1].sum() + total[1]

    x = jnp.arange(1.0, 4.0)
    for function in (squared, accumulated, in_scan):
        expected = jax.grad(function)(x)
        with lazynb.lazy():
            gradient = jax.grad(function)(x)
            jitted = jax.grad(lambda x: jax.jit(function)(x))(x)
        np.testing.assert_allclose(gradient, expected, rtol=1e-6)
        np.testing.assert_allclose(jitted, expected, rtol=1e-6)


def test_an_operator_on_a_reference_itself_is_refused_as_eagerly():
    def confused(x):
        return (jax.new_ref(x) + 1).sum()

    def asked(x):
        return jax.new_ref(x).sum()

    for function in (confused, asked):
        with pytest.raises(Exception) as eager:
            jax.grad(function)(jnp.ones(3))
        with lazynb.lazy(), pytest.raises(eager.type) as lazily:
            jax.grad(function)(jnp.ones(3))
        assert str(lazily.value) == str(eager.value)


FLAT = {
    "stop_gradient": lambda y: jax.lax.stop_gradient(y),
    "stop_gradient of a tree": lambda y: jax.lax.stop_gradient((y, y + 1))[1],
    "sign": lambda y: jnp.sign(y),
    "floor": lambda y: jnp.floor(y),
    "round": lambda y: y.round(),
    "what is computed of such": lambda y: jax.lax.stop_gradient(y) * 2 + jnp.sign(y),
    "chosen among such": lambda y: jnp.where(y > 0, jnp.sign(y), jnp.floor(y)),
    "one of two": lambda y: jnp.modf(y)[1],
    "one that depends": lambda y: jnp.clip(y, 0, 9),
}


@pytest.mark.parametrize("use", ["NumPy", "a callback", "a number", "the gradient"])
@pytest.mark.parametrize("how", FLAT)
def test_independent_values_are_concrete_under_grad(how, use):
    uses = {
        "NumPy": lambda v: np.asarray(v),
        "a number": float,
        "the gradient": lambda v: v,
        "a callback": lambda v: jax.pure_callback(np.cos, jax.ShapeDtypeStruct((), jnp.float32), v),
    }

    def program(x):
        return jax.grad(lambda y: uses[use](FLAT[how](y * 2.5)) * y)(x)

    assert_same(
        program, jnp.float32(1.5), raises=how == "one that depends" and use in ("NumPy", "a callback")
    )
