"""The marks on the lines of cells, in a real JupyterLab with a real kernel: where they are, what they say,
how long they hold."""

from __future__ import annotations

import pytest

for package in ("jupyterlab", "ipykernel", "playwright"):
    pytest.importorskip(package, reason=f"{package} is not installed here")

from lab import KERNEL, NOTEBOOK, Notebook, write  # noqa: E402
from lab_page import (  # noqa: E402
    PANEL,
    PROGRAM,
    SETUP,
    activate,
    cell,
    change,
    marks,
    restart,
    run_through,
    shot,
    text_of,
    until,
    violations,
)

pytestmark = pytest.mark.xdist_group("lab-marks")  # one server and one kernel serve all

BROKEN = """for i in range(3):
    y = jnp.sin(x) * i
    if y.sum() > 0:
        print(i)"""
PLAIN = "1 + 1"
MAIN, BREAKS, OTHER, LAST = 1, 2, 3, 40  # cells; the last one is far down
ALL = {1, 2, 3, 4, 5}  # the marked lines of PROGRAM; the fifth breaks


@pytest.fixture(scope="module")
def opened(browser, root, address):
    write(
        root / "main.ipynb",
        SETUP,
        PROGRAM,
        BROKEN,
        *["pass"] * (LAST - OTHER),
        "l = jnp.cos(x) + 2\nprint(float(l[0, 0]))",
    )
    with run_through(browser, address, "lab/tree/main.ipynb", cells=3) as notebook:
        yield notebook


@pytest.fixture
def notebook(opened):
    """The first cells as they were run, marked."""
    page = opened.page
    page.mouse.move(600, 5)
    for at, source in ((MAIN, PROGRAM), (BREAKS, BROKEN)):
        if text_of(page, at) != source or not marks(page, at):
            opened.run(at, source)
    until(page, lambda: set(marks(page, MAIN)) == ALL and marks(page, BREAKS), lambda: str(marks(page, MAIN)))
    return opened


def test_lines_carry_the_colours_of_their_kernels_and_their_breaks(notebook):
    found = marks(notebook.page, MAIN)
    assert [found[line][1] for line in range(1, 5)] == [0, 0, 0, 0] and found[5][1] > 0, "only float() breaks"
    assert all(found[line][0] >= 1 for line in range(1, 5)) and found[3][0] > 1, (
        "softmax ends in several kernels"
    )
    assert found[5][0] == 0, "nothing is computed there"
    broken = marks(notebook.page, BREAKS)
    assert broken[3][1] > 0 and {found[5][1], broken[3][1]} == {1, 2}, "one of the two costs most"


def test_a_cell_without_marks_has_no_gutter(notebook):
    notebook.run(OTHER, PLAIN)
    notebook.page.wait_for_timeout(300)
    assert cell(notebook.page, OTHER).locator(".cm-gutters").count() == 0
    assert cell(notebook.page, MAIN).locator(".cm-gutters").count() == 1


def test_pointing_at_a_mark_says_what_it_is(notebook):
    page = notebook.page
    page.wait_for_timeout(
        300
    )  # an output that still grows moves the lines, and the card would be another line's
    cell(page, MAIN).locator(".lz-mark[data-line='2']").hover()
    card = page.locator(".lazynb-card")
    card.wait_for()
    page.wait_for_function("document.querySelector('.lazynb-card')?.innerText.includes('fused')")
    assert "fusion" in card.inner_text() and "FLOP" in card.inner_text() and "fused" in card.inner_text()
    assert card.locator(".lz-chip").all_inner_texts()[0].startswith("c")
    page.mouse.move(600, 5)  # the card may lie over the next mark
    card.wait_for(state="detached")
    cell(page, BREAKS).locator(".lz-mark[data-line='3'] .lz-break").hover()
    page.wait_for_function("document.querySelector('.lazynb-card')?.innerText.includes('Trace break')")
    said = card.inner_text()
    assert "LNB" in said and "3 times" in said and "ms" in said and card.locator(".lz-hint").inner_text()
    page.mouse.move(600, 5)
    card.wait_for(state="detached")


def test_a_click_selects_the_kernel_in_the_inspector(notebook):
    page = notebook.page
    mark = cell(page, MAIN).locator(".lz-mark[data-line='2']")
    mark.hover()
    chip = page.locator(".lazynb-card .lz-chip").first.inner_text()
    mark.click()
    lit = page.locator(f"{PANEL} .lz-source .lz-chip.lz-lit", has_text=chip)
    lit.first.wait_for()
    assert page.locator(f"{PANEL} [role=tab][aria-selected=true]").first.inner_text() == "Compilation"
    cell(page, BREAKS).locator(".lz-mark[data-line='3'] .lz-break").click()
    page.locator(f"{PANEL} .lz-table", has_text="LNB").wait_for()


def test_marks_are_opened_by_keyboard(notebook):
    page = notebook.page
    notebook.execute("lazynb:show-panel")
    cell(page, MAIN).locator(".cm-line").nth(2).click()
    page.keyboard.press("Alt+m")
    card = page.get_by_role("dialog", name="lazynb, line 3")
    card.wait_for()
    assert card.evaluate("card => card.contains(document.activeElement)")
    before = notebook.sources()
    for key in ("ArrowDown", "d", "d", "x", "b", "End"):
        page.keyboard.press(key)
    assert notebook.sources() == before
    page.keyboard.press("Escape")
    card.wait_for(state="detached")
    assert page.evaluate("document.activeElement.closest('.cm-content') !== null")
    page.keyboard.press("Alt+m")
    card.wait_for()
    chip = card.locator(".lz-chip").first.inner_text()
    page.keyboard.press("Enter")
    page.locator(f"{PANEL} .lz-source .lz-chip.lz-lit", has_text=chip).first.wait_for()
    assert notebook.sources() == before


def test_the_card_is_accessible(notebook):
    page = notebook.page
    for line, theme in ((3, "JupyterLab Light"), (5, "JupyterLab Dark"), (1, "JupyterLab Dark")):
        notebook.execute("apputils:change-theme", f"{{ theme: '{theme}' }}")
        page.wait_for_function(f"document.body.dataset.jpThemeName === '{theme}'")
        activate(page, MAIN)
        cell(page, MAIN).locator(".cm-line").nth(line - 1).click()
        notebook.execute("lazynb:show-marks")
        page.locator(".lazynb-card").wait_for()
        assert violations(page, ".lazynb-card") == [], theme
        shot(page, f"card-{line}")
        page.keyboard.press("Escape")
    notebook.execute("apputils:change-theme", "{ theme: 'JupyterLab Light' }")


def test_editing_a_line_clears_it_and_undoing_brings_it_back(notebook):
    page = notebook.page
    end = PROGRAM.index("\n", PROGRAM.index("gelu"))
    change(page, MAIN, end, end, " * 2")
    until(page, lambda: set(marks(page, MAIN)) == ALL - {2}, "line 2 reads otherwise")
    page.evaluate(f"{NOTEBOOK}.content.widgets[{MAIN}].editor.undo()")
    until(page, lambda: set(marks(page, MAIN)) == ALL, "it reads as before")
    change(page, MAIN, 0, 0, "# new\n\n")
    until(page, lambda: set(marks(page, MAIN)) == {line + 2 for line in ALL}, "they follow their lines")
    change(page, MAIN, 0, len(PROGRAM) + 7, "nothing = 1")
    until(page, lambda: cell(page, MAIN).locator(".cm-gutters").count() == 0, "no room for nothing")


def test_marks_follow_a_moved_or_split_cell(notebook):
    page = notebook.page
    activate(page, MAIN)
    notebook.execute("notebook:move-cell-down")
    until(page, lambda: set(marks(page, MAIN + 1)) == ALL, lambda: str(marks(page, MAIN + 1)))
    notebook.execute("notebook:move-cell-up")
    until(page, lambda: set(marks(page, MAIN)) == ALL, lambda: str(marks(page, MAIN)))
    cut = PROGRAM.index("s = ")
    page.evaluate(
        f"""async () => {{ const {{ content }} = {NOTEBOOK}; content.activeCellIndex = {MAIN}; content.mode = 'edit';
        content.activeCell.editor.setCursorPosition(content.activeCell.editor.getPositionAt({cut}));
        await window.jupyterapp.commands.execute('notebook:split-cell-at-cursor'); }}"""
    )
    try:
        ids = page.evaluate(
            f"{NOTEBOOK}.content.widgets.slice({MAIN}, {MAIN + 2}).map(cell => cell.model.id)"
        )
        kept = ids.index(f"cell{MAIN}")
        holds = [{1, 2}, {1, 2, 3}][kept]
        until(
            page, lambda: set(marks(page, MAIN + kept)) == holds, lambda: f"{kept} {marks(page, MAIN + kept)}"
        )
    finally:
        page.evaluate(f"{NOTEBOOK}.content.model.sharedModel.undo()")
        page.wait_for_timeout(100)
        if len(notebook.sources()) != LAST + 1:
            pytest.fail("the split was not undone")


def test_a_cell_without_an_editor_shows_its_marks_when_scrolled_to(notebook):
    """The last cell is run where nobody sees it, and shows its marks when it is scrolled to."""
    page = notebook.page
    page.evaluate(
        f"""async () => {{ const {{ content, sessionContext }} = {NOTEBOOK};
        const cell = content.widgets[{LAST}];
        await cell.constructor.execute(cell, sessionContext, {{ cellId: cell.model.id }}); }}"""
    )
    page.evaluate(f"{NOTEBOOK}.content.scrollToItem({LAST})")
    until(page, lambda: set(marks(page, LAST)) == {1, 2}, lambda: str(marks(page, LAST)))
    page.evaluate(f"{NOTEBOOK}.content.scrollToItem(0)")


def test_a_page_that_is_loaded_again_asks_for_the_marks(notebook):
    before = marks(notebook.page, MAIN)
    notebook.save()
    notebook.page.reload()
    notebook.wait_for_kernel()
    until(
        notebook.page, lambda: marks(notebook.page, MAIN) == before, lambda: str(marks(notebook.page, MAIN))
    )
    assert marks(notebook.page, BREAKS)


def test_two_pages_on_one_kernel_show_the_same_marks(notebook, browser, address):
    notebook.save()
    second = Notebook(browser)
    try:
        second.open(address, "lab/workspaces/second/tree/main.ipynb")
        until(
            second.page, lambda: set(marks(second.page, MAIN)) == ALL, lambda: str(marks(second.page, MAIN))
        )
        second.execute("lazynb:show-breaks")
        second.page.locator(f"{PANEL} .lz-table", has_text="LNB").wait_for()
        notebook.run(OTHER, "o = jnp.exp(x)\nprint(float(o[0, 0]))")
        until(
            notebook.page, lambda: set(marks(notebook.page, OTHER)) == {1, 2}, "marks in the page that ran it"
        )
        assert not second.errors
    finally:
        second.page.close()


@pytest.mark.parametrize("setting", ["gutter", "colours"])
def test_settings_hide_the_gutter_and_change_the_colours(notebook, setting):
    page = notebook.page
    store = "window.jupyterapp.serviceManager.settings"
    file = "@lazynb/extension:plugin"
    settings = {"gutter": '{"gutter": false}', "colours": '{"colours": "high contrast"}'}[setting]
    registry = f"""async raw => {{
      const items = await {store}.fetch('{file}');
      await {store}.save('{file}', raw);
      return items.id;
    }}"""
    assert page.evaluate(registry, settings) == file
    page.reload()  # as the settings editor would, without its form
    notebook.wait_for_kernel()
    try:
        if setting == "gutter":
            page.wait_for_timeout(1500)
            assert marks(page, MAIN) == {} and cell(page, MAIN).locator(".cm-gutters").count() == 0
        else:
            until(page, lambda: set(marks(page, MAIN)) == ALL, "marks")
            assert cell(page, MAIN).locator(".lz-stripe").first.bounding_box()["width"] > 8
            shot(page, "high-contrast")
    finally:
        page.evaluate(registry, "{}")
        page.reload()
        notebook.wait_for_kernel()
        until(page, lambda: set(marks(page, MAIN)) == ALL, "marks")


@pytest.mark.parametrize("how", ["restart", "death"])
def test_a_kernel_that_restarts_or_dies_leaves_no_marks(notebook, how):
    page = notebook.page
    if how == "restart":
        restart(notebook)
    else:
        page.evaluate(f"void {KERNEL}.requestExecute({{ code: 'import os; os._exit(1)' }})")
    until(page, lambda: not marks(page, MAIN) and not marks(page, BREAKS), "stale marks")
    until(page, lambda: not page.locator(".lazynb-status").is_visible(), "a stale status")
    page.wait_for_function(f"{KERNEL}?.status === 'idle'", timeout=60_000)
    page.wait_for_timeout(500)
    assert not marks(page, MAIN)
    notebook.run(0, SETUP)
    notebook.run(MAIN, PROGRAM)
    until(page, lambda: set(marks(page, MAIN)) == ALL, lambda: str(marks(page, MAIN)))
