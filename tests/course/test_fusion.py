"""What XLA fuses: the notebook shows what its text says."""

from __future__ import annotations

import re

import pytest

from course import NOTEBOOKS, cell_with, check_exercises, check_quiet, executed, shown

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("fusion")]


@pytest.fixture(scope="module")
def fusion(tmp_path_factory):
    return executed(NOTEBOOKS / "02-fusion.ipynb", tmp_path_factory)


def test_fusion_has_no_error_and_no_warning(fusion):
    assert fusion.seconds < 180
    check_quiet(fusion)


def test_the_fusion_cells_show_the_facts_stated_in_the_text(fusion):
    """What the text states as a fact, not as a question, is in what the cells show: on this XLA too."""
    notebook = fusion.notebook
    assert "2 of 3 right" in shown(cell_with(notebook, "%%predict 2 | 3-5\np = a * b"))
    names = shown(cell_with(notebook, "alive = next"))
    assert "`p` is still in reach" in names and "(verified by recompiling)" in names
    held, freed = re.search(
        r"(\d+) kernels with the names, (\d+) without", shown(cell_with(notebook, "with the names"))
    ).groups()
    assert int(held) > int(freed) == 1
    held, freed = re.search(
        r"held +([\d.]+) MB +freed +([\d.]+) MB", shown(cell_with(notebook, "def traffic"))
    ).groups()
    assert float(held) > 2 * float(freed)
    assert "itself became" in shown(cell_with(notebook, "m = a.max("))
    assert "computed in 2 kernels" in shown(cell_with(notebook, "cheap ="))
    assert "XLA: Fusion is not profitable." in shown(cell_with(notebook, "softmax.ask()"))
    assert "fused" in shown(cell_with(notebook, "softmax.hlo.passes"))


def test_fusion_says_which_pass_does_what(fusion):
    """Of the paper's four passes, XLA:CPU has instruction fusion, and multi-output fusion where it is asked
    for."""
    took_part = shown(cell_with(fusion.notebook, "families ="))
    assert re.search(r"^fusion +fused in (\d+) of \1 programs", took_part, re.M)
    assert re.search(r"^dot-library-rewriter +fused in [1-9]", took_part, re.M)
    for family in ("fusion merger", "multi-output fusion", "horizontal fusion", "priority fusion"):
        assert re.search(rf"^{family} +changed 0 of", took_part, re.M)
    without, asked = shown(cell_with(fusion.notebook, "for option in")).split("with the option")
    assert re.search(r"siblings +2 kernels", without) and "multi_output" not in without
    assert re.search(r"siblings +1 kernel .*cpu_multi_output_fusion", asked)
    assert re.search(r"strangers +2 kernels", asked)


def test_fusion_has_an_exercise_for_each_idea(fusion):
    check_exercises(fusion, 8)
