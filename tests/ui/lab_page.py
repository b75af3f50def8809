"""A page of JupyterLab with lazynb's extension in it: what the browser tests of the extension do and read
there."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from lab import KERNEL, NOTEBOOK, ROOT, Notebook, serving

EXTENSION = ROOT / "extension" / "labextension"
AXE = ROOT / "extension" / "node_modules" / "axe-core" / "axe.min.js"
PANEL = "#lazynb-panel"
STATUS = ".lazynb-status"

SETUP = """import jax, jax.numpy as jnp
x = jax.random.normal(jax.random.key(0), (256, 512))
w = jax.random.normal(jax.random.key(1), (512, 512)) * 0.05
%load_ext lazynb"""
PROGRAM = """h = x @ w + 1.0
a = jax.nn.gelu(h)
s = jax.nn.softmax(a)
loss = (s * jnp.log(s + 1e-6)).sum()
print(float(loss))"""


@contextmanager
def extended(root: Path, app: str = "lab") -> Iterator[str]:
    """A server as ``lab.serving`` makes it, with the extension as it lies in this checkout, whatever is
    installed."""
    place = root / "share" / "labextensions" / "@lazynb" / "extension"
    place.parent.mkdir(parents=True)
    place.symlink_to(EXTENSION, target_is_directory=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(root / "share"))
        with serving(root, app) as address:
            yield address


@contextmanager
def run_through(browser: Any, address: str, path: str, cells: int) -> Iterator[Notebook]:
    """A notebook of which the first cells have run as they are written. A script error in the page fails the test."""
    notebook = Notebook(browser)
    notebook.open(address, path)
    for at, source in enumerate(notebook.sources()[:cells]):
        notebook.run(at, source)
    yield notebook
    notebook.page.close()
    assert not notebook.errors, notebook.errors


def shot(page: Any, name: str) -> None:
    """A picture for who looks: LAZYNB_SHOTS is a folder."""
    if folder := os.environ.get("LAZYNB_SHOTS"):
        page.screenshot(path=f"{folder}/{name}.png")


def cell(page: Any, at: int) -> Any:
    return page.locator(".jp-Notebook .jp-Cell").nth(at)


# For each line of a cell (from 1): colours of the stripe, and how much the break weighs.
MARKS = f"""at => {{
  const cell = {NOTEBOOK}.content.widgets[at];
  const view = cell.editor?.editor;
  if (!view) return null;
  const found = {{}};
  for (const mark of cell.node.querySelectorAll(".lazynb-gutter .lz-mark")) {{
    const block = view.lineBlockAtHeight(mark.getBoundingClientRect().top + 2 - view.documentTop);
    const stripe = mark.querySelector(".lz-stripe");
    const shown = stripe && !stripe.hidden && !stripe.classList.contains("lz-none");
    const colours = shown ? new Set(getComputedStyle(stripe).backgroundImage.match(/rgb\\([^)]*\\)/g) ?? []).size : 0;
    const diamond = mark.querySelector(".lz-break");
    const weight = diamond ? Number(/weight-(\\d)/.exec(diamond.getAttribute("class"))[1]) : 0;
    found[view.state.doc.lineAt(block.from).number] = [colours, weight];
  }}
  return found;
}}"""


def marks(page: Any, at: int) -> dict[int, tuple[int, int]]:
    """By line: how many colours its stripe has, and how much its break weighs (0: none)."""
    found = page.evaluate(MARKS, at) or {}
    return {int(line): (colours, weight) for line, (colours, weight) in found.items()}


def until(page: Any, holds: Callable[[], Any], what: str, seconds: float = 20) -> Any:
    """What ``holds`` gives once it is true."""
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, what() if callable(what) else what
        page.wait_for_timeout(25)
    return found


def activate(page: Any, at: int) -> None:
    page.evaluate(f"at => {{ const {{ content }} = {NOTEBOOK}; content.activeCellIndex = at; }}", at)


def text_of(page: Any, at: int) -> str:
    return page.evaluate(f"at => {NOTEBOOK}.content.widgets[at].model.sharedModel.getSource()", at)


CHANGE = f"""([at, from, to, insert]) => {{
  {NOTEBOOK}.content.widgets[at].editor.editor.dispatch({{ changes: {{ from, to, insert }} }});
}}"""


def change(page: Any, at: int, begin: int, end: int, insert: str) -> None:
    """Changes the text of a cell as typing does."""
    page.evaluate(CHANGE, [at, begin, end, insert])


def restart(notebook: Any) -> None:
    notebook.page.evaluate(f"async () => {{ await {KERNEL}.restart(); }}")
    notebook.wait_for_kernel()


# What axe-core finds wrong in a part of the page, WCAG 2 A and AA.
VIOLATIONS = """async (within) => {
  const { violations } = await axe.run(within, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"] });
  const told = (node) => `${node.html.slice(0, 160)} ${node.any[0]?.message ?? ""}`;
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map(told).join(" | ")}`);
}"""


def by_axe(page: Any, asked: str, within: str) -> list[str]:
    """What axe-core answers in a page."""
    if not AXE.exists():
        pytest.skip("axe-core is not here: `npm ci` in extension/ brings it")
    if page.evaluate("typeof window.axe === 'undefined'"):
        page.add_script_tag(content=AXE.read_text(encoding="utf-8"))
    return page.evaluate(asked, within)


def violations(page: Any, within: str) -> list[str]:
    return by_axe(page, VIOLATIONS, within)
