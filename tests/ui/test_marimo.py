"""A notebook of marimo in Chromium: it has no magics and no IPython, and functions return widgets."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest
from lab import PATIENCE, ROOT

pytest.importorskip("marimo", reason="marimo is not installed here: `pip install marimo`")
pytest.importorskip("anywidget")

pytestmark = pytest.mark.xdist_group("marimo")

# As marimo writes it: it counts lines by that.
NOTEBOOK = """import marimo

app = marimo.App()


@app.cell
def _():
    import jax
    import jax.numpy as jnp
    import lazynb

    x = jnp.ones((64, 32))
    return jax, jnp, lazynb, x


@app.cell
def _(jax, jnp, lazynb, x):
    with lazynb.lazy():
        h = jnp.tanh(x @ x.T)
        p = jax.nn.softmax(h * 2)
    return h, p


@app.cell
def _(lazynb, p):
    lazynb.graph(p)
    return


@app.cell
def _(lazynb, p):
    lazynb.inspect(p)
    return


@app.cell
def _(jnp, lazynb):
    with lazynb.lazy():
        if float(jnp.ones(3).sum()) > 1:
            print("it ran")
    lazynb.breaks()
    return


if __name__ == "__main__":
    app.run()
"""


@contextmanager
def serving(file):
    """The address of a server that runs the notebook of ``file``."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ["--headless", "--no-token", "--host", "127.0.0.1", "--port", str(port)]
    command = [sys.executable, "-m", "marimo", "-q", "run", str(file), *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "LAZYNB_PERSISTENT_CACHE": "0"}
    with (file.parent / "marimo.log").open("w") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            _wait(f"http://127.0.0.1:{port}", server, file.parent / "marimo.log")
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(10)


def _wait(address, server, log):
    end = time.monotonic() + PATIENCE
    while True:
        try:
            urllib.request.urlopen(f"{address}/health", timeout=1)
            return
        except (urllib.error.URLError, OSError):
            assert server.poll() is None and time.monotonic() < end, log.read_text()
            time.sleep(0.2)


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory):
    file = tmp_path_factory.mktemp("marimo") / "lines.py"
    file.write_text(NOTEBOOK)
    with serving(file) as address:
        page = browser.new_page(viewport={"width": 1200, "height": 1600})
        page.goto(address)
        page.locator(".lazynb-inspector [role=tab]").first.wait_for(timeout=PATIENCE * 1000)
        yield page
        page.close()


def test_the_inspector_is_there_with_the_lines_of_the_cell(page):
    inspector = page.locator(".lazynb-inspector")
    assert inspector.count() == 1 and "10 operations" in inspector.inner_text()
    line = inspector.locator(".lz-code-line", has_text="p = jax.nn.softmax(h * 2)")
    assert line.locator(".lz-chip").count() >= 2
    lit = inspector.locator(".lz-box.lz-lit")
    assert lit.count() == 0
    line.click()
    assert lit.count() >= 1


def test_questions_are_answered_by_the_marimo_kernel(page):
    """What is asked goes to the kernel of marimo and comes back."""
    page.get_by_role("tab", name="Cost").click()
    timed = page.locator(".lazynb-inspector td", has_text=re.compile(r"^[\d.]+ (ns|µs|ms)"))
    assert timed.count() == 0
    page.get_by_role("button", name="Measure").first.click()
    timed.first.wait_for(timeout=PATIENCE * 1000)
    assert page.locator(".lazynb-inspector .lz-errors").inner_text() == ""


def test_graph_and_breaks_are_displayed(page):
    assert "10 operations pending" in page.inner_text("body")
    table = page.locator("table", has_text="LNB")
    assert "if float(jnp.ones(3).sum()) > 1" in table.inner_text()
    apart = table.locator("th").evaluate_all(
        "all => all.map((e) => parseFloat(getComputedStyle(e).paddingRight))"
    )
    assert min(apart) >= 8, "columns stand apart where the page has no style for tables"
