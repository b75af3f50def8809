"""The inspector in a front end that lazynb knows nothing of: the published widget manager of Jupyter (html-manager), in
pages without JupyterLab and without a kernel, as a hosted page or another front end has it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

for package in ("anywidget", "ipywidgets", "nbconvert", "nbformat", "playwright"):
    pytest.importorskip(package, reason=f"{package} is not installed here")

import anywidget  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import nbformat  # noqa: E402
from inspections import small  # noqa: E402
from ipywidgets.embed import embed_data  # noqa: E402
from lab import ROOT  # noqa: E402
from nbconvert import HTMLExporter  # noqa: E402

import lazynb  # noqa: E402
from lazynb.notebook import inspection_display, inspector_widget as module  # noqa: E402
from lazynb.report.inspection.operation_data import recorded_graph  # noqa: E402

MODULES = ROOT / "extension" / "node_modules"
# What a page loads, by the name under which it does.
LOADED = {
    "require.js": MODULES / "requirejs" / "require.js",
    "embed-amd.js": MODULES / "@jupyter-widgets" / "html-manager" / "dist" / "embed-amd.js",
    "anywidget.js": Path(anywidget.__file__).parent / "nbextension" / "index.js",
}
VIEW = "application/vnd.jupyter.widget-view+json"
STATE = "application/vnd.jupyter.widget-state+json"
PAGE = f"""<!doctype html><meta charset="utf-8"><title>embedded</title><body>
<script src="require.js"></script><script src="embed-amd.js"></script>
<script type="{STATE}">%s</script>
<script type="{VIEW}">%s</script>"""

pytestmark = [
    pytest.mark.skipif(
        not all(file.exists() for file in LOADED.values()),
        reason="the published widget manager is not here: `npm ci` in extension/ brings it",
    )
]


@pytest.fixture
def opened(browser, tmp_path):
    """Opens a page, beside the modules that it loads. A script error in it fails the test."""
    errors = []
    page = browser.new_page(viewport={"width": 1200, "height": 1000})
    page.on("pageerror", lambda error: errors.append(str(error)))

    def open_page(source, loaded=LOADED):
        for name, file in loaded.items():
            shutil.copy(file, tmp_path / name)
        (tmp_path / "page.html").write_text(source, encoding="utf-8")
        page.goto((tmp_path / "page.html").as_uri())
        return page

    yield open_page
    page.close()
    assert not errors, errors


def stored(widget):
    """State and view of a widget, as ipywidgets stores them. anywidget's module is in the defaults."""
    data = embed_data(views=[widget], drop_defaults=False)
    return data["manager_state"], data["view_specs"][0]


def embedded(widget):
    """A page with the state of a widget in it."""
    return PAGE % tuple(json.dumps(part).replace("<", "\\u003c") for part in stored(widget))


@pytest.fixture
def kept(clean, monkeypatch):
    """What JupyterLab stores of a cell's inspector, with the state of its widgets."""
    shown = []
    monkeypatch.setattr(inspection_display, "DEFERRED_NODES", 0)
    monkeypatch.setattr(inspection_display, "may_show_widgets", lambda: True)
    monkeypatch.setattr(module.Inspector, "send_full_data_later", lambda self: None)
    for where in (inspection_display, module):
        monkeypatch.setattr(where, "lab_execution", lambda: ("cell", "run"))
    monkeypatch.setattr(module, "display", lambda data, metadata=None, **_: shown.append(data))
    with lazynb.lazy():
        h = jnp.tanh(jnp.ones((64, 32)) @ jnp.ones((32, 32)))
        widget = lazynb.inspect(jax.nn.softmax(h))
    widget._ipython_display_()
    assert widget.data["clusters"]
    outputs = [
        nbformat.v4.new_output("display_data", data) for data in (shown[0], module._beside(widget._static))
    ]
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell("p", outputs=outputs)],
        metadata={"widgets": {STATE: stored(widget)[0]}},
    )
    exporter = HTMLExporter(require_js_url="require.js", widget_renderer_url="embed-amd.js")
    return exporter.from_notebook_node(notebook)[0]


def test_the_inspector_is_drawn_and_answers_the_mouse(opened):
    page = opened(embedded(module.Inspector(None, small())))
    inspector = page.locator(".lazynb-inspector")
    inspector.get_by_role("tab").first.wait_for()
    assert inspector.count() == 1 and "18 operations" in inspector.inner_text()
    lit = inspector.locator(".lz-box.lz-lit")
    assert lit.count() == 0
    inspector.locator(".lz-code-line", has_text="s = jax.nn.softmax(a)").click()
    assert lit.count() >= 1
    for tab in inspector.get_by_role("tab").all():
        tab.click()
        assert "failed" not in inspector.locator(".lz-panel").inner_text()


def test_a_page_without_a_kernel_offers_no_questions(opened):
    """The widget manager drops what is sent: a question would wait for ever."""
    page = opened(embedded(module.Inspector(None, {**small(), "live": True})))
    page.get_by_role("tab", name="Cost").click()
    assert page.get_by_text("no kernel has been timed yet").is_visible()
    assert page.get_by_role("button", name="Measure").count() == 0


def test_the_recorded_graph_is_shown_after_an_interrupted_reading(opened, clean):
    with lazynb.lazy():
        made = lazynb.compile(jnp.tanh(jnp.ones((4, 4))) * 2)
    widget = module.Inspector(made, {})
    widget.recorded, widget.working = recorded_graph(made), module.INTERRUPTED
    page = opened(embedded(widget))
    page.locator(".lz-kind-op", has_text="tanh").wait_for()
    assert "Interrupted" in page.locator(".lz-reading").inner_text()


def test_a_page_by_nbconvert_has_the_widget_and_not_the_static_form_below_it(opened, kept):
    page = opened(kept)
    page.locator(".lazynb-inspector [role=tab]").first.wait_for()
    assert page.locator(".lazynb-inspector").count() == 1
    assert (
        page.locator(".lazynb-inspection").count() == 1
        and not page.locator(".lazynb-inspection").is_visible()
    )


def test_without_the_widget_manager_the_static_form_stands_there(opened, kept):
    page = opened(kept, loaded={})
    assert page.locator(".lazynb-inspection").is_visible() and page.locator(".lazynb-inspector").count() == 0
