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
    check_exercises(run, 4)


def test_the_difference_stands_under_the_cell(inside):
    said = inside("%%compile after")
    assert "two kernels instead of one" in said and "because `h` is alive (rule inferred)" in said


def test_other_names_are_no_difference(inside):
    assert inside("def renamed").startswith("Nothing differs")


def test_the_library_is_gone(inside):
    said = inside("--without YNNPACK")
    assert "instead of YNNPACK" in said and "xla_cpu_experimental_ynn_fusion_type=" in said
    assert "what runs is the program without" in said


def test_the_files_are_compared(inside):
    assert "kernel" in inside('lazynb.diff("plain.json", "slow.json")')
