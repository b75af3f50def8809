"""A boundary that is there because a number of Python's is an input says so."""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
import pytest

import lazynb


@pytest.fixture
def x():
    return jnp.linspace(-1, 1, 64 * 64).reshape(64, 64)


def said(compilation):
    """What the boundaries say of numbers."""
    return [one.text.partition("; th")[2] for one in compilation.boundaries if "input" in one.text]


def test_a_number_input_is_named_and_as_a_constant_removes_the_kernel(clean, x):
    rate = 4.5
    with lazynb.lazy():
        held = lazynb.compile(jnp.tanh(x / rate))
        (text,) = said(held)
        assert text.startswith("is number is an input: 4.5 at test_fusion_numbers.py:")
        assert text.endswith("; were it a constant, XLA could compute `divide` while it compiles")
        line = int(text.partition("py:")[2].partition(";")[0])
        assert "x / rate" in Path(__file__).read_text().splitlines()[line - 1]
        written = lazynb.compile(jnp.tanh(x / 4.25))
        assert said(written) == [] and len(written.clusters) == len(held.clusters) - 1
        closed = lazynb.compile(lambda x: jnp.tanh(x / rate), x, as_jit=True)
        assert said(closed) == [] and len(closed.clusters) == len(held.clusters) - 1


def test_each_kernel_names_its_own_number_of_a_packed_argument(clean, x):
    with lazynb.lazy():
        y, rate = x, 2.5
        for _ in range(30):
            y = jnp.tanh(y / rate)
            rate += 1
        made = lazynb.compile(y)
    (trace,) = made.traces
    parameters = trace.module.computations[trace.module.entry].parameters
    assert max(len(trace.inputs_of_parameter(one.name)) for one in parameters) == 30
    named = [text.partition("input: ")[2].partition(" at")[0] for text in said(made)]
    assert named == [f"{2.5 + step}" for step in range(30)]


def test_a_scalar_computed_from_an_array_is_not_reported_as_a_number(clean, x):
    rate, array = 4.5, jnp.ones(())
    lazynb.sync()
    with lazynb.lazy():
        made = lazynb.compile(jnp.tanh(x / jnp.sqrt(array * rate)))
    assert len(made.boundaries) > 1 and said(made) == []


def test_a_scalar_computed_from_several_numbers_names_each(clean, x):
    rate, other = 4.5, 2.25
    with lazynb.lazy():
        made = lazynb.compile(jnp.tanh(x / (jnp.sqrt(rate) * other)))
    (text,) = said(made)
    assert text.startswith("ese numbers are inputs: 4.5 at ") and ", 2.25 at " in text
    assert "; were they constants, XLA could compute" in text
