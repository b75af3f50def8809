"""Programs whose work stands inside of jitted functions, loops and branches, each with its truth beside it: the
operations of each line inside, and what became of them. A line is named by what it assigns to or returns; its
operations are those that JAX traces there, as the jaxpr has them.
"""
# ruff: noqa: F841 (a variable keeps its value alive: that is what the programs are about)

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from xla.table import program

import lazynb

INSIDE: dict[str, Callable] = {}
TRUTHS: dict[str, dict[str, str]] = {}


def inside(*inputs, **truth: str):
    """Puts a program into the table. ``truth``: by name of a line, what became of its operations."""

    def add(fn):
        TRUTHS[fn.__name__] = truth
        return program(*inputs, table=INSIDE)(fn)

    return add


# ---- jitted functions --------------------------------------------------------------------------------------


@jax.jit
def two_lines(v):
    a = jnp.sin(v)
    b = a * 2.0
    return b


# One elementwise kernel.
@inside((32,), a="fused", b="fused")
def jitted(x):
    y = two_lines(x)
    return lazynb.compile(y)


# XLA computes sin(x) * 2 and sin of that: nothing is equal, all is one kernel (as deep as it is, it is cheap).
@inside((32,), (32,), a="fused 2", b="fused 2", y="fused")
def called_twice(x, w):
    y = two_lines(x) + two_lines(w)
    return lazynb.compile(y)


# The second call is equal to the first, operation by operation.
@inside((32,), a="fused, merged", b="fused, merged", y="fused")
def called_twice_alike(x):
    y = two_lines(x) + two_lines(x)
    return lazynb.compile(y)


@jax.jit
def two_results(v):
    used = v + 1.0
    unused = jnp.exp(v)
    return used, unused


# Nobody asks for the second result: XLA's first cleaning removes it.
@inside((32,), used="own kernel", unused="cancelled")
def partly_dead(x):
    y = two_results(x)[0]
    return lazynb.compile(y)


@jax.jit
def outer(v):
    first = jnp.tanh(v)
    second = two_lines(first)
    return second - 1.0


@inside((32,), first="fused", a="fused", b="fused", **{"return second - 1.0": "fused"})
def nested(x):
    y = outer(x)
    return lazynb.compile(y)


@functools.partial(jax.jit, static_argnames="times")
def repeated(v, times):
    for _ in range(times):
        v = v * 1.5 + jnp.sin(v)
    return v


# Three turns in Python: three times multiply, sine, add, of which all are fused.
@inside((32,), v="fused 9")
def static_argument(x):
    y = repeated(x, times=3)
    return lazynb.compile(y)


OFFSETS = jnp.arange(32.0)


@jax.jit
def closing(v):
    shifted = v + OFFSETS
    scaled = shifted * 0.5
    return scaled


@inside((32,), shifted="fused", scaled="fused")
def closed_over(x):
    y = closing(x)
    return lazynb.compile(y)


@jax.jit
def with_literal(v):
    moved = v - 3.0
    return moved, 1.0


@inside((32,), moved="own kernel", **{"y, one": "folded"})
def literal_result(x):
    y, one = with_literal(x)
    return lazynb.compile(y)


@functools.partial(jax.jit, donate_argnums=0)
def donating(v):
    grown = v * 3.0
    return grown


@inside(lambda: jnp.ones(32) + 1, grown="own kernel")
def donated(x):
    y = donating(x)
    return lazynb.compile(y)


# ---- loops and branches ------------------------------------------------------------------------------------


@jax.jit
def folded(v, rows):
    def turn(carry, row):
        carry = jnp.tanh(carry + row)
        return carry, None

    last, _ = lax.scan(turn, v, rows)
    return last


# The body is one kernel with the slice of the rows, which the scan itself makes.
@inside((16,), (8, 16), carry="fused 2", **{"last, _": "fused"})
def scan_in_jit(x, rows):
    y = folded(x, rows)
    return lazynb.compile(y)


@jax.jit
def counted(v):
    def turn(carry):
        grown = carry * carry
        return grown + 1.0

    def goes_on(carry):
        return carry.sum() < 100.0

    return lax.while_loop(goes_on, turn, v)


@inside(
    (16,),
    grown="fused",
    **{
        "return grown + 1.0": "fused",
        "return carry.sum() < 100.0": "fused 2",
        "return lax.while_loop(goes_on, turn, v)": "own kernel",
    },
)
def while_in_jit(x):
    y = counted(x)
    return lazynb.compile(y)


@jax.jit
def chosen(v):
    def positive(v):
        up = jnp.sin(v)
        return up

    def negative(v):
        down = jnp.cos(v)
        return down

    taken = lax.cond(v[0] > 0.0, positive, negative, v)
    return taken


# Each branch is a kernel; the choice is a conditional, with a kernel for the number of the branch, in which the
# slice of one number is no work but another name for it.
@inside((32,), up="own kernel", down="own kernel", taken="cancelled, fused 3, own kernel")
def cond_in_jit(x):
    y = chosen(x)
    return lazynb.compile(y)


# ---- derivatives -------------------------------------------------------------------------------------------


@jax.custom_jvp
def softened(v):
    soft = v / 3.0
    return soft


@softened.defjvp
def _(primals, tangents):
    return softened(primals[0]), tangents[0] * 0.25


@jax.jit
def using(v):
    smooth = softened(v)
    return smooth + 2.0


@inside((32,), soft="fused", **{"return smooth + 2.0": "fused"})
def custom_derivative(x):
    y = using(x)
    return lazynb.compile(y)


@jax.custom_vjp
def squared(v):
    raised = v * v
    return raised


def squared_forward(v):
    square = v * v
    return square, v


def squared_backward(v, cotangent):
    pulled = cotangent * v * 5.0
    return (pulled,)


squared.defvjp(squared_forward, squared_backward)


@jax.jit
def with_rule(v):
    def loss(v):
        rule = squared(v)
        return rule.sum()

    return jax.value_and_grad(loss)(v)


# The forward rule runs, in the kernel of the sum. JAX notes for what the backward rule does the line of the
# forward call: a product with ones, which falls away, and one with 5. Nothing is left of the ones.
@inside((32,), square="fused", rule="cancelled, own kernel", **{"return rule.sum()": "folded, fused"})
def custom_gradient(x):
    y, slope = with_rule(x)
    return lazynb.compile(y, slope)


@jax.jit
def again(v):
    @jax.checkpoint
    def layer(v):
        wave = jnp.sin(v)
        turned = jnp.cos(wave)
        return turned

    _, backward = jax.vjp(layer, v)
    return backward(v)[0]


# Only the gradient is asked for: of the first sine and cosine nothing is left before XLA sees it. JAX computes
# the first sine again, with the cosine that is its derivative and the sine of the second line; then the product
# of each line, and a negation. All of it is one kernel.
@inside((32,), wave="cancelled, fused 3", turned="cancelled, fused 3")
def checkpointed(x):
    y = again(x)
    return lazynb.compile(y)


def each_row(v):
    bent = jnp.tanh(v)
    return bent * 3.0


@inside((4, 8), bent="fused", **{"return bent * 3.0": "fused"})
def mapped_function(x):
    y = jax.vmap(jax.jit(each_row))(x)
    return lazynb.compile(y)
