"""A part of a module as a module of its own."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import lazynb
from lazynb import jax_compat as jc
from lazynb.xla.fusion.isolated_kernels import ExcerptError, excerpt
from lazynb.xla.hlo.module import parse


@pytest.fixture
def module():
    def run(x, y):
        summed = jnp.tanh(x).sum(1) * 3 + y
        return jax.lax.fori_loop(0, 4, lambda step, z: jnp.sin(z) * step, summed)

    return parse(lazynb.compile(run, jnp.ones((8, 16)), jnp.ones(8)).traces[0].before)


def of(module, opcode):
    entry = module.computations[module.entry]
    return next(each.name for each in entry.instructions.values() if each.opcode == opcode)


def test_values_read_from_outside_become_parameters(module):
    total, product = of(module, "reduce"), of(module, "multiply")
    text = excerpt(module, {total, product}, [product])
    part = parse(text)
    entry = part.computations[part.entry]
    opcodes = sorted(each.opcode for each in entry.instructions.values())
    outside = [each for each in entry.instructions.values() if each.opcode == "parameter"]
    assert {"reduce", "multiply", "parameter", "tuple"} <= set(opcodes)
    assert of(module, "tanh") in {each.name for each in outside}
    assert opcodes.count("constant") + len(outside) == len(opcodes) - 3
    compiled = jc.compile_for(jax.devices()[:1], jc.lowering_of_hlo(text), {})
    optimised = jc.optimised_text(compiled)
    assert " reduce(" in optimised and " tanh(" not in optimised


def test_a_tuple_read_from_outside_is_refused(module):
    element = of(module, "get-tuple-element")
    with pytest.raises(ExcerptError, match="tuple"):
        excerpt(module, {element}, [element])


def test_instructions_of_several_computations_are_refused(module):
    inner = next(each.name for each in module if each.opcode == "sine")
    with pytest.raises(ExcerptError, match="loops or branches"):
        excerpt(module, {inner, of(module, "reduce")}, [inner])


def test_names_of_result_parts_are_made_valid_parameter_names():
    """``%sort.1#1`` of newer releases names a part of a result; no parameter may be called so."""
    text = """HloModule m

%less (a: f32[], b: f32[], c: s32[], d: s32[]) -> pred[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  %c = s32[] parameter(2)
  %d = s32[] parameter(3)
  ROOT %lt = pred[] compare(%a, %b), direction=LT
}

ENTRY %main (x: f32[8], i: s32[8]) -> s32[8] {
  %x = f32[8]{0} parameter(0)
  %i = s32[8]{0} parameter(1)
  %sort.1 = (f32[8]{0}, s32[8]{0}) sort(%x, %i), dimensions={0}, to_apply=%less
  ROOT %negate = s32[8]{0} negate(%sort.1#1)
}
"""
    for wanted in ({"negate"}, {"negate", "sort.1", "sort.1#1"}):
        part = excerpt(parse(text), wanted, ["negate"])
        compiled = jc.compile_for(jax.devices()[:1], jc.lowering_of_hlo(part), {})
        optimised = jc.optimised_text(compiled)
        assert "negate(" in optimised and (" sort(" in optimised) == ("sort.1" in wanted)
