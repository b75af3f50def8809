"""Exercises as nbgrader has them: metadata that it takes, and an assignment without the answers."""

from __future__ import annotations

import re

import pytest

from course import NOTEBOOKS, code_cells, exercises, is_exercise, nbformat

STORED = sorted(NOTEBOOKS.glob("*.ipynb"))
REQUIRED = {"schema_version": int, "grade": bool, "locked": bool, "solution": bool}
TYPES = {**REQUIRED, "task": bool, "grade_id": str, "points": (int, float)}
"""The fields of a cell and their types, by nbgrader's schema of version 3 (nbgrader/nbgraderformat/v3.json in
jupyter/nbgrader), which allows no others in a notebook that was not released."""


def marked(notebook):
    return [cell for cell in notebook.cells if "nbgrader" in cell.metadata]


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.name)
def test_each_exercise_and_nothing_else_is_graded(path):
    notebook = nbformat.read(path, as_version=4)
    assert [cell.id for cell in marked(notebook)] == [cell.id for cell in exercises(notebook)]
    for cell in marked(notebook):
        found = cell.metadata.nbgrader
        assert REQUIRED.keys() <= found.keys() <= TYPES.keys()
        assert all(isinstance(value, TYPES[name]) for name, value in found.items())
        assert found.schema_version == 3 and found.points > 0
        assert re.fullmatch(r"[a-zA-Z0-9_-]+", found.grade_id)
        assert (found.grade, found.solution, found.locked, found.task) == (True, True, False, False), (
            "an answer that is graded by hand, in a cell that can be edited"
        )


def test_the_ids_are_unique_in_the_whole_course():
    ids = [
        cell.metadata.nbgrader.grade_id
        for path in STORED
        for cell in marked(nbformat.read(path, as_version=4))
    ]
    assert len(ids) == len(set(ids)) > 40


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.name)
def test_nbgrader_validates_the_metadata(path):
    """Its own schema and its own rules, where it is installed."""
    validator = pytest.importorskip("nbgrader.nbgraderformat", reason="nbgrader is not installed here")
    validator.MetadataValidator().validate_nb(nbformat.read(path, as_version=4))


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.name)
def test_an_assignment_has_the_questions_and_no_answer(path, tmp_path, capsys):
    import assignment

    assert assignment.main([str(path), str(tmp_path / "week1")]) == 0
    made = nbformat.read(tmp_path / "week1" / path.name, as_version=4)
    nbformat.validate(made)
    before = nbformat.read(path, as_version=4)
    assert [cell.metadata.nbgrader.grade_id for cell in marked(made)] == [
        cell.metadata.nbgrader.grade_id for cell in marked(before)
    ]
    assert not any(is_exercise(cell) or cell.metadata.get("lazynb") for cell in made.cells)
    text = "\n".join(cell.source for cell in made.cells)
    assert "<details>" not in text and re.search("Exercise|Question", text)
    assert all("..." in cell.source for cell in marked(made)), "the place for the answer is left"
    assert not any(cell.outputs or cell.execution_count for cell in code_cells(made))
    assert (tmp_path / "week1" / "exercises.py").exists()
