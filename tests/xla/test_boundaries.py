"""Reasons of boundaries: each entry of the table has a program that triggers it; hand-written modules for the
rules' corners."""

from __future__ import annotations

import string
import typing

import jax
import jax.numpy as jnp
import pytest
from timing import cpu_seconds
from xla.expected import EXPECTED

import lazynb
from lazynb.xla import inspection_schema
from lazynb.xla.evidence import LABELS
from lazynb.xla.external.external_programs import compile_stage
from lazynb.xla.fusion.boundaries import find_boundaries
from lazynb.xla.fusion.boundary_reasons import REASONS, BoundaryReason
from lazynb.xla.fusion.cluster_edges import find_edges
from lazynb.xla.fusion.cpu_fusion_pass import (
    ALLOWED,
    CODE_DUPLICATION,
    CONCATENATE,
    DUPLICATED,
    EXPENSIVE,
    NO_CASE,
    NOT_LOOP,
    UNPROFITABLE,
    Consumer,
    CpuFusionPass,
)
from lazynb.xla.fusion.cpu_instruction_rules import (
    DYNAMIC_PLACE,
    NO_PAIR,
    SLICE_PLACE,
    TWICE,
    XLA_OF_JAX_0_11,
)
from lazynb.xla.fusion.cpu_rules import CpuRules
from lazynb.xla.fusion.prefusion_graph import PrefusionGraph
from lazynb.xla.hlo.clusters import find_clusters
from lazynb.xla.hlo.module import parse


def entry(*lines: str, more: str = ""):
    parameters = [f"%{name} = f32[8,16]{{1,0}} parameter({number})" for number, name in enumerate("xyz")]
    body = "\n".join(f"  {line}" for line in (*parameters, *lines))
    return parse(
        f"HloModule m\n\n{more}ENTRY %e (x: f32[8,16], y: f32[8,16], z: f32[8,16]) -> f32[8,16] "
        f"{{\n{body}\n}}\n"
    )


def rules(module) -> tuple[CpuFusionPass, dict[str, int]]:
    graph = PrefusionGraph(module, module.computations["e"])
    return CpuFusionPass(graph), graph.written


ARRAY = "f32[8,16]{1,0}"
LATER = () if XLA_OF_JAX_0_11 else ("shifted-exponential", "size-limit")
OF_FUNCTIONS = ("returned",)  # no cell has them; their programs are with the tests below
SENTENCES = ("read-elsewhere", "reader-kept-alive", "reader-returned")  # of other reasons' boundaries


# ---- the table of reasons ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    sorted(CpuRules.reasons.keys() - {"other", "unknown", "refuted", *LATER, *OF_FUNCTIONS, *SENTENCES}),
)
def test_each_reason_has_a_program_that_shows_it(code):
    assert any(code in one.boundaries.replace(",", "").split() for one in EXPECTED.values())


@pytest.mark.parametrize("reason", REASONS.values(), ids=list(REASONS))
def test_reasons_are_sentences_of_known_fields(reason: BoundaryReason):
    fields = {field for _, field, _, _ in string.Formatter().parse(reason.text) if field}
    assert fields <= {"producer", "consumer", "variables", "verb", "users", "library"}
    assert len(reason.text) < 240 and not reason.text.endswith(".")


def test_hints_stand_only_where_something_can_be_done():
    assert {code for code, reason in REASONS.items() if reason.hint} == {
        "kept-alive",
        "reader-kept-alive",
        "returned",
        "reader-returned",
        "unknown",
    }


def test_a_boundary_the_rules_would_have_fused_is_unknown():
    module = entry(f"%a = {ARRAY} add(%x, %y)", f"ROOT %b = {ARRAY} negate(%a)")
    [one] = [
        one
        for one in find_boundaries(CpuRules(module), find_clusters(module), lambda result: ())
        if one.consumer
    ]
    assert one.code == "unknown" and one.hint and one.label == "not known" and not one.rule


def test_a_copy_added_after_fusion_is_labelled_copy(clean):
    x = jnp.ones((4, 8))
    with lazynb.lazy():
        y = x.reshape(8, 4).T  # noqa: F841
        compilation = lazynb.compile()
        for one in [*compilation.boundaries, *compilation.ask()]:
            assert one.code in ("copy", "result")


def test_a_module_compiled_by_jax_jit_has_known_reasons():
    compiled = jax.jit(lambda x: jax.nn.softmax(x @ x)).lower(jnp.ones((16, 16))).compile()
    module = parse(compiled.as_text())
    found = find_boundaries(CpuRules(module), find_clusters(module), lambda result: ())
    assert len(found) > 3 and all(one.code in REASONS and one.code != "unknown" for one in found)


# ---- variables ---------------------------------------------------------------------------------------------


def test_several_variables_are_all_named(clean):
    x = jnp.ones((64, 32))
    with lazynb.lazy():
        h = jnp.exp(x)
        same = h  # noqa: F841
        y = h + 1  # noqa: F841
        [one] = [one for one in lazynb.compile().boundaries if one.code == "kept-alive"]
        assert set(one.variables) == {"h", "same"} and "are still in reach" in one.text


def test_a_variable_is_not_blamed_where_another_kernel_needs_the_value_too(clean):
    x = jnp.ones((64, 32))
    with lazynb.lazy():
        h = jnp.exp(x)
        y, z = h + 1, jnp.sort(h)  # noqa: F841
        codes = [one.code for one in lazynb.compile().boundaries if one.consumer]
        assert "kept-alive" not in codes and "expensive-several-users" in codes


def test_a_variable_is_not_blamed_for_a_library(clean):
    x, w = jnp.ones((64, 32)), jnp.ones((32, 16))
    with lazynb.lazy():
        h = x @ w
        y = jnp.tanh(h)  # noqa: F841
        [one] = [one for one in lazynb.compile().boundaries if one.consumer]
        assert one.code in ("library-producer", "producer-not-fusible") and one.variables == ()
        del h
        [one] = [one for one in lazynb.compile().boundaries if one.consumer]
        assert one.code in ("library-producer", "producer-not-fusible")


@pytest.mark.parametrize(
    "taken, fn",
    [(True, jnp.tanh), (True, lambda x: x * 2.0 + 1.0), (False, lambda x: x[::-1]), (False, jnp.cbrt)],
)
def test_a_variable_is_blamed_for_a_library_call_that_would_take_the_value_in(clean, taken, fn):
    x = jnp.ones((256, 128))
    with lazynb.lazy():
        h = fn(x)
        s = h.sum(1)  # noqa: F841
        kept = lazynb.compile()
        [one] = [one for one in kept.boundaries if one.consumer]
        assert one.code == ("kept-alive" if taken else "library-consumer")
        [said] = [one for one in kept.ask() if one.consumer]
        assert said.code == one.code and said.said and said.label == "rule inferred"
        del h
        assert (len(lazynb.compile().clusters) == 1) == taken


def test_a_result_made_from_the_value_is_blamed_only_if_the_reader_makes_it_again(clean):
    x = jnp.ones((64, 32))
    with lazynb.lazy():
        s = jax.nn.softmax(x)  # noqa: F841
        assert "kept-alive" not in [one.code for one in lazynb.compile().boundaries]


# ---- the rules ---------------------------------------------------------------------------------------------


def test_opened_fusions_are_one_graph():
    fused = (
        f"%f (p: f32[8,16]) -> f32[8,16] {{\n  %p = {ARRAY} parameter(0)\n  %s.1 = {ARRAY} sine(%p)\n"
        f"  ROOT %n = {ARRAY} negate(%s.1)\n}}\n\n"
    )
    module = entry(
        f"%s = {ARRAY} sine(%x)",
        f"%fusion = {ARRAY} fusion(%x), kind=kLoop, calls=%f",
        f"ROOT %r = {ARRAY} add(%s, %fusion)",
        more=fused,
    )
    graph = PrefusionGraph(module, module.computations["e"])
    assert [node.opcode for node in graph.nodes] == ["parameter"] * 3 + ["sine", "negate", "add"]
    assert graph.nodes[3].holders == {"s", "fusion"} and graph.members["fusion"] == [3, 4]


def test_equal_custom_calls_stay_two_instructions():
    call = f'{ARRAY} custom-call(%x), custom_call_target="t"'
    module = entry(
        f"%a = {call}",
        f"%b = {call}",
        f"%c = {ARRAY} sine(%x)",
        f"%d = {ARRAY} sine(%x)",
        f"%e1 = {ARRAY} add(%a, %b)",
        f"%e2 = {ARRAY} add(%c, %d)",
        f"ROOT %r = {ARRAY} add(%e1, %e2)",
    )
    _, at = rules(module)
    assert at["a"] != at["b"] and at["c"] == at["d"]


@pytest.mark.parametrize(
    "lines, producer, consumer, words",
    [
        ([f"%a = {ARRAY} add(%x, %y)", f"ROOT %b = {ARRAY} negate(%a)"], "a", "b", ALLOWED),
        ([f"%a = {ARRAY} sort(%x), dimensions={{1}}", f"ROOT %b = {ARRAY} negate(%a)"], "a", "b", NOT_LOOP),
        ([f"%a = {ARRAY} negate(%x)", f"ROOT %b = {ARRAY} sort(%a), dimensions={{1}}"], "a", "b", NO_CASE),
        (
            [f"%a = {ARRAY} tanh(%x)", "ROOT %b = f32[2,8,16]{2,1,0} broadcast(%a), dimensions={1,2}"],
            "a",
            "b",
            UNPROFITABLE,
        ),
        (
            [f"%a = {ARRAY} negate(%x)", "ROOT %b = f32[2,8,16]{2,1,0} broadcast(%a), dimensions={1,2}"],
            "a",
            "b",
            ALLOWED,
        ),
        (
            [
                f"%a = {ARRAY} tanh(%x)",
                f"%b = {ARRAY} negate(%a)",
                f"%c = {ARRAY} sine(%a)",
                f"ROOT %t = ({ARRAY}, {ARRAY}) tuple(%b, %c)",
            ],
            "a",
            "b",
            EXPENSIVE,
        ),
        (
            [
                f"%a = {ARRAY} add(%x, %y)",
                f"%b = {ARRAY} negate(%a)",
                f"%c = {ARRAY} sort(%a), dimensions={{1}}",
                f"ROOT %t = ({ARRAY}, {ARRAY}) tuple(%b, %c)",
            ],
            "a",
            "b",
            DUPLICATED,
        ),
        (
            [
                f"%a = {ARRAY} add(%x, %x)",
                f"%b = {ARRAY} negate(%a)",
                f"%c = {ARRAY} sort(%a), dimensions={{1}}",
                f"ROOT %t = ({ARRAY}, {ARRAY}) tuple(%b, %c)",
            ],
            "a",
            "b",
            ALLOWED,
        ),
        (
            [
                "%a = f32[72,16]{1,0} concatenate(%x, %x, %x, %x, %x, %x, %x, %x, %x), dimensions={0}",
                "ROOT %b = f32[72,16]{1,0} negate(%a)",
            ],
            "a",
            "b",
            CONCATENATE,
        ),
    ],
)
def test_each_fusion_rule_gives_its_verdict(lines, producer, consumer, words):
    found, at = rules(entry(*lines))
    assert found.verdict(at[producer], Consumer((at[consumer],))) == words


PAIR = f"({ARRAY}, {ARRAY})"
INDICES = ["%i = s32[] constant(1)", "%j = s32[] constant(2)", "%k = s32[3,1]{1,0} iota(), iota_dimension=0"]
PART = "f32[2,16]{1,0}"


@pytest.mark.parametrize(
    "lines, words",
    [
        # An element of a gathered array is read once as far as XLA knows, of a dynamic slice more often.
        (["%a = f32[8,16]{1,0} tanh(%x)", "%b = f32[3,16]{1,0} gather(%a, %k), slice_sizes={1,16}"], ALLOWED),
        ([f"%a = {ARRAY} tanh(%x)", f"%b = {PART} dynamic-slice(%a, %i, %j)"], UNPROFITABLE),
        ([f"%a = {ARRAY} tanh(%x)", "%b = f32[8,16]{1,0} pad(%a, %i), padding=0_0x0_0"], ALLOWED),
        # Each element of the matrix goes into one product, those of the vector into several.
        (
            [
                "%v = f32[16]{0} iota(), iota_dimension=0",
                f"%a = {ARRAY} tanh(%x)",
                "%b = f32[8]{0} dot(%a, %v)",
            ],
            ALLOWED,
        ),
        (
            [
                "%v = f32[16]{0} iota(), iota_dimension=0",
                "%a = f32[16]{0} tanh(%v)",
                "%b = f32[8]{0} dot(%x, %a)",
            ],
            UNPROFITABLE,
        ),
        # Division of one constant is cheap for integers.
        (
            ["%o = s32[8]{0} broadcast(%i), dimensions={}", "%v = s32[8]{0} iota(), iota_dimension=0"]
            + ["%a = s32[8]{0} divide(%o, %v)", "%b = s32[8,2]{1,0} broadcast(%a), dimensions={0}"],
            ALLOWED,
        ),
        # In place.
        ([f"%a = {ARRAY} broadcast(%i)", f"%b = {ARRAY} scatter(%a, %k, %y)"], NO_CASE),
        ([f"%a = {ARRAY} reverse(%x)", f"%b = {ARRAY} scatter(%a, %k, %y)"], NO_CASE),
        ([f"%a = {ARRAY} negate(%x)", f"%b = {ARRAY} dynamic-update-slice(%a, %y, %i, %j)"], ALLOWED),
        ([f"%a = {ARRAY} reverse(%x)", f"%b = {ARRAY} dynamic-update-slice(%a, %y, %i, %j)"], NO_PAIR),
        ([f"%a = {PART} reverse(%x)", f"%b = {ARRAY} dynamic-update-slice(%x, %a, %i, %j)"], NO_PAIR),
        ([f"%a = {PART} reverse(%y)", f"%b = {ARRAY} dynamic-update-slice(%x, %a, %i, %j)"], ALLOWED),
        (
            [
                f"%a = {PART} slice(%x), slice={{[1:3], [2:16]}}",
                f"%b = {ARRAY} dynamic-update-slice(%x, %a, %i, %j)",
            ],
            ALLOWED,
        ),
        (
            [
                f"%a = {PART} slice(%x), slice={{[1:3], [0:16]}}",
                f"%b = {ARRAY} dynamic-update-slice(%x, %a, %i, %j)",
            ],
            SLICE_PLACE,
        ),
        (
            [
                f"%a = {PART} dynamic-slice(%x, %j, %i)",
                f"%b = {ARRAY} dynamic-update-slice(%x, %a, %i, %j)",
            ],
            DYNAMIC_PLACE,
        ),
        (
            [
                f"%a = {PART} dynamic-slice(%x, %i, %j)",
                f"%b = {ARRAY} dynamic-update-slice(%x, %a, %i, %j)",
            ],
            ALLOWED,
        ),
        ([f"%a = {ARRAY} negate(%x)", f"%b = {ARRAY} dynamic-update-slice(%a, %a, %i, %j)"], TWICE),
    ],
)
def test_rules_on_reuse_and_in_place_updates_give_their_verdict(lines, words):
    found, at = rules(entry(*INDICES, *lines, f"ROOT %r = {PAIR} tuple(%b, %z)"))
    assert found.verdict(at["a"], Consumer((at["b"],))) == words


def test_a_value_read_by_a_maximum_and_its_shifted_exponential_stays_separate():
    lines = [
        f"%a = {ARRAY} negate(%x)",
        "%i = f32[] constant(0)",
        "%m = f32[8]{0} reduce(%a, %i), dimensions={1}, to_apply=%max",
        f"%s = {ARRAY} broadcast(%m), dimensions={{0}}",
        f"%b = {ARRAY} subtract(%a, %s)",
        f"ROOT %r = {ARRAY} exponential(%b)",
    ]
    largest = (
        "%max (p: f32[], q: f32[]) -> f32[] {\n  %p = f32[] parameter(0)\n  %q = f32[] parameter(1)\n"
        "  ROOT %o = f32[] maximum(%p, %q)\n}\n\n"
    )
    found, at = rules(entry(*lines, more=largest))
    assert found.verdict(at["a"], Consumer((at["b"],))) == (DUPLICATED if XLA_OF_JAX_0_11 else ALLOWED)
    found, at = rules(entry(*lines, more=largest.replace("maximum", "minimum")))
    assert found.verdict(at["a"], Consumer((at["b"],))) == ALLOWED


def test_the_rules_and_the_compiler_agree_on_a_shifted_exponential(clean):
    x = jnp.ones((64, 32))
    with lazynb.lazy():
        t = x * 2.0
        e = jnp.exp(t - t.max(-1, keepdims=True))  # noqa: F841
        del t
        compilation = lazynb.compile()
    wanted = ["reduction-reused", *["shifted-exponential"] * 2 * XLA_OF_JAX_0_11]
    inferred = list(compilation.boundaries)
    for boundaries in (inferred, compilation.ask()):
        assert sorted(one.code for one in boundaries if one.consumer) == wanted


def test_a_fusion_that_duplicates_code_is_refused():
    lines = [
        "%a = f32[16,16]{1,0} concatenate(%x, %y), dimensions={0}",
        "%b = f32[16,16]{1,0} negate(%a)",
        "%t = f32[256]{0} reshape(%b)",
        "%u = f32[256]{0} reshape(%a)",
        "ROOT %c = f32[256]{0} add(%t, %u)",
    ]
    found, at = rules(entry(*lines))
    assert found.verdict(at["a"], Consumer([at[name] for name in "btuc"], fused=True)) == CODE_DUPLICATION


def test_long_and_short_paths_are_checked_in_linear_time():
    """Whether a value fits into its reader is asked along all paths between them: no recursion, no
    exponential time."""
    lines = [f"%a = {ARRAY} add(%x, %y)", f"%n0 = {ARRAY} multiply(%a, %z)"]
    lines += [f"%n{k} = {ARRAY} multiply(%n{k - 1}, %a)" for k in range(1, 2000)]
    module = entry(*lines, f"ROOT %r = {ARRAY} add(%n1999, %a)")
    assert cpu_seconds(lambda: rules(module), 1) < 3
    found, at = rules(module)
    assert found.verdict(at["a"], Consumer((at["r"],))) == ALLOWED


def test_a_program_of_one_kernel_has_no_edges_and_one_result_boundary(clean):
    module = entry(f"ROOT %r = {ARRAY} add(%x, %y)")
    assert find_edges(module, find_clusters(module), lambda result: ()) == []
    [one] = find_boundaries(CpuRules(module), find_clusters(module), lambda result: ("h",))
    assert (one.code, one.consumer, one.variables) == ("result", "", ("h",))


def test_the_view_schema_has_the_same_labels():
    assert typing.get_args(inspection_schema.Label) == LABELS


def test_function_results_are_labelled_returned_and_not_reachable():
    def both(x):
        h = jnp.tanh(x)
        return h, jnp.exp(h * 2.0).sum(axis=1)

    x = jnp.ones((256, 256))
    made = lazynb.compile(both, x)
    jitted = lazynb.compile(both, x, as_jit=True)
    lowered = compile_stage(jax.jit(both).lower(x))
    for compilation in (made, jitted, lowered):
        [one] = [one for one in compilation.boundaries if one.code == "returned"]
        assert one.text.startswith("the function returns it: the result of `tanh` is written to memory")
        assert "reach" not in one.text + one.hint and "variable" not in one.text + one.hint
    verified = made.verify(next(one for one in made.boundaries if one.code == "returned"))
    assert verified.verdict == "Compiled again as if the function did not return it: the boundary is gone."
