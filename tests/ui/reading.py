"""What the browser tests read from an inspector."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


def things(page, within: str, lit: str = "lz-lit") -> list[str]:
    """What is lit in a part of the page: "node:3", "cluster:0", ..."""
    found = page.locator(f"{within} .{lit}").evaluate_all("all => all.map(e => e.dataset.thing)")
    return sorted(
        set(found),
        key=lambda key: (key.split(":")[0], int(key.split(":")[-1]) if key.split(":")[-1].isdigit() else 0),
    )


def thing(key: str) -> str:
    return f'[data-thing="{key}"]'


@contextmanager
def answers_held(page) -> Iterator[None]:
    """Holds the answers of the page's kernel back until the end of the block, however slow the machine is."""
    page.evaluate("window.held = []")
    yield
    page.evaluate("window.release()")


def tab(page, name: str) -> None:
    page.get_by_role("tab", name=name).click()


# Every text whose colour stands out too little from what it is written on.
CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (css) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = css;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const linear = (c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
  const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const colour = rgba(getComputedStyle(e).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const e of document.querySelectorAll(".lazynb-inspector *")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || e.closest("svg") || !e.getClientRects().length) continue;
    const [a, b] = [luminance(rgba(getComputedStyle(e).color)), luminance(ground(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.push(`${e.className} "${e.textContent.slice(0, 20)}" ${ratio.toFixed(2)}`);
  }
  return poor;
}"""
