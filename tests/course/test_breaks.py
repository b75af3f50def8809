"""The breaks of a slow loop: each is found, and cured."""

from __future__ import annotations

import re

import pytest

from course import NOTEBOOKS, cell_with, check_exercises, check_quiet, executed, shown

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("breaks")]


@pytest.fixture(scope="module")
def breaks(tmp_path_factory):
    return executed(NOTEBOOKS / "03-trace-breaks.ipynb", tmp_path_factory)


def test_breaks_are_found_and_cured(breaks):
    """What the text says of each version of the loop is in what its cell shows; the time is the reader's
    own."""
    check_quiet(breaks)
    assert breaks.seconds < 180
    notebook = breaks.notebook
    careless = shown(cell_with(notebook, "%breaks"))
    assert (
        "if jnp.isnan(loss):" in careless
        and "if size > 0.5:" in careless
        and "losses.append(float(loss))" not in careless
    )
    assert "losses.append(float(loss))" in shown(cell_with(notebook, "def no_branches"))
    left = shown(cell_with(notebook, "def no_floats"))
    assert "np.asarray(hits(w, x, y))" in left and "float(loss)" not in left
    careful = shown(cell_with(notebook, "def careful"))
    assert "LNB201" in careful and "np.asarray(hits" not in careful and "if " not in careful
    times = shown(cell_with(notebook, "us a step   "))
    micros = {name.strip(): int(one) for name, one in re.findall(r"^(.+?) +(\d+) us", times, re.M)}
    assert list(micros) == ["careless", "no branches", "no floats", "careful"]
    assert "LNB101 bool" in shown(cell_with(notebook, "strict=True"))
    assert "Without the break" in shown(cell_with(notebook, "lazynb.explain("))


def test_the_breaks_exercises_accept_right_answers_and_reject_wrong_ones(breaks):
    check_exercises(breaks, 3)
