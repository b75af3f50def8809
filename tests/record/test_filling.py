"""Which numbers are constants: those that JAX's functions use, and none of which the user's arrays are made."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import lazynb
from lazynb.running import jaxpr_program

X = jnp.arange(12.0).reshape(3, 4)


def constants_of(compilation):
    """How many inputs the graph calls constants, and how many are none of the program's arguments."""
    [trace] = compilation.traces
    shown = sum(node.constant for node in compilation.snapshot.nodes)
    path = trace._executable.state.path()
    program = jaxpr_program.program_packing(path)
    taken = {number for position in range(len(program)) for number in program.taken(position)}
    return shown, sum(state.operation is None for state in path) - len(taken)


@pytest.mark.parametrize(
    "make, constants",
    [
        (lambda: jax.nn.logsumexp(X, 1), 2),  # the -inf of the maximum, and the 0 for what is infinite
        (lambda: jax.grad(lambda x: jnp.where(x > 0.5, x, 0.0).sum())(X), None),
        (lambda: X + jnp.ones((3, 4)), 0),
        (lambda: jnp.sin(jnp.full((3, 4), 0.5)), 0),
        (lambda: X * jnp.linspace(0.0, 1.0, 4), 0),
        (lambda: X + jax.random.normal(jax.random.key(0), (3, 4)), None),
        (lambda: X + 0.5, 1),
    ],
    ids=["logsumexp", "gradient", "ones", "full", "linspace", "key", "literal"],
)
def test_the_graph_shows_the_constants_of_the_program(make, constants):
    with lazynb.lazy():
        compilation = lazynb.compile(make())
    shown, left_out = constants_of(compilation)
    assert shown == left_out
    assert constants is None or shown == constants
