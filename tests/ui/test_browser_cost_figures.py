"""Figures that are drawn: the roofline's labels, transcendentals, costs by line, and what lies in memory."""

from __future__ import annotations

import copy

import inspections as data
import pytest
from reading import CONTRAST, tab, thing

OVERLAPS = """() => {
  const boxes = [...document.querySelectorAll(".lz-dot-label, .lz-roof-label:not([transform])")].map((one) => one.getBoundingClientRect());
  const dots = [...document.querySelectorAll(".lz-dot circle")].map((one) => one.getBoundingClientRect());
  const meet = (a, b) => a.left < b.right - 0.5 && b.left < a.right - 0.5 && a.top < b.bottom - 0.5 && b.top < a.bottom - 0.5;
  let found = 0;
  boxes.forEach((box, i) => {
    boxes.forEach((other, k) => { if (k > i && meet(box, other)) found += 1; });
  });
  return [boxes.length, found, dots.length];
}"""


def measured(count: int = 0, **machine):
    """Kernels that were measured; those of ``count`` stand close to each other."""
    made = data.large(count * 25) if count else data.small()
    for number, one in enumerate(made["clusters"]):
        if one["cost"] is None:
            continue
        moved = 1024.0 * (1 + number % 5)
        one["cost"] = {**one["cost"], "bytes": moved, "flops": moved / 4, "transcendentals": 100.0 * number}
        rate = 5e9 * (1 + number % 7)
        one["time"] = {
            "median": moved / rate,
            "low": moved / rate,
            "high": moved / rate,
            "runs": 5,
            "calls": 1,
        }
    made["machine"] = {"flops": 1e11, "bandwidth": 1e10, "text": "measured here", "cache": 1 << 20, **machine}
    return made


# ---- the roofline ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 20, 300])
def test_no_label_covers_another(show, count):
    page = show(measured(count))
    tab(page, "Cost")
    labels, overlapping, dots = page.evaluate(OVERLAPS)
    assert labels >= 3 and overlapping == 0 and dots >= labels - 2
    if count == 300:
        assert "without a label, for want of room" in page.locator(".lz-plot figcaption").inner_text()


def test_kernels_above_the_roofline_are_labelled_in_cache(show):
    page = show(measured())
    tab(page, "Cost")
    labels = page.locator(".lz-dot-label").all_text_contents()
    assert any(label.endswith(" in cache") for label in labels)
    assert "fit in the processor's cache of 1 MiB" in page.locator(".lz-plot figcaption").inner_text()
    words = [dot.get_attribute("aria-label") for dot in page.locator(".lz-dot").all()]
    assert any("in cache (its" in one for one in words) and not any(
        "in cache" in one for one in words if " 50 %" in one
    )


def test_kernels_too_large_for_the_cache_are_not_labelled_in_cache(show):
    page = show(measured(cache=512))
    tab(page, "Cost")
    assert "in cache" not in page.locator(".lz-plot").inner_text()


def test_a_label_lights_its_kernel(show):
    page = show(measured())
    tab(page, "Cost")
    page.locator(".lz-dot-label").first.click()
    assert page.locator(".lz-dot.lz-stuck").count() == 1


# ---- transcendentals and lines -----------------------------------------------------------------------------


def test_transcendentals_stand_beside_flops(show):
    made = data.small()
    made["clusters"][0]["cost"] = {**made["clusters"][0]["cost"], "flops": 0.0, "transcendentals": 131072.0}
    page = show(made)
    tab(page, "Cost")
    head = page.locator(".lz-costs thead th").all_inner_texts()
    assert head.index("Transc.") == head.index("FLOPs") + 1
    row = page.locator(f".lz-costs tr{thing('cluster:0')} .lz-amount").all_inner_texts()
    assert row[:2] == ["0", "131 k"]
    lines = page.locator(".lz-line-costs tbody tr")
    assert lines.count() == 5 and "131 k" in lines.first.inner_text()
    lines.first.click()
    assert page.locator(f".lz-code-line{thing('line:0:6')}.lz-stuck").count() == 1


def test_without_transcendentals_there_is_no_column(show):
    page = show(data.small())
    tab(page, "Cost")
    assert "Transc." not in page.locator(".lz-cost").inner_text()


def test_one_line_has_no_table_of_lines(show):
    made = data.small()
    for one in made["clusters"]:
        one["place"] = data.place(6)
    page = show(made)
    tab(page, "Cost")
    assert page.locator(".lz-by-line").count() == 0


# ---- memory ------------------------------------------------------------------------------------------------


def memory(page) -> list[str]:
    tab(page, "Memory")
    return page.locator(".lz-patch-name").all_inner_texts()


def test_memory_begins_at_the_peak(show):
    made = data.small()
    page = show(made)
    names = memory(page)
    own = made["programs"][0]["memory"]
    assert names and f"step {own['peak_step']} of" in page.locator(".lz-map-words").inner_text()
    assert page.locator(".lz-map-words").inner_text().endswith(", the peak")
    assert "w" in names, "the user's name"


def test_steps_of_the_memory_map_are_chosen_by_keyboard(show):
    page = show(data.small())
    at_peak = memory(page)
    slider = page.get_by_role("slider", name="Step")
    slider.focus()
    page.keyboard.press("Home")
    assert page.locator(".lz-map-words").inner_text().startswith("step 0 of")
    assert slider.get_attribute("aria-valuetext").startswith("step 0 of")
    assert page.locator(".lz-patch-name").all_inner_texts() != at_peak
    page.get_by_role("button", name="Peak").click()
    assert page.locator(".lz-patch-name").all_inner_texts() == at_peak


def test_the_outline_is_clicked_to_choose_a_step(show):
    page = show(data.small())
    memory(page)
    box = page.locator(".lz-profile").bounding_box()
    page.locator(".lz-profile").click(position={"x": 2, "y": box["height"] / 2})
    assert page.locator(".lz-map-words").inner_text().startswith("step 0 of")


def test_an_area_of_the_memory_map_selects_its_value(show):
    page = show(data.small())
    memory(page)
    patch = page.locator(".lz-patch.lz-thing").first
    key = patch.get_attribute("data-thing")
    patch.focus()
    page.keyboard.press("Enter")
    assert page.locator(f".lz-range{thing(key)}.lz-stuck").count() == 1
    assert "\n" in patch.get_attribute("aria-label")


@pytest.mark.parametrize("width", [360, 1400])
def test_areas_fill_the_map_and_do_not_overlap(show, width):
    made = data.small()
    own = made["programs"][0]["memory"]
    many = [
        {
            **own["buffers"][0],
            "name": f"v{n}",
            "variables": [],
            "nodes": [],
            "allocation": 100 + n,
            "bytes": 64 * (1 + n % 9),
            "kind": "temp",
            "start": 0,
            "end": len(own["steps"]),
        }
        for n in range(300)
    ]
    made["programs"] = copy.deepcopy(made["programs"])
    made["programs"][0]["memory"]["buffers"] = many
    page = show(made, width=width)
    names = memory(page)
    assert len(names) == 61 and names[-1].startswith("240 smaller values: ")
    boxes = [one.bounding_box() for one in page.locator(".lz-patch").all()]
    whole = page.locator(".lz-memory-map").bounding_box()
    area = sum(box["width"] * box["height"] for box in boxes)
    assert area == pytest.approx(whole["width"] * whole["height"], rel=0.05)


def test_without_live_ranges_there_is_no_map(show):
    made = data.small()
    made["programs"] = copy.deepcopy(made["programs"])
    made["programs"][0]["memory"].update(in_use=[], buffers=[], steps=[], peak_step=None, peak_bytes=None)
    page = show(made)
    tab(page, "Memory")
    assert page.locator(".lz-memory-map").count() == 0
    assert "No live ranges are known" in page.locator(".lz-panel").inner_text()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", ["Cost", "Memory"])
def test_cost_and_memory_have_sufficient_contrast(show, theme, name):
    page = show(measured(), theme)
    tab(page, name)
    assert page.evaluate(CONTRAST) == []
