"""Clusters of modules written by hand, where the answer is plain. Those of real programs:
``test_programs.py``."""

from __future__ import annotations

import pytest

from lazynb.xla.hlo.clusters import find_clusters, kind_of, readers_in_cluster, result_writers, tuple_leaves
from lazynb.xla.hlo.module import parse

TEXT = """HloModule m

%fused (p0: f32[4], p1: f32[]) -> f32[4] {
  %p0 = f32[4]{0} parameter(0)
  %p1 = f32[] parameter(1)
  %b = f32[4]{0} broadcast(%p1), dimensions={}
  ROOT %mul = f32[4]{0} multiply(%p0, %b)
}

%body (c: (f32[4], s32[])) -> (f32[4], s32[]) {
  %c = (f32[4]{0}, s32[]) parameter(0)
  %c0 = f32[4]{0} get-tuple-element(%c), index=0
  %c1 = s32[] get-tuple-element(%c), index=1
  %neg = f32[4]{0} negate(%c0)
  ROOT %out = (f32[4]{0}, s32[]) tuple(%neg, %c1)
}

%cond (d: (f32[4], s32[])) -> pred[] {
  %d = (f32[4]{0}, s32[]) parameter(0)
  %d1 = s32[] get-tuple-element(%d), index=1
  %nine = s32[] constant(9)
  ROOT %lt = pred[] compare(%d1, %nine), direction=LT
}

ENTRY %main (x: f32[4], k: f32[], n: s32[]) -> (f32[4], f32[2,2], s32[]) {
  %x = f32[4]{0} parameter(0)
  %k = f32[] parameter(1)
  %n = s32[] parameter(2)
  %f = f32[4]{0} fusion(%x, %k), kind=kLoop, calls=%fused
  %in = (f32[4]{0}, s32[]) tuple(%f, %n)
  %w = (f32[4]{0}, s32[]) while(%in), condition=%cond, body=%body
  %w0 = f32[4]{0} get-tuple-element(%w), index=0
  %view = f32[2,2]{1,0} bitcast(%w0)
  %dot = f32[2,2]{1,0} dot(%view, %view), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %w1 = s32[] get-tuple-element(%w), index=1
  ROOT %all = (f32[4]{0}, f32[2,2]{1,0}, s32[]) tuple(%f, %dot, %w1)
}
"""


def test_clusters_are_in_order_with_their_enclosing_loop():
    clusters = find_clusters(parse(TEXT))
    assert [(one.name, one.kind, one.inside) for one in clusters] == [
        ("f", "loop", ""),
        ("w", "control", ""),
        ("lt", "single", "w"),
        ("neg", "single", "w"),
        ("dot", "single", ""),
    ]
    assert clusters[0].root == "mul" and set(clusters[0].instructions) == {"f", "p0", "p1", "b", "mul"}
    assert clusters[1].instructions == ("w",)


def test_inputs_are_arrays_each_once_with_the_cluster_that_wrote_them():
    by_name = {one.name: one for one in find_clusters(parse(TEXT))}
    assert [(value.source, value.bytes) for value in by_name["w"].inputs] == [("f", 16), ("n", 4)]
    assert [(value.source, value.shape) for value in by_name["dot"].inputs] == [("w", "f32[4]{0}")]
    assert by_name["lt"].input_bytes == 4 and by_name["neg"].inputs[0].source == "c"
    assert (
        by_name["f"].input_bytes == 20 and by_name["f"].output_bytes == 16 and by_name["w"].output_bytes == 20
    )


def test_results_and_readers_see_through_tuples():
    module = parse(TEXT)
    assert result_writers(module) == ["f", "dot", "w"]
    clusters = {one.name: one for one in find_clusters(module)}
    assert [one.name for one in readers_in_cluster(module, clusters["f"], "x")] == ["mul"]
    assert [one.name for one in readers_in_cluster(module, clusters["w"], "f")] == ["w"]
    assert tuple_leaves(module.computations["main"], "all") == ["f", "dot", "w1"]


@pytest.mark.parametrize(
    "line, kind, library",
    [
        ("fusion(%x), kind=kLoop, calls=%f", "loop", ""),
        ("fusion(%x), kind=kOutput, calls=%f", "output", ""),
        ("fusion(%x), kind=kInput, calls=%f", "input", ""),
        (
            'fusion(%x), kind=kCustom, calls=%f, backend_config={"fusion_config":{"kind":"__ynn_fusion"}}',
            "library",
            "YNNPACK",
        ),
        ('fusion(%x), kind=kCustom, calls=%f, backend_config={"kind":"__triton"}', "custom", ""),
        ('custom-call(%x), custom_call_target="lapack_spotrf_ffi"', "library", "LAPACK"),
        (
            'custom-call(%x), custom_call_target="my_kernel", metadata={op_name="lapack_like"}',
            "library",
            "my_kernel",
        ),
        ("while(%x), condition=%f, body=%f", "control", ""),
        ("conditional(%x), branch_computations={%f, %f}", "control", ""),
        ("sort(%x), to_apply=%f", "single", ""),
    ],
)
def test_the_kind_and_library_of_an_instruction_are_found(line, kind, library):
    text = (
        "HloModule m\n\n%f (p: f32[]) -> f32[] {\n  ROOT %p = f32[] parameter(0)\n}\n\nENTRY %e (x: f32[]) "
        "-> f32[] {\n"
        f"  %x = f32[] parameter(0)\n  ROOT %y = f32[] {line}\n}}\n"
    )
    assert kind_of(parse(text).by_name["y"]) == (kind, library)


def test_thousands_of_nested_computations_are_walked():
    """As deep as Python would not follow by calls: the walk is iterative, and a computation is entered once
    for its loop."""
    depth, lines = 3000, ["HloModule m", ""]
    for level in range(depth):
        what = f"call(%p{level}), to_apply=%b{level - 1}" if level else f"negate(%p{level})"
        lines += [
            f"%b{level} (p{level}: f32[]) -> f32[] {{",
            f"  %p{level} = f32[] parameter(0)",
            f"  ROOT %r{level} = f32[] {what}",
            "}",
            "",
        ]
    lines += [
        "ENTRY %e (x: f32[]) -> f32[] {",
        "  %x = f32[] parameter(0)",
        f"  ROOT %y = f32[] call(%x), to_apply=%b{depth - 1}",
        "}",
    ]
    clusters = find_clusters(parse("\n".join(lines) + "\n"))
    assert [one.name for one in clusters] == ["y", *(f"r{level}" for level in reversed(range(depth)))]
