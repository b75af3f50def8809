"""Structural keys: equal for equal content, different where XLA sees a difference."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lazynb.recording.jaxpr_structure import jaxpr_content, structure


def make(constant=2.0, axis=0):
    return jax.make_jaxpr(lambda x: jnp.sum(jax.nn.relu(x) * constant, axis=axis))(jnp.ones((2, 3)))


def test_equal_functions_made_twice_have_equal_keys():
    first, second = make(), make()
    assert first is not second
    assert structure(first) == structure(second) and hash(structure(first)) == hash(structure(second))


def test_another_constant_or_axis_gives_another_key():
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
def test_values_equal_in_python_but_of_other_type_or_sign_have_other_keys(left, right):
    assert structure(left) != structure(right)


@pytest.mark.parametrize(
    "value", [float("nan"), 1, "a", (1, (2.0, None)), {"a": [1]}, np.arange(3), frozenset({1})]
)
def test_copied_values_have_equal_keys(value):
    import copy

    assert structure(value) == structure(copy.deepcopy(value))


def test_opaque_objects_are_compared_by_identity():
    class Thing:
        __hash__ = None  # type: ignore[assignment]

    thing = Thing()
    assert structure(thing) == structure(thing) and structure(thing) != structure(Thing())


def test_jaxprs_with_scan_and_custom_jvp_have_equal_content():
    def program():
        @jax.custom_jvp
        def f(x):
            return jnp.sin(x)

        f.defjvp(lambda p, t: (f(*p), t[0]))
        return jax.make_jaxpr(lambda x: jax.lax.scan(lambda c, _: (f(c), c), x, None, length=3))(1.0)

    assert jaxpr_content(program()) == jaxpr_content(program())
