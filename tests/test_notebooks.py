"""The notebooks run, show what they promise, and are stored with what they showed."""

from __future__ import annotations

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="the notebooks need lazynb[lab]")
pytest.importorskip("nbclient", reason="the notebooks need lazynb[lab]")
pytest.importorskip("ipykernel", reason="the notebooks need lazynb[lab]")

NOTEBOOKS = sorted((Path(__file__).resolve().parent.parent / "notebooks").glob("*.ipynb"))
TOUR = next(path for path in NOTEBOOKS if path.name == "01-tour.ipynb")


@pytest.fixture(scope="module")
def tour(tmp_path_factory):
    """The tour, executed as `make demo` does it, with nothing compiled beforehand."""
    import demo

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAZYNB_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        return demo.execute(TOUR)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown(cell) -> str:
    """All the plain text that a cell shows."""
    texts = []
    for output in cell.outputs:
        texts.append(output.get("text", ""))
        texts.append(output.get("data", {}).get("text/plain", ""))
    return "\n".join(texts)


def cell_with(notebook, text: str):
    return next(cell for cell in code_cells(notebook) if text in cell.source)


@pytest.mark.slow
@pytest.mark.xdist_group("tour")
def test_tour_learns_digits(tour):
    assert tour.figures["accuracy"] > 0.95
    assert tour.seconds < 120


@pytest.mark.slow
@pytest.mark.xdist_group("tour")
def test_tour_has_no_error_and_no_warning(tour):
    for cell in code_cells(tour.notebook):
        for output in cell.outputs:
            assert output.output_type != "error", cell.source
            assert output.get("name") != "stderr", output.text


@pytest.mark.slow
@pytest.mark.xdist_group("tour")
def test_tour_breaks_where_its_own_code_asks(tour):
    """Each break is on a line of the tour, of a kind that its text names: none is hidden."""
    kinds = {one["kind"] for one in tour.figures["breaks"]}
    assert {"float", "bool"} <= kinds
    assert kinds <= {"float", "bool", "print", "asarray"}


@pytest.mark.slow
@pytest.mark.xdist_group("tour")
def test_summary_is_five_lines_from_the_run(tour):
    import demo

    lines = demo.summary(tour)
    assert len(lines) == 5
    assert f"{tour.figures['accuracy']:.1%}" in lines[1]
    assert str(len(tour.figures["breaks"])) in lines[4]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_stored_notebook_is_executed_and_small(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1)), "run `make notebooks`"
    assert all(output.output_type != "error" for cell in cells for output in cell.outputs)
    assert path.stat().st_size < 500_000


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_stored_notebook_names_no_machine(path):
    import getpass
    import tempfile

    text = path.read_text()
    for place in {str(Path.home()), tempfile.gettempdir(), str(path.parent.parent), f"/home/{getpass.getuser()}"}:
        assert place + "/" not in text


def test_the_tours_repeated_cell_is_the_same():
    """What is called a re-run in the text is one: the same source, letter by letter."""
    sources = [cell.source for cell in code_cells(nbformat.read(TOUR, as_version=4))]
    training = [source for source in sources if "step(" in source]
    assert len(training) > len(set(training))
