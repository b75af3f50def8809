"""``%%predict``: a guess beside what XLA did, as text or by a form."""

from __future__ import annotations

import sys

import pytest
from IPython.core.error import UsageError

from lazynb.compare.differences.kernel_prediction import parse_groups
from lazynb.notebook.extension import MAGICS

CELL = """
%%predict {groups}
p = a * b
t = jnp.tanh(p)
y = t @ t.T
del p, t
"""


def shown(captured) -> str:
    return "\n".join(output.data["text/plain"] for output in captured.outputs)


def test_a_right_guess_is_confirmed_and_runs_nothing(lazy_notebook):
    text = shown(lazy_notebook.run(CELL.format(groups="2 3 | 4").strip()))
    assert "2 of 2 right" in text and "line 3 -> line 4" in text
    assert lazy_notebook["y"].is_pending


def test_a_wrong_guess_is_explained(lazy_notebook):
    text = shown(lazy_notebook.run(CELL.format(groups="2-4").strip()))
    assert "1 of 2 right" in text and "WRONG  line 3 -> line 4" in text
    assert "(rule inferred)" in text or "(compiler said)" in text


@pytest.mark.parametrize(
    "groups, words",
    [
        ("2 x", "is no group of lines"),
        ("2 9", "no operation was recorded on line 9"),
        ("2 3 | 3", "two groups"),
    ],
)
def test_bad_groups_are_refused_with_advice(lazy_notebook, groups, words):
    captured = lazy_notebook.run(CELL.format(groups=groups).strip(), error=UsageError)
    assert words in str(captured.error)


def test_without_groups_a_form_is_shown_with_its_text(lazy_notebook):
    pytest.importorskip("ipywidgets")
    [output] = lazy_notebook.run(CELL.format(groups="").strip()).outputs
    text = output.data["text/plain"]
    assert "Form(" not in text and "\n    4  y = t @ t.T\n" in text
    answer = text.rpartition("%%predict ")[2]
    assert [len(group) for group in parse_groups(answer)] == [1] * (answer.count("|") + 1)
    from lazynb.notebook.prediction_form import PredictForm
    from lazynb.user_code.source_lines import Place

    places = [Place("cell", line, f"line <{line}>", 3) for line in (2, 3, 5)]
    asked = []
    form = PredictForm(places, lambda groups: asked.append(groups) or [])
    assert form.groups() == [{2}, {3}, {5}], "at first each line is on its own"
    form.choices[1].value = "A"
    form.button.click()
    assert asked == [[{2, 3}, {5}]]
    assert "&lt;2&gt;" in form.children[1].children[0].value


def test_predict_has_help(lazy_notebook):
    assert "share a kernel" in lazy_notebook.shell.find_cell_magic("predict").__doc__


def test_without_widgets_the_question_is_text(lazy_notebook, monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    [output] = lazy_notebook.run(CELL.format(groups="").strip()).outputs
    assert output.data["text/plain"].startswith("Which lines will share a kernel?\n    2  p = a * b\n")
    [output] = lazy_notebook.run("%%predict\nn = 3").outputs
    assert "No line of this cell recorded an operation" in output.data["text/plain"]


def test_the_help_of_each_magic_begins_with_its_usage(lazy_notebook):
    magics = lazy_notebook.shell.magics_manager.magics
    for kind, name in MAGICS:
        text = magics[kind][name].__doc__
        usage = f"::\n\n  {'%' if kind == 'line' else '%%'}{name}"
        assert text.startswith(usage) or name in ("graph", "eager"), text
        assert len(text.splitlines()[-1]) < 120 and "%%%%" not in text
