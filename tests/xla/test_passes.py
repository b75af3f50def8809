"""What each pass changed: the changes add up to the difference of the two modules, and name what is there."""

from __future__ import annotations

import jax.numpy as jnp
import pytest
from timing import cpu_seconds
from xla.programs import PROGRAMS, SOME

import lazynb
from lazynb.running.compiler_dump import Dump, record_dumps
from lazynb.xla.dump_reader import read_dump
from lazynb.xla.fates.fate_assignment import fates
from lazynb.xla.hlo.module import parse
from lazynb.xla.hlo.passes import first_module_text, read_passes


@pytest.fixture(scope="module", params=SOME)
def trace(request):
    [trace] = PROGRAMS[request.param]().traces
    trace.passes, trace.before
    return trace


def inside_fusions(module) -> set[str]:
    called = {one.calls[0] for one in module if one.opcode == "fusion"}
    return {one.name for one in module if one.computation in called}


def test_changes_reconcile_the_modules(trace):
    for one in trace.passes:
        before, after = parse(one.before), parse(one.after)
        by_kind = {
            kind: [change for change in one.changes if change.kind == kind]
            for kind in ("added", "removed", "rewritten", "fused")
        }
        assert sum(map(len, by_kind.values())) == len(one.changes)
        names = [change.name for change in one.changes if change.before]
        assert len(names) == len(set(names)), "an instruction is in two changes"
        gone = {
            name
            for name in before.by_name.keys() - after.by_name.keys()
            if not (before.by_name[name].opcode == "parameter" and name in inside_fusions(before))
        }
        assert {
            change.name for change in one.changes if change.before and change.name not in after.by_name
        } == gone
        for change in by_kind["added"]:
            assert change.name in after.by_name and change.name not in before.by_name and not change.before
        for change in by_kind["removed"]:
            assert change.name not in after.by_name and not change.after
        for change in by_kind["rewritten"]:
            assert change.before != change.after and change.after.partition(" = ")[0] in after.by_name


def test_new_instructions_are_added_or_copies(trace):
    """None comes from nowhere: it is added, another name of one that was there, or in a fusion as a copy of
    the same opcode."""
    for one in trace.passes:
        before, after = parse(one.before), parse(one.after)
        told = {change.name for change in one.changes if change.kind == "added"}
        told |= {change.after.partition(" = ")[0] for change in one.changes if change.kind == "rewritten"}
        new = after.by_name.keys() - before.by_name.keys() - told
        was = {instruction.opcode for instruction in before}
        assert new <= inside_fusions(after) and {after.by_name[name].opcode for name in new} <= was | {
            "parameter"
        }


def test_fused_names_the_fusion_that_holds_it(trace):
    for one in trace.passes:
        before, after = parse(one.before), parse(one.after)
        for change in one.changes:
            if change.kind == "fused":
                assert change.name not in inside_fusions(before) and change.into
                for name in change.into:
                    body = after.computations[after.by_name[name].calls[0]]
                    assert before.by_name[change.name].opcode in {
                        inner.opcode for inner in body.instructions.values()
                    }
                    marks = {inner.mark for inner in body.instructions.values()}
                    assert not change.marks or set(change.marks) <= marks


def test_passes_follow_each_other_and_each_changed_something(trace):
    passes = trace.passes
    assert [one.index for one in passes] == list(range(len(passes))) and passes
    last = parse(passes[-1].after)
    assert names_that_work(last) == names_that_work(trace.module)
    assert all(sorted(one.before.splitlines()[1:]) != sorted(one.after.splitlines()[1:]) for one in passes)


def names_that_work(module) -> set[str]:
    """Newer releases print a part of a result one way in a dump and another way at the end."""
    return {one.name for one in module if one.opcode != "get-tuple-element"}


TEXT = """HloModule m

ENTRY %e (x: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0), metadata={op_name="args[0]" stack_frame_id=1}
  ROOT %y = f32[4]{0} sine(%x), metadata={op_name="n0/sin" stack_frame_id=2}
}
"""


@pytest.fixture
def dump():
    return Dump()


def write(dump, name: str, text: str) -> None:
    (dump.directory / f"module_1.jit_lazynb.{name}.txt").write_text(text)


def test_identical_modules_are_no_pass(dump):
    write(dump, "before_optimizations", TEXT)
    write(dump, "0001.simplify.after_algsimp.before_dce", TEXT.replace("id=2", "id=7"))
    tables = 'HloModule m, is_scheduled=true\n\nFileNames\n1 "a.py"\n\n'
    write(dump, "0002.simplify.after_dce", tables + TEXT.partition("\n\n")[2])
    assert read_passes(dump) == []
    write(dump, "0003.simplify.after_cse.before_fusion", TEXT.replace("sine", "cosine"))
    [one] = read_passes(dump)
    assert (one.name, one.pipeline, [change.kind for change in one.changes]) == (
        "cse",
        "simplify",
        ["rewritten"],
    )


def test_a_dump_without_files_has_no_passes(dump):
    assert read_passes(dump) == [] and first_module_text(dump) == ""


@pytest.mark.parametrize("text", ["", "garbage", TEXT[:90], TEXT[:-3]])
def test_a_truncated_pass_file_is_listed_and_raises_on_reading(dump, text):
    """The pass is there, and says so when it is asked what it changed; fates are honest."""
    write(dump, "before_optimizations", TEXT)
    write(dump, "0001.simplify.after_algsimp", text)
    [one] = read_passes(dump)
    with pytest.raises(ValueError, match="HLO module"):
        one.changes
    module = parse(TEXT.replace("n0/sin", "other").replace("sine", "cosine"))
    written = read_dump(dump)
    assert written.history is None
    [fate] = fates([0], module, [], written).values()
    assert fate.kind == "lost" and "not to be read" in fate.text


def test_passes_and_fates_of_2000_operations_are_read_quickly(clean, monkeypatch):
    """2,000 operations: parsing and comparing all passes in under 2 s, fates in under 0.3 s."""
    monkeypatch.setattr(lazynb.config, "max_program", 5000)  # one program, not the pieces of a loop
    x, w = jnp.ones((8, 8)), jnp.ones((8, 8))
    with lazynb.lazy(), record_dumps():
        for number in range(2000):
            x = jnp.sin(x) if number % 2 else x * w
        [trace] = lazynb.compile(x).traces
        marks, module, clusters = list(trace.origins.operations), trace.module, trace.clusters
        assert cpu_seconds(lambda: fates(marks, parse(trace.text), clusters, read_dump(trace.dump)), 1) < 2
        assert cpu_seconds(lambda: fates(marks, module, clusters, trace.written), 2) < 0.3
        assert cpu_seconds(lambda: [one.changes for one in read_passes(trace.dump)], 1) < 2
        assert cpu_seconds(lambda: trace.boundaries, 1) < 2
        assert {fate.kind for fate in trace.fates.values()} == {"fused"}
        del x
