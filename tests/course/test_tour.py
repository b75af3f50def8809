"""The tour: it trains a classifier lazily, and breaks where its own code asks."""

from __future__ import annotations

import pytest

from course import NOTEBOOKS, check_exercises, check_quiet, code_cells, executed, nbformat, shown


@pytest.fixture(scope="module")
def tour(tmp_path_factory):
    return executed(NOTEBOOKS / "01-tour.ipynb", tmp_path_factory)


@pytest.mark.xdist_group("tour")
def test_tour_learns_digits(tour):
    assert tour.figures["accuracy"] > 0.95
    assert tour.seconds < 180


@pytest.mark.xdist_group("tour")
def test_tour_has_no_error_and_no_warning(tour):
    check_quiet(tour)


@pytest.mark.xdist_group("tour")
def test_tour_breaks_where_its_own_code_asks(tour):
    """Each break is on a line of the tour, of a kind that its text names: none is hidden."""
    kinds = {one["kind"] for one in tour.figures["breaks"]}
    assert {"float", "bool"} <= kinds
    assert kinds <= {"float", "bool", "print", "asarray"}


@pytest.mark.xdist_group("tour")
def test_summary_is_five_lines_from_the_run(tour):
    import demo

    lines = demo.summary(tour)
    assert len(lines) == 5
    assert f"{tour.figures['accuracy']:.1%}" in lines[1]
    assert str(len(tour.figures["breaks"])) in lines[4]


@pytest.mark.xdist_group("tour")
def test_the_tour_exercises_accept_right_answers_and_reject_wrong_ones(tour):
    check_exercises(tour, 2)


def test_the_tours_repeated_cell_is_the_same():
    """What is called a re-run in the text is one: the same source, letter by letter."""
    cells = nbformat.read(NOTEBOOKS / "01-tour.ipynb", as_version=4).cells
    [at] = [at for at, cell in enumerate(cells) if cell.source.startswith("## The same cell again")]
    assert cells[at + 1].source in [
        cell.source for cell in code_cells(nbformat.v4.new_notebook(cells=cells[:at]))
    ]


def test_the_first_picture_needs_lazynb_and_jax_alone():
    """It comes within half a minute of opening: what takes long to import is imported where it is used."""
    cells = code_cells(nbformat.read(NOTEBOOKS / "01-tour.ipynb", as_version=4))
    assert cells[0].source == "%load_ext lazynb\nimport jax.numpy as jnp"
    assert "import" not in cells[1].source and cells[1].source.splitlines()[-1] == "standard"


@pytest.mark.xdist_group("tour")
def test_the_first_picture_is_a_pending_graph_and_nothing_is_compiled(tour):
    first, second = code_cells(tour.notebook)[1:3]
    assert "operations pending" in shown(first) and "0 misses" in shown(second)
    assert any("text/html" in output.get("data", {}) for output in first.outputs)
