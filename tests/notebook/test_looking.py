"""Looking never runs: display, repr, debuggers, completion and variable inspectors leave what is pending
untouched."""

from __future__ import annotations

import pprint
import sys

import pytest
from IPython.utils.capture import capture_output

import lazynb


@pytest.fixture
def y(notebook):
    notebook.run("x = jnp.ones((4, 3))\ny = jnp.sin(x @ x.T)\nkeys = jax.random.split(jax.random.key(0), 3)")
    yield notebook["y"]
    assert [str(event) for event in lazynb.events()] == []
    assert notebook["y"].is_pending and notebook["keys"].is_pending


def test_repr_shows_pending_without_a_run(y):
    for text in (repr(y), repr([y]), repr({"y": y}), pprint.pformat([y]), f"{y!r}"):
        assert "pending" in text


def test_display_runs_nothing(y, notebook):
    for cell in ("y", "[y, keys]", "(y,)", "display(y)", "{'y': y}", "keys", "x"):
        shown = notebook.run("from IPython.display import display\n" + cell)
        assert shown.outputs or "pending" in shown.shown["text/plain"]


def test_completion_runs_nothing(y, notebook):
    notebook.run("pass")
    for text in ("y.", "y.sh", "y.T.", "keys.", "x.at["):
        notebook.shell.Completer.use_jedi = False
        notebook.shell.complete(text)
        assert list(notebook.shell.Completer.completions(text, len(text))) is not None


@lazynb.lazy()
def test_dir_and_attribute_access_run_nothing(y):
    assert {"sum", "shape", "at", "T"} <= set(dir(y))
    for name in (
        "shape",
        "dtype",
        "ndim",
        "size",
        "nbytes",
        "itemsize",
        "weak_type",
        "aval",
        "T",
        "mT",
        "at",
        "sharding",
        "device",
        "committed",
        "is_fully_addressable",
        "is_fully_replicated",
        "__doc__",
        "__class__",
        "real",
    ):
        getattr(y, name)
    y.devices(), y.is_deleted(), y.is_ready()
    for name in (
        "_ipython_display_",
        "_repr_html_",
        "_repr_svg_",
        "__array_interface__",
        "__array_struct__",
        "_ipython_canary_method_should_not_exist_",
        "columns",
        "to_frame",
        "__wrapped__",
        "__iter__",
    ):
        getattr(y, name, None)


def test_variable_inspectors_run_nothing(y, notebook):
    """What JupyterLab's inspectors do to each variable."""
    for value in (y, notebook["keys"], notebook["x"]):
        sys.getsizeof(value), type(value).__name__, len(value), value.shape, value.dtype, str(type(value))
        hasattr(value, "__len__"), hasattr(value, "keys"), isinstance(value, dict), callable(value), id(value)


def test_silent_executions_print_pending_without_a_run(y, notebook):
    """How frontends run an inspector's code; a script that a cell runs is the user's own."""
    with capture_output() as captured:
        notebook.shell.run_cell("print(y)", silent=True)
        notebook.shell.run_cell("print(y)", store_history=False)
    assert captured.stdout.count("pending") == 2


def test_a_script_that_a_cell_runs_prints_values(notebook, tmp_path):
    script = tmp_path / "script.ipy"
    script.write_text("z = jnp.ones(2) * 3\nprint(z)\n")
    assert notebook.run(f"%run -i {script}").stdout == "[3. 3.]\n"


def test_object_inspection_and_whos_run_nothing(y, notebook):
    notebook.shell.inspector.info(y, oname="y")
    assert notebook.shell.object_inspect("y")["found"]
    notebook.run("%whos")


def test_frame_locals_show_pending_without_a_run(y):
    def frame_locals(value):
        return {name: repr(v) for name, v in sys._getframe().f_locals.items()}

    assert "pending" in frame_locals(y)["value"]


def test_graph_exports_run_nothing(y, notebook):
    graph = lazynb.graph(y)
    (
        str(graph),
        repr(graph),
        graph.to_json(),
        graph.to_jaxpr(),
        graph.to_stablehlo(),
        graph._repr_mimebundle_(),
    )
    notebook.run("%graph\n")
    notebook.run("%lazy")


def test_compiling_runs_nothing(y):
    assert "HloModule" in lazynb.compile(y).hlo.after
