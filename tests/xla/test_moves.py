"""What XLA computes at another place is told so, and no other instruction of the kind is taken for it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import lazynb
from lazynb.xla.evidence import INFERRED

X = np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32)
chosen = jax.jit(lambda a: jnp.where(jnp.ones(a.shape, bool), a, a * 7))
same = jax.jit(lambda a: a * 1.0)
double_negative = jax.jit(lambda a: jnp.negative(jnp.negative(a)))


def standard(a):
    return a / (a.std(-1, keepdims=True) + 1e-5)  # XLA multiplies with 1 / ... instead


def halving(a):
    return lax.fori_loop(0, 3, lambda i, c: c * 0.5 + i, a)


REMOVED = {
    "after_a_division": lambda x: chosen(standard(x)),
    "after_a_loop": lambda x: chosen(halving(standard(x))),
    "before_a_division": lambda x: standard(chosen(x)),
    "neutral_before_a_division": lambda x: standard(same(x)),
    "neutral_after_a_division": lambda x: same(standard(x)),
    "neutral_before_another_division": lambda x: same(x) / (1 + jnp.abs(x).sum()),
    "neutral_after_a_power": lambda x: same(x**3),
    "neutral_before_a_power": lambda x: same(x) ** 3,
    "neutral_after_a_scatter_of_a_power": lambda x: same((x**3).at[jnp.array([0, 2])].add(2.0)),
    "neutral_between_products": lambda x: (same(x @ x.T / 3.0)) @ x,
    "negated_before_a_subtraction": lambda x: 1.0 - double_negative(x),
}
"""Programs whose jitted function computes nothing."""


@pytest.mark.parametrize("name", REMOVED)
def test_removed_operations_are_not_reported_as_moved(name):
    lazynb.clear_cache()
    with lazynb.lazy():
        compilation = lazynb.compile(REMOVED[name](jnp.asarray(X)))
    nodes = [node for node in compilation.snapshot.nodes if [call.name for call in node.calls] == ["lambda"]]
    fates = [compilation.fates[node.id] for node in nodes]
    assert fates and all(fate.kind in ("cancelled", "folded") and not fate.clusters for fate in fates), fates


def scattered(x):
    """The constant is added before the rows are."""
    y = x.at[jnp.array([0, 2, 5])].add(x[:3])
    return y + 1.0, "add", "add"


def turned(x):
    """All is computed in the order of the argument, then turned."""
    return x.T * 3.0, "transpose", "transpose"


def trained(x):
    """The product is turned with what turns its gradient, and the loop around them is written anew twice."""

    def turn(w, _):
        return w - 0.1 * jax.grad(lambda w: jnp.tanh(x @ w).sum())(w), None

    return jax.jit(lambda w: lax.scan(turn, w, length=4)[0])(jnp.ones((16, 16))), "dot_general", "dot"


@pytest.mark.parametrize("program", [scattered, turned, trained])
def test_moved_operations_are_reported_as_moved(program):
    lazynb.clear_cache()
    with lazynb.lazy():
        result, name, opcode = program(jnp.asarray(X))
        compilation = lazynb.compile(result)
    fates = [compilation.fates[node.id] for node in compilation.snapshot.nodes if node.name == name]
    fate = fates[-1]
    moved = fate.text.partition("; it is the backward pass of ")[0]
    assert moved == f"XLA moved it: its `{opcode}` is done at another place" and fate.label == INFERRED
    assert len(fate.clusters) == 1
