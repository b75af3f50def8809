"""A browser, and a page that shows an inspection without a server: the module travels inside the page."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

BUNDLE = Path(__file__).resolve().parents[2] / "lazynb" / "notebook" / "static" / "inspector.js"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

# `kernel`: JavaScript of a function (message, answer) that stands in for Python; null mounts a view without a
# kernel.
PAGE = """<!doctype html><meta charset="utf-8"><html data-theme="%(theme)s"><title>inspector</title>
<style>body { margin: 0; padding: 12px; background: %(ground)s }</style><div id="inspector"></div>
<script type="application/json" id="data">%(data)s</script>
<script type="module">
import widget, { mount } from "data:text/javascript;base64,%(module)s";
const el = document.getElementById("inspector");
const data = JSON.parse(document.getElementById("data").textContent);
const kernel = %(kernel)s;
window.sent = [];
window.unmount = null;
const began = performance.now();
if (kernel) {
  const listeners = {};
  const state = { data, show: window.show, layout: window.layout };
  const on = (name, f) => (listeners[name] ??= new Set()).add(f);
  const off = (name, f) => listeners[name]?.delete(f);
  const deliver = (message) => listeners["msg:custom"]?.forEach((f) => f(message));
  const answer = (message) => { if (window.held) window.held.push(message); else deliver(message); };
  window.release = () => { const late = window.held; window.held = null; late.forEach(deliver); };
  const model = { get: (name) => state[name], on, off, send: (m) => { window.sent.push(m); kernel(m, answer); } };
  window.answer = answer;
  window.disconnect = () => listeners["comm_live_update"]?.forEach((f) => f());
  window.change = (name, value) => { state[name] = value; listeners[`change:${name}`]?.forEach((f) => f()); };
  window.replace = (next) => window.change("data", next);
  window.listening = () => Object.values(listeners).reduce((n, set) => n + set.size, 0);
  window.unmount = widget.render({ model, el });
} else window.unmount = mount(el, data);
requestAnimationFrame(() => setTimeout(() => { window.painted = performance.now() - began; }));
</script></html>"""


def page_source(data: Any, theme: str = "light", kernel: str = "null") -> str:
    return PAGE % {
        "theme": theme,
        "ground": "#fff" if theme == "light" else "#000",
        "data": json.dumps(data).replace("<", "\\u003c"),
        "module": base64.b64encode(BUNDLE.read_bytes()).decode(),
        "kernel": kernel,
    }


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed here")
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no Chromium is installed here")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield running
        running.close()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that a module's Jupyter server serves."""
    return tmp_path_factory.mktemp("lab")


@pytest.fixture(scope="module")
def address(browser: Any, root: Path) -> Iterator[str]:
    """That of a JupyterLab with lazynb's extension, on ``root``."""
    from lab_page import extended

    with extended(root) as address:
        yield address


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Opens an inspection from a file. A script error in the page fails the test."""
    opened: list[Any] = []
    errors: list[str] = []

    def open_page(
        data: Any, theme: str = "light", width: int = 1400, kernel: str = "null", before: str = ""
    ) -> Any:
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.add_init_script(before)
        file = tmp_path / f"page{len(opened)}.html"
        file.write_text(page_source(data, theme, kernel), encoding="utf-8")
        page.goto(file.as_uri())
        page.wait_for_function("window.painted !== undefined")
        opened.append(page)
        return page

    yield open_page
    for page in opened:
        page.close()
    assert not errors, errors
