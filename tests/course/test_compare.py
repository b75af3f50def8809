"""Compare: the notebook shows what its text says."""

from __future__ import annotations

import pytest

from course import NOTEBOOKS, cell_with, check_exercises, check_quiet, executed, shown

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("course-compare")]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return executed(NOTEBOOKS / "11-compare.ipynb", tmp_path_factory)


@pytest.fixture(scope="module")
def inside(run):
    """Gives what the cell with a text shows."""
    return lambda text: shown(cell_with(run.notebook, text))


def test_the_notebook_runs_without_error_or_warning_within_three_minutes(run):
    assert run.seconds < 180
    check_quiet(run)


def test_the_exercises_accept_right_answers_and_reject_wrong_ones(run):
    check_exercises(run, 6)


def test_a_kept_variable_is_shown_as_a_second_kernel_under_the_cell(inside):
    said = inside("%%compile after")
    assert "two kernels instead of one" in said and "because `h` is alive (rule inferred)" in said


def test_renamed_variables_are_no_difference(inside):
    assert inside("def renamed").startswith("Nothing differs")


def test_without_ynnpack_the_difference_names_the_library(inside):
    said = inside("--without YNNPACK")
    header = "Compiled with other flags: own_code without YNNPACK (xla_cpu_experimental_ynn_fusion_type=)."
    assert "instead of YNNPACK" in said and header in said
    assert "what runs is the program without" in said


def test_the_files_are_compared(inside):
    assert "kernel" in inside('lazynb.diff("plain.json", "slow.json")')


def test_the_numerics_cell_shows_where_the_numbers_diverge(inside):
    said = inside("%%numerics division")
    assert "part at cell" in said and "compiled inf, in float64 1e+20" in said and "compiled only" in said


def test_the_softmax_cell_shows_nan_eagerly_and_compiled(inside):
    said = inside("%%numerics softmax")
    assert "equal to the bit" in said and "eager and compiled" in said
