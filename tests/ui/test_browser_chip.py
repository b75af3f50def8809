"""The inspector of a program for a chip that is not here, in a real browser."""

from __future__ import annotations

import inspections as data
import pytest
from reading import tab, thing, things

from lazynb.report.inspection.source_data import file_key

KERNEL = """(message, answer) => {
  const code = { hlo: "%late = f32[] add()", facts: [["grid", "2 × 1 × 1"]], language: "PTX",
    assembly: ".visible .entry late(", llvm: "define void @late(", note: "tiles are defaults" };
  setTimeout(() => answer({ type: "code", cluster: message.cluster, code, id: message.id }), 20);
}"""


def on_chip(live: bool = False) -> data.Json:
    """The small inspection as if XLA had compiled it for a TPU v5e: its first kernel is a transfer there."""
    made = data.small()
    made |= {"live": live, "ran": False, "target": "TPU v5e"}
    made["chip"] = {
        "title": "TPU v5e",
        "devices": 1,
        "memory": 16 << 30,
        "bandwidth": 819e9,
        "peaks": [["s8", 393e12], ["bf16", 197e12]],
        "text": "published figures",
    }
    for cluster in made["clusters"]:
        cluster["at_least"] = {
            "seconds": 2e-6,
            "limit": "memory",
            "moved": 4096,
            "matrix": 0.0,
            "peak": 393e12,
        }
        cluster["cycles"] = 1234
    made["clusters"][0] |= {"kind": "transfer", "opcode": "copy-start", "nodes": []}
    memory = made["programs"][-1]["memory"]
    memory["elsewhere"] = [{"name": "VMEM", "bytes": 4096, "text": "the vector memory on the chip"}]
    memory["buffers"][0] |= {
        "bytes": 53248,
        "shape": "f32[100,3]{1,0:T(8,128)}",
        "padding": 53248 / 1200,
        "space": "",
    }
    return made


def test_transfers_are_counted_apart(show):
    page = show(on_chip())
    kernels = sum(one["kind"] not in ("control", "transfer") for one in on_chip()["clusters"])
    assert f"{kernels} kernels and 1 transfer" in page.locator(".lz-counts").inner_text()
    tab(page, "Fusion")
    assert "beside the kernels that run meanwhile" in page.locator(".lz-cards").inner_text()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_memory_tab_shows_chip_memory_vmem_and_padding(show, theme):
    page = show(on_chip(), theme=theme)
    tab(page, "Memory")
    tiles = page.locator(".lz-tiles").inner_text()
    assert "of 16 GiB" in tiles and "VMEM" in tiles
    assert "f32[100,3] takes 44.4 times its size (52 KiB)" in page.locator(".lz-padding").inner_text()


def test_costs_are_shown_as_lower_bounds_without_measuring(show):
    page = show(on_chip(live=True), kernel=KERNEL)
    tab(page, "Cost")
    text = page.locator(".lz-cost").inner_text()
    assert "published: 819 GB/s, s8 393 TOP/s, bf16 197 TOP/s" in text
    assert "At least" in text and "Cycles" in text and "Time" not in text
    assert page.get_by_role("button", name="Measure").count() == 0
    assert "Published figures of TPU v5e" in page.locator(".lz-roofline-holder").inner_text()


def test_code_is_asked_for_when_a_kernel_is_looked_at(show):
    page = show(on_chip(live=True), kernel=KERNEL)
    tab(page, "Code")
    page.wait_for_selector(".lz-listing-text")
    assert "grid 2 × 1 × 1" in page.locator(".lz-code-head").inner_text()
    assert ".visible .entry late(" in page.locator(".lz-code-texts").inner_text()
    page.get_by_role("button", name="LLVM IR").click()
    assert "define void @late(" in page.locator(".lz-code-texts").inner_text()
    page.locator(f".lz-code-kernels {thing('cluster:2')}").click()
    page.wait_for_function("document.querySelector('.lz-code-head .lz-chip').textContent === 'c2'")
    asked = [one["cluster"] for one in page.evaluate("window.sent") if one["type"] == "code"]
    assert asked == [1, 2]


def test_code_missing_from_a_saved_view_is_reported(show):
    page = show(on_chip())
    tab(page, "Code")
    assert "was not kept in this saved view" in page.locator(".lz-code-texts").inner_text()


def test_a_line_is_selected_in_all_inspectors_of_the_cell(show):
    page = show(on_chip())
    page.evaluate(
        """async () => {
          const code = document.querySelector("script[type=module]").textContent;
          const url = code.match(/from "(data:[^"]+)"/)[1];
          const { mount } = await import(url);
          const el = document.createElement("div");
          el.id = "second";
          document.body.append(el);
          mount(el, JSON.parse(document.getElementById("data").textContent));
        }"""
    )
    page.locator(f"#inspector {thing('line:0:3')}").click()
    assert "line:0:3" in things(page, "#second .lz-source", "lz-stuck")
    page.keyboard.press("Escape")
    assert things(page, "#second .lz-source", "lz-stuck") == []


ROW = """file => {
  const row = document.createElement("span");
  Object.assign(row.dataset, { lazynbFile: file, lazynbLine: "3" });
  row.textContent = "line 3";
  const table = document.createElement("div");
  table.className = "lazynb-targets";
  table.append(row);
  document.body.prepend(table);
}"""


def test_a_line_of_the_table_of_chips_is_selected_with_the_pointer_and_the_keyboard(show):
    page = show(on_chip())
    page.evaluate(ROW, file_key(on_chip()["sources"][0]["file"]))
    row, line = page.locator(".lazynb-targets span"), "line:0:3"
    row.click()
    assert line in things(page, ".lz-source", "lz-stuck")
    assert (row.get_attribute("role"), row.get_attribute("aria-pressed")) == ("button", "true")
    row.focus()
    page.keyboard.press("Enter")
    assert things(page, ".lz-source", "lz-stuck") == [] and row.get_attribute("aria-pressed") == "false"
    page.locator(f".lz-source {thing(line)}").click()
    assert row.get_attribute("aria-pressed") == "true"


def test_a_line_of_another_cell_is_not_selected(show):
    page = show(on_chip())
    page.evaluate(ROW, file_key(on_chip()["sources"][0]["file"]))
    row = page.locator(".lazynb-targets span")
    page.evaluate("document.querySelector('.lazynb-targets span').dataset.lazynbFile = 'another cell'")
    row.click()
    assert things(page, ".lz-source", "lz-stuck") == [] and row.get_attribute("role") is None
