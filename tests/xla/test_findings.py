"""Findings: programs of which it is known by construction what stands out, and programs of which nothing
does."""

from __future__ import annotations

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest

import lazynb
from lazynb.recording.snapshot.snapshot_nodes import Snapshot
from lazynb.user_code.text_format import abbreviated_list
from lazynb.xla.cost.program_memory import Buffer
from lazynb.xla.evidence import INFERRED, LABELS, VERIFIED, Finding
from lazynb.xla.partial_results import ResultsNotRemovable
from lazynb.xla.program_findings import headline_findings, padding_bytes, padding_findings

ROWS, COLUMNS = 256, 512
BYTES = ROWS * COLUMNS * 4


@pytest.fixture
def x(clean):
    return jnp.linspace(0.0, 1.0, ROWS * COLUMNS).reshape(ROWS, COLUMNS)


@pytest.fixture
def w(clean):
    return jnp.ones((COLUMNS, COLUMNS))


def of_kind(compilation, kind: str) -> list[Finding]:
    return [finding for finding in compilation.findings if finding.kind == kind]


# ---- nothing to say ----------------------------------------------------------------------------------------


def test_a_program_of_one_kernel_has_no_findings(x):
    with lazynb.lazy():
        out = jnp.sin(x) * 2 + 1
        compilation = lazynb.compile(out)
    assert list(compilation.findings) == []
    assert repr(compilation.findings) == "nothing stands out" and compilation.findings.to_dicts() == []


def test_small_arrays_give_no_findings(clean):
    small = jnp.ones(100)
    with lazynb.lazy():
        h = jnp.sort(small)
        out = h + 1
        compilation = lazynb.compile(out)
    assert list(compilation.boundaries) and not list(compilation.findings)


def test_nothing_pending_gives_no_findings(clean):
    with lazynb.lazy():
        assert list(lazynb.compile().findings) == []


# ---- arrays that go through memory -------------------------------------------------------------------------


def test_a_sort_writes_what_is_read_on_the_next_line(x):
    with lazynb.lazy():
        out = jnp.sort(x)
        out = out + 1
        compilation = lazynb.compile(out)
    [finding] = compilation.findings
    assert finding.kind == "boundary" and finding.bytes == BYTES and finding.label == INFERRED
    line = test_a_sort_writes_what_is_read_on_the_next_line.__code__.co_firstlineno + 2
    way = f"from test_findings.py:{line} to test_findings.py:{line + 1}"
    assert f"512 KiB go through memory {way}: " in finding.text
    assert "`sort`" in finding.text
    [boundary] = [each for each in compilation.boundaries if each.consumer]
    assert finding.boundary == (boundary.producer, boundary.consumer) == finding.kernels


def test_a_library_takes_its_operands_from_memory(x, w):
    with lazynb.lazy():
        h = jnp.tanh(x)
        out = h @ w
        del h
        compilation = lazynb.compile(out)
    [finding] = compilation.findings
    assert finding.kind == "library" and finding.bytes == BYTES and "YNNPACK" in finding.text


def test_bytes_in_a_loop_count_once_per_iteration(x):
    with lazynb.lazy():
        out = jax.lax.fori_loop(0, 7, lambda _, v: jnp.sort(v) + 1, x)
        compilation = lazynb.compile(out)
    [most] = [one for one in of_kind(compilation, "boundary") if "`sort`" in one.text][:1]
    assert most.bytes == 7 * BYTES and ", 7 times: " in most.text


# ---- computed in several kernels ---------------------------------------------------------------------------


def test_an_operation_computed_in_two_kernels_is_a_finding(x):
    with lazynb.lazy():
        c = x * 2 + 1
        out = jnp.sort(c), jnp.cumsum(c)
        del c
        compilation = lazynb.compile(out)
    [finding] = of_kind(compilation, "again")
    assert finding.bytes == 2 * BYTES and len(finding.kernels) == 2
    assert finding.text.startswith("`multiply` and `add` of test_findings.py:")
    names = {compilation.snapshot.nodes[node].name for node in finding.nodes}
    assert names == {"multiply", "add"}


def test_an_operation_split_into_two_halves_is_not_reported_as_repeated(x):
    with lazynb.lazy():
        c = x * 3 + 1
        out = jnp.sort(c[:128]), jnp.sort(c[128:])
        del c
        compilation = lazynb.compile(out)
    assert not of_kind(compilation, "again")


def test_the_same_operation_on_other_values_is_not_computed_twice(x):
    with lazynb.lazy():
        out = jnp.sort(x * 2 + 1), jnp.sort(x * 3 + 2)
        compilation = lazynb.compile(out)
    assert not of_kind(compilation, "again")


# ---- kept by a name ----------------------------------------------------------------------------------------


def named(x, w, wants_h=False):
    with lazynb.lazy():
        h = jnp.tanh(x) * 2
        k = h + 1
        out = (k @ w).sum()
        compilation = lazynb.compile(out, *([h] if wants_h else []))
    return compilation, (h, k, out)


def test_values_held_only_by_names_are_a_finding(x, w):
    compilation, kept = named(x, w)
    [finding] = of_kind(compilation, "held")
    assert finding.variables == ("h", "k") and finding.bytes == 2 * BYTES and finding.label == INFERRED
    assert finding.text.startswith("`h` and `k` (1 MiB) are written because their names still hold them")
    assert not {"h", "k"} & {name for one in of_kind(compilation, "library") for name in one.variables}
    del kept


def test_requested_values_are_not_reported_as_held(x, w):
    compilation, kept = named(x, w, wants_h=True)
    [finding] = of_kind(compilation, "held")
    assert finding.variables == ("k",) and "is written because its name still holds it" in finding.text
    del kept


def test_without_the_names_no_value_is_reported_as_held(x, w):
    with lazynb.lazy():
        h = jnp.tanh(x) * 2
        k = h + 1
        out = (k @ w).sum()
        del h, k
        compilation = lazynb.compile(out)
    assert not of_kind(compilation, "held")


def test_a_value_read_by_a_library_is_not_reported_as_held(x, w):
    with lazynb.lazy():
        h = jnp.tanh(x)
        out = h @ w
        compilation = lazynb.compile(out)
    assert not of_kind(compilation, "held") and of_kind(compilation, "library")
    del h


def test_results_of_a_function_are_not_reported_as_held(x, w):
    def f(x, w):
        h = jnp.tanh(x) * 2
        return h, ((h + 1) @ w).sum()

    assert not of_kind(lazynb.compile(f, x, w), "held")


def test_a_value_read_by_a_later_program_is_not_reported_as_held(x):
    with lazynb.lazy():
        h = jnp.tanh(x) * 2
        out = h + 1
        assert float(out[0, 0]) == pytest.approx(1.0)  # runs the first program
        late = h * 3
        compilation = lazynb.compile(late)
    assert not of_kind(compilation, "held")


def test_compiling_without_the_names_saves_the_reported_bytes(x, w):
    compilation, kept = named(x, w)
    [finding] = of_kind(compilation, "held")
    before = sum(cluster.output_bytes for cluster in compilation.clusters)
    other = compilation.without(*finding.variables)
    after = sum(cluster.output_bytes for cluster in other.clusters)
    assert before - after >= finding.bytes
    assert not other.is_run and other.left_out == ("h", "k") and "nothing runs it" in other.notes[0]
    assert {node.id for node in other.snapshot.nodes if node.output and node.kind == "op"} == {
        node for node, _ in other.traces[0].origins.results
    }
    [verified] = of_kind(compilation, "held")
    assert verified.label == VERIFIED and "Compiled again without" in verified.verdict
    assert lazynb.diff(compilation, other).changes
    assert lazynb.compile(kept[-1]).operations == compilation.operations  # what is pending stays so
    assert float(kept[-1]) == pytest.approx(float(((jnp.tanh(x) * 2 + 1) @ w).sum()))


def test_leaving_out_unknown_or_all_names_is_refused(x, w):
    compilation, kept = named(x, w)
    with pytest.raises(ResultsNotRemovable, match="called nobody"):
        compilation.without("nobody")
    with pytest.raises(ResultsNotRemovable, match="nothing of the program is left"):
        compilation.without("h", "k", "out")
    del kept


def test_a_refuted_finding_is_withdrawn(x, w):
    compilation, kept = named(x, w)
    compilation._measured_savings[frozenset({"h", "k"})] = 0
    assert not of_kind(compilation, "held")
    del kept


# ---- tiles -------------------------------------------------------------------------------------------------


def buffer(name: str, shape: str, taken: int, **more) -> Buffer:
    return Buffer(name, taken, 0, 1, "temp", 0, 0, (), False, shape=shape, **more)


def test_padding_of_tiled_arrays_is_a_finding():
    thin = buffer("a", "f32[1000,3]{1,0:T(8,128)}", 1000 * 128 * 4, variables=("points",))
    full = buffer("b", "f32[1024,128]{1,0:T(8,128)}", 1024 * 128 * 4)
    assert padding_bytes(thin) == 1000 * 125 * 4 and padding_bytes(full) == 0
    trace = SimpleNamespace(
        memory=SimpleNamespace(buffers=[full, thin]), module=SimpleNamespace(by_name={}), clusters=[]
    )
    [finding] = padding_findings(trace, Snapshot(()), 0)
    assert finding.text == "`points`, `f32[1000,3]`, takes 500 KiB, 488 KiB of which only fill up tiles."
    trace.memory.buffers = [full]
    assert list(padding_findings(trace, Snapshot(()), 0)) == []


# ---- the list ----------------------------------------------------------------------------------------------


def test_findings_are_sorted_by_bytes_and_exported(x, w):
    compilation, kept = named(x, w)
    findings = compilation.findings
    assert [one.bytes for one in findings] == sorted((one.bytes for one in findings), reverse=True)
    assert {one.label for one in findings} <= set(LABELS)
    assert {"kind", "text", "bytes", "label", "kernels", "nodes"} <= findings.to_dicts()[0].keys()
    assert "<table>" in findings._repr_html_() and "label" in repr(findings)
    del kept


def test_a_headline_has_one_of_each_kind():
    many = [Finding(kind, kind, 1, INFERRED) for kind in ("held", "boundary", "boundary", "again", "library")]
    assert [one.kind for one in headline_findings(many)] == ["held", "boundary", "again"]


def test_names_are_joined_and_abbreviated():
    assert [abbreviated_list("abcde"[:count]) for count in (0, 1, 2)] == ["", "a", "a and b"]
    assert abbreviated_list("abcdefg") == "a, b, c, d and 3 more"
