"""A line's kernels are told by the program that they are in, with how often that ran."""

from __future__ import annotations

import pytest

from lazynb.notebook.line_marks import KERNELS, PROGRAMS, kernels_by_program, ranges


def told(sizes: list[int], runs: list[int], ran: bool = False):
    """Of programs with so many kernels of a line each, run so often."""
    clusters, ids = {}, []
    for program, size in enumerate(sizes):
        for _ in range(size):
            id_ = len(clusters)
            clusters[id_] = {"id": id_, "label": f"c{id_}", "program": program}
            ids.append(id_)
    programs = [{"number": number, "runs": times} for number, times in enumerate(runs)]
    return list(kernels_by_program(ids, clusters, {"programs": programs, "ran": ran}))  # type: ignore[arg-type]


def test_kernels_are_grouped_by_program_with_run_counts():
    first, then = told([22, 22], [1, 11])
    assert first.heading == "program 1, run 1×, 22 kernels: c0–c21"
    assert then.heading == "program 2, run 11×, 22 kernels: c22–c43"
    assert len(first.ids) == len(then.ids) == KERNELS // 2


def test_few_kernels_of_one_program_need_no_heading():
    assert told([3], [5]) == [([0, 1, 2], "")]


def test_many_kernels_of_one_program_are_truncated_under_a_heading():
    (only,) = told([120], [0])
    assert only.heading == "120 kernels: c0–c119" and len(only.ids) == KERNELS


def test_many_programs_are_truncated_with_a_count():
    found = told([1] * 7, [1] * 7)
    assert len(found) == PROGRAMS and found[-1].heading.endswith("(and 3 more programs)")
    assert not any("more" in one.heading for one in found[:-1])


@pytest.mark.parametrize(
    "ran, said", [(True, "program 2, run 1×, 1 kernel: c1"), (False, "program 2, 1 kernel: c1")]
)
def test_a_program_that_did_not_run_has_no_run_count(ran, said):
    assert told([1, 1], [3, 0], ran)[1].heading == said


@pytest.mark.parametrize(
    "labels, words",
    [
        ([], ""),
        (["c4"], "c4"),
        (["c4", "c5"], "c4, c5"),
        (["c4", "c5", "c6", "c9"], "c4–c6, c9"),
        (["c3", "c3.0", "c3.1", "c4"], "c3, c3.0, c3.1, c4"),
    ],
)
def test_consecutive_labels_are_written_as_a_range(labels, words):
    assert ranges(labels) == words
