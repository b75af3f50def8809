"""The side panel where there is little room, in JupyterLab and in Notebook 7: nothing of it is out of the window, and
what the marks mean stands in it."""

from __future__ import annotations

import pytest

for package in ("jupyterlab", "ipykernel", "playwright"):
    pytest.importorskip(package, reason=f"{package} is not installed here")

from lab import Notebook, write  # noqa: E402
from lab_page import PANEL, SETUP, extended, shot, until, violations  # noqa: E402

pytestmark = pytest.mark.xdist_group("lab-room")

PROGRAM = """normalised_output_of_the_last_attention_layer = jax.nn.softmax(jnp.tanh(x @ w) * 0.5 + jnp.sin(x))
loss = (normalised_output_of_the_last_attention_layer * jnp.log(x ** 2 + 1e-6)).sum()
print(float(loss))
again = jnp.cos(x) + 1.0"""
TABS = ["Pending", "Breaks", "Cache", "Compilation"]

# What of the panel is out of the window, or cut off by it, where nothing scrolls.
OUT = """() => {
  const panel = document.querySelector('#lazynb-panel');
  const edge = Math.min(innerWidth, panel.getBoundingClientRect().right);
  return [...panel.querySelectorAll('*')].filter((e) => {
    const box = e.getBoundingClientRect();
    if (!box.width || box.right <= edge + 1.5) return false;
    if (e.closest('thead') && getComputedStyle(e.closest('thead')).clipPath !== 'none') return false; // for screen readers alone
    for (let up = e.parentElement; up !== panel.parentElement; up = up.parentElement)
      if (['auto', 'scroll'].includes(getComputedStyle(up).overflowX) && !up.matches('.lz-view, .lz-tabs')) return false;
    return true;
  }).map((e) => `${e.tagName}.${e.getAttribute('class') ?? ''}: ${e.textContent.trim().slice(0, 40)}`);
}"""


def looked_at(notebook, width, name):
    """Each tab of the panel in a window of a width: all of it can be seen."""
    page = notebook.page
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_timeout(300)
    for tab in TABS:
        found = page.locator(f"{PANEL} > .lz-tabs").get_by_role("tab", name=tab)
        found.click()
        until(page, lambda: page.locator(f"{PANEL} > .lz-view > *").count(), f"{tab} has something")
        page.wait_for_timeout(250)
        box = found.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= width, (width, tab, box)
        shot(page, f"{name}-{width}-{tab.lower()}")
        assert page.evaluate(OUT) == [], (width, tab)
    panel = page.locator(PANEL).bounding_box()
    assert panel["x"] >= 0 and panel["x"] + panel["width"] <= width + 1, (width, panel)
    assert panel["width"] >= min(300, width - 40), (width, panel)


@pytest.fixture(params=["lab", "notebook"])
def notebook(request, browser, tmp_path):
    app = request.param
    if app == "notebook":
        pytest.importorskip("notebook", reason="notebook is not installed here")
    write(tmp_path / "main.ipynb", SETUP, PROGRAM, "")
    with extended(tmp_path, app) as address:
        opened = Notebook(browser, 1600, 900)
        opened.open(address, "lab/tree/main.ipynb" if app == "lab" else "notebooks/main.ipynb")
        opened.run(0, SETUP)
        opened.run(1, PROGRAM)
        opened.execute("lazynb:show-breaks")
        opened.page.locator(f"{PANEL} td", has_text="LNB").first.wait_for()
        opened.app = app
        yield opened
        opened.page.close()


def test_the_panel_stays_within_the_window_at_each_width(notebook):
    for width in 1600, 1200, 800:
        looked_at(notebook, width, notebook.app)
    legend = notebook.page.locator(f"{PANEL} .lz-marks-legend")
    legend.locator("summary").focus()
    notebook.page.keyboard.press("Enter")
    shot(notebook.page, f"{notebook.app}-legend")
    words = legend.inner_text()
    assert all(
        word in words for word in ("stripe", "pattern", "Dashes", "large diamond", "small full", "hollow")
    )
    assert legend.locator(".lz-break").count() == 3 and legend.locator(".lz-stripe").count() == 3
    sizes = [
        one["width"]
        for one in legend.locator(".lz-break path").evaluate_all(
            "all => all.map(e => e.getBoundingClientRect().toJSON())"
        )
    ]
    assert sizes == sorted(sizes, reverse=True) and len(set(sizes)) == 3
    assert legend.locator(".lz-weight-3").evaluate("e => getComputedStyle(e).fill") == "none"
    assert violations(notebook.page, PANEL) == []
