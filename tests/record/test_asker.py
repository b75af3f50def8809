"""Who asked for a value: told from the callers, and where they tell nothing, nothing is said."""

from __future__ import annotations

import io

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb


def x():
    return jnp.arange(3.0) * 2


def n():
    return jnp.arange(3)[1] * 1


ASKED = {
    "float": (lambda: float(x().sum()), "float", ""),
    "np.asarray": (lambda: np.asarray(x()), "asarray", ""),
    "tree_map": (lambda: jax.tree.map(float, [x().sum()]), "float", ""),
    "device_get": (lambda: jax.device_get(x()), "asarray", "jax.device_get"),
    "a helper of NumPy's": (
        lambda: np.testing.assert_array_equal(x(), x()),
        "asarray",
        "numpy.assert_array_equal",
    ),
    "np.save": (lambda: np.save(io.BytesIO(), x()), "save", "numpy.save"),
    "jnp.save": (lambda: jnp.save(io.BytesIO(), x()), "save", "numpy.save"),
    "np.savetxt": (lambda: np.savetxt(io.StringIO(), x()), "save", "numpy.savetxt"),
    "jnp.zeros": (lambda: jnp.zeros(n()), "static", "jax.numpy.zeros"),
    "jnp.arange": (lambda: jnp.arange(n()), "static", "jnp.arange argument 'stop'"),
    "jnp.repeat": (lambda: jnp.repeat(x(), n()), "static", "jax.numpy.repeat"),
    "jnp.repeat of an array": (lambda: jnp.repeat(x(), jnp.arange(3) * 1), "static", "jax.numpy.repeat"),
    "jnp.linspace": (lambda: jnp.linspace(0, 1, n()), "static", "'num' argument of jnp.linspace"),
    "jax.random": (lambda: jax.random.normal(jax.random.key(0), (n(),)), "static", "jax.random.normal"),
    "random.split": (
        lambda: jax.random.split(jax.random.key(0), n()),
        "static",
        "a parameter of random_split",
    ),
    "fori_loop": (lambda: jax.lax.fori_loop(0, n(), lambda i, v: v, 0), "static", "jax.lax.fori_loop"),
    "attribute": (lambda: x().addressable_shards, "attribute", "addressable_shards"),
    "buffer": (lambda: x().unsafe_buffer_pointer(), "buffer", "unsafe_buffer_pointer"),
    "effect": (lambda: jax.debug.print("{}", x()), "effect", "debug_print"),
}


@pytest.mark.parametrize("name", ASKED)
def test_each_break_names_the_function_that_asked_for_the_value(name, clean):
    program, kind, detail = ASKED[name]
    with lazynb.lazy():
        program()
    found = [(one.kind, one.detail) for one in lazynb.breaks()]
    assert found == [(kind, detail)]


def test_the_detail_of_one_break_is_not_given_to_another(clean):
    with lazynb.lazy():
        jnp.linspace(0, 1, n())
        jnp.zeros(n())
        float(x().sum())
    assert {one.detail for one in lazynb.breaks()} == {
        "'num' argument of jnp.linspace",
        "jax.numpy.zeros",
        "",
    }


def test_a_value_that_jax_only_asked_about_is_the_users_later(clean):
    """JAX says what it needs a value for before it needs it; the note must not stick to what the user does
    with it."""
    with lazynb.lazy():
        count = n()
        jnp.sum(jnp.ones((2, 2)), axis=0)
        jax.numpy.linspace(0, 1, 3)
        int(count)
    assert [(one.kind, one.detail) for one in lazynb.breaks()] == [("int", "")]


def test_a_callback_of_a_library_is_the_users_code(clean):
    """A plotting library or NumPy that calls the user's function did not ask for what that function reads."""
    with lazynb.lazy():
        tensor = x()
        np.apply_along_axis(lambda row: float(tensor.sum()), 0, np.ones((2, 1)))
    assert {one.kind for one in lazynb.breaks()} == {"float"}


def test_static_arguments_are_remembered_by_number(clean):
    """Another number is another program; the same one is the same."""
    with lazynb.lazy():
        shapes = [jax.random.split(jax.random.key(0), n() + extra).shape for extra in (0, 1, 0)]
    assert shapes == [(1,), (2,), (1,)]
    lazynb.sync()


def test_the_buffer_protocol_gives_the_bytes_as_a_break(clean):
    import hashlib

    with lazynb.lazy():
        seen = bytes(memoryview(x()))
        digest = hashlib.sha256(x()).digest()
    assert seen == np.array([0, 2, 4], np.float32).tobytes() and digest == hashlib.sha256(seen).digest()
    assert {one.code for one in lazynb.breaks()} == {"LNB110"}


def test_a_committed_value_of_an_earlier_trace_is_taken_in_without_a_break(clean):
    device = jax.devices()[1]
    with lazynb.lazy():
        a = jax.device_put(np.ones(3, np.float32), device) * 2
    with lazynb.lazy():
        b = a + 1
    assert not lazynb.breaks() and a.is_pending and b.is_pending
    np.testing.assert_array_equal(np.asarray(b), [3, 3, 3])
    assert b.devices() == {device} and b.committed
