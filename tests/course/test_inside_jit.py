"""Inside `jit`: the notebook shows what its text says."""

from __future__ import annotations

import pytest

from course import NOTEBOOKS, check_exercises, check_quiet, executed

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("inside-jit")]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return executed(NOTEBOOKS / "09-inside-jit.ipynb", tmp_path_factory)


@pytest.fixture(scope="module")
def inside(run):
    return run.notebook


def test_no_error_and_no_warning(run):
    assert run.seconds < 180
    check_quiet(run)


def test_exercises(run):
    check_exercises(run, 4)
