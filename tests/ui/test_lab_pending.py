"""A pending value in JupyterLab says what reading it runs, and has buttons that do it while its kernel is there."""

from __future__ import annotations

import pytest

for package in ("jupyterlab", "nbformat", "ipykernel", "playwright"):
    pytest.importorskip(package, reason=f"{package} is not installed here")

from lab import KERNEL, write  # noqa: E402
from lab_page import SETUP, STATUS, restart, run_through, violations  # noqa: E402
from playwright.sync_api import expect  # noqa: E402

pytestmark = pytest.mark.xdist_group("lab-pending")  # one server and one kernel serve all

SHOWN = 1
AHEAD = ".lazynb-graph .lz-ahead"


@pytest.fixture(scope="module")
def opened(browser, root, address):
    write(root / "main.ipynb", SETUP, "", "")
    with run_through(browser, address, "lab/tree/main.ipynb", cells=0) as notebook:
        yield notebook


@pytest.fixture
def notebook(opened):
    opened.run(0, SETUP)
    opened.page.locator(STATUS).wait_for()
    return opened


def shown(notebook, source: str):
    output = notebook.run(SHOWN, source)
    output.locator(".lz-box").first.wait_for(timeout=60_000)
    return output


def button(output, name: str):
    return output.locator(AHEAD).get_by_role("button", name=name, exact=True)


def pending(notebook, name: str) -> str:
    return notebook.run(2, f"print({name}.is_pending)").inner_text().strip()


def test_the_cost_of_reading_is_shown_and_run_shows_the_value(notebook):
    output = shown(notebook, "v1 = jnp.arange(4.0) * 3 + 1\nv1")
    expect(output.locator(AHEAD)).to_contain_text("Reading it runs 3 operations: not compiled yet.")
    assert pending(notebook, "v1") == "True"
    button(output, "Run").click()
    value = output.locator(".lz-value")
    expect(value).to_have_text("Array([ 1.,  4.,  7., 10.], dtype=float32)")
    expect(output.locator(AHEAD)).to_contain_text("Computed in ")
    assert output.locator(".lz-box").count() == 0 and pending(notebook, "v1") == "False"
    assert violations(notebook.page, ".jp-OutputArea .lazynb-graph") == []


def test_a_value_is_run_by_keyboard(notebook):
    output = shown(notebook, "v2 = jnp.arange(4.0) - 1\nv2")
    run = button(output, "Run")
    run.wait_for()
    assert violations(notebook.page, ".jp-OutputArea .lazynb-graph") == []
    run.focus()
    notebook.page.keyboard.press("Enter")
    expect(output.locator(".lz-value")).to_be_focused()
    assert output.locator(AHEAD + " [role=status]").count() == 1


def test_compile_shows_the_inspector_and_runs_nothing(notebook):
    output = shown(notebook, "v3 = jnp.tanh(x) * 2\nv3")
    button(output, "Compile").click()
    output.locator(".lz-below .lz-tabs").wait_for(timeout=60_000)
    expect(output.locator(AHEAD)).to_contain_text("compiled already")  # x may be a program of its own
    assert output.locator(".lz-below").get_by_role("tab", name="Fusion").count() == 1
    assert pending(notebook, "v3") == "True"


def test_values_computed_or_deleted_since_are_reported(notebook):
    output = shown(notebook, "v4 = jnp.tanh(x) * 4\nv4")
    button(output, "Run").wait_for()
    notebook.run(2, "float(v4[0, 0])")
    expect(output.locator(AHEAD)).to_contain_text("It has been computed since.")
    assert button(output, "Compile").count() == 0
    button(output, "Show").click()
    expect(output.locator(".lz-value")).to_contain_text("Array([[")
    other = shown(notebook, "import lazynb\nv5 = jnp.tanh(x) * 5\ndisplay(v5)\ndel v5")
    expect(other.locator(AHEAD)).to_contain_text("nothing refers to it any more")
    assert other.locator(AHEAD).get_by_role("button").count() == 0


def test_a_run_request_waits_while_the_kernel_is_busy(notebook):
    output = shown(notebook, "v6 = jnp.tanh(x) * 6\nv6")
    button(output, "Run").wait_for()
    notebook.start(2, "import time\ntime.sleep(4)")
    button(output, "Run").click()
    expect(output.locator(AHEAD)).to_contain_text("The kernel is busy")
    expect(output.locator(".lz-value")).to_contain_text("Array([[", timeout=20_000)


def test_after_a_restart_the_sentence_says_what_to_type(notebook):
    output = shown(notebook, "v7 = jnp.tanh(x) * 7\nv7")
    button(output, "Run").wait_for()
    restart(notebook)
    expect(output.locator(AHEAD)).to_contain_text("print(v7) gives its value")
    assert output.locator(AHEAD).get_by_role("button").count() == 0
    notebook.run(0, SETUP)  # another kernel process: it never gave this key
    notebook.page.locator(STATUS).wait_for()
    expect(output.locator(AHEAD)).to_contain_text("drawn by another kernel")
    assert output.locator(AHEAD).get_by_role("button").count() == 0
    assert notebook.page.evaluate(f"{KERNEL}.connectionStatus") == "connected"
