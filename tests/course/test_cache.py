"""Why it was compiled again: the causes that the text speaks of are those that the cells show."""

from __future__ import annotations

import pytest

from course import NOTEBOOKS, cell_with, check_exercises, check_quiet, executed, shown

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("cache")]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return executed(NOTEBOOKS / "04-cache.ipynb", tmp_path_factory)


def test_misses_are_explained_and_cured(cache):
    """The causes that the text speaks of are those that the cells show."""
    check_quiet(cache)
    assert cache.seconds < 180
    notebook = cache.notebook
    assert "2 hits, 1 miss" in shown(cell_with(notebook, "for rate in"))
    assert "`x` is (5, 64), was (128, 64)" in shown(cell_with(notebook, "def epoch"))
    assert "1 program was made" in shown(cell_with(notebook, "def padded"))
    assert "grows at each step: 1, 2, 3, 4, 5" in shown(cell_with(notebook, "jnp.append("))
    assert "takes a new value at each step: 2, 3, 4, 5" in shown(cell_with(notebook, "x[:k]"))
    alive = cell_with(notebook, "h, y = block(x, w)\nprint(float(y))\nlazynb.cache_info()")
    assert "the variable `h` is alive now" in shown(alive)
    assert "'disk'" in shown(cell_with(notebook, "one.origin"))
    assert "over budget: 2 compilations where 1 is allowed" in shown(cell_with(notebook, "BudgetExceeded"))


def test_the_cache_exercises_accept_right_answers_and_reject_wrong_ones(cache):
    check_exercises(cache, 3)
