"""What an exercise says to no answer, a wrong one and a right one; how the figures are shown."""

from __future__ import annotations

import sys

import pytest

from course import NOTEBOOKS


@pytest.fixture
def exercises(monkeypatch):
    monkeypatch.syspath_prepend(str(NOTEBOOKS))
    yield pytest.importorskip("exercises")
    sys.modules.pop("exercises", None)


def test_no_answer_asks_for_one_and_computes_nothing(exercises, capsys):
    def answer(a, b):
        """Adds."""
        ...

    for unanswered in (..., answer, lambda: None):
        exercises.check(
            unanswered, lambda _: pytest.fail("asked"), hint="no", evidence=lambda: pytest.fail("shown")
        )
        assert capsys.readouterr().out == "Replace the ... with your answer.\n"


def test_a_wrong_answer_gets_a_hint_and_a_right_one_the_evidence(exercises, capsys):
    exercises.check(3, 2, hint="One less.", evidence="There are two.")
    assert capsys.readouterr().out == "Not yet: 3 is not it. One less.\n"
    exercises.check(2, 2, hint="One less.", evidence=lambda: "There are two.")
    assert capsys.readouterr().out == "Right. There are two.\n"


def test_an_answer_that_is_a_function_is_called_and_checked(exercises, capsys):
    def truth(answer):
        return None if answer(1, 2) == 3 else f"it gives {answer(1, 2)}."

    exercises.check(lambda a, b: a - b, truth)
    assert capsys.readouterr().out == "Not yet: it gives -1.\n"
    exercises.check(lambda a, b: a + b, truth, evidence={"a": 3})
    assert capsys.readouterr().out == "Right.\n{'a': 3}\n"


def test_a_figure_is_shown_with_its_title_and_no_background(monkeypatch):
    monkeypatch.syspath_prepend(str(NOTEBOOKS))
    plots = pytest.importorskip("plots", exc_type=ImportError)
    shown = []
    monkeypatch.setattr(plots, "display", lambda drawn, metadata: shown.append((drawn, metadata)))
    with plots.figure() as (drawn, axes):
        axes.set_title("Time a step")
        plots.bars(axes, ["slow", "quick"], [3.0, 1.0], unit="ms")
        assert [bar.get_width() for bar in axes.patches] == [3.0, 1.0]
    assert shown == [(drawn, {"image/png": {"alt": "Time a step"}})]
    assert drawn.get_facecolor()[3] == axes.get_facecolor()[3] == 0
    with plots.figure() as (_, axes):
        plots.pieces(axes, ["held", "freed"], [[1.0, 2.0], [1.5]], unit="ms")
    assert [(bar.get_x(), bar.get_width()) for bar in axes.patches] == [(0, 1.0), (1.0, 2.0), (0, 1.5)]
    with pytest.raises(ZeroDivisionError), plots.figure():
        1 / 0
    assert len(shown) == 2
    sys.modules.pop("plots", None)
