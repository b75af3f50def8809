"""The short notebooks: one idea and one exercise each, in less than ten minutes."""

from __future__ import annotations

import pytest

from course import NOTEBOOKS, cell_with, check_exercises, check_quiet, executed, shown

SHORT = sorted(path.stem for path in NOTEBOOKS.glob("2*.ipynb"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Each is run once, when a test first asks for it."""
    known = {}

    def run(name):
        if name not in known:
            known[name] = executed(NOTEBOOKS / f"{name}.ipynb", tmp_path_factory)
        return known[name]

    return run


@pytest.mark.browser
@pytest.mark.xdist_group("short")
@pytest.mark.parametrize("name", SHORT)
def test_each_short_notebook_runs_and_its_exercise_checks_answers(runs, name):
    run = runs(name)
    check_exercises(run, 1)
    check_quiet(run)
    assert run.seconds < 600


@pytest.mark.browser
@pytest.mark.xdist_group("short")
def test_ynnpack_keeps_the_slices_out_of_the_sum_kernel(runs):
    """What the text of the notebook says, by what the machine shows."""
    notebook = runs("21-slice").notebook
    answer = shown(cell_with(notebook, "%%predict --kernel"))
    assert "2 of 4 lines right" in answer and answer.count("`slice` is computed in") == 2
    assert (
        shown(cell_with(notebook, "plain.verify(")).count(
            "Compiled again without YNNPACK: the boundary is gone."
        )
        == 2
    )
    own = shown(cell_with(notebook, "--without YNNPACK"))
    assert "slice ×2, subtract, multiply" in own and "left pending" not in own


@pytest.mark.browser
@pytest.mark.xdist_group("short")
def test_the_cheap_operation_is_in_two_kernels(runs):
    answer = shown(cell_with(runs("23-twice").notebook, "%%predict --kernel"))
    assert "`abs` is computed in c0, and in c1 too" in answer


@pytest.mark.browser
@pytest.mark.xdist_group("short")
def test_the_cure_leaves_one_break_and_the_variable_one_program(runs):
    assert "breaks before: 5   after: 1   same numbers: True" in shown(
        cell_with(runs("24-one-break").notebook, "breaks before")
    )
    assert "compiled: 1   used again: 2" in shown(cell_with(runs("25-number").notebook, "for rate in"))
