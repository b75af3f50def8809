"""Any chip: the notebook shows what its text says, where the compilers are installed."""

from __future__ import annotations

import re

import pytest

from course import NOTEBOOKS, cell_with, check_exercises, check_quiet, executed, shown
from lazynb.xla.targets.compiler_packages import compiler_of

PATH = NOTEBOOKS / "10-any-chip.ipynb"
IS_HERE = all(compiler_of(platform).is_installed for platform in ("tpu", "cuda"))

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("any-chip")]
needs_compilers = pytest.mark.skipif(not IS_HERE, reason="lazynb targets install tpu, gpu: not done here")


@pytest.fixture(scope="module")
def any_chip(tmp_path_factory):
    return executed(PATH, tmp_path_factory)


@needs_compilers
def test_the_notebook_runs_without_error_or_warning(any_chip):
    check_quiet(any_chip)


@needs_compilers
def test_the_cells_show_the_facts_stated_in_the_text(any_chip):
    notebook = any_chip.notebook
    assert "copy-start" in shown(cell_with(notebook, 'softmax_on["v5e"]'))
    norms = shown(cell_with(notebook, "def layer_norm"))
    assert re.search(r"^h100 +1 kernel;", norms, re.M)
    assert "32.00 MiB" in shown(cell_with(notebook, "def attention"))
    first, second, third = re.split(r"^(?=width)", shown(cell_with(notebook, "def fits")), flags=re.M)[1:]
    assert "it fits" in first and "it fits" in third
    assert "does not fit on TPU v5e" in second and "f32[16384,16384]" in second


@needs_compilers
def test_the_exercises_accept_right_answers_and_reject_wrong_ones(any_chip):
    check_exercises(any_chip, 3)


def test_without_compilers_each_cell_names_the_install_command(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("LAZYNB_COMPILERS", str(tmp_path_factory.mktemp("none")))
    ran = executed(PATH, tmp_path_factory)
    check_quiet(ran)
    assert "lazynb targets install tpu" in shown(cell_with(ran.notebook, "def softmax"))
