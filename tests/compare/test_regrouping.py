"""``jax.jit`` around a piece of a program makes other operations of the same computation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import lazynb

pytestmark = pytest.mark.xdist_group("compare regrouping")
X, W = jnp.ones((64, 128)), jnp.ones((128, 32))


def layer(x, w):
    h = x @ w
    centred = h - jnp.mean(h, axis=-1, keepdims=True)
    return jax.nn.gelu(centred / jnp.sqrt(jnp.var(h, axis=-1, keepdims=True) + 1e-5))


def mean(x, w):
    return jnp.mean(x * 2, axis=1) + 1


def mean_in_jit(x, w):
    return jax.jit(lambda x: jnp.mean(x * 2, axis=1))(x) + 1


def softmax(x, w):
    p = jax.nn.softmax(x @ w)
    return jnp.where(p > 0.5, p, 0.0)


def softmax_in_jit(x, w):
    p = jax.jit(jax.nn.softmax)(jax.jit(jnp.matmul)(x, w))
    return jax.jit(lambda p: jnp.where(p > 0.5, p, 0.0))(p)


def normalised(x, w):
    return layer(x, w).sum()


def normalised_in_jit(x, w):
    return jax.jit(layer)(x, w).sum()


def gradient(x, w):
    return jax.grad(lambda w: layer(x, w).sum())(w)


def gradient_in_jit(x, w):
    return jax.jit(jax.grad(lambda w: layer(x, w).sum()))(w)


def loop(x, w):
    return jax.lax.scan(lambda c, _: (jnp.tanh(c - jnp.mean(c)), jnp.sum(c)), x, None, length=5)


def loop_in_jit(x, w):
    return jax.lax.scan(lambda c, _: (jnp.tanh(c - jax.jit(jnp.mean)(c)), jnp.sum(c)), x, None, length=5)


def shapes(x, w):
    parts = jnp.concatenate([x[3:5], x[:2] * 0.5])
    return jnp.sort(parts), jnp.std(x), jnp.clip(x, 0.0, 1.0), jax.nn.one_hot(jnp.argmax(x, 1), 128)


def shapes_in_jit(x, w):
    parts = jax.jit(lambda x: jnp.concatenate([x[3:5], x[:2] * 0.5]))(x)
    return jax.jit(lambda x, parts: (jnp.sort(parts), jnp.std(x), jnp.clip(x, 0.0, 1.0), jax.nn.one_hot(jnp.argmax(x, 1), 128)))(x, parts)  # fmt: skip # noqa: E501


def said(before, now):
    """What is said of operations, by line of either program."""
    diff = lazynb.diff((before, X, W), (now, X, W))
    return [change.text for change in diff.changes if change.kind in ("operations", "lowering")]


@pytest.mark.parametrize(
    "before, now",
    [
        (mean, mean_in_jit),
        (softmax, softmax_in_jit),
        (normalised, normalised_in_jit),
        (gradient, gradient_in_jit),
        (loop, loop_in_jit),
        (shapes, shapes_in_jit),
        (gradient, jax.jit(gradient)),
        (softmax, jax.jit(softmax)),
    ],
    ids=["mean", "softmax", "normalised", "gradient", "loop", "shapes", "all of a gradient", "all of it"],
)
def test_wrapping_a_piece_in_jit_is_not_reported_as_a_change(before, now):
    assert said(before, now) == said(now, before) == []


def edited(x, w):
    return jnp.mean(jnp.sin(x), axis=1) + 1


def edited_in_jit(x, w):
    return jax.jit(jnp.mean, static_argnames="axis")(jnp.tanh(x), axis=1) + 1


def a_product_more(x, w):
    return jax.jit(lambda x: jnp.mean(x * 2 * x, axis=1))(x) + 1


def mean_of_sines(x, w):
    return jnp.mean(jnp.sin(x), axis=1)


def no_mean_of_cosines(x, w):
    return jax.jit(lambda x: jnp.sum(x, axis=1) / 100)(jnp.cos(x))


def a_mean_of_cosines(x, w):
    return jax.jit(lambda x: jnp.sum(x, axis=1) / 128)(jnp.cos(x))


def halves(x, w):
    return jnp.mean(jnp.sin(x.astype(jnp.bfloat16)) * 3, axis=1)


def halves_in_jit(x, w):
    return jax.jit(lambda x: jnp.mean(jnp.cos(x) * 3, axis=1))(x.astype(jnp.bfloat16))


def turned(x, w):
    return jax.jit(lambda x: (x + 1) * x)(x)


def turned_round(x, w):
    return jax.jit(lambda x: x + 1 * x)(x)


@pytest.mark.parametrize(
    "before, now, truth",
    [
        (edited, edited_in_jit, ["`sin` is now `tanh`"]),
        (edited_in_jit, edited, ["`tanh` is now `sin`"]),
        (mean, a_product_more, ["`mul` is new"]),
        (a_product_more, mean, ["`mul` is gone"]),
        (softmax, softmax_in_jit, []),
        (mean_of_sines, a_mean_of_cosines, ["`sin` is now `cos`"]),
        (mean_of_sines, no_mean_of_cosines, ["`sin` is now `cos`, `mean` is now `reduce_sum`, `div` is new"]),
        (halves, halves_in_jit, ["`sin` is now `cos`"]),
    ],
)
def test_an_edit_beside_a_jit_wrapper_is_reported(before, now, truth):
    assert said(before, now) == truth


def test_the_same_instructions_in_another_order_are_a_difference():
    assert said(turned, turned_round) != []


def seed(x, w):
    return x + jax.random.normal(jax.random.key(0), x.shape)


def another_seed(x, w):
    return x + jax.random.normal(jax.random.key(1), x.shape)


def test_a_line_of_which_only_the_inputs_can_differ_is_named():
    diff = lazynb.diff((seed, X, W), (another_seed, X, W))
    [pair] = diff.rewritten
    assert list(diff.changes) == [] and "key(1)" in pair.now.text
    assert f"{pair.now.label}: written otherwise, with the same operations; what comes from outside" in repr(
        diff
    )
    assert lazynb.diff((seed, X, W), (seed, X, W)).rewritten == ()


def test_a_reduction_in_two_kernels_is_not_computed_twice():
    """XLA:CPU splits a long one, and both kernels add with one function."""
    from lazynb.report.comparison_report import side_of

    side = side_of(lazynb.compile(lambda h: jnp.mean(jnp.tanh(h), axis=0), jnp.ones((64, 32))), "it", {})
    assert [cluster["duplicated"] for cluster in side.data["clusters"]] == [[]] * len(side.data["clusters"])
