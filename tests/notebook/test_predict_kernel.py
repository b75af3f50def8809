"""``%%predict --kernel``: here is a kernel, which lines are in it? As text, and by a form."""

from __future__ import annotations

import re

import pytest
from IPython.core.error import UsageError

from tests.notebook.test_predict import CELL, shown


def ask(notebook, line: str) -> str:
    return shown(notebook.run(CELL.format(groups=line).strip()))


def test_a_right_answer_is_confirmed_for_each_line(lazy_notebook):
    text = ask(lazy_notebook, "--kernel c0 2-3")
    assert "Kernel c0: 3 of 3 lines right" in text and "WRONG" not in text
    assert "line 2 is in it, as you expected. `multiply` is computed in c0" in text
    assert lazy_notebook["y"].is_pending


def test_a_wrong_answer_says_where_the_line_went_and_why(lazy_notebook):
    text = ask(lazy_notebook, "--kernel c0 2 4")
    assert "Kernel c0: 1 of 3 lines right" in text
    assert "WRONG  line 3 is in it, and you expected otherwise" in text
    [line] = re.findall(r"WRONG  line 4.*", text)
    assert "is not in it, and you expected otherwise. `matmul` is computed in c1: " in line
    assert "(rule inferred)" in line or "(compiler said)" in line


def test_the_answer_for_each_line_agrees_with_the_fates(lazy_notebook):
    """What it says of each line of each kernel is what the fates say."""
    lazy_notebook.run(
        "%%compile made --no-run\nq = a - b\nr = jnp.exp(q).sum(1)\ny = q.T @ jnp.sin(q)\ndel q"
    )
    compilation = lazy_notebook["made"]
    assert len(compilation.clusters) > 2
    from lazynb.compare.differences.kernel_prediction import check_line_prediction, kernel_to_predict
    from lazynb.report.inspection.inspection_data import inspection

    data = inspection(compilation)
    for cluster in data["clusters"]:
        lines = {data["nodes"][node]["place"]["line"] for node in cluster["nodes"]}
        found = check_line_prediction(compilation, kernel_to_predict(compilation, cluster["label"]), lines)
        assert found.right == len(found.verdicts), (cluster["label"], found)
        assert {one.place.line for one in found.verdicts if one.inside} == lines


def test_an_operation_computed_in_two_kernels_is_reported(lazy_notebook):
    cell = "%%predict --kernel c1 2\nm = a * a\ny = jnp.tanh(m) @ m.T\ndel m"
    text = shown(lazy_notebook.run(cell))
    assert re.search(
        r"line 2 is in it, as you expected. `multiply` is computed in c1, and in c\d too", text
    ), text


def test_a_line_that_no_kernel_computes_is_explained(lazy_notebook):
    text = shown(lazy_notebook.run("%%predict --kernel c0 2\nm = a.T\ny = m.T * 2.0\ndel m"))
    assert re.search(
        r"line 2 is not in it.*No kernel computes `transpose`: .*\(absent in the first pass", text
    ), text


def test_a_line_in_many_kernels_names_the_first(lazy_notebook):
    cell = "%%predict --kernel c1 4\nw = jnp.ones((128, 128))\nfor _ in range(12):\n    a = jnp.tanh(a @ w)"
    text = shown(lazy_notebook.run(cell))
    assert re.search(r"line 4 is in it.* computed in c1 .* computed in (c\d+, ){4}c\d+ and \d+ more", text), (
        text
    )


def test_a_line_of_another_program_is_explained(lazy_notebook):
    text = shown(
        lazy_notebook.run("%%predict --kernel c0 2\np = a * b\nf = float(p.sum())\ny = jnp.tanh(p) + f")
    )
    assert re.search(r"line 4 is not in it.*in another program: the trace was cut", text), text


@pytest.mark.parametrize(
    "line, words",
    [
        ("--kernel c9 2", "c9 is no kernel; there are c0 and c1"),
        ("--kernel c0 2 | 3", "without |"),
        ("--kernel c0 9", "no operation was recorded on line 9"),
        ("--kernel c0 two", "is no group of lines"),
    ],
)
def test_bad_kernels_and_lines_are_refused_with_advice(lazy_notebook, line, words):
    captured = lazy_notebook.run(CELL.format(groups=line).strip(), error=UsageError)
    assert words in str(captured.error)


def test_a_cell_without_kernels_is_refused(lazy_notebook):
    captured = lazy_notebook.run("%%predict --kernel\nprint(3)", error=UsageError)
    assert "no kernel runs" in str(captured.error)


def test_without_a_label_it_is_the_kernel_of_most_lines(lazy_notebook):
    assert "Kernel c0: 3 of 3 lines right" in ask(lazy_notebook, "--kernel 2-3")


def test_without_an_answer_a_form_is_shown_with_its_text(lazy_notebook):
    pytest.importorskip("ipywidgets")
    text = ask(lazy_notebook, "--kernel c0")
    assert "Form(" not in text and "\n    4  y = t @ t.T\n" in text
    assert "tanh(" in text, "the kernel itself"
    answer = text.rpartition("%%predict ")[2]
    assert "lines right" in ask(lazy_notebook, answer)


def test_the_form_says_which_lines_are_ticked():
    pytest.importorskip("ipywidgets")
    from lazynb.compare.differences.kernel_prediction import Kernel
    from lazynb.notebook.prediction_form import KernelForm
    from lazynb.report.prediction_report import KernelQuestion
    from lazynb.user_code.source_lines import Place

    places = [Place("cell", line, f"line <{line}>", 3) for line in (2, 3, 5)]
    asked = []
    form = KernelForm(
        KernelQuestion(Kernel("c1", 0, None, "%a = <b>"), places), lambda lines: asked.append(lines) or []
    )
    form.boxes[1].value = True
    form.button.click()
    assert asked == [{3}]
    assert [box.description for box in form.boxes] == ["line 2", "line 3", "line 5"]
    assert "&lt;b&gt;" in form.children[0].value and "&lt;2&gt;" in form.children[1].children[1].value
    assert "&lt;2&gt;" not in form.boxes[0].tooltip, "text, not HTML"


def test_without_widgets_the_question_is_text(lazy_notebook, monkeypatch):
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "ipywidgets" else real(name)
    )
    text = ask(lazy_notebook, "--kernel c0")
    assert text.startswith("Which of your lines are in the kernel c0?") and "--kernel c0 2 3" in text


def test_predict_kernel_has_help(lazy_notebook):
    assert "--kernel" in lazy_notebook.shell.find_cell_magic("predict").__doc__
