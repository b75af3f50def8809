"""HLO text as objects."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from lazynb.xla.hlo.module import parameter_number, parse
from lazynb.xla.hlo.shapes import element_count, parse_arrays, rank, shape_bytes, tuple_parts

TEXT = """HloModule jit_f, is_scheduled=true, entry_computation_layout={(f32[4]{0})->f32[4]{0}}

%fused_computation (param_0.1: f32[4], param_1: (f32[2], s32[])) -> f32[4] {
  %param_0.1 = f32[4]{0} parameter(0)
  %param_1 = (f32[2]{0}, s32[]) parameter(1)
  %c.1 = f32[] constant(2), metadata={op_name="jit(lazynb)/n3/mul" source_file="/tmp/a } b.py"}
  %b.1 = f32[4]{0} broadcast(%c.1), dimensions={}, metadata={op_name="n12"}
  ROOT %m-1 = f32[4]{0} multiply(%param_0.1, %b.1), metadata={op_name="jit(lazynb)/n3x/mul"}
}

%less (a: f32[], b: f32[]) -> pred[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %lt = pred[] compare(%a, %b), direction=LT
}

ENTRY %main.3 (x: f32[4]) -> (f32[4], s32[4]) {
  %x = f32[4]{0:T(256)} parameter(0), metadata={op_name="args[0]"}
  %i = s32[4]{0} iota(), iota_dimension=0
  %s = (f32[4]{0}, /*index=1*/s32[4]{0}) sort(%x, %i), dimensions={0}, to_apply=%less
  %cc = f32[4]{0} custom-call(%s#0), custom_call_target="lapack_x_ffi", backend_config={a = "b(c"}
  ROOT %t = (f32[4]{0}, s32[4]{0}) tuple(%cc, %s#1)
}
"""


def test_instructions_and_computations_are_parsed():
    module = parse(TEXT)
    assert module.name == "jit_f" and module.entry == "main.3"
    assert list(module.computations) == ["fused_computation", "less", "main.3"]
    multiply = module.by_name["m-1"]
    assert (multiply.opcode, multiply.shape, multiply.root) == ("multiply", "f32[4]{0}", True)
    assert multiply.operands == ("param_0.1", "b.1")
    assert module.computations["fused_computation"].root is multiply
    assert [parameter_number(one) for one in module.computations["fused_computation"].parameters] == [0, 1]
    assert module.by_name["s"].shape == "(f32[4]{0}, /*index=1*/s32[4]{0})" and module.by_name["s"].calls == (
        "less",
    )
    assert (
        module.callers["less"].name == "s" and module.is_applied("less") and not module.is_applied("main.3")
    )
    assert [one.name for one in module.computations["main.3"].users["x"]] == ["s"]
    with pytest.raises(ValueError, match="no parameter"):
        parameter_number(multiply)


def test_marks_are_read_only_from_whole_scope_names():
    module = parse(TEXT)
    assert [module.by_name[name].mark for name in ("c.1", "b.1", "m-1", "x", "i")] == [
        (3,),
        (12,),
        None,
        None,
        None,
    ]
    assert module.by_name["c.1"].plain == "f32[] constant(2)" and module.by_name["x"].scope == "args[0]"


def test_a_part_of_a_result_is_an_instruction():
    module = parse(TEXT)
    part = module.by_name["s#1"]
    assert (part.opcode, part.shape, part.operands) == ("get-tuple-element", "s32[4]{0}", ("s",))
    assert module.by_name["t"].operands == ("cc", "s#1") and module.by_name["cc"].operands == ("s#0",)


def test_attributes_of_an_instruction_are_read():
    module = parse(TEXT)
    assert module.by_name["cc"].attribute("custom_call_target") == "lapack_x_ffi"
    assert (
        module.by_name["s"].attribute("dimensions") == "{0}"
        and module.by_name["s"].attribute("nothing") == ""
    )


@pytest.mark.parametrize(
    "shape, bytes_, count, dimensions",
    [
        ("f32[2,3]{1,0}", 24, 6, 2),
        ("pred[]", 1, 1, 0),
        ("bf16[4]{0}", 8, 4, 1),
        ("s4[3]{0:E(4)}", 2, 3, 1),
        ("c128[2]", 32, 2, 1),
        ("(f32[2]{0}, /*index=1*/s8[3]{0})", 11, 2, 1),
        ("f8e4m3fn[8]", 8, 8, 1),
        ("f32[<=4,1]", 16, 4, 1),
        ("token[]", 0, 1, 0),
        ("f32[0,3]", 0, 0, 2),
        ("u64[1,1]", 8, 1, 0),
        ("()", 0, 0, 0),
    ],
)
def test_bytes_elements_and_rank_of_a_shape_are_computed(shape, bytes_, count, dimensions):
    assert (shape_bytes(shape), element_count(shape), rank(shape)) == (bytes_, count, dimensions)


def test_layouts_and_tuple_parts_are_parsed():
    assert parse_arrays("f32[2,3]{0,1:T(8,128)}") == [("f32", (2, 3), (0, 1))]
    assert tuple_parts("(f32[2]{0}, (s32[], pred[3]{0}), /*index=2*/u8[])") == [
        "f32[2]{0}",
        "(s32[], pred[3]{0})",
        "u8[]",
    ]
    assert tuple_parts("f32[2]{0}") == []


@pytest.mark.parametrize("text", ["", "nonsense", "HloModule only", "{}\n\n  %a = ", "<html>" * 9])
def test_text_that_is_no_hlo_module_is_refused(text):
    with pytest.raises(ValueError, match="no HLO module"):
        parse(text)


def test_a_text_that_was_cut_off_is_refused():
    whole = parse(TEXT)
    for end in range(len(TEXT) - 2):
        with pytest.raises(ValueError, match="HLO module"):
            parse(TEXT[:end])
    for line in TEXT.splitlines():
        if line.startswith("  %") and "%param_1 " not in line:  # which nothing reads
            with pytest.raises(ValueError, match="not whole"):
                parse(TEXT.replace(line + "\n", "", 1))
    assert len(whole.by_name) == 15


@pytest.mark.parametrize(
    "compiled",
    [
        lambda: jax.jit(lambda x: jnp.sort(jnp.tanh(x) @ x)).lower(jnp.ones((4, 4))).compile(),
        lambda: (
            jax.jit(lambda x: jax.lax.while_loop(lambda c: c.sum() < 9, lambda c: c * 2, x))
            .lower(jnp.ones(4))
            .compile()
        ),
    ],
)
def test_a_module_that_lazynb_did_not_make_has_no_marks(compiled):
    module = parse(compiled().as_text())
    assert module.by_name and all(one.mark is None for one in module)
