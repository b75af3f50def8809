"""Which instruction stands where another stood, on modules written by hand."""

from __future__ import annotations

from lazynb.xla.hlo.module import parse
from lazynb.xla.hlo.passes import match_instructions


def module(*lines: str, more: str = ""):
    body = "\n".join(f"  {line}" for line in ("%x = f32[4] parameter(0)", "%y = f32[4] parameter(1)", *lines))
    return parse(f"HloModule m\n\n{more}ENTRY %e (x: f32[4], y: f32[4]) -> f32[4] {{\n{body}\n}}\n")


BEFORE = module("%a = f32[4] add(%x, %y)", "%s = f32[4] sine(%a)", "ROOT %m = f32[4] multiply(%s, %a)")
FUSED = """%f (p: f32[4], q: f32[4]) -> f32[4] {
  %p = f32[4] parameter(0)
  %q = f32[4] parameter(1)
  %a.1 = f32[4] add(%p, %q)
  %s.1 = f32[4] sine(%a.1)
  ROOT %m.1 = f32[4] multiply(%s.1, %a.1)
}

"""


def test_the_same_module_is_paired_with_itself():
    match = match_instructions(BEFORE, BEFORE)
    assert match.instead == {} and match.same == {name: [name] for name in ("a", "s", "m", "x", "y")}


def test_instructions_are_paired_into_and_out_of_a_fusion():
    after = module("ROOT %fusion = f32[4] fusion(%x, %y), kind=kLoop, calls=%f", more=FUSED)
    assert match_instructions(BEFORE, after).same == {
        "m": ["m.1"],
        "s": ["s.1"],
        "a": ["a.1"],
        "x": ["x"],
        "y": ["y"],
    }
    assert match_instructions(after, BEFORE).same["a.1"] == ["a"]


def test_an_instruction_is_paired_with_both_of_its_copies():
    after = module(
        "%a = f32[4] add(%x, %y)",
        "%a.2 = f32[4] add(%x, %y)",
        "%s = f32[4] sine(%a.2)",
        "ROOT %m = f32[4] multiply(%s, %a)",
    )
    assert sorted(match_instructions(BEFORE, after).same["a"]) == ["a", "a.2"]


def test_an_operand_that_replaces_another_is_found():
    after = module("%s = f32[4] sine(%x)", "ROOT %m = f32[4] multiply(%s, %x)")
    assert match_instructions(BEFORE, after).instead == {"a": ["x"]}


def test_swapped_operands_are_not_a_replacement():
    after = module("%a = f32[4] add(%y, %x)", "%s = f32[4] sine(%a)", "ROOT %m = f32[4] multiply(%a, %s)")
    match = match_instructions(BEFORE, after)
    assert match.instead == {} and match.same["s"] == ["s"] and match.same["x"] == ["x"]


def test_copies_and_views_that_came_in_are_looked_through():
    after = module(
        "%a = f32[4] add(%x, %y)",
        "%c = f32[4] copy(%a)",
        "%b = f32[4] bitcast(%c)",
        "%s = f32[4] sine(%b)",
        "ROOT %m = f32[4] multiply(%s, %a)",
    )
    assert (
        match_instructions(BEFORE, after).same["a"] == ["a"]
        and match_instructions(BEFORE, after).instead == {}
    )


def test_a_chain_of_5000_instructions_is_paired():
    def chain(suffix: str):
        lines = [f"%n{k}{suffix} = f32[4] sine(%{f'n{k - 1}{suffix}' if k else 'x'})" for k in range(5000)]
        return module(*lines, f"ROOT %r = f32[4] negate(%n4999{suffix})")

    assert len(match_instructions(chain(""), chain(".1")).same) == 5002
