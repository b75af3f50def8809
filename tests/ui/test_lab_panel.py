"""The status item, the panel, the commands and the graphs of the extension, in a real JupyterLab with a real
kernel."""

from __future__ import annotations

import json
import re

import pytest

for package in ("jupyterlab", "nbformat", "ipykernel", "playwright"):
    pytest.importorskip(package, reason=f"{package} is not installed here")

import nbformat  # noqa: E402
from lab import KERNEL, NOTEBOOK, Notebook, write  # noqa: E402
from lab_page import (  # noqa: E402
    PANEL,
    PROGRAM,
    SETUP,
    STATUS,
    activate,
    cell,
    extended,
    marks,
    restart,
    run_through,
    shot,
    until,
    violations,
)
from nbformat.sign import NotebookNotary  # noqa: E402
from playwright.sync_api import expect  # noqa: E402
from reading import CONTRAST  # noqa: E402

pytestmark = pytest.mark.xdist_group("lab-panel")  # one server and one kernel serve all

MAIN, OTHER = 1, 2
PENDING = "p = jnp.sin(x) @ jnp.ones((512, 4))"
GRAPH = ".jp-OutputArea .lazynb-graph"
ENABLED = "id => window.jupyterapp.commands.isEnabled(id)"
TOGGLED = "window.jupyterapp.commands.isToggled('lazynb:toggle-lazy')"
# Speaks on lazynb's comm as the kernel does, for what cannot be had at will.
FAKE = """import time
from comm import get_comm_manager
[say] = [one.send for one in get_comm_manager().comms.values() if one.target_name == "lazynb"]
"""


@pytest.fixture(scope="module")
def opened(browser, root, address):
    write(root / "main.ipynb", SETUP, PROGRAM, "", "")
    write(root / "plain.ipynb", "1 + 1", "")
    with run_through(browser, address, "lab/tree/main.ipynb", cells=2) as notebook:
        notebook.page.locator(STATUS).wait_for()
        yield notebook


@pytest.fixture
def notebook(opened):
    """The main notebook in front, the panel open at its first tab."""
    opened.page.keyboard.press("Escape")
    opened.execute("docmanager:open", "{ path: 'main.ipynb' }")
    opened.execute("lazynb:show-panel")
    tab(opened, "Pending")
    return opened


def tab(notebook, name):
    notebook.page.locator(f"{PANEL} > .lz-tabs").get_by_role("tab", name=name).click()


def view(notebook):
    return notebook.page.locator(f"{PANEL} > .lz-view")


# ---- the status bar ----------------------------------------------------------------------------------------


def test_the_status_bar_counts(notebook):
    status = notebook.page.locator(STATUS)
    notebook.run(OTHER, "%lazy off\n%lazy on")
    before = status.inner_text()
    assert (
        "0 pending" in before.replace("\n", " ")
        and "lazy" in before
        and "executable" in before
        and "hits" in before
        and "1 break" in before
    ), before
    notebook.run(OTHER, PENDING)
    pending = re.compile(r"\b[1-9]\d* pending")
    until(notebook.page, lambda: pending.search(status.inner_text().replace("\n", " ")), status.inner_text)
    notebook.execute("application:toggle-right-area")
    status.get_by_role("button").click()
    expect(notebook.page.locator(PANEL)).to_be_visible()
    assert "trace break" in status.get_by_role("button").get_attribute("title")
    notebook.run(OTHER, "del p")


def test_a_long_compilation_shows_that_it_compiles(notebook):
    """What compiles, where and for how long: in the status bar and on the cell. Gone when it is done."""
    page = notebook.page
    message = '{"type": "compiling", "operations": 812, "cell": "cell2", "label": "cell 9", "seconds": 0.0}'
    notebook.start(OTHER, f'{FAKE}say({message})\ntime.sleep(4)\nsay({{"type": "compiled"}})')
    page.wait_for_timeout(500)
    assert page.locator(".lazynb-progress").count() == 0, "not at once"
    progress = cell(page, OTHER).locator(".lazynb-progress")
    progress.wait_for()
    until(page, lambda: "3 s" in progress.inner_text(), "it counts")
    assert "compiling 812 operations, cell 9" in progress.inner_text()
    assert "compiling 812 operations, cell 9, 3 s" in page.locator(STATUS).inner_text()
    shot(notebook.page, "compiling")
    progress.wait_for(state="detached")
    assert "compiling" not in page.locator(STATUS).inner_text()


def test_interrupting_a_compilation_leaves_everything_as_it_was(notebook):
    """A real one, of some seconds. (XLA goes on compiling until the kernel is restarted.)"""
    page = notebook.page
    long = "import random\ny = jnp.ones(64)\nfor _ in range(3000):\n"  # no two stretches of it are alike: it is not cut
    long += "    y = random.choice([jnp.sin, jnp.tanh, jnp.arctan])(y)\nprint(float(y[0]))"
    notebook.start(OTHER, long)
    progress = cell(page, OTHER).locator(".lazynb-progress")
    progress.wait_for(timeout=60_000)
    assert re.search(r"compiling [\d,]+ operations, cell \d+", progress.inner_text())
    page.evaluate(f"async () => {{ await {KERNEL}.interrupt(); }}")
    progress.wait_for(state="detached")
    cell(page, OTHER).get_by_text("KeyboardInterrupt").first.wait_for()
    pending = re.compile(r"\b[1-3],?\d{3} pending")
    status = page.locator(STATUS)
    until(page, lambda: pending.search(status.inner_text().replace("\n", " ")), status.inner_text)
    restart(notebook)
    notebook.run(0, SETUP)
    notebook.run(MAIN, PROGRAM)
    notebook.run(OTHER, "")


def test_a_restart_removes_the_compiling_indicator(notebook):
    page = notebook.page
    message = '{"type": "compiling", "operations": 812, "cell": "cell2", "label": "cell 9", "seconds": 5.0}'
    notebook.run(OTHER, f"{FAKE}say({message})")
    cell(page, OTHER).locator(".lazynb-progress").wait_for()
    restart(notebook)
    cell(page, OTHER).locator(".lazynb-progress").wait_for(state="detached")
    expect(page.locator(STATUS)).to_be_hidden()
    until(
        page, lambda: "%load_ext lazynb" in view(notebook).inner_text(), lambda: view(notebook).inner_text()
    )
    notebook.run(0, SETUP)
    notebook.run(MAIN, PROGRAM)
    page.locator(STATUS).wait_for()


# ---- the panel ---------------------------------------------------------------------------------------------


def test_the_panel_follows_pending_operations_breaks_and_cache(notebook):
    page = notebook.page
    notebook.run(OTHER, PENDING)
    view(notebook).locator(".lz-box", has_text="sin").wait_for()
    assert view(notebook).locator(".lz-box", has_text="matmul").count() == 1
    notebook.run(OTHER, "print(float(p[0, 0]))")
    until(page, lambda: view(notebook).locator(".lz-box").count() == 0, "nothing is pending")
    assert "pending" in view(notebook).inner_text()
    tab(notebook, "Breaks")
    view(notebook).locator("td", has_text="LNB").first.wait_for()
    rows = view(notebook).locator("tbody tr").count()
    notebook.run(OTHER, "if jnp.cos(x).sum() > 1e9: pass")
    until(page, lambda: view(notebook).locator("tbody tr").count() == rows + 1, "one more break")
    tab(notebook, "Cache")
    view(notebook).locator("tbody tr").first.wait_for()
    tab(notebook, "Compilation")
    view(notebook).locator(".lz-title", has_text="Cell").wait_for()


def test_the_inspector_in_the_panel_asks_the_kernel(notebook):
    notebook.run(MAIN, PROGRAM)
    tab(notebook, "Compilation")
    inspector = view(notebook).locator(".lazynb-inspector")
    inspector.get_by_role("tab", name="Fusion").click()
    inspector.get_by_role("button", name="Ask the compiler").click()
    inspector.get_by_text("The compiler said why").wait_for()
    notebook.run(OTHER, "1 + 1")
    notebook.page.wait_for_timeout(500)
    assert inspector.get_by_role("tab", name="Fusion").get_attribute("aria-selected") == "true", (
        "it stays as it is"
    )


def test_the_last_compilation_is_that_of_the_cell(notebook):
    """What an earlier cell left pending runs with it, and is counted apart; the cell's widget says the same."""
    notebook.run(OTHER, "key = jax.random.key(2)\nX = jax.random.normal(key, (64, 512))")
    notebook.run(3, "%%compile\njax.nn.sigmoid(X @ w)")
    tab(notebook, "Compilation")
    head = view(notebook).locator(".lz-header")
    expect(head.locator(".lz-counts")).to_contain_text("2 operations")
    expect(head.locator(".lz-earlier summary")).to_contain_text(
        re.compile(r"^Apart: \d+ operations that earlier cells left pending, from cell \d+ → \d+ kernels$")
    )
    expect(notebook.inspector(3).locator(".lz-counts")).to_contain_text("2 operations")
    assert set(marks(notebook.page, OTHER)) and set(marks(notebook.page, 3))


def test_the_panel_follows_the_focus(notebook):
    page = notebook.page
    notebook.run(OTHER, PENDING)
    view(notebook).locator(".lz-kind-op", has_text="sin").first.wait_for()
    notebook.execute("docmanager:open", "{ path: 'plain.ipynb' }")
    page.wait_for_function(f"{NOTEBOOK}?.context?.path === 'plain.ipynb' && {KERNEL}?.status === 'idle'")
    until(
        page, lambda: "%load_ext lazynb" in view(notebook).inner_text(), lambda: view(notebook).inner_text()
    )
    expect(page.locator(STATUS)).to_be_hidden()
    assert not page.evaluate(ENABLED, "lazynb:compile")
    notebook.run(0, "import jax.numpy as jnp\n%load_ext lazynb")
    notebook.run(1, "q = jnp.tan(jnp.ones(3))")
    view(notebook).locator(".lz-kind-op", has_text="tan").first.wait_for()
    notebook.execute("docmanager:open", "{ path: 'main.ipynb' }")
    view(notebook).locator(".lz-kind-op", has_text="sin").first.wait_for()
    assert view(notebook).locator(".lz-box", has_text="tan").count() == 0
    assert page.evaluate(ENABLED, "lazynb:compile")
    notebook.run(OTHER, "del p")


def test_a_kernel_without_lazynb_gets_no_messages(notebook, browser, root, address):
    write(root / "silent.ipynb", "1 + 1")
    other = Notebook(browser)
    try:
        other.open(address, "lab/workspaces/silent/tree/silent.ipynb")
        watch = f"""() => {{ window.sent = []; {KERNEL}.anyMessage.connect((_, {{ direction, msg }}) => {{
          if (direction === 'send') window.sent.push(msg.header.msg_type); }}); }}"""
        other.page.evaluate(watch)
        other.execute("lazynb:show-panel")
        other.run(0, "1 + 1")
        other.page.wait_for_timeout(300)
        sent = other.page.evaluate("window.sent")
        assert "execute_request" in sent and not {"comm_msg", "comm_open", "comm_close"} & set(sent), sent
        assert not other.errors
    finally:
        other.page.close()


def test_the_panel_is_usable_by_keyboard_and_accessible(notebook):
    page = notebook.page
    notebook.run(OTHER, PENDING)
    tabs = page.locator(f"{PANEL} > .lz-tabs").get_by_role("tab")
    tabs.first.focus()
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        notebook.execute("apputils:change-theme", f"{{ theme: '{theme}' }}")
        page.wait_for_function(f"document.body.dataset.jpThemeName === '{theme}'")
        for at, name in enumerate(("Pending", "Breaks", "Cache", "Compilation")):
            tabs.nth(at).focus()
            if at:
                tabs.nth(at - 1).focus()
                page.keyboard.press("ArrowRight")
            else:
                page.keyboard.press("Home")
            assert tabs.nth(at).get_attribute("aria-selected") == "true" and name in tabs.nth(at).inner_text()
            view(notebook).locator(".lazynb-inspector").wait_for()
            page.wait_for_timeout(200)
            assert violations(page, PANEL) == [], (theme, name)
            assert page.evaluate(CONTRAST) == [], (theme, name)
            shot(notebook.page, f"panel-{at}-{theme.split()[-1]}")
        assert violations(page, STATUS) == [], theme
    notebook.execute("apputils:change-theme", "{ theme: 'JupyterLab Light' }")
    notebook.run(OTHER, "del p")


# ---- commands ----------------------------------------------------------------------------------------------


def test_the_compile_command_runs_pending_operations(notebook):
    notebook.run(OTHER, PENDING)
    view(notebook).locator(".lz-box", has_text="sin").wait_for()
    notebook.execute("lazynb:compile")
    until(notebook.page, lambda: view(notebook).locator(".lz-box").count() == 0, "it was run")
    assert notebook.run(OTHER, "print(repr(p)[:6])\ndel p").inner_text()


def test_the_run_eagerly_command_runs_the_cell_eagerly_once(notebook):
    page = notebook.page
    source = "e = jnp.sin(x) + 1\nprint(type(e).__name__)"
    assert "Lazy" in notebook.run(OTHER, source).inner_text()
    notebook.execute("lazynb:run-eagerly")
    assert notebook.output(OTHER).inner_text().strip() == "ArrayImpl"
    assert notebook.sources()[OTHER] == source
    assert page.evaluate(TOGGLED), "lazy mode is as it was"
    notebook.run(OTHER, "1 / 0")
    notebook.execute("lazynb:run-eagerly")
    assert "ZeroDivisionError" in notebook.output(OTHER).inner_text()
    assert "Lazy" in notebook.run(OTHER, source).inner_text(), "after an error too"
    notebook.run(OTHER, "del e")


def test_lazy_mode_is_a_toggle(notebook):
    page = notebook.page
    assert page.evaluate(TOGGLED)
    notebook.execute("lazynb:toggle-lazy")
    until(page, lambda: not page.evaluate(TOGGLED), "off")
    assert "eager" in page.locator(STATUS).inner_text()
    assert "ArrayImpl" in notebook.run(OTHER, "print(type(jnp.sin(x)).__name__)").inner_text()
    notebook.execute("lazynb:toggle-lazy")
    until(page, lambda: page.evaluate(TOGGLED), "on")


def test_the_clear_cache_command_empties_the_tables(notebook):
    tab(notebook, "Breaks")
    view(notebook).locator("tbody tr").first.wait_for()
    notebook.execute("lazynb:clear-cache")
    until(
        notebook.page,
        lambda: view(notebook).locator("tbody tr").count() == 0,
        lambda: view(notebook).inner_text(),
    )
    notebook.run(MAIN, PROGRAM)


def test_the_run_menu_and_the_palette_have_the_commands(notebook):
    page = notebook.page
    page.locator(".lm-MenuBar-itemLabel", has_text="Run").click()
    menu = page.locator(".lm-Menu[data-type], .lm-Menu").last
    for label in (
        "Compile Pending Operations",
        "Run Cell Eagerly",
        "Lazy Mode",
        "Clear Cache of Executables",
        "Show Trace Breaks",
    ):
        assert menu.get_by_text(label, exact=True).count() == 1, label
    assert menu.locator("[data-command='lazynb:toggle-lazy']").get_attribute("aria-checked") == "true"
    shot(notebook.page, "menu")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    assert page.evaluate(
        "window.jupyterapp.commands.keyBindings.some(one => one.command === 'lazynb:show-marks')"
    )
    assert page.evaluate("window.jupyterapp.commands.caption('lazynb:show-marks')")


def test_running_what_a_cell_displays_is_a_setting(notebook):
    page = notebook.page
    notebook.run(OTHER, "jnp.ones(2) + 1").locator(".lazynb-graph").wait_for()
    try:
        page.evaluate(
            "window.jupyterapp.serviceManager.settings.save('@lazynb/extension:plugin', '{\"autocompile\": "
            "true}')"
        )
        page.reload()
        notebook.wait_for_kernel()
        page.locator(STATUS).wait_for()
        shown = lambda: notebook.run(OTHER, "jnp.ones(2) + 1").inner_text()  # noqa: E731
        until(page, lambda: "[2., 2.]" in shown(), "the page reads its settings after it has said hello")
    finally:
        page.evaluate("window.jupyterapp.serviceManager.settings.save('@lazynb/extension:plugin', '{}')")
        page.reload()
        notebook.wait_for_kernel()
        page.locator(STATUS).wait_for()


# ---- graphs ------------------------------------------------------------------------------------------------


def test_a_graph_in_an_output_is_interactive(notebook):
    page = notebook.page
    output = notebook.run(OTHER, "g = jnp.tanh(x) * 2 + 1\nunused = g + 1\ng")
    graph = output.locator(".lazynb-graph")
    box = graph.locator(".lz-box", has_text="tanh")
    box.wait_for()
    notebook.page.mouse.move(0, 0)
    expect(graph.locator(".lz-ahead")).to_contain_text("Reading it runs 4 operations: not compiled yet.")
    box.hover()
    said = graph.locator(".lz-foot").inner_text()
    assert "f32[256,512]" in said and "line 1" in said and "jnp.tanh(x)" in said
    before = notebook.sources()
    graph.locator(".lz-canvas").focus()
    scale = graph.locator(".lz-level")
    start = scale.text_content()
    for key in ("+", "d", "d", "x"):
        page.keyboard.press(key)
    assert scale.text_content() != start and notebook.sources() == before
    graph.get_by_role("button", name="Operations").click()
    assert "multiply" in graph.inner_text()
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        notebook.execute("apputils:change-theme", f"{{ theme: '{theme}' }}")
        page.wait_for_function(f"document.body.dataset.jpThemeName === '{theme}'")
        assert violations(page, GRAPH) == [] and page.evaluate(CONTRAST) == []
    notebook.run(OTHER, "del g, unused")


def test_a_large_graph_opens_in_groups(notebook):
    output = notebook.run(OTHER, "g = x\nfor i in range(60):\n    g = jnp.sin(g) * 2\ng")
    graph = output.locator(".lazynb-graph")
    graph.locator(".lz-box").first.wait_for(timeout=60_000)
    closed = graph.locator(".lz-box").count()
    assert closed < 60
    graph.locator(".lz-toggle", has_text="+").first.click()
    assert graph.locator(".lz-box").count() > closed
    shot(notebook.page, "large")
    notebook.run(OTHER, "del g")


@pytest.mark.parametrize("how", ["trusted", "untrusted"])
def test_a_graph_in_a_saved_notebook_is_shown_without_a_kernel(notebook, browser, root, address, how):
    notebook.run(OTHER, "g = jnp.tanh(x) * 2\ng")
    notebook.save()
    saved = nbformat.read(root / "main.ipynb", as_version=4)
    saved.metadata.kernelspec.name = "there-is-none"
    saved.metadata.how = how
    bundle = saved.cells[OTHER].outputs[0].data
    assert "application/vnd.lazynb.graph+json" in bundle
    newer = nbformat.from_dict(json.loads(json.dumps(saved.cells[OTHER])))
    newer.id = "newer"
    newer.outputs[0].data["application/vnd.lazynb.graph+json"]["version"] = 2
    saved.cells.append(newer)
    nbformat.write(saved, root / f"{how}.ipynb")
    if how == "trusted":
        NotebookNotary(data_dir=str(root / "data")).sign(saved)
    reopened = Notebook(browser)
    try:
        reopened.open(address, f"lab/workspaces/{how}/tree/{how}.ipynb", kernel=False)
        graph = reopened.output(OTHER).locator(".lazynb-graph")
        graph.locator(".lz-box", has_text="tanh").hover()
        assert "f32[256,512]" in graph.locator(".lz-foot").inner_text()
        assert reopened.page.evaluate(f"{NOTEBOOK}.content.widgets[{OTHER}].model.trusted") is (
            how == "trusted"
        )
        fallback = reopened.output(len(saved.cells) - 1)
        assert fallback.locator(".lz-box").count() == 0 and "tanh" in fallback.inner_text(), (
            "another version: in words"
        )
        assert not reopened.errors
    finally:
        reopened.page.close()
    notebook.run(OTHER, "del g")


# ---- long-lived --------------------------------------------------------------------------------------------


RUNS = f"""async times => {{
  const {{ content, sessionContext }} = {NOTEBOOK};
  for (let i = 0; i < times; i += 1) for (const at of [{MAIN}, 3]) {{
    const cell = content.widgets[at];
    await cell.constructor.execute(cell, sessionContext, {{ cellId: cell.model.id }});
  }}
}}"""


def counted(page, client) -> tuple[int, int, int]:
    """Elements in the page; all DOM nodes that something still holds; listeners."""
    page.wait_for_timeout(1500)
    for _ in range(3):  # a round of the collector frees what the round before found
        client.send("HeapProfiler.collectGarbage")
        page.wait_for_timeout(200)
    found = {one["name"]: one["value"] for one in client.send("Performance.getMetrics")["metrics"]}
    return page.evaluate("document.querySelectorAll('*').length"), found["Nodes"], found["JSEventListeners"]


@pytest.mark.full  # two minutes
def test_two_hundred_runs_leak_no_elements(notebook):
    """Each run draws a graph in the output and in the panel: one that stayed would be some 100 nodes and 20
    listeners."""
    page = notebook.page
    client = page.context.new_cdp_session(page)
    client.send("Performance.enable")
    notebook.run(3, "jnp.cos(x) + 1")
    page.evaluate(RUNS, 20)
    shown, held, heard = counted(page, client)
    page.evaluate(RUNS, 180)
    later = counted(page, client)
    assert "cos" in view(notebook).inner_text()
    assert later[0] - shown < 400, "two pictures, however many results wait in them"
    assert later[1] - held < 10 * 180, "the browser itself keeps pictures and the log of requests for a while"
    assert later[2] - heard < 40
    activate(page, MAIN)
    assert marks(page, MAIN)
    comms = "from comm import get_comm_manager\nprint([c.target_name for c in get_comm_manager().comms.values()].count('lazynb'))"
    assert notebook.run(OTHER, comms).inner_text().strip() == "1"


def test_marks_panel_and_graphs_work_in_notebook_7(browser, tmp_path):
    """Marks, panel and graphs there too; it has no status bar."""
    pytest.importorskip("notebook", reason="notebook is not installed here")
    write(tmp_path / "main.ipynb", SETUP, PROGRAM, "")
    with extended(tmp_path, "notebook") as address:
        notebook = Notebook(browser)
        try:
            notebook.open(address, "notebooks/main.ipynb")
            notebook.run(0, SETUP)
            notebook.run(MAIN, PROGRAM)
            until(notebook.page, lambda: set(marks(notebook.page, MAIN)) == {1, 2, 3, 4, 5}, "marks")
            assert notebook.page.locator(STATUS).count() == 0
            notebook.execute("lazynb:show-breaks")
            notebook.page.locator(f"{PANEL} td", has_text="LNB").first.wait_for()
            boxes = notebook.run(OTHER, "jnp.sin(x)").locator(".lazynb-graph .lz-box")
            expect(boxes).to_have_count(2)
            shot(notebook.page, "notebook7")
            # Notebook 7.6 without any extension says so too
            own = "Cannot read properties of undefined (reading 'schema')"
            assert [one for one in notebook.errors if one != own] == []
        finally:
            notebook.page.close()
