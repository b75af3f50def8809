"""Many devices: the notebook shows what its text says."""

from __future__ import annotations

import re

import pytest

from course import NOTEBOOKS, cell_with, check_exercises, check_quiet, executed, shown
from lazynb.xla.targets.compiler_packages import compiler_of

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("many-devices")]


@pytest.fixture(scope="module")
def many_devices(tmp_path_factory):
    return executed(NOTEBOOKS / "12-many-devices.ipynb", tmp_path_factory)


def test_the_notebook_runs_without_error_or_warning(many_devices):
    check_quiet(many_devices)


def test_a_loop_over_a_mesh_breaks_at_its_loss_alone(many_devices):
    notebook = many_devices.notebook
    difference = re.search(
        r"largest difference of a loss: (\S+)", shown(cell_with(notebook, "on_eight = train"))
    )
    assert float(difference[1]) < 1e-6
    breaks = shown(cell_with(notebook, "%breaks"))
    assert breaks.startswith("20 trace breaks in 1 line") and "losses.append(float(loss))" in breaks


def test_a_step_has_two_all_reduces_and_no_all_gather(many_devices):
    rows = shown(cell_with(many_devices.notebook, "made = lazynb.compile(step"))
    assert rows.count("all-reduce") == 2 and "all-gather" not in rows
    assert re.search(r"`(matmul|dot_general)` reduces a dimension that is sharded on `model`", rows)


def test_the_sharding_constraint_is_named_as_the_line_of_the_all_gather(many_devices):
    said = shown(cell_with(many_devices.notebook, "def pinned"))
    pinned, free = re.search(r"pinned: (.*)\nfree: +(.*)", said).groups()
    assert "all-gather" in pinned and "all-gather" not in free
    assert re.search(r"line 3: hidden = jax.lax.with_sharding_constraint\(.*all-gather", said)


def test_the_pod_program_shows_its_all_gather_or_the_install_command(many_devices):
    said = shown(cell_with(many_devices.notebook, 'target="v5e:4x4"'))
    assert "all-gather" in said if compiler_of("tpu").is_installed else "lazynb targets install tpu" in said


def test_the_exercises_accept_right_answers_and_reject_wrong_ones(many_devices):
    check_exercises(many_devices, 2)
