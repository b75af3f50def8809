"""Compare: the notebook shows what its text says."""

from __future__ import annotations

import pytest

from course import NOTEBOOKS, cell_with, check_exercises, check_quiet, executed, shown

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("course-compare")]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return executed(NOTEBOOKS / "11-compare.ipynb", tmp_path_factory)


@pytest.fixture(scope="module")
def inside(run):
    """Gives what the cell with a text shows."""
    return lambda text: shown(cell_with(run.notebook, text))


def test_no_error_and_no_warning(run):
    assert run.seconds < 180
    check_quiet(run)


def test_exercises(run):
    check_exercises(run, 6)


def test_the_difference_stands_under_the_cell(inside):
    said = inside("%%compile after")
    assert "two kernels instead of one" in said and "because `h` is alive (rule inferred)" in said


def test_other_names_are_no_difference(inside):
    assert inside("def renamed").startswith("Nothing differs")


def test_the_library_is_gone(inside):
    said = inside("--without YNNPACK")
    header = "Compiled with other flags: own_code without YNNPACK (xla_cpu_experimental_ynn_fusion_type=)."
    assert "instead of YNNPACK" in said and header in said
    assert "what runs is the program without" in said


def test_the_files_are_compared(inside):
    assert "kernel" in inside('lazynb.diff("plain.json", "slow.json")')


def test_the_numbers_part_where_the_text_says(inside):
    said = inside("%%numerics division")
    assert "part at cell" in said and "compiled inf, in float64 1e+20" in said and "compiled only" in said


def test_softmax_has_nan_eagerly_too(inside):
    said = inside("%%numerics softmax")
    assert "equal to the bit" in said and "eager and compiled" in said
