"""Takes the documentation's pictures in a real JupyterLab: ``python scripts/screenshots.py [FOLDER]``.

It needs Chromium and the test environment. FOLDER is ``docs`` by default.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "ui")]

import conftest  # noqa: E402
from lab import Notebook, write  # noqa: E402
from lab_page import extended  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402

SETUP = """import jax, jax.numpy as jnp, lazynb
%load_ext lazynb
x = jax.random.normal(jax.random.key(0), (128, 64))
wq, wk, wv = (jax.random.normal(jax.random.key(i), (64, 64)) / 8 for i in (1, 2, 3))
lazynb.sync()"""
PENDING = """h = jnp.tanh(x @ wq)
p = jax.nn.softmax(h)
p"""
ATTENTION = """%%compile
centred = x - x.mean(-1, keepdims=True)
h = centred / jnp.sqrt((centred ** 2).mean(-1, keepdims=True) + 1e-5)
q, k, v = h @ wq, h @ wk, h @ wv
scores = q @ k.T / 8.0
out = jax.nn.softmax(scores) @ v + x
out.mean()"""
LOOP = """%%compile
y = x
for step in range(40):
    y = jnp.tanh(y @ wq) + 0.1
    if step % 10 == 0:
        print(f"{float(y.mean()):.3f}")
y.sum()"""
FUSED = """%%compile
a = jnp.exp(x * 2.0 + 1.0)
b = a / (1.0 + a)
c = jnp.where(b > 0.5, b, 0.0)
c.sum(-1)"""
INSPECTED, LOOPED, PLAYED, WAITING = range(1, 5)


def main(folder: Path) -> None:
    """Writes the pictures to ``folder``."""
    os.environ["LAZYNB_PERSISTENT_CACHE"] = "0"  # what is loaded has no passes
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=conftest.FLAGS)
        root = Path(place)
        with extended(root) as address:
            write(root / "main.ipynb", SETUP, ATTENTION, LOOP, FUSED, PENDING)
            notebook = Notebook(browser, 1280, 1210)
            notebook.open(address, "lab/tree/main.ipynb")
            notebook.execute("application:toggle-left-area")
            for at, source in enumerate(notebook.sources()):
                notebook.run(at, source)
            for name, take in PICTURES.items():
                take(notebook, folder / f"{name}.png")
                print(folder / f"{name}.png")
        browser.close()


def pending(notebook: Notebook, file: Path) -> None:
    """A pending value: its graph, what reading it runs, and the buttons."""
    notebook.output(WAITING).screenshot(path=file)


def _tab(notebook: Notebook, at: int, name: str) -> Any:
    inspector = notebook.inspector(at)
    inspector.scroll_into_view_if_needed()
    inspector.get_by_role("tab", name=name).click()
    notebook.page.wait_for_timeout(800)
    return inspector


def inspector(notebook: Notebook, file: Path) -> None:
    """The inspector with a line selected."""
    shown = _tab(notebook, INSPECTED, "Graph")
    shown.locator(".lz-code-line").nth(2).click()
    notebook.page.wait_for_timeout(600)
    shown.screenshot(path=file)
    notebook.page.keyboard.press("Escape")


def passes(notebook: Notebook, file: Path) -> None:
    """How the kernels came about."""
    shown = _tab(notebook, PLAYED, "Fusion")
    shown.get_by_text("Passes", exact=True).click()
    shown.get_by_title("Next pass (.)").click()
    notebook.page.wait_for_timeout(1200)
    shown.screenshot(path=file)


def memory(notebook: Notebook, file: Path) -> None:
    """What lies in memory at the peak."""
    _tab(notebook, INSPECTED, "Memory").screenshot(path=file)


def breaks(notebook: Notebook, file: Path) -> None:
    """The timeline of a loop's trace breaks."""
    _tab(notebook, LOOPED, "Breaks").screenshot(path=file)


def jupyterlab(notebook: Notebook, file: Path) -> None:
    """The page: marks beside the lines, the card of a line, the panel."""
    page = notebook.page
    page.set_viewport_size({"width": 1400, "height": 900})
    page.locator(".lazynb-status").click()
    page.locator("#lazynb-panel").get_by_role("tab", name="Breaks").click()
    page.locator(".jp-Notebook .jp-Cell").nth(LOOPED).scroll_into_view_if_needed()
    page.locator(".jp-Notebook .jp-Cell").nth(LOOPED).locator(".lz-mark").nth(1).hover()
    page.wait_for_timeout(900)
    page.screenshot(path=file)


PICTURES: dict[str, Callable[[Notebook, Path], None]] = {
    "pending": pending,
    "inspector": inspector,
    "passes": passes,
    "memory": memory,
    "breaks": breaks,
    "jupyterlab": jupyterlab,
}

if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs")
