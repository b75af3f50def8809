"""Arrays of two modules that the same operations compute from the same inputs."""

from __future__ import annotations

import pytest

from lazynb.xla.hlo.module import parse
from lazynb.xla.hlo.value_numbering import ValueNumbering

SEPARATE = """HloModule one

ENTRY %main (x: f32[4], w: f32[4]) -> (f32[4], f32[4]) {
  %x = f32[4]{0} parameter(0)
  %w = f32[4]{0} parameter(1)
  %a = f32[4]{0} tanh(%x), metadata={op_name="jit(lazynb)/n2/tanh"}
  %b = f32[4]{0} add(%a, %w), metadata={op_name="jit(lazynb)/n3/add"}
  ROOT %both = (f32[4]{0}, f32[4]{0}) tuple(%a, %b)
}
"""

FUSED = """HloModule two

%body (p: f32[4], q: f32[4]) -> f32[4] {
  %p = f32[4]{0} parameter(0)
  %q = f32[4]{0} parameter(1)
  %t = f32[4]{0} tanh(%p), metadata={op_name="jit(lazynb)/n7/tanh"}
  ROOT %s = f32[4]{0} add(%t, %q)
}

ENTRY %main (x: f32[4], w: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0)
  %w = f32[4]{0} parameter(1)
  %f = f32[4]{0} fusion(%x, %w), kind=kLoop, calls=%body
  ROOT %e = f32[4]{0} exponential(%f)
}
"""


def results(numbers, text, inputs=lambda name: name):
    return numbers.of(parse(text), inputs).results()


def handed_on(numbers, text, inputs=lambda name: name):
    return numbers.of(parse(text), inputs).kernel_to_kernel()


def test_fused_and_separate_results_match_and_fused_intermediates_are_not_written():
    numbers = ValueNumbering()
    a, b = results(numbers, SEPARATE)
    assert handed_on(numbers, FUSED) == {b} and a != b


def test_a_result_that_no_kernel_reads_is_not_handed_on():
    numbers = ValueNumbering()
    a, _ = results(numbers, SEPARATE)
    assert handed_on(numbers, SEPARATE) == {a}


@pytest.mark.parametrize(
    "old, new",
    [
        ("tanh(%p)", "sine(%p)"),
        ("add(%t, %q)", "add(%q, %t)"),
        ("fusion(%x, %w)", "fusion(%w, %x)"),
        ("add(%t, %q)", "multiply(%t, %q)"),
    ],
)
def test_another_expression_is_another_array(old, new):
    numbers = ValueNumbering()
    assert old in FUSED
    assert not handed_on(numbers, FUSED.replace(old, new)) & set(results(numbers, SEPARATE))


def test_an_expression_of_another_input_is_another_array():
    numbers = ValueNumbering()
    results_ = results(numbers, SEPARATE, {"x": 0, "w": 1}.get)
    assert not handed_on(numbers, FUSED, {"x": 0, "w": 2}.get) & set(results_)
    assert not handed_on(numbers, FUSED, {"x": 0}.get) & set(results_)  # nobody knows what w is


SCALED = """HloModule scaled

ENTRY %main (x: f32[4], k: f32[]) -> f32[4] {
  %x = f32[4]{0} parameter(0)
  %k = SCALE
  %s = f32[4]{0} broadcast(%k), dimensions={}
  %m = f32[4]{0} multiply(%x, %s)
  ROOT %r = f32[4]{0} tanh(%m)
}
"""
AS_INPUT = SCALED.replace("SCALE", "f32[] parameter(1)")


def as_constant(text):
    return SCALED.replace(", k: f32[]", "").replace("SCALE", f"f32[] constant({text})")


def test_a_number_that_is_an_input_is_the_constant_of_that_value():
    numbers = ValueNumbering()
    given = results(numbers, AS_INPUT, {"x": 0, "k": 0.1}.get)
    assert results(numbers, as_constant("0.1"), {"x": 0}.get) == given
    assert results(numbers, as_constant("0.100000001"), {"x": 0}.get) == given  # as float32 it is
    assert results(numbers, as_constant("0.2"), {"x": 0}.get) != given


@pytest.mark.parametrize("line", ["dimensions={0}, to_apply=%add", "dimensions={1}, to_apply=%add"])
def test_attributes_and_applied_computations_distinguish_expressions(line):
    text = """HloModule sums

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}

ENTRY %main (x: f32[4,4]) -> f32[4] {
  %x = f32[4,4]{1,0} parameter(0)
  %zero = f32[] constant(0)
  ROOT %r = f32[4]{0} reduce(%x, %zero), dimensions={1}, to_apply=%add
}
"""
    numbers = ValueNumbering()
    renamed = text.replace("%add", "%region_0.1").replace("dimensions={1}, to_apply=%add", line)
    renamed = renamed.replace("dimensions={1}, to_apply=%region_0.1", line.replace("%add", "%region_0.1"))
    assert (results(numbers, text) == results(numbers, renamed)) == ("{1}" in line)
    maximum = text.replace("f32[] add(", "f32[] maximum(")
    assert results(numbers, text) != results(numbers, maximum)


def test_memory_of_another_shape_is_the_same_array():
    numbers = ValueNumbering()
    flat = SEPARATE.replace("tuple(%a, %b)", "tuple(%c, %b)").replace(
        "  %b =", "  %c = f32[4]{0} bitcast(%d)\n  %b ="
    )
    flat = flat.replace("  %c =", "  %d = f32[2,2]{1,0} bitcast(%a)\n  %c =")
    assert results(numbers, flat) == results(numbers, SEPARATE)


def test_each_array_of_a_tuple_result_is_matched():
    text = FUSED.replace("-> f32[4] {\n  %p", "-> (f32[4], f32[4]) {\n  %p")
    text = text.replace(
        "ROOT %s = f32[4]{0} add(%t, %q)",
        "%s = f32[4]{0} add(%t, %q)\n  ROOT %u = (f32[4]{0}, f32[4]{0}) tuple(%t, %s)",
    )
    text = text.replace(
        "%f = f32[4]{0} fusion(%x, %w), kind=kLoop, calls=%body",
        "%f = (f32[4]{0}, f32[4]{0}) fusion(%x, %w), kind=kLoop, calls=%body\n"
        "  %first = f32[4]{0} get-tuple-element(%f), index=0",
    ).replace("exponential(%f)", "exponential(%first)")
    numbers = ValueNumbering()
    a, b = results(numbers, SEPARATE)
    assert handed_on(numbers, text) == {a} and b != a  # the second part is written, and nothing reads it
