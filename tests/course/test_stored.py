"""Every notebook is stored with what it showed, small, and names no machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from course import ANSWERS, NOTEBOOKS, code_cells, exercises, nbformat, shown

STORED = sorted(NOTEBOOKS.glob("*.ipynb"))


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.name)
def test_stored_notebook_is_executed_and_small(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1)), "run `make notebooks`"
    assert all(output.output_type != "error" for cell in cells for output in cell.outputs)
    assert (
        path.stat().st_size < 900_000
    )  # with the data of the inspectors and the passes, for the documentation


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.name)
def test_stored_notebook_names_no_machine(path):
    import getpass
    import tempfile

    text = path.read_text()
    for place in {
        str(Path.home()),
        tempfile.gettempdir(),
        str(path.parent.parent),
        f"/home/{getpass.getuser()}",
    }:
        assert place + "/" not in text


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.name)
def test_stored_exercises_are_unanswered_and_have_folded_solutions(path):
    notebook = nbformat.read(path, as_version=4)
    for asked in exercises(notebook):
        assert "Replace the ..." in shown(asked)
        assert all(asked.metadata["lazynb"][kind] not in asked.source for kind in ANSWERS)
    folded = "".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown").count(
        "<details>"
    )
    assert folded >= len(exercises(notebook))
