"""What a cell's output holds for each kind of page: a real kernel, asked as JupyterLab, VS Code, Colab, a page nobody
knows and nbclient ask."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import time

import pytest

jupyter_client = pytest.importorskip("jupyter_client")
pytest.importorskip("anywidget")

pytestmark = pytest.mark.xdist_group("pages")

VIEW = "application/vnd.jupyter.widget-view+json"
BUNDLE = {VIEW, "text/html", "text/plain"}
LAB = {"cellId": "a", "trusted": True, "deletedCells": [], "recordTiming": False}

SETUP = """%load_ext lazynb
import jax, jax.numpy as jnp
x = jnp.ones((64, 64))"""
CELL = "%%compile made\njnp.exp(jnp.tanh(x @ x)).sum()"
COLAB = """import sys, types
colab = types.ModuleType("google.colab")
output = colab.output = types.ModuleType("google.colab.output")
output.enabled = 0
def enable_custom_widget_manager():
    output.enabled += 1
output.enable_custom_widget_manager = enable_custom_widget_manager
output._widgets = types.SimpleNamespace(_installed_url="https://example.org/manager.js")
sys.modules["google.colab"], sys.modules["google.colab.output"] = colab, output"""


class Kernel:
    """Runs cells as some page does."""

    def __init__(self, client):
        self.client = client

    def run(self, code, metadata=None, may_ask=False):
        """The outputs of a cell, and the widgets that it opened.

        Arguments:
          may_ask: whether the page can be asked for input.
        """
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": may_ask}
        message = self.client.session.msg("execute_request", content, metadata=metadata)
        self.client.shell_channel.send(message)
        return self._read(message["header"]["msg_id"])

    def _read(self, asked):
        outputs, opened, end = [], [], time.monotonic() + 60
        while True:
            try:
                message = self.client.get_iopub_msg(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"the cell did not end; so far {outputs}") from None
            kind, content = message["msg_type"], message["content"]
            if message["parent_header"].get("msg_id") != asked:
                continue
            if kind == "error":
                raise AssertionError("\n".join(content["traceback"]))
            if kind in ("display_data", "execute_result"):
                outputs.append(content)
            elif kind == "comm_open" and content["target_name"] == "jupyter.widget":
                opened.append(content)
            elif kind == "status" and content["execution_state"] == "idle":
                return outputs, opened


@pytest.fixture
def kernel():
    manager, client = jupyter_client.manager.start_new_kernel(kernel_name="python3")
    page = Kernel(client)
    page.run(SETUP)
    yield page
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def shown(outputs):
    """Of the outputs the inspector's, without the cell's value."""
    return [
        one
        for one in outputs
        if "lazynb-inspection" in one["data"].get("text/html", "") or VIEW in one["data"]
    ]


PAGES = {
    "a page that says nothing of itself": (None, True),
    "Visual Studio Code": ({"cellId": "vscode-notebook-cell:W0sZmlsZQ=="}, True),
}


@pytest.mark.parametrize("name", PAGES)
def test_one_bundle_holds_widget_html_and_text_for_every_page(kernel, name):
    metadata, may_ask = PAGES[name]
    outputs, opened = kernel.run(CELL, metadata, may_ask)
    [inspector] = shown(outputs)
    data = inspector["data"]
    assert set(data) == BUNDLE
    assert "kernels" in data["text/html"] and "kernels" in data["text/plain"]
    assert "<script" not in data["text/html"] and "<style" not in data["text/html"]
    assert data[VIEW]["model_id"] in {one["comm_id"] for one in opened}
    state = next(one for one in opened if one["comm_id"] == data[VIEW]["model_id"])["data"]["state"]
    assert state["data"]["clusters"], "the widget has its data when the page asks for its model"


def test_in_jupyterlab_the_widget_is_an_output_of_its_own(kernel):
    outputs, _ = kernel.run(CELL, LAB, may_ask=True)
    widget, beside = [one for one in outputs if VIEW in one["data"] or one.get("transient")]
    assert widget["data"][VIEW] and widget["data"]["text/html"] == ""
    assert VIEW not in beside["data"], "it is filled with the static form when the cell is done"


def test_a_program_that_runs_the_notebook_gets_the_static_form(kernel):
    """It would store the widget's state."""
    outputs, opened = kernel.run(CELL)
    [static] = shown(outputs)
    assert set(static["data"]) == {"text/html", "text/plain"} and opened == []


def test_the_bundle_of_a_long_program_is_short(kernel):
    """It ran as many programs, and says how much of them it leaves out."""
    long = "%%compile\ny = x\nfor _ in range(1000):\n    y = jnp.tanh(y @ x) * 0.5\ny.sum()"
    [inspector] = shown(kernel.run(long, None, may_ask=True)[0])
    assert len(json.dumps(inspector)) < 280_000
    assert "programs more</div>" in inspector["data"]["text/html"]


def test_colab_is_told_to_show_widgets_of_others_once(kernel):
    kernel.run(COLAB)
    for _ in range(2):
        [inspector] = shown(kernel.run(CELL, None, may_ask=True)[0])
        assert set(inspector["data"]) == BUNDLE
        assert inspector["metadata"][VIEW] == {
            "colab": {"custom_widget_manager": {"url": "https://example.org/manager.js"}}
        }
    kernel.run("assert output.enabled == 1, output.enabled")


def test_outside_colab_no_colab_module_is_imported(kernel):
    kernel.run("import sys\nassert not any(name.startswith('google.colab') for name in sys.modules)")
    [inspector] = shown(kernel.run(CELL, None, may_ask=True)[0])
    assert inspector["metadata"] == {}
    kernel.run("assert not any(name.startswith('google.colab') for name in sys.modules)")


WITHOUT = """
import sys
sys.modules["IPython"] = sys.modules["anywidget"] = None
import jax.numpy as jnp, lazynb
with lazynb.lazy():
    y = jnp.sin(jnp.ones(8)) * 2
shown = lazynb.inspect(y)
print(repr(shown))
print(sorted(shown._repr_mimebundle_()))
"""


def test_inspect_works_without_ipython():
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "1 kernel" in done.stdout and "['text/html', 'text/plain']" in done.stdout


STORED = """
import nbformat
from nbclient import NotebookClient
from nbconvert import HTMLExporter
code = nbformat.v4.new_code_cell
notebook = nbformat.v4.new_notebook(cells=[code(%r), code(%r)])
NotebookClient(notebook, timeout=120).execute()
assert "widgets" not in notebook.metadata, list(notebook.metadata.widgets)
for trusted in True, False:
    exporter = HTMLExporter(sanitize_html=not trusted)
    html = exporter.from_notebook_node(notebook)[0]
    print("FORMS", html.count("lazynb-inspection") + html.count("Your lines, and the kernels"))
    print("LINES", "jnp.exp(jnp.tanh(x @ x))" in html, "WIDGETS", html.count("widget-view+json"))
"""


def test_nbclient_stores_no_widget_and_nbconvert_shows_the_form():
    """Trusted, and cleaned as a page does that trusts nobody."""
    pytest.importorskip("nbclient")
    pytest.importorskip("nbconvert")
    done = subprocess.run(
        [sys.executable, "-c", STORED % (SETUP, CELL)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "FORMS 0" not in done.stdout and done.stdout.count("FORMS") == 2
    assert done.stdout.count("LINES True WIDGETS 0") == 2
