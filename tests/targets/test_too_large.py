"""A program that does not fit into a chip's memory: how much is missing, and which values take it."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import pytest

import lazynb
from lazynb.xla.targets.target_chip import parse_target
from lazynb.xla.targets.target_compilation import OutOfMemory

GIB = 1 << 30


@pytest.mark.parametrize(
    ("words", "needed", "available"),
    [
        (
            "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO temporaries (40.25G) "
            "exceeds available HBM (15.75G).",
            40.25,
            15.75,
        ),
        (
            "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. "
            "Used 20.93G of 15.75G hbm. Exceeded hbm capacity by 5.18G.",
            20.93,
            15.75,
        ),
    ],
)
def test_needed_and_available_bytes_are_read_from_the_error(words, needed, available):
    error = OutOfMemory(words, parse_target("v5e"))
    assert error.needed == pytest.approx(needed * GIB, abs=1)
    assert error.available == pytest.approx(available * GIB, abs=1)


def test_an_error_without_figures_has_none():
    assert OutOfMemory("RESOURCE_EXHAUSTED: no", parse_target("v5e")).needed is None


def test_the_error_names_the_largest_values(needs):
    with lazynb.lazy():
        a = jnp.ones((60_000, 60_000), jnp.float32)
        y = jnp.sort(a, axis=0) @ jnp.exp(a)  # two of 13.4 GiB at least: a and what is sorted
        with pytest.raises(OutOfMemory) as caught:
            lazynb.compile(y, target=needs("v5e"))
        message = str(caught.value)
        assert len(lazynb.graph(y)) > 0
    head, *values = message.splitlines()
    assert "This does not fit on TPU v5e: it needs" in head and "of 15.8 GiB" in head
    values = [value for value in values if not value.startswith("  and ")]  # how many more there are
    assert 1 <= len(values) <= 5
    assert all("13.4 GiB  f32[60000,60000]" in value for value in values[:2])
    assert any("y = jnp.sort(a, axis=0)" in value for value in values)


def test_inputs_have_the_users_names(needs):
    matrix = jax.ShapeDtypeStruct((40_000, 40_000), jnp.float32)

    def step(params, x):
        return [part - 0.1 * x.sum() for part in params]

    with pytest.raises(OutOfMemory) as caught:
        lazynb.compile(step, [matrix, matrix], jax.ShapeDtypeStruct((8,), jnp.float32), target=needs("v5e"))
    values = str(caught.value).splitlines()[1:]
    assert {value.split(", an input ")[1] for value in values if "an input" in value} == {
        "`params[0]`",
        "`params[1]`",
    }


def gib(count, *shape):
    """The type of an array of that many GiB."""
    return jax.ShapeDtypeStruct((count * GIB // 4 // math.prod(shape), *shape), jnp.float32)


def double(x):
    return x * 2


@pytest.mark.parametrize(
    ("function", "taken", "how", "needed"),
    [
        (double, gib(75), {}, 150),
        (double, gib(75), {"as_jit": True}, 150),
        (jax.jit(double), gib(40), {"target": "a100"}, 80),
        (double, gib(600), {"target": "h100:8", "mesh": "d=8", "shard": "x=d"}, 150),
        (double, gib(75), {"target": "h100:8", "mesh": "d=8"}, 150),
        (double, gib(75), {"target": "h200"}, 150),
        (jnp.sum, gib(80), {}, 80),
        (lambda x: jnp.zeros(gib(80).shape) + x, jax.ShapeDtypeStruct((), jnp.float32), {}, 80),
        (lambda x: (x @ x).sum(), jax.ShapeDtypeStruct((110_000, 110_000), jnp.float32), {}, 90),
        (lambda x: (x + 1, x[0] * 2), gib(40), {}, 80),
    ],
)
def test_a_gpu_has_no_room_for_what_its_compiler_accepts(needs, function, taken, how, needed):
    """Arguments, results and temporaries count; the truth is GiB by hand."""
    with pytest.raises(OutOfMemory, match="does not fit") as caught:
        lazynb.compile(function, taken, **{"target": needs("h100"), **how})
    assert needed <= caught.value.needed / GIB < needed + 0.2
    assert "largest values there:" in str(caught.value)


@pytest.mark.parametrize(
    ("function", "taken", "how"),
    [
        (double, gib(39), {}),
        (double, gib(75), {"target": "b200"}),
        (double, gib(300), {"target": "h100:8", "mesh": "d=8", "shard": "x=d"}),
        (lambda x: jnp.tanh(x * 2 + 1).sum(), gib(75), {}),
    ],
)
def test_a_gpu_has_room_for_what_fits(needs, function, taken, how):
    assert lazynb.compile(function, taken, **{"target": needs("h100"), **how}).clusters


def test_a_program_whose_inputs_are_donated_may_fit(needs):
    for function, words in [(double, "of 79.1 GiB, without donation"), (jnp.sort, "of 79.1 GiB. Most")]:
        with pytest.raises(OutOfMemory) as caught:
            lazynb.compile(function, gib(45 if function is double else 85, 1 << 16), target=needs("h100"))
        assert words in str(caught.value)
