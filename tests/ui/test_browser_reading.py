"""While the kernel reads what XLA did: the recorded graph is there, and how far the rest is; then all of it, in its place."""

from __future__ import annotations

import pytest
from inspections import large, small

pytest.importorskip("playwright")


SILENT = "() => {}"  # a kernel that is busy
RECORDED = ("version", "cell", "sources", "nodes", "groups")
LINE = ".lz-code-line"


def recorded(data):
    return {"reading": True, **{key: data[key] for key in RECORDED if key in data}}


def change(page, name, value):
    page.evaluate("([name, value]) => window.change(name, value)", [name, value])


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_recorded_graph_is_shown_before_the_rest(show, theme):
    page = show({}, theme, kernel=SILENT)
    assert page.inner_text("#inspector") == "Reading what XLA did …"
    data = small()
    change(page, "recorded", recorded(data))
    change(page, "working", "Reading what XLA did: fates … (2 s)")
    assert page.get_by_role("tab").all_inner_texts() == ["Graph"]
    assert page.get_by_role("status").first.inner_text() == "Reading what XLA did: fates … (2 s)"
    head = page.inner_text(".lz-header")
    assert "18 operations" in head and "kernel" not in head, "what is not known is not told as none"
    assert page.locator(".lz-box").count() > 18 and page.locator(".lz-chip").count() == 0
    page.locator(LINE, has_text="s = jax.nn.softmax(a)").click()
    assert page.locator(".lz-box.lz-lit").count() >= 1
    change(page, "data", data)
    assert page.get_by_role("tab").count() == 8 and page.locator(".lz-reading").count() == 0
    assert page.locator(".lazynb-inspector").count() == 1
    assert page.locator(f"{LINE}.lz-stuck").count() == 1, "what was selected stays so"
    assert page.locator(".lz-box.lz-lit").count() >= 1


def test_the_recorded_graph_stays_after_an_interrupt(show):
    page = show({}, kernel=SILENT)
    change(page, "recorded", recorded(small()))
    change(page, "working", "Interrupted: what XLA did was not read to the end.")
    assert "Interrupted" in page.inner_text(".lz-reading") and page.locator(".lz-box").count() > 18


def test_5000_operations_are_painted_within_a_second(show):
    page = show({}, kernel=SILENT)
    began = """(recorded) => new Promise((resolve) => {
      const began = performance.now();
      window.change("recorded", recorded);
      requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - began)));
    })"""
    assert page.evaluate(began, recorded(large(5000))) < 1000
    assert page.locator(".lz-box").count() >= 5
