"""Programs whose values rounding alone parts: nothing is said of them but that."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from lazynb.compare.numerics.float_arrays import distance
from lazynb.xla.evidence import VERIFIED

from .random_programs import RandomProgram

pytestmark = pytest.mark.usefixtures("clean")
_random = np.random.default_rng(1)
MATRIX = jnp.asarray(_random.normal(size=(16, 16)), jnp.float32)
VECTOR = jnp.asarray(_random.normal(size=64), jnp.float32)
POSITIVE = jnp.abs(VECTOR) + 0.1
KEY = jax.random.key(0)

QUICK = {
    "argsort": (jnp.argsort, VECTOR),
    "complex": (lambda x: jnp.exp(1j * x) * 2, VECTOR),
    "cumsum": (jnp.cumsum, VECTOR),
    "linalg.solve": (jnp.linalg.solve, MATRIX, MATRIX[0]),
    "matmul": (jnp.matmul, MATRIX, MATRIX),
    "random": (lambda key: jax.random.uniform(jax.random.split(key)[0], (3,)), KEY),
    "scan": (lambda x: jax.lax.scan(lambda c, y: (jnp.tanh(c + y), c * y), 0.0, x), VECTOR),
}
FUNCTIONS = {
    "argmax": (jnp.argmax, VECTOR),
    "cond": (lambda x: jax.lax.cond(x[0] > 0, jnp.sin, jnp.cos, x), VECTOR),
    "convolve": (lambda x: jnp.convolve(x, x[:5]), VECTOR),
    "digitize": (lambda x: jnp.digitize(x, jnp.linspace(-2, 2, 9)), VECTOR),
    "einsum": (lambda x, y: jnp.einsum("ij,jk->k", x, y), MATRIX, MATRIX),
    "fft": (lambda x: jnp.abs(jnp.fft.fft(x)), VECTOR),
    "floor_divide": (jnp.floor_divide, VECTOR, POSITIVE),
    "histogram": (lambda x: jnp.histogram(x, bins=10)[0], VECTOR),
    "hypot": (jnp.hypot, VECTOR, VECTOR[::-1]),
    "integers": (lambda x: (x * 3 + 1) % 7, jnp.arange(5)),
    "interp": (lambda x: jnp.interp(x, jnp.linspace(-3, 3, 10), jnp.arange(10.0)), VECTOR),
    "linalg.eigvalsh": (lambda x: jnp.linalg.eigvalsh(x + x.T), MATRIX),
    "linalg.inv": (jnp.linalg.inv, MATRIX),
    "linalg.norm": (jnp.linalg.norm, MATRIX),
    "logaddexp": (jnp.logaddexp, VECTOR, VECTOR[::-1]),
    "median": (jnp.median, VECTOR),
    "nanmean": (jnp.nanmean, VECTOR.at[3].set(jnp.nan)),
    "polyval": (lambda x: jnp.polyval(jnp.array([1.0, 2, 3, 4]), x), VECTOR),
    "power": (jnp.power, POSITIVE, VECTOR),
    "prod": (jnp.prod, VECTOR),
    "scatter": (lambda x: jnp.zeros(8).at[jnp.arange(64) % 8].add(x), VECTOR),
    "sinc": (jnp.sinc, VECTOR),
    "std": (jnp.std, VECTOR),
    "while": (lambda x: jax.lax.while_loop(lambda s: s.sum() < 100, lambda s: s * 1.1 + 1, x), POSITIVE),
    "gradient of checkpoint": (
        jax.grad(lambda x: jax.checkpoint(lambda y: jnp.sin(jnp.cos(y)).sum())(x)),
        VECTOR,
    ),
    "gelu in bfloat16": (lambda x: jax.nn.gelu(x @ x) @ x, MATRIX.astype(jnp.bfloat16)),
    "softmax in bfloat16": (jax.nn.softmax, (MATRIX * 10).astype(jnp.bfloat16)),
}


def rounding_alone(function, *arguments):
    """Asserts that nothing parts, and that what was compared are eager JAX's and ``jax.jit``'s results."""
    found = lazynb.numerics(lambda *taken: function(*taken), *arguments)
    assert found.first is None or _lost_a_rounding(found, function, arguments), found
    compared = found._comparison
    wanted = [compared.compiled[value] for value in compared.code.program.wanted]
    for leaf in jax.tree.leaves(jax.jit(function)(*arguments)):
        assert any(_is_equal(leaf, each) for each in wanted)
    wanted = [compared.eager[value] for value in compared.code.program.wanted]
    for leaf in jax.tree.leaves(function(*arguments)):
        assert any(_is_equal(leaf, each) for each in wanted)


def _lost_a_rounding(found, function, arguments):
    """Whether results really differ, because XLA keeps more than the precision of a narrow type: the sum of
    terms that cancel shows that."""
    pairs = zip(*(jax.tree.leaves(one(*arguments)) for one in (jax.jit(function), function)))
    return (
        arguments[0].dtype in (jnp.bfloat16, jnp.float16)
        and any(distance(one, other, one.dtype).ulps > 16 for one, other in pairs)
        and (found.cause.code, found.cause.label) == ("precision", VERIFIED)
    )


def _is_equal(leaf, other):
    if leaf.shape != other.shape or leaf.dtype != other.dtype:
        return False
    return np.array_equal(np.asarray(leaf), np.asarray(other), equal_nan=leaf.dtype.kind in "fc")


@pytest.mark.parametrize("name", QUICK)
def test_functions_that_only_round_have_no_finding(name):
    rounding_alone(*QUICK[name])


@pytest.mark.full
@pytest.mark.parametrize("name", FUNCTIONS)
def test_more_functions_that_only_round_have_no_finding(name):
    rounding_alone(*FUNCTIONS[name])


@pytest.mark.parametrize("seed", range(4))
def test_random_programs_that_only_round_have_no_finding(seed):
    program = RandomProgram(seed)
    rounding_alone(program, *program.arguments)


SEEDS = range(4, 104)


@pytest.mark.full
@pytest.mark.parametrize("seed", SEEDS)
def test_more_random_programs_that_only_round_have_no_finding(seed):
    program = RandomProgram(seed)
    rounding_alone(program, *program.arguments)
