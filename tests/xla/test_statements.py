"""What is said of random programs, and of those whose lines have something in common, is so."""

from __future__ import annotations

import pytest
from xla import plain_hlo
from xla.programs_shared import SHARED
from xla.statements import failures, wrong

from lazynb.report.inspection.inspection_data import inspection


@pytest.mark.parametrize("seed", range(8))
def test_reports_about_random_programs_are_correct(seed):
    assert failures(seed) == []


@pytest.mark.parametrize("seed", [43091, 111381, 111437, 221104, 221225, 311087])
def test_reports_about_formerly_wrong_programs_are_correct(seed):
    """Of work that XLA moved or did not move, of what a slice leaves out, and of equal operations."""
    assert failures(seed) == []


@pytest.mark.full
@pytest.mark.parametrize("start", range(10_000, 10_100, 10))
def test_reports_about_more_random_programs_are_correct(start):
    assert {seed: found for seed in range(start, start + 10) if (found := failures(seed))} == {}


@pytest.mark.parametrize("name", SHARED)
def test_lines_share_the_kernels_that_compute_both(name):
    compiled, apart, together, single = SHARED[name]
    compilation = compiled()
    assert list(wrong(compilation)) == []
    by_line: dict[str, set[str]] = {}
    of_operation = []
    for node in compilation.snapshot.nodes:
        if node.kind == "op":
            clusters = set(compilation.fates[node.id].clusters)
            by_line.setdefault(node.place.text.strip().partition(" = ")[0], set()).update(clusters)
            if node.name == single:
                of_operation.append(sorted(clusters))
    marked = {
        kernel for trace in compilation.traces for kernel, here in plain_hlo.marks(trace.text).items() if here
    }
    # Two loops may start with the same array of zeros, which bears no mark.
    assert all(not by_line[one] & by_line[other] & marked for one, other in apart), by_line
    assert all(by_line[one] & by_line[other] for one, other in together), by_line
    assert all(len(clusters) == 1 for clusters in of_operation) and bool(of_operation) == bool(single)
    assert len({clusters[0] for clusters in of_operation}) == len(of_operation)


def test_kernels_in_a_loop_are_numbered_within_it():
    compilation = SHARED["two_loops"].compiled()
    labels = [cluster["label"] for cluster in inspection(compilation)["clusters"]]
    outer = [label for label in labels if "." not in label]
    assert outer == [f"c{number}" for number in range(len(outer))]
    assert {label.partition(".")[0] for label in labels if "." in label} <= set(outer)
    assert any(label.endswith(".1") for label in labels)
