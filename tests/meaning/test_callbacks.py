"""``jax.pure_callback`` lazily: called when what it gives is read, never where nobody reads it; its faults
are raised there.

A callback that gives something else than it said cannot be refused at the call without calling it. So the
contract is: reading raises the type that eager JAX raises at the call, and its text, which ends in the
callback's own fault (between stand the frames of JAX's that called it); a note names the user's line.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from lazynb.recording import operation

THREE = jax.ShapeDtypeStruct((3,), np.float32)


def call(function, result=THREE):
    return jax.pure_callback(function, result, jnp.arange(3.0))


FAULTS = {
    "too many results": lambda: call(lambda x: (x, x)),
    "too few results": lambda: call(lambda x: (x,), (THREE, THREE))[1],
    "no result": lambda: call(lambda x: None),
    "another number of arguments": lambda: call(lambda: np.ones(3, np.float32)),
    "another shape": lambda: call(lambda x: x[:2]),
    "another type": lambda: call(lambda x: np.asarray(x).astype(np.int32)),
    "an error of its own": lambda: call(lambda x: {}["missing"]),
    "within jit": lambda: jax.jit(lambda x: jax.pure_callback(lambda x: x[:2], THREE, x))(jnp.ones(3)),
    "within vmap": lambda: jax.vmap(
        lambda x: jax.pure_callback(
            lambda x: np.ones(4, np.float32),
            jax.ShapeDtypeStruct((), np.float32),
            x,
            vmap_method="expand_dims",
        )
    )(jnp.ones(3)),
    "within scan": lambda: jax.lax.scan(
        lambda c, _: (jax.pure_callback(lambda c: c[:2], THREE, c), None), jnp.ones(3), None, length=2
    )[0],
}


def said(error):
    """The type of ``error``, what it begins with and what it ends in."""
    lines = str(error).strip().splitlines()
    return type(error), lines[0], lines[-1]


@pytest.mark.parametrize("fault", FAULTS)
def test_reading_raises_what_the_call_raises_eagerly(fault, capfd):
    with pytest.raises(Exception) as eager:
        np.asarray(FAULTS[fault]())
    with lazynb.lazy():
        before = jnp.ones(3) * 2
        found = FAULTS[fault]()
        assert found.is_pending
        for _ in range(2):  # it stays as it is, and says so again
            with pytest.raises(type(eager.value)) as lazily:
                np.asarray(found)
            assert said(lazily.value) == said(eager.value)
            assert any("test_callbacks.py" in note for note in lazily.value.__notes__)
        np.testing.assert_array_equal(before, [2, 2, 2])  # what does not depend on it is there


def test_reading_a_dependent_value_raises_the_same_error(capfd):
    with pytest.raises(Exception) as eager:
        np.asarray(FAULTS["another shape"]())
    with lazynb.lazy():
        total = (FAULTS["another shape"]() * 2).sum()
        with pytest.raises(type(eager.value)) as lazily:
            float(total)
        assert said(lazily.value) == said(eager.value)


def test_a_callback_whose_result_nobody_uses_is_not_called(monkeypatch):
    monkeypatch.setattr(operation, "mutable_state_read", lambda function: "")
    calls = []

    def noted(x):
        calls.append(len(calls))
        return np.asarray(x)

    with lazynb.lazy():
        dropped = call(noted)
        del dropped
        read = jnp.arange(3.0) + 1
        lazynb.sync(read)
        assert not calls
        used = call(noted)
        assert not calls
        np.testing.assert_array_equal(used + read, [1, 3, 5])
        assert calls == [0]


def test_effects_of_io_callbacks_are_not_put_off():
    calls = []
    with lazynb.lazy():
        jax.experimental.io_callback(calls.append, None, jnp.arange(3.0))
        jax.effects_barrier()
        assert len(calls) == 1


def closing():
    """Callbacks that read pending arrays that they close over, and what other callbacks gave."""
    v = jnp.arange(3.0) * 2 + 1
    first = call(lambda x: np.asarray(x) * np.asarray(v))
    w = first + v
    second = jax.jit(
        lambda x: jax.pure_callback(lambda x: np.asarray(x) + np.asarray(w) * float(v[1]), THREE, x)
    )(first * 2)
    third = jax.lax.scan(
        lambda c, _: (jax.pure_callback(lambda c: np.asarray(c) + np.asarray(second), THREE, c), None),
        w,
        None,
        length=2,
    )[0]
    return first, second, third, (third * v).sum()


def test_callbacks_over_pending_arrays_give_eager_values():
    expected = closing()
    for _ in range(2):
        with lazynb.lazy():
            *_, last = found = closing()
            assert last.is_pending
            float(last)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), found, expected)
        with lazynb.lazy():
            last = closing()[-1]  # nobody holds the others, but for the callbacks
        np.testing.assert_allclose(last, expected[-1], rtol=1e-6)
