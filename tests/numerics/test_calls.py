"""What ``lazynb.numerics`` takes and refuses, and how it shows what it found."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from lazynb.compare.numerics import numerics_code
from lazynb.compare.numerics.numerics_causes import EXPERIMENTS
from lazynb.compare.numerics.program_values import CompiledProgram

pytestmark = pytest.mark.usefixtures("clean")


def double(x):
    return x * 2


def test_bad_calls_are_refused_with_advice():
    with pytest.raises(TypeError, match=r"not ArrayImpl: lazynb\.numerics\(f, \*args\)"):
        lazynb.numerics(jnp.ones(3))
    with pytest.raises(TypeError, match=r"has none: give arrays, such as jnp\.ones\(\(3,\), float32\)"):
        lazynb.numerics(double, jax.ShapeDtypeStruct((3,), jnp.float32))
    with pytest.raises(lazynb.LazynbError, match=r"values of h100 cannot be had.*lazynb\.compile"):
        lazynb.numerics(double, jnp.ones(3), target="h100")
    with pytest.raises(ValueError, match="There is no chip"):
        lazynb.numerics(double, jnp.ones(3), target="h101")
    with pytest.raises(lazynb.LazynbError, match="inside a JAX transformation"):
        jax.jit(lambda x: lazynb.numerics(double, x))(jnp.ones(3))
    with pytest.raises(ZeroDivisionError):
        lazynb.numerics(lambda x: x * (1 // 0), jnp.ones(3))


def test_a_trace_break_inside_the_function_is_refused_with_its_line():
    def branching(x):
        y = x * 2
        return y if y.sum() > 1 else x

    with pytest.raises(lazynb.TraceBreakError) as raised:
        lazynb.numerics(branching, jnp.ones(3))
    assert raised.value.location.text == "return y if y.sum() > 1 else x"
    assert "leave that line out" in raised.value.__notes__[0]
    assert not lazynb.breaks()


def test_arrays_and_programs_over_the_limit_are_refused(monkeypatch):
    monkeypatch.setattr(numerics_code, "MOST_BYTES", 100)
    with pytest.raises(lazynb.LazynbError, match="take smaller arrays"):
        lazynb.numerics(double, jnp.ones(30))
    monkeypatch.setattr(numerics_code, "MOST_OPERATIONS", 0)
    with pytest.raises(lazynb.LazynbError, match="operations, and numerics look at up to 0"):
        lazynb.numerics(double, jnp.ones(30))


def test_passed_numbers_are_arguments_and_written_ones_constants(monkeypatch):
    """As under ``jax.jit``: a number that is passed is no constant, one that is written is."""
    seen = []
    plain = CompiledProgram.__init__

    def noted(self, program, taken, constants, settings):
        seen.append((len(program.taken), len(constants)))
        plain(self, program, taken, constants, settings)

    monkeypatch.setattr(CompiledProgram, "__init__", noted)
    held = jnp.arange(3.0)
    found = lazynb.numerics(lambda tree, *, y: tree["x"] * y + held + 2.0, {"x": held + 1}, y=2)
    assert seen == [(4, 2)]
    assert found.operations[-1].compiled_error == 0 and found.name == "<lambda>"
    lazynb.numerics(jax.jit(lambda x, n: x * n, static_argnums=1), held, 3)
    assert seen[-1] == (2, 1)


def test_numerics_leaves_pending_values_and_x64_mode_unchanged():
    x = jnp.arange(3.0)
    with lazynb.lazy():
        pending = x + 1
        found = lazynb.numerics(double, pending)
        assert found.first is None and not jax.config.jax_enable_x64
        later = pending * 2
        assert later.is_pending
    assert (x + 1).dtype == jnp.float32
    np.testing.assert_array_equal(later, (np.arange(3.0) + 1) * 2)


def test_a_constant_result_has_nothing_to_compare():
    found = lazynb.numerics(lambda x: 3, jnp.ones(3))
    assert found.first is None and found.cause is None and "nothing to compare" in repr(found)


def test_results_that_are_arguments_or_constants_are_accepted():
    @jax.jit
    def inner(x):
        return x, x * 2, 3.0

    def outer(x):
        kept, double, number = inner(x)
        return x, kept, double + number, number

    x = jnp.arange(3.0)
    found = lazynb.numerics(outer, x)
    assert found.first is None and [one.name for one in found.operations][-1] == "add"
    np.testing.assert_array_equal(found._comparison.compiled[found._comparison.code.program.wanted[0]], x)
    assert not len(lazynb.numerics(lambda x: x, x).operations)
    assert lazynb.numerics(lambda x: (x * 2)[:0], x).operations[-1].size == 0


def test_findings_are_shown_as_text_html_and_data():
    def fraction(x, y):
        z = x * x
        return (z / y) / y

    found = lazynb.numerics(fraction, jnp.float32(1e-15), jnp.float32(1e-25))
    shown = repr(found)
    assert "compiled and eager values part at test_calls.py" in shown and "`div`" in shown
    assert "return (z / y) / y" in shown and "compiled again without XLA's pass `algsimp`" in shown
    assert "Inf is born at" in shown and "compiled only" in shown
    page = found._repr_mimebundle_()["text/html"]
    assert "<code>div</code>" in page and "algsimp" in page and "<script" not in page
    plain = found.to_dicts()
    assert plain["first"]["name"] == "div" and plain["cause"]["label"] == "verified by recompiling"
    assert json.loads(json.dumps(plain))["operations"][0]["location"]["text"] == "z = x * x"
    found.settle()
    assert repr(found) == shown


def test_text_of_the_user_is_escaped():
    def named(x):
        return x / 0  # <b>"bold"</b>

    page = lazynb.numerics(named, jnp.ones(2))._repr_mimebundle_()["text/html"]
    assert "<b>&quot;" not in page and "&lt;b&gt;" in page


def test_each_experiment_compiles():
    """Each option is one that this XLA knows."""
    for experiment in EXPERIMENTS:
        options = dict(experiment.options)
        jax.jit(lambda x: x * 2 + 1).lower(jnp.ones(3)).compile(compiler_options=options or None)


def test_a_nan_in_the_second_result_of_a_scan_is_found():
    def running(x):
        return jax.lax.scan(lambda total, each: (total + each, jnp.log(each)), jnp.float32(0), x)

    found = lazynb.numerics(running, jnp.array([1.0, -1.0, -2.0]))
    assert [(row.name, row.kind, row.eager, row.compiled) for row in found.nonfinite] == [
        ("scan", "NaN", 2, 2)
    ]
