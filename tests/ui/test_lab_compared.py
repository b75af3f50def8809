"""Two compilations compared in a real JupyterLab: the report, and under it both inspectors with one selection."""

from __future__ import annotations

import pytest

for package in ("jupyterlab", "nbformat", "ipywidgets", "anywidget", "playwright"):
    pytest.importorskip(package, reason=f"{package} is not installed here")

from lab import Notebook, serving, write  # noqa: E402
from playwright.sync_api import expect  # noqa: E402
from reading import thing, things  # noqa: E402

pytestmark = pytest.mark.xdist_group("lab-compared")

CELLS = [
    "import jax, jax.numpy as jnp\n%load_ext lazynb\nx = jnp.linspace(0, 1, 512 * 512).reshape(512, 512)",
    "%%compile before\nh = jnp.tanh(x) * 2\ns = h.sum()\ndel h\ns",
    "%%compile after\nh = jnp.tanh(x) * 2\ns = h.sum()\ns",
    "%diff before after",
]


def test_a_selected_line_selects_its_counterpart_in_the_other_inspector(browser, root):
    write(root / "compared.ipynb", *CELLS)
    with serving(root) as address:
        notebook = Notebook(browser)
        notebook.open(address, "lab/tree/compared.ipynb")
        for number, cell in enumerate(CELLS):
            notebook.run(number, cell)
        out = notebook.output(3)
        expect(out.get_by_text("two kernels instead of one").first).to_be_visible()
        sides = [out.locator(f".lz-pair > div:nth-child({at})") for at in (1, 2)]
        expect(sides[1].locator(".lz-source")).to_be_visible()
        sides[0].locator(f".lz-source {thing('line:0:2')}").click()
        assert "line:0:2" in things(notebook.page, ".lz-pair > div:nth-child(2) .lz-source")
        expect(out.locator(".lazynb-comparison")).to_have_count(1)
        notebook.page.screenshot(path=root / "compared.png")
        assert not notebook.errors, notebook.errors
        notebook.page.close()
