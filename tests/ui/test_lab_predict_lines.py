"""``%%predict --kernel`` in JupyterLab: a form that is filled in without a mouse, in light and dark."""

from __future__ import annotations

import pytest

for package in ("jupyterlab", "ipywidgets", "anywidget", "playwright"):
    pytest.importorskip(package, reason=f"{package} is not installed here")

from lab import serving, write  # noqa: E402
from lab_page import run_through, shot  # noqa: E402
from playwright.sync_api import expect  # noqa: E402

pytestmark = pytest.mark.xdist_group("lab-predict-lines")

SETUP = """import jax, jax.numpy as jnp
x = jax.random.normal(jax.random.key(0), (256, 128))
%load_ext lazynb"""
LONG = "the_normalised_scores_of_the_first_layer_after_dropout = jnp.tanh(p * 2.0) + jnp.sin(p) / 3.0"
ASKED = (
    f"%%predict --kernel c0\np = x * x\n{LONG}\ny = {LONG.split(' ')[0]} @ x.T\ndel p, {LONG.split(' ')[0]}"
)


@pytest.fixture(scope="module")
def address(browser, root):
    """That of a JupyterLab without the extension."""
    with serving(root) as address:
        yield address


@pytest.fixture(scope="module")
def notebook(browser, root, address):
    write(root / "predict.ipynb", SETUP, "")
    with run_through(browser, address, "lab/tree/predict.ipynb", cells=1) as notebook:
        yield notebook


def test_the_form_is_answered_by_keyboard(notebook):
    cell = notebook.run(1, ASKED)
    boxes = cell.get_by_role("checkbox")
    expect(boxes).to_have_count(3)
    expect(cell.get_by_text("Which of your lines are in the kernel c0?")).to_be_visible()
    expect(cell.get_by_role("region", name="HLO of the kernel c0")).to_contain_text("tanh(")
    page = notebook.page
    boxes.nth(0).focus()
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert [boxes.nth(at).is_checked() for at in range(3)] == [True, True, False]
    shot(notebook.page, "predict-lines-asked")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    answer = cell.locator(".lazynb-prediction")
    expect(answer).to_contain_text("Kernel c0: 3 of 3 lines right")
    shot(notebook.page, "predict-lines-answered")


def test_another_answer_replaces_the_first(notebook):
    cell = notebook.run(1, ASKED)
    reveal = cell.get_by_role("button", name="Reveal")
    reveal.click()
    expect(cell.locator(".lazynb-prediction")).to_contain_text("Kernel c0: 1 of 3 lines right")
    cell.get_by_role("checkbox", name="line 2").check()
    cell.get_by_role("checkbox", name="line 3").check()
    reveal.click()
    expect(cell.locator(".lazynb-prediction")).to_have_count(1)
    expect(cell.locator(".lazynb-prediction")).to_contain_text("3 of 3 lines right")


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
@pytest.mark.parametrize("width", [1200, 800])
def test_the_form_does_not_overflow_the_cell(notebook, theme, width):
    page = notebook.page
    notebook.execute("apputils:change-theme", f'{{"theme": "{theme}"}}')
    page.set_viewport_size({"width": width, "height": 1000})
    cell = notebook.run(1, ASKED)
    cell.get_by_role("button", name="Reveal").click()
    expect(cell.locator(".lazynb-prediction")).to_be_visible()
    room = cell.bounding_box()
    edge = room["x"] + room["width"]
    codes = cell.locator(".widget-html code, .lazynb-prediction code").all()
    for part in [*cell.get_by_role("checkbox").all(), *codes, cell.locator(".lazynb-prediction")]:
        box = part.bounding_box()
        assert box["x"] + box["width"] <= edge + 8, "but for a space at the end of a line that wraps"
    cell.get_by_text("Which of your lines").scroll_into_view_if_needed()
    shot(notebook.page, f"predict-lines-{theme.split()[1].lower()}-{width}")
