"""The truth written beside each function is what is found."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from lazynb.compare.numerics import rounding_bounds, value_comparison as comparing
from lazynb.compare.numerics.program_values import CompiledProgram, observed_values as see
from lazynb.xla.evidence import VERIFIED

from .cases import CASES, Case, softmax, title

pytestmark = pytest.mark.usefixtures("clean")
WHERE = {"eager and compiled": "both", "eager only": "eager", "compiled only": "compiled"}


@pytest.mark.parametrize("case", CASES, ids=title)
def test_the_first_difference_and_its_cause_are_found(case: Case):
    found = lazynb.numerics(case.function, *case.arguments)
    assert (found.first.name if found.first is not None else "") == case.first
    assert (found.cause.code if found.cause is not None else "") == case.cause
    assert found.cause is None or found.cause.label == VERIFIED
    assert tuple((one.name, one.kind, WHERE[one.where]) for one in found.nonfinite) == case.born
    _is_that_of_jit(found, case)


def _is_that_of_jit(found, case):
    """The results that were compared are those of ``jax.jit`` and of eager JAX."""
    last = found.operations[-1]
    if last.index is None:
        return
    eager = np.asarray(case.function(*case.arguments), np.float64)
    compiled = np.asarray(jax.jit(case.function)(*case.arguments), np.float64)
    np.testing.assert_equal(eager[last.index], last.eager)
    np.testing.assert_equal(compiled[last.index], last.compiled)


def chain(x):
    a = jnp.tanh(x)
    b = a * 3
    c = jnp.exp(b)
    d = c.sum()
    e = c / d
    return jnp.sqrt(e)


ARGUMENT = jnp.linspace(-1, 1, 64)


@pytest.mark.parametrize("name", ["tanh", "sqrt"])
def test_a_planted_operation_is_the_first_that_parts(name, monkeypatch):
    """The compiled program computes another function in one place."""
    plain = CompiledProgram._equations
    [other] = jax.make_jaxpr(jnp.abs)(1.0).eqns

    def planted(self, barrier):
        for each in plain(self, barrier):
            if each.name == name:
                each = dataclasses.replace(each, primitive=other.primitive, params=other.params)
            yield each

    assert lazynb.numerics(chain, ARGUMENT).first is None
    monkeypatch.setattr(CompiledProgram, "_equations", planted)
    found = lazynb.numerics(chain, ARGUMENT)
    assert found.first.name == name and found.cause.code == "unknown"
    assert "not known" in repr(found)


@pytest.mark.parametrize("name", ["exp", "reduce_sum"])
@pytest.mark.parametrize(("ulps", "parts"), [(2, False), (400, True)])
def test_a_planted_difference_is_found_when_it_is_more_than_rounding(name, ulps, parts, monkeypatch):
    def planted(executable, taken):
        found = see(executable, taken)
        [number] = [each.results[0] for each in executable.program.equations if each.name == name]
        found.values[number] = found.values[number] * jnp.float32(1 + ulps * 2.0**-24)
        return found

    monkeypatch.setattr(comparing, "observed_values", planted)
    found = lazynb.numerics(chain, ARGUMENT)
    assert (found.first.name if found.first is not None else None) == (name if parts else None)


def test_an_infinite_rounding_bound_finds_nothing(monkeypatch):
    """Planted: the cases above would fail."""
    monkeypatch.setattr(rounding_bounds, "ULPS", float("inf"))
    [case] = [case for case in CASES if case.function.__name__ == "two_divisions"]
    assert lazynb.numerics(case.function, *case.arguments).first is None


def test_a_naive_sum_that_loses_small_terms_is_not_taken_for_rounding(monkeypatch):
    """A naive sum of many equal terms is off by more than any order of adding explains."""
    x = jnp.full(2_000_000, 0.1, jnp.float32)

    def planted(executable, taken):
        found = see(executable, taken)
        [number] = executable.program.wanted
        found.values[number] = jnp.float32(np.cumsum(np.asarray(x), dtype=np.float32)[-1])
        return found

    monkeypatch.setattr(comparing, "observed_values", planted)
    assert lazynb.numerics(lambda x: x.sum(), x).first.name == "reduce_sum"


def test_a_difference_inside_a_jitted_function_has_its_line():
    @jax.jit
    def inner(x):
        y = x - x
        return 1.0 / y

    def outer(x):
        return softmax(inner(x + 1))

    found = lazynb.numerics(outer, jnp.arange(3.0))
    born = [(one.location.text, one.name, one.kind, one.within) for one in found.nonfinite]
    assert born[0] == ("return 1.0 / y", "div", "Inf", ("inner",))
    assert any("eager JAX compiles as a whole" in note for note in found.notes)
