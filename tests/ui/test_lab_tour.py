"""The tour from beginning to end with the extension in the page, and a notebook in which cells fail."""

from __future__ import annotations

import json
import os
import shutil

import pytest

for package in ("jupyterlab", "ipykernel", "playwright", "flax", "optax", "sklearn"):
    pytest.importorskip(package, reason=f"{package} is not installed here")

from lab import NOTEBOOK, ROOT, Notebook, write  # noqa: E402
from lab_page import SETUP, STATUS, marks, until  # noqa: E402

pytestmark = pytest.mark.xdist_group("lab-tour")

PAST = f"""() => {{
  const code = {NOTEBOOK}.content.widgets.filter(cell => cell.model.type === 'code' && cell.model.sharedModel.getSource());
  return code.every(({{ model }}) => model.executionCount !== null && model.executionState !== 'running');
}}"""


def test_the_tour_runs_to_its_end_with_marks_and_panel(browser, root, address):
    source = json.loads((ROOT / "notebooks" / "01-tour.ipynb").read_text())
    for cell in source["cells"]:
        if cell["cell_type"] == "code":
            cell.update(outputs=[], execution_count=None)
    (root / "tour.ipynb").write_text(json.dumps(source))
    shutil.copy(ROOT / "notebooks" / "exercises.py", root)
    notebook = Notebook(browser)
    try:
        notebook.open(address, "lab/workspaces/tour/tree/tour.ipynb")
        notebook.page.set_default_timeout(240_000)
        notebook.execute("notebook:run-all-cells")
        notebook.page.wait_for_function(PAST)
        notebook.page.locator(STATUS).wait_for()
        count = notebook.page.evaluate(f"{NOTEBOOK}.content.widgets.length")
        notebook.page.wait_for_timeout(1000)
        seen = {}
        for at in range(count):  # scrolled to: cells far away have no editor
            notebook.page.evaluate(f"async at => {{ await {NOTEBOOK}.content.scrollToItem(at); }}", at)
            seen[at] = marks(notebook.page, at)
        marked = [at for at, found in seen.items() if found]
        assert len(marked) >= 3, seen
        assert any(weight for found in seen.values() for _, weight in found.values()), (
            "the tour breaks its trace on purpose"
        )
        if shots := os.environ.get("LAZYNB_SHOTS"):
            notebook.page.evaluate(
                f"async at => {{ await {NOTEBOOK}.content.scrollToItem(at); }}", marked[len(marked) // 2]
            )
            notebook.page.screenshot(path=f"{shots}/tour.png")
        assert not notebook.errors
    finally:
        notebook.page.close()


def test_failing_cells_keep_marks_of_what_ran_before_the_error(browser, root, address):
    """An error leaves the marks of what ran before it, and no later cell is the worse for it."""
    broken = "y = jnp.sin(x) + 1\nprint(float(y[0, 0]))\n1 / 0\nz = y * 2"
    shape = "v = jnp.ones((2, 3)) @ jnp.ones((2, 3))"
    syntax = "def f(:"
    after = "u = jnp.cos(x)\nprint(float(u[0, 0]))"
    write(root / "errors.ipynb", SETUP, broken, shape, syntax, after)
    notebook = Notebook(browser)
    try:
        notebook.open(address, "lab/workspaces/errors/tree/errors.ipynb")
        for at, source in enumerate(notebook.sources()):
            notebook.run(at, source)
        page = notebook.page
        until(page, lambda: set(marks(page, 4)) == {1, 2}, lambda: str(marks(page, 4)))
        assert set(marks(page, 1)) == {1, 2}, "what ran before the error"
        for at, error in ((1, "ZeroDivisionError"), (2, "Error"), (3, "SyntaxError")):
            assert error in notebook.output(at).text_content()  # JupyterLab may have hidden the cell
        assert marks(page, 2) == marks(page, 3) == {}
        assert not notebook.errors
    finally:
        notebook.page.close()
