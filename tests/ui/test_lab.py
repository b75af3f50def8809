"""The inspector in a real JupyterLab with a real kernel: click, hover, type, ask, and read what is lit."""

from __future__ import annotations

import os
import re

import pytest

for package in ("jupyterlab", "nbformat", "ipywidgets", "anywidget", "playwright"):
    pytest.importorskip(package, reason=f"{package} is not installed here")

import nbformat  # noqa: E402
from lab import KERNEL, NOTEBOOK, Notebook, serving, write  # noqa: E402
from nbformat.sign import NotebookNotary  # noqa: E402
from playwright.sync_api import expect  # noqa: E402
from reading import CONTRAST, tab, thing, things  # noqa: E402

pytestmark = pytest.mark.xdist_group("lab")  # one server and one kernel serve all

SETUP = """import jax, jax.numpy as jnp
x = jax.random.normal(jax.random.key(0), (256, 512))
w = jax.random.normal(jax.random.key(1), (512, 512)) * 0.05
b = jnp.zeros(512)
%load_ext lazynb"""
PROGRAM = """%%compile
h = x @ w + b
a = jax.nn.gelu(h)
s = jax.nn.softmax(a)
loss = (s * jnp.log(s + 1e-6)).sum()
loss"""
KEPT = "%%compile\nh = jax.nn.softmax(x)\nloss = (h * jnp.log(h + 1e-6)).sum()\nloss"
EVIL = "<img src=x onerror=window.injected=1>"
MAIN, OTHER = 1, 2  # cells


@pytest.fixture(scope="module")
def address(browser, root):
    """That of a JupyterLab without the extension."""
    with serving(root) as address:
        yield address


@pytest.fixture(scope="module")
def opened(browser, root, address):
    """A notebook of which the first two cells have run."""
    write(root / "main.ipynb", SETUP, PROGRAM, "")
    notebook = Notebook(browser)
    notebook.open(address, "lab/tree/main.ipynb")
    notebook.run(0, SETUP)
    notebook.run(MAIN, PROGRAM)
    notebook.inspector(MAIN)  # where it fails to come, no test need wait for it again
    yield notebook
    notebook.page.close()
    assert not notebook.errors, notebook.errors


@pytest.fixture
def notebook(opened):
    """The inspector of the second cell, at its first tab, with nothing selected."""
    inspector = opened.inspector(MAIN)
    inspector.get_by_role("tab", name="Graph").click()
    opened.page.keyboard.press("Escape")
    return opened


@pytest.fixture
def inspector(notebook):
    return notebook.inspector(MAIN)


def away(inspector) -> None:
    """The pointer leaves everything that lights up."""
    inspector.locator(".lz-title").hover()


# ---- the selection -----------------------------------------------------------------------------------------


def test_one_widget_is_shown_and_the_static_form_hidden(notebook, inspector):
    assert notebook.page.locator(".lazynb-inspector").count() == 1
    assert not notebook.output(MAIN).locator(".lazynb-inspection").is_visible()
    assert "Cell" in inspector.locator(".lz-title").inner_text()
    assert "20 operations" in inspector.locator(".lz-counts").inner_text()


def test_a_line_lights_its_nodes_instructions_and_kernels(inspector):
    inspector.get_by_role("button", name="Open gelu").click()
    line = inspector.locator(thing("line:0:3"))
    line.click()
    away(inspector)
    nodes = [key for key in things(inspector, ".lz-canvas") if key.startswith("node")]
    clusters = [key for key in things(inspector, ".lz-source") if key.startswith("cluster")]
    assert len(nodes) == 8 and len(clusters) == 1, "gelu is eight operations in one kernel"
    tab(inspector, "HLO")
    assert any(key.startswith("instruction:0:") for key in things(inspector, ".lz-rows"))
    tab(inspector, "Cost")
    assert things(inspector, ".lz-costs") == clusters
    tab(inspector, "Graph")
    inspector.locator(thing(nodes[0])).hover()
    assert things(inspector, ".lz-source", "lz-stuck") == ["line:0:3"]
    assert [key for key in things(inspector, ".lz-canvas") if key.startswith("node")] == nodes[:1]


def test_a_kernel_and_an_instruction_light_their_lines(inspector):
    tab(inspector, "Cost")
    inspector.locator(f"tr{thing('cluster:0')}").hover()
    assert "line:0:2" in things(inspector, ".lz-source")
    tab(inspector, "HLO")
    inspector.get_by_label("Search instructions").fill(" tanh(")
    inspector.locator(".lz-hit-now").hover()
    assert [key for key in things(inspector, ".lz-source") if key.startswith("line")] == ["line:0:3"]


# ---- keys --------------------------------------------------------------------------------------------------


def test_tabs_are_switched_by_keyboard(notebook, inspector):
    inspector.get_by_role("tab", name="Graph").focus()
    for expected in ("Fusion", "HLO", "Code", "Cost"):
        notebook.page.keyboard.press("ArrowRight")
        assert inspector.get_by_role("tab", name=expected).get_attribute("aria-selected") == "true"
    notebook.page.keyboard.press("Home")
    assert inspector.locator(".lz-canvas").is_visible()


def test_jupyters_shortcuts_do_not_fire(notebook, inspector):
    before = notebook.sources()
    page = notebook.page
    for target in (".lz-kind-op", ".lz-code-line.lz-thing", ".lz-tool", "[role=tab][tabindex='0']"):
        inspector.locator(target).first.focus()
        for key in ("b", "a", "d", "d", "x", "m", "y", "Shift+Enter"):
            page.keyboard.press(key)
            assert inspector.evaluate("root => root.contains(document.activeElement)"), (target, key)
    page.keyboard.press("/")
    page.keyboard.type("dd bb xz")
    page.keyboard.press("Control+a")
    page.keyboard.press("Shift+Enter")
    assert inspector.locator(".lz-search:visible").input_value() == "dd bb xz"
    page.wait_for_timeout(100)
    assert notebook.sources() == before
    assert notebook.page.locator(".jp-Cell.jp-mod-selected").count() == 1
    page.keyboard.press("Escape")
    assert inspector.locator(".lz-search:visible").input_value() == ""


def test_saving_by_keyboard_works_from_inside(notebook, inspector, root):
    notebook.page.evaluate(f"void ({NOTEBOOK.replace('?.', '.')}.context.model.dirty = true)")
    inspector.locator(".lz-kind-op").first.focus()
    notebook.page.keyboard.press("Control+s")
    notebook.page.wait_for_function(f"{NOTEBOOK}.context.model.dirty === false")


# ---- asking ------------------------------------------------------------------------------------------------


def test_asking_the_compiler_shows_its_reasons(inspector):
    tab(inspector, "Fusion")
    assert inspector.locator(".lz-boundary .lz-said").count() == 0
    button = inspector.get_by_role("button", name="Ask the compiler")
    button.click()
    assert button.get_attribute("aria-disabled") == "true"
    assert "compiling again… " in inspector.locator(".lz-body .lz-ask-state").first.inner_text()
    inspector.locator(".lz-boundary .lz-said").first.wait_for()
    assert (
        button.is_enabled()
        and "The compiler said why" in inspector.locator(".lz-body .lz-ask-state").first.inner_text()
    )


def test_measuring_shows_times_and_the_roofline(inspector):
    tab(inspector, "Cost")
    assert inspector.locator(".lz-roofline").count() == 0
    inspector.get_by_role("button", name="Measure").click()
    assert inspector.evaluate("root => root.classList.contains('lz-busy')")
    inspector.locator(".lz-roofline").wait_for(timeout=90_000)  # every kernel, and what the machine can do
    assert inspector.locator(".lz-dot").count() > 2
    assert re.search(r"\d (µ|m)s", inspector.locator("tr.lz-total").inner_text())
    assert not inspector.evaluate("root => root.classList.contains('lz-busy')")


def test_a_boundary_kept_by_a_variable_is_verified(notebook):
    notebook.run(OTHER, KEPT)
    inspector = notebook.inspector(OTHER)
    tab(inspector, "Fusion")
    kept = inspector.locator(
        ".lz-boundary", has=notebook.page.get_by_role("button", name="Verify", exact=True)
    )
    kept = kept.filter(has_text="kept alive by h")
    assert (
        kept.count() == 1 and "rule inferred" in kept.inner_text() and "del the variable" in kept.inner_text()
    )
    kernels = inspector.locator(".lz-card").count()
    kept.get_by_role("button", name="Verify").click()
    verdict = inspector.locator(".lz-verdict")
    verdict.wait_for()
    assert re.search(r"\bh\b", verdict.inner_text()), verdict.inner_text()
    assert (
        "verified by recompiling"
        in inspector.locator(".lz-boundary", has=notebook.page.locator(".lz-verdict")).inner_text()
    )
    notebook.run(OTHER, KEPT.removesuffix("loss") + "del h\nloss")
    inspector = notebook.inspector(OTHER)
    tab(inspector, "Fusion")
    assert inspector.locator(".lz-var").all_inner_texts() == ["loss"]
    assert inspector.locator(".lz-card").count() == kernels - 1


# ---- several, again and again ------------------------------------------------------------------------------


def test_two_widgets_are_independent(notebook, inspector):
    notebook.run(OTHER, KEPT)
    second = notebook.inspector(OTHER)
    inspector.locator(thing("line:0:2")).click()
    tab(second, "HLO")
    second.locator(thing("line:0:3")).click()
    assert things(inspector, ".lz-source", "lz-stuck") == ["line:0:2"]
    assert things(second, ".lz-source", "lz-stuck") == ["line:0:3"]
    assert inspector.get_by_role("tab", name="Graph").get_attribute("aria-selected") == "true"
    ids = notebook.page.evaluate("[...document.querySelectorAll('.lazynb-inspector [id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))


def test_the_switch_compiles_and_shows_the_jit_program(notebook):
    cell = notebook.run(OTHER, KEPT)
    notebook.inspector(OTHER)
    shown = cell.locator(".lazynb-inspector:visible")
    lazy, jitted = (shown.get_by_role("radio", name=name) for name in ("lazynb's program", "as jax.jit"))
    expect(jitted).to_contain_text("not compiled yet")
    shown.locator(thing("line:0:3")).click()
    lazy.focus()
    notebook.page.keyboard.press("ArrowRight")
    expect(jitted).to_have_attribute("aria-checked", "true")
    expect(jitted).to_contain_text("through memory")
    expect(jitted).to_be_focused()
    assert shown.count() == 1 and "not run" in shown.locator(".lz-header").inner_text()
    assert "line:0:3" in things(shown, ".lz-source", "lz-stuck")
    tab(shown, "Fusion")
    shown.get_by_role("button", name="Ask the compiler").click()
    shown.get_by_text("The compiler said why").wait_for()
    if shots := os.environ.get("LAZYNB_SHOTS"):
        notebook.page.screenshot(path=f"{shots}/switch.png")
    notebook.page.keyboard.press("Escape")
    lazy.click()
    assert things(shown, ".lz-source", "lz-stuck") == []
    assert "not run" not in shown.locator(".lz-header").inner_text()


def test_rerunning_a_cell_frees_the_former_widget(notebook):
    """No widget of an earlier run is in the page, nor in its memory."""
    client = notebook.page.context.new_cdp_session(notebook.page)
    notebook.page.evaluate("window.seen = []")
    for _ in range(10):
        notebook.run(OTHER, KEPT)
        notebook.inspector(OTHER).evaluate("root => { window.seen.push(new WeakRef(root)); }")
    assert notebook.page.locator(".lazynb-inspector").count() == 2
    client.send("HeapProfiler.collectGarbage")
    assert notebook.page.evaluate("window.seen.filter(one => one.deref()).length") <= 2
    count = "sum(type(one).__name__ == 'Inspector' for one in widget._instances.values())"
    assert (
        notebook.run(OTHER, f"from ipywidgets.widgets import widget\nprint({count})").inner_text().strip()
        == "2"
    ), "nor in the kernel's"


# ---- what goes wrong ---------------------------------------------------------------------------------------


def test_markup_in_a_name_stays_text(notebook):
    notebook.run(OTHER, f"%%compile\nglobals()[{EVIL!r}] = kept = jnp.sin(x)\n(jnp.sqrt(kept) + kept).sum()")
    inspector = notebook.inspector(OTHER)
    assert EVIL in notebook.output(OTHER).inner_text() or EVIL in inspector.locator(".lz-canvas").inner_text()
    for name in ("Fusion", "HLO", "Cost", "Memory"):
        tab(inspector, name)
    assert notebook.page.evaluate("window.injected") is None
    assert notebook.output(OTHER).locator("img[src=x]").count() == 0


def test_an_error_in_the_cell_leaves_no_widget(notebook):
    output = notebook.run(OTHER, "%%compile\ny = jnp.sin(x)\n1 / 0")
    assert "ZeroDivisionError" in output.inner_text()
    assert output.locator(".lazynb-inspector").count() == 0
    notebook.run(OTHER, KEPT)
    assert notebook.inspector(OTHER).locator(".lz-box").count() > 2


LONG = "%%compile\nr = jax.lax.fori_loop(0, 60, lambda i, v: jnp.tanh(v @ w), x)\nr.sum()"


def test_an_interrupt_while_measuring_is_reported(notebook):
    notebook.run(OTHER, LONG)
    inspector = notebook.inspector(OTHER)
    tab(inspector, "Cost")
    inspector.get_by_role("button", name="Measure").click()
    notebook.page.wait_for_timeout(150)
    notebook.execute("notebook:interrupt-kernel")
    inspector.locator(".lz-body .lz-ask-state.lz-error").wait_for()
    assert "interrupted" in inspector.locator(".lz-body .lz-ask-state").inner_text()
    inspector.get_by_role("button", name="Measure").click()
    inspector.locator(".lz-costs .lz-whisker").first.wait_for()
    assert inspector.locator(".lz-times").count() >= 1, "what runs in the loop says how often"
    assert "2.0" in notebook.run(OTHER, "print(jnp.ones(2).sum())").inner_text()


def test_dark_theme_can_be_read(notebook, inspector):
    notebook.execute("apputils:change-theme", '{ theme: "JupyterLab Dark" }')
    try:
        notebook.page.wait_for_function("document.body.dataset.jpThemeLight === 'false'")
        inspector.locator(thing("line:0:4")).click()
        away(inspector)
        for name in ("Graph", "Fusion", "HLO", "Cost", "Memory", "Cache"):
            tab(inspector, name)
            assert notebook.page.evaluate(CONTRAST) == [], name
    finally:
        notebook.execute("apputils:change-theme", '{ theme: "JupyterLab Light" }')
    notebook.page.wait_for_function("document.body.dataset.jpThemeLight === 'true'")
    assert notebook.page.evaluate(CONTRAST) == []


# ---- without the kernel ------------------------------------------------------------------------------------


def test_a_page_that_is_loaded_again_finds_its_kernel(notebook):
    tab(notebook.inspector(MAIN), "Cost")
    if notebook.inspector(MAIN).locator(".lz-roofline").count() == 0:
        notebook.inspector(MAIN).get_by_role("button", name="Measure").click()
        notebook.inspector(MAIN).locator(".lz-roofline").wait_for()
    notebook.save()
    notebook.page.reload()
    notebook.wait_for_kernel()
    inspector = notebook.inspector(MAIN)
    tab(inspector, "Cost")
    assert inspector.locator(".lz-roofline").count() == 1, "what was measured is still there"
    tab(inspector, "Fusion")
    inspector.get_by_role("button", name="Ask the compiler").click()
    inspector.get_by_text("The compiler said why").wait_for()


def test_after_a_restart_questions_are_answered_with_run_the_cell_again(notebook, inspector):
    notebook.page.evaluate(f"async () => {{ await {KERNEL}.restart(); }}")
    notebook.wait_for_kernel()
    tab(inspector, "Cost")
    inspector.get_by_role("button", name="Measure").click()
    inspector.locator(".lz-body .lz-ask-state.lz-error").wait_for()
    assert "Run the cell again" in inspector.locator(".lz-body .lz-ask-state").inner_text()
    tab(inspector, "Graph")
    assert inspector.locator(".lz-box").count() > 10
    notebook.run(0, SETUP)
    notebook.run(MAIN, PROGRAM)
    tab(notebook.inspector(MAIN), "Fusion")


@pytest.mark.parametrize("how", ["with another kernel", "without a kernel", "untrusted"])
def test_a_saved_notebook_shows_the_static_form(notebook, browser, root, address, how):
    notebook.save()
    saved = nbformat.read(root / "main.ipynb", as_version=4)
    del saved.cells[2:]
    if how == "without a kernel":
        saved.metadata.kernelspec.name = "there-is-none"
    name = saved.metadata.how = how.replace(" ", "-")  # each another notebook: trust is in the content
    nbformat.write(saved, root / f"{name}.ipynb")
    if how != "untrusted":
        NotebookNotary(data_dir=str(root / "data")).sign(saved)
    reopened = Notebook(browser)
    try:
        reopened.open(
            address, f"lab/workspaces/{name}/tree/{name}.ipynb", kernel=how == "with another kernel"
        )
        form = reopened.output(MAIN).locator(".lazynb-inspection")
        form.wait_for()
        trusted = reopened.page.evaluate(f"{NOTEBOOK}.content.widgets[{MAIN}].model.trusted")
        assert trusted is (how != "untrusted")
        if trusted:
            assert reopened.output(MAIN).locator("style").count() == 1, (
                "what hides the message that no widget is found"
            )
        assert "20 operations → " in form.inner_text()
        assert form.bounding_box()["height"] > 300
        shown = reopened.output(MAIN).inner_text()
        assert "rror displaying" not in shown and "Loading widget" not in shown and "@keyframes" not in shown
    finally:
        reopened.page.close()


def test_the_inspector_works_in_notebook_7(browser, tmp_path):
    """The classic-looking one: the same widget, the same keys."""
    write(tmp_path / "main.ipynb", SETUP, PROGRAM)
    with serving(tmp_path, "notebook") as address:
        notebook = Notebook(browser)
        try:
            notebook.open(address, "notebooks/main.ipynb")
            notebook.run(0, SETUP)
            notebook.run(MAIN, PROGRAM)
            inspector = notebook.inspector(MAIN)
            assert not notebook.output(MAIN).locator(".lazynb-inspection").is_visible()
            inspector.get_by_role("button", name="Open gelu").click()
            inspector.locator(thing("line:0:3")).click()
            assert sum(key.startswith("node") for key in things(inspector, ".lz-canvas")) == 8
            inspector.locator(".lz-kind-op").first.focus()
            for key in "bdd":
                notebook.page.keyboard.press(key)
            assert notebook.sources() == [SETUP, PROGRAM]
            tab(inspector, "Fusion")
            inspector.get_by_role("button", name="Ask the compiler").click()
            inspector.get_by_text("The compiler said why").wait_for()
        finally:
            notebook.page.close()


def test_predict_is_answered_by_clicking(notebook):
    """The student marks the lines, and the answer comes under the form."""
    cell = notebook.run(OTHER, "%%predict\np = x * x\nt = jnp.tanh(p)\ny = t @ t.T\ndel p, t")
    lines = cell.locator(".widget-toggle-buttons")
    expect(lines).to_have_count(3)
    lines.nth(1).get_by_role("button", name="A").click()
    cell.get_by_role("button", name="Reveal").click()
    expect(cell.locator(".lazynb-prediction")).to_contain_text("2 of 2 right")
    notebook.page.set_viewport_size({"width": 800, "height": 1000})
    for part in [*lines.all(), cell.locator(".lazynb-prediction")]:
        box, room = part.bounding_box(), cell.bounding_box()
        assert box["x"] + box["width"] <= room["x"] + room["width"] + 1, "nothing is off the screen"
    if shots := os.environ.get("LAZYNB_SHOTS"):
        notebook.page.screenshot(path=f"{shots}/predict.png")
    notebook.page.set_viewport_size({"width": 1400, "height": 1000})
    notebook.run(OTHER, "del y")
