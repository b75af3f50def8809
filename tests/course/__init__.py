"""What the tests of the notebooks share: each notebook is run once, its exercises answered wrongly and
rightly on the way.

**Exercises.** Every notebook asks in the same way. The markdown cell above states one idea and asks; the
answer stands in it behind a folded ``<details>``. Then comes one code cell, in which the reader replaces a
literal ``...``::

    from exercises import check        # notebooks/exercises.py; notebooks run in their own folder

    answer = ...                       # or: def answer(a, b): ...
    check(answer, truth, hint="...", evidence=...)

``truth`` is computed, from lazynb's own analysis or a run. The cell's metadata hold the same cell with a
wrong and with a right answer::

    {"lazynb": {"wrong": "answer = 3\\ncheck(...)", "right": "answer = 2\\ncheck(...)"}}

and those of nbgrader, by which it is a manually graded answer (``test_assignments`` has the rules)::

    {"nbgrader": {"grade": true, "grade_id": "05-cartpole-1", "locked": false, "points": 1,
                  "schema_version": 3, "solution": true, "task": false}}

``executed`` runs both directly after the cell, in this order and in the tests alone; ``check_exercises``
asserts what the three say: "Replace the ...", "Not yet", "Right.". So a notebook's test is::

    @pytest.fixture(scope="module")
    def mine(tmp_path_factory):
        return executed(NOTEBOOKS / "05-cartpole.ipynb", tmp_path_factory)

    @pytest.mark.browser                 # where it takes more than a minute
    @pytest.mark.xdist_group("cartpole")
    def test_the_exercises_accept_right_answers_and_reject_wrong_ones(mine):
        check_exercises(mine, 3)

``cell_with`` finds the committed cell, not an answered one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="the notebooks need lazynb[lab]")
pytest.importorskip("nbclient", reason="the notebooks need lazynb[lab]")
pytest.importorskip("ipykernel", reason="the notebooks need lazynb[lab]")

NOTEBOOKS = Path(__file__).resolve().parent.parent.parent / "notebooks"
ANSWERS = ("wrong", "right")


def executed(path, tmp_path_factory):
    """The notebook, executed as `make demo` does it, with nothing compiled beforehand, and each exercise
    answered."""
    import demo

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAZYNB_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("LAZYNB_PERSISTENT_CACHE", "1")
        return demo.execute(path, prepare=with_answers)


def with_answers(notebook):
    """Puts a cell with a wrong answer and one with a right one behind each exercise."""
    notebook.cells = [one for cell in notebook.cells for one in (cell, *answered(cell))]


def answered(cell) -> Iterator:
    for kind in ANSWERS if is_exercise(cell) else ():
        metadata = {"lazynb": {"answer": kind}}
        yield nbformat.v4.new_code_cell(cell.metadata["lazynb"][kind], metadata=metadata)


def is_exercise(cell) -> bool:
    return set(ANSWERS) <= set(cell.metadata.get("lazynb", {}))


def exercises(notebook):
    """The cells that ask."""
    return [cell for cell in notebook.cells if is_exercise(cell)]


def check_exercises(run, least: int):
    """At least so many exercises, and each says what it should: unanswered, then answered wrongly, then
    rightly."""
    cells = run.notebook.cells
    found = [at for at, cell in enumerate(cells) if is_exercise(cell)]
    assert len(found) >= least
    for at in found:
        asked, wrong, right = cells[at : at + 3]
        assert "..." in asked.source and shown(asked).strip() == "Replace the ... with your answer.", (
            asked.source
        )
        assert "Not yet" in shown(wrong) and "Right." not in shown(wrong), wrong.source + shown(wrong)
        assert "Right." in shown(right) and "Not yet" not in shown(right), right.source + shown(right)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown(cell) -> str:
    """All the plain text that a cell shows."""
    texts = []
    for output in cell.outputs:
        texts.append(output.get("text", ""))
        texts.append(output.get("data", {}).get("text/plain", ""))
    return "\n".join(text for text in texts if text)


def cell_with(notebook, text: str):
    """The first code cell with this text in its source."""
    return next(cell for cell in code_cells(notebook) if text in cell.source)


def check_quiet(run):
    """No cell of the run has an error or a warning."""
    for cell in code_cells(run.notebook):
        for output in cell.outputs:
            assert output.output_type != "error", cell.source
            assert output.get("name") != "stderr", output.text
