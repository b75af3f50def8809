"""Breaks and the one selection in a real JupyterLab: the panel's timeline goes to the line, a mark selects in the inspector under its
cell, and what is selected anywhere is marked."""

from __future__ import annotations

import json

import pytest

for package in ("jupyterlab", "ipykernel", "playwright"):
    pytest.importorskip(package, reason=f"{package} is not installed here")

import jax.numpy as jnp  # noqa: E402
from lab import NOTEBOOK, Notebook, write  # noqa: E402
from lab_page import PANEL, SETUP, activate, cell, marks, run_through, shot, until, violations  # noqa: E402
from playwright.sync_api import expect  # noqa: E402

import lazynb  # noqa: E402

pytestmark = pytest.mark.xdist_group("lab-timeline")

HELPER = """def helper(y):
    return float(y.sum())"""
LOOP = """for step in range(30):
    y = jnp.sin(x) * step
    helper(y)"""
COMPILED = """%%compile
h = x @ w + 1.0
a = jax.nn.gelu(h)
if a.sum() > 1e9:
    a = a * 2
a.mean()"""
PLAIN = """b = jnp.tanh(x) + 1.0
c = b.sum(0)
print(float(c[0]))"""
SETTING, DEFINED, LOOPED, INSPECTED, UNINSPECTED = range(5)


@pytest.fixture(scope="module")
def opened(browser, root, address):
    write(root / "main.ipynb", SETUP, HELPER, LOOP, COMPILED, PLAIN)
    with run_through(browser, address, "lab/tree/main.ipynb", cells=5) as notebook:
        notebook.inspector(INSPECTED)
        yield notebook


@pytest.fixture
def notebook(opened):
    """All cells as they were run, the panel at its trace breaks, nothing selected."""
    page = opened.page
    page.mouse.move(600, 5)
    until(page, lambda: marks(page, LOOPED) and marks(page, INSPECTED) and marks(page, UNINSPECTED), "marks")
    for inspector in page.locator(".lazynb-inspector:has(.lz-tab)").all():
        if inspector.is_visible():
            inspector.locator(".lz-tab").first.focus()
            page.keyboard.press("Escape")
    opened.execute("lazynb:show-breaks")
    page.locator(f"{PANEL} .lz-timeline").wait_for()
    return opened


def chosen(page, at):
    """The lines of a cell that are marked as selected."""
    found = cell(page, at).locator(".lazynb-gutter .lz-mark.lz-chosen")
    return [int(one.get_attribute("data-line")) for one in found.all()]


# The active cell, and the line that the cursor is on.
CURSOR = f"""() => {{
  const {{ content }} = {NOTEBOOK};
  const {{ editor }} = content.activeCell;
  return [content.activeCellIndex, editor.getCursorPosition().line + 1, editor.hasFocus()];
}}"""


def test_a_row_of_the_panel_goes_to_its_line(notebook):
    page = notebook.page
    row = page.locator(f"{PANEL} .lz-broken tr", has_text="return float(y.sum())").first
    expect(row).to_contain_text("30 ×")
    activate(page, UNINSPECTED)
    row.locator(".lz-go").first.focus()
    page.keyboard.press("Enter")
    until(
        page,
        lambda: page.evaluate(CURSOR) == [DEFINED, 2, True],
        lambda: f"the cursor is at {page.evaluate(CURSOR)}",
    )
    until(page, lambda: chosen(page, DEFINED) == [2], lambda: f"selected: {chosen(page, DEFINED)}")
    assert chosen(page, LOOPED) == []
    shot(notebook.page, "timeline-panel")


def test_clicking_a_code_opens_its_callers_and_help(notebook):
    page = notebook.page
    row = page.locator(f"{PANEL} .lz-broken tr", has_text="return float(y.sum())").first
    row.get_by_role("button", name="LNB103").click()
    opened = page.locator(f"{PANEL} .lz-opened")
    expect(opened).to_contain_text("The same without it")
    shot(notebook.page, "timeline-help")
    opened.locator(".lz-stacks .lz-go", has_text="helper(y)").click()
    until(page, lambda: page.evaluate(CURSOR) == [LOOPED, 3, True], lambda: f"{page.evaluate(CURSOR)}")
    assert violations(page, PANEL) == []


def test_a_row_of_the_cache_goes_to_its_line(notebook):
    page = notebook.page
    page.locator(f"{PANEL} > .lz-tabs").get_by_role("tab", name="Cache").click()
    page.locator(f"{PANEL} td .lz-go", has_text="b.sum(0)").or_(
        page.locator(f"{PANEL} td .lz-go", has_text="float(c[0])")
    ).first.click()
    until(page, lambda: page.evaluate(CURSOR)[0] == UNINSPECTED, lambda: f"{page.evaluate(CURSOR)}")
    assert page.evaluate(CURSOR)[1] in (2, 3)


def test_a_mark_selects_in_the_inspector_under_its_cell(notebook):
    page = notebook.page
    notebook.execute("application:toggle-right-area")
    try:
        cell(page, INSPECTED).locator(".lz-mark[data-line='3']").click()
        inspector = notebook.inspector(INSPECTED)
        lit = inspector.locator(".lz-source .lz-code-line.lz-lit")
        until(page, lambda: lit.count() == 1 and "gelu" in lit.inner_text(), "line 3 is selected")
        assert not page.locator(PANEL).is_visible(), "the panel stays as it was"
        until(page, lambda: chosen(page, INSPECTED) == [3], lambda: f"{chosen(page, INSPECTED)}")
        shot(notebook.page, "timeline-mark")
        cell(page, INSPECTED).locator(".lz-mark[data-line='4'] .lz-break").click()
        tab = inspector.get_by_role("tab", name="Breaks")
        expect(tab).to_have_attribute("aria-selected", "true")
        expect(inspector.locator(".lz-broken tr:has(.lz-stuck)")).to_contain_text("if a.sum() > 1e9:")
        shot(notebook.page, "timeline-inspector")
    finally:
        notebook.execute("application:toggle-right-area")


def test_a_mark_of_a_cell_without_an_inspector_opens_the_panel(notebook):
    page = notebook.page
    cell(page, UNINSPECTED).locator(".lz-mark[data-line='1']").click()
    expect(page.locator(f"{PANEL} > .lz-tabs [aria-selected=true]")).to_have_text("Compilation")
    page.locator(f"{PANEL} .lz-source .lz-lit").first.wait_for()
    until(page, lambda: 1 in chosen(page, UNINSPECTED), lambda: f"{chosen(page, UNINSPECTED)}")
    cell(page, UNINSPECTED).locator(".lz-mark[data-line='3'] .lz-break").click()
    expect(page.locator(f"{PANEL} > .lz-tabs [aria-selected=true]")).to_have_text("Breaks")


def test_the_selection_is_shared_by_panel_inspector_and_marks(notebook):
    page = notebook.page
    cell(page, INSPECTED).locator(".cm-line").first.click()
    notebook.run(INSPECTED, COMPILED)
    inspector = notebook.inspector(INSPECTED)
    page.locator(f"{PANEL} > .lz-tabs").get_by_role("tab", name="Compilation").click()
    panel = page.locator(f"{PANEL} .lazynb-inspector")
    line = ".lz-source .lz-code-line"
    panel.locator(line, has_text="jax.nn.gelu").wait_for()
    inspector.get_by_role("tab", name="Graph").click()

    panel.locator(line, has_text="jax.nn.gelu").click()
    for where in (panel, inspector):
        lit = where.locator(f"{line}.lz-lit")
        until(page, lambda lit=lit: lit.count() == 1 and "gelu" in lit.inner_text(), "both show the line")
    until(page, lambda: chosen(page, INSPECTED) == [3], lambda: f"{chosen(page, INSPECTED)}")
    assert chosen(page, UNINSPECTED) == [] == chosen(page, LOOPED)

    inspector.locator(line, has_text="x @ w").click()
    page.mouse.move(600, 5)
    until(page, lambda: "x @ w" in panel.locator(f"{line}.lz-lit").first.inner_text(), "and back")
    until(page, lambda: chosen(page, INSPECTED) == [2], lambda: f"{chosen(page, INSPECTED)}")

    chip = inspector.locator(".lz-source .lz-chip").first
    name = chip.inner_text()
    chip.click()
    page.mouse.move(600, 5)
    until(
        page,
        lambda: panel.locator(".lz-source .lz-chip.lz-lit", has_text=name).count() > 0,
        "a kernel is the same kernel in both",
    )
    until(page, lambda: len(chosen(page, INSPECTED)) >= 1, "its lines are marked")
    inspector.locator(".lz-tab").first.focus()
    page.keyboard.press("Escape")
    until(page, lambda: chosen(page, INSPECTED) == [], "let go everywhere")
    assert panel.locator(f"{line}.lz-lit").count() == 0


def test_a_line_that_was_edited_is_reported_as_gone(notebook):
    page = notebook.page
    notebook.run(DEFINED, HELPER.replace("float(y.sum())", "y.sum()"))
    try:
        row = page.locator(f"{PANEL} .lz-broken tr", has_text="return float(y.sum())").first
        row.wait_for()
        row.locator(".lz-go").first.click()
        page.get_by_text("no cell has this line any more as it was run").first.wait_for()
    finally:
        notebook.run(DEFINED, HELPER)


def test_a_stored_timeline_is_shown_in_an_untrusted_notebook(browser, root, address, clean):
    """As a notebook that somebody else ran shows it: the bars, with their words, and no kernel."""
    with lazynb.lazy():
        for turn in range(3):
            float(jnp.ones(4).sum() + turn)
    page = lazynb.breaks()._repr_html_()
    write(root / "stored.ipynb", "%breaks")
    stored = json.loads((root / "stored.ipynb").read_text())
    data = {"text/html": page, "text/plain": repr(lazynb.breaks())}
    stored["cells"][0]["outputs"] = [{"output_type": "display_data", "data": data, "metadata": {}}]
    (root / "stored.ipynb").write_text(json.dumps(stored))
    other = Notebook(browser)
    try:
        other.open(address, "lab/workspaces/stored/tree/stored.ipynb", kernel=False)
        output = other.output(0)
        expect(output).to_contain_text("Timeline of")
        assert not other.page.evaluate(f"{NOTEBOOK}.content.widgets[0].model.trusted")
        images = output.locator("img")
        assert images.count() == page.count("<img ") > 3
        drawn = "all => all.every(one => one.complete && one.naturalWidth > 0 && one.getBoundingClientRect().width > 0)"
        until(other.page, lambda: images.evaluate_all(drawn), "every image is drawn")
        assert any("compiling" in (one.get_attribute("alt") or "") for one in images.all())
        shot(other.page, "timeline-untrusted")
    finally:
        other.page.close()
