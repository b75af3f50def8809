"""Functions that are called back: those that read what can change are called where the call stands."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from lazynb.user_code.function_purity import mutable_state_read

SCALAR = jax.ShapeDtypeStruct((), np.float32)
FACTOR = 2.0
TABLE = {"a": 1.0}


def double(x):
    return np.float32(x) * 2


def scaled(x):
    return np.float32(x * FACTOR)


def looked_up(x):
    return np.float32(x + TABLE["a"])


def through_another(x):
    return double(x)


def importing(x):
    import random

    return np.float32(random.random())


def remembering(x, seen=[]):  # noqa: B006
    seen.append(x)
    return np.float32(len(seen))


def drawing(x):
    return np.float32(np.random.normal())


def within(x):
    def inner(y):
        return y * np.float32(math.pi)

    return np.float32(sum(inner(each) for each in [x]))


def a_closure(value):
    return lambda x: np.float32(x + value)


class Called:
    def __call__(self, x):
        return np.float32(x)

    def method(self, x):
        return np.float32(x)


FIXED = [double, within, np.sin, np.float32, functools.partial(np.add, 1.0), lambda x: np.linalg.norm(x), abs]
CHANGING = [
    scaled, looked_up, through_another, importing, remembering, drawing, a_closure(1), Called(), Called().method,
    functools.partial(np.add, np.ones(3)), print, np.random.normal, lambda x: np.loadtxt(x), [].append,
]  # fmt: skip


@pytest.mark.parametrize("function", FIXED)
def test_a_function_of_its_arguments_alone_reads_nothing_that_changes(function):
    assert mutable_state_read(function) == ""


@pytest.mark.parametrize("function", CHANGING)
def test_what_a_function_reads_that_can_change_is_named(function):
    assert mutable_state_read(function)


def test_the_name_is_that_of_the_variable():
    assert mutable_state_read(scaled) == "`FACTOR`" and mutable_state_read(a_closure(1)) == "`value`"
    assert mutable_state_read(drawing) == "`np.random.normal`"


def in_a_loop():
    out = []
    for i in range(3):
        out.append(jax.pure_callback(lambda x: np.float32(x + i), SCALAR, 0.0))  # noqa: B023
    return out


def a_list_that_grows():
    seen, out = [], []
    for _ in range(3):
        seen.append(1)
        out.append(jax.pure_callback(lambda x: np.float32(x + len(seen)), SCALAR, 0.0))
    return out


def in_a_jitted_function():
    out = []
    for i in range(3):
        out.append(jax.jit(lambda v, i=i: jax.pure_callback(a_closure(i), SCALAR, v))(jnp.float32(1)))
    return out


def a_global():
    global FACTOR
    out = []
    for FACTOR in (1.0, 3.0):  # noqa: B007
        out.append(jax.pure_callback(scaled, SCALAR, jnp.float32(2) * 1))
    FACTOR = 2.0
    return out


def in_a_scan():
    state = {"turn": 0}

    def read(x):
        state["turn"] += 1
        return np.float32(state["turn"])

    step = lambda c, _: (c + jax.pure_callback(read, SCALAR, c), None)  # noqa: E731
    first = jax.lax.scan(step, jnp.float32(0), None, length=2)[0]
    jax.block_until_ready(first)
    return [first, jax.lax.scan(step, jnp.float32(0), None, length=2)[0]]


@pytest.mark.parametrize("program", [in_a_loop, a_list_that_grows, in_a_jitted_function, a_global, in_a_scan])
def test_a_callback_that_reads_what_changes_gives_eager_values(program):
    expected = list(map(float, program()))
    with lazynb.lazy():
        found = program()
    assert list(map(float, found)) == expected


def test_it_is_a_break_of_its_own_kind_only_if_an_operand_is_pending(clean):
    with lazynb.lazy():
        jax.pure_callback(scaled, SCALAR, 0.0)
        assert not lazynb.breaks()
        jax.pure_callback(scaled, SCALAR, jnp.float32(1) * 2)
        (one,) = lazynb.breaks()
        assert (one.code, one.detail) == ("LNB315", "pure_callback reads `FACTOR`")
        kept = jax.pure_callback(double, SCALAR, jnp.float32(1) * 2)
        assert kept.is_pending and len(lazynb.breaks()) == 1
    assert float(kept) == 4
