"""Structural keys: equal for equal content, different where XLA sees a difference."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lazynb.record.structure import jaxpr_content, structure


def make(constant=2.0, axis=0):
    return jax.make_jaxpr(lambda x: jnp.sum(jax.nn.relu(x) * constant, axis=axis))(jnp.ones((2, 3)))


def test_the_same_function_made_again_is_the_same():
    first, second = make(), make()
    assert first is not second
    assert structure(first) == structure(second) and hash(structure(first)) == hash(structure(second))


def test_differences():
    assert structure(make()) != structure(make(constant=3.0))
    assert structure(make()) != structure(make(axis=1))


@pytest.mark.parametrize(
    "left, right",
    [
        (1, 1.0),
        (1, True),
        (0.0, -0.0),
        ((1,), (True,)),
        ((1,), [1]),
        (np.float32(1), np.float64(1)),
        ("1", 1),
        (None, 0),
    ],
)
def test_values_that_python_calls_equal_are_told_apart(left, right):
    assert structure(left) != structure(right)


@pytest.mark.parametrize(
    "value", [float("nan"), 1, "a", (1, (2.0, None)), {"a": [1]}, np.arange(3), frozenset({1})]
)
def test_equal_content_is_equal(value):
    import copy

    assert structure(value) == structure(copy.deepcopy(value))


def test_what_has_no_content_enters_by_identity():
    class Thing:
        __hash__ = None  # type: ignore[assignment]

    thing = Thing()
    assert structure(thing) == structure(thing) and structure(thing) != structure(Thing())


def test_control_flow_and_custom_derivatives():
    def program():
        @jax.custom_jvp
        def f(x):
            return jnp.sin(x)

        f.defjvp(lambda p, t: (f(*p), t[0]))
        return jax.make_jaxpr(lambda x: jax.lax.scan(lambda c, _: (f(c), c), x, None, length=3))(1.0)

    assert jaxpr_content(program()) == jaxpr_content(program())
