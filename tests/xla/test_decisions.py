"""XLA's log of fusion decisions, in both of its forms, and the way from its names to the clusters."""

from __future__ import annotations

import json
import sqlite3
import zipfile

import pytest
from xla.programs import PROGRAMS

from lazynb.running.compiler_dump import Dump
from lazynb.xla.fusion import cpu_instruction_rules
from lazynb.xla.fusion.boundary_reasons import REASONS
from lazynb.xla.fusion.cpu_fusion_pass import (
    CODE_DUPLICATION,
    CONCATENATE,
    CUSTOM,
    DUPLICATED,
    EXPENSIVE,
    NO_CASE,
    NOT_LOOP,
    REDUCTIONS,
    UNPROFITABLE,
)
from lazynb.xla.fusion.fusion_log import (
    FusionRefusal,
    in_optimised_names,
    last_refusals,
    read_decisions,
    reason_code_of_words,
)
from lazynb.xla.hlo.passes import read_passes

LINES = [
    "Not fusing |a| into |sort.1| as Not fusing: not found a fusible case ; multi-output fusion not "
    "supported by this pass",
    "About to fuse |b| into |c| inside InstructionFusion with may_duplicate=1",
    "Fused |b| into |c_fusion| inside InstructionFusion with may_duplicate=1",
    "Not fusing |a| into |c_fusion| as Fusion is not profitable. ; multi-output fusion not supported by this "
    "pass",
    "About to fuse |d| into |a| inside InstructionFusion with may_duplicate=1",
    "Fused |d| into |a_fusion| inside InstructionFusion with may_duplicate=1",
]
EXPECTED = [
    FusionRefusal("a_fusion", "sort.1", "Not fusing: not found a fusible case"),
    FusionRefusal("a_fusion", "c_fusion", "Fusion is not profitable."),
]


def page(dump: Dump, lines) -> None:
    frames = ", ".join(f'[{n}, {json.dumps(line)}, "", ""]' for n, line in enumerate(lines))
    (dump.directory / "m._fusion.html").write_text(f"<html><script>const frames = [{frames}];</script>")


def archive(dump: Dump, lines) -> None:
    path = dump.directory / "fusions.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE frames (id INTEGER, label TEXT)")
        database.executemany("INSERT INTO frames VALUES (?, ?)", enumerate(lines))
    database.close()
    with zipfile.ZipFile(dump.directory / "m._fusion.pyz", "w") as file:
        file.write(path, "fusions.db")


@pytest.mark.parametrize("write", [page, archive])
def test_logged_names_are_mapped_to_the_resulting_fusions(write):
    dump = Dump()
    write(dump, LINES)
    assert read_decisions(dump) == EXPECTED


def test_the_last_decision_on_a_pair_is_kept():
    decisions = [FusionRefusal("a", "b", "one"), FusionRefusal("a", "c", "x"), FusionRefusal("a", "b", "two")]
    assert last_refusals(decisions) == {("a", "b"): "two", ("a", "c"): "x"}


def test_a_missing_or_truncated_log_gives_no_decisions():
    assert read_decisions(Dump()) == []
    dump = Dump()
    archive(dump, LINES)
    file = dump.directory / "m._fusion.pyz"
    for content in (b"", b"PK nonsense", file.read_bytes()[:200]):
        file.write_bytes(content)
        assert read_decisions(dump) == []
    (dump.directory / "m._fusion.html").write_text('<html>[1, "About to fu')
    assert read_decisions(dump) == []


@pytest.mark.parametrize(
    "words, code",
    [
        (DUPLICATED, "several-users"),
        (EXPENSIVE, "expensive-several-users"),
        (UNPROFITABLE, "expensive-reused"),
        (CUSTOM, "library-consumer"),
        (CONCATENATE, "concatenate"),
        (CODE_DUPLICATION, "size-limit"),
        (REDUCTIONS, "many-reductions"),
        (NOT_LOOP, "producer-not-fusible"),
        (NO_CASE, "consumer-not-fusible"),
        (cpu_instruction_rules.TWICE, "in-place"),
        (cpu_instruction_rules.CONFLICT, "in-place"),
        (cpu_instruction_rules.SEVERAL, "in-place"),
        (cpu_instruction_rules.SLICE_SHAPE, "in-place"),
        (cpu_instruction_rules.SLICE_PLACE, "in-place"),
        (cpu_instruction_rules.DYNAMIC_SHARED, "in-place"),
        (cpu_instruction_rules.NO_PAIR, "in-place"),
        ("Producer fusion has multiple non-elementwise ops, bailing.", "in-place"),
        ("words of a release to come", "other"),
        ("", "other"),
    ],
)
def test_each_message_of_xla_has_its_reason_code(words, code):
    assert reason_code_of_words(words) == code and code in REASONS


@pytest.mark.parametrize("name", ["mlp", "sort", "kept_product", "solve", "cartpole", "scatter"])
def test_decisions_of_a_real_program_name_its_clusters(name):
    [trace] = PROGRAMS[name]().traces
    dump = Dump()
    trace._executable.compile_again(options=dump.options(decisions=True))
    decisions = in_optimised_names(read_decisions(dump), read_passes(dump), trace.module, trace.clusters)
    known = {cluster.name for cluster in trace.clusters}
    pairs = {(one.producer, one.consumer) for one in decisions}
    assert (
        decisions
        and len({pair for pair in pairs if set(pair) <= known}) >= len({one for one in trace.edges}) // 3
    )
    assert pairs & set(trace.edges)


def test_without_pass_dumps_names_are_unchanged():
    [trace] = PROGRAMS["mlp"]().traces
    assert in_optimised_names([FusionRefusal("x", "y", "z")], [], trace.module, trace.clusters) == [
        FusionRefusal("x", "y", "z")
    ]
