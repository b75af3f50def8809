"""The inspector of a program on several devices, in a real browser: how values lie, and where that changes."""

from __future__ import annotations

import inspections as data
import pytest
from reading import tab

from lazynb.xla.inspection_schema import Layout

ROWS: Layout = {
    "text": "f32[8,4] as P('data', None) over data=2 × model=2: 4×4 on each of 4 devices",
    "cells": [[("0,1", "#ee9999")], [("2,3", "#cceecc")]],
}
COLUMNS: Layout = {
    "text": "f32[8,4] as P(None, 'model') over data=2 × model=2: 8×2 on each of 4 devices",
    "cells": [[("0,2", "#ee9999"), ("1,3", "#cceecc")]],
}
MOVE = "P('data', None) → P(None, 'model'): all-to-all on data (rule inferred, row 1 of Collectives)"


def on_four() -> data.Json:
    """The small inspection as if it ran on four devices: its last operation lies otherwise than what it reads."""
    made = data.small()
    last = max(one["id"] for one in made["nodes"] if one["kind"] == "op" and one["operands"])
    node = next(one for one in made["nodes"] if one["id"] == last)
    made["layouts"] = [ROWS, COLUMNS]
    made["tiles"] = [{"node": last, "result": 0, "layout": 1}]
    made["tiles"] += [{"node": operand, "result": 0, "layout": 0} for operand, _ in node["operands"]]
    made["reshardings"] = [{"node": last, "text": MOVE, "sent": True}]
    made["collectives"] = {
        "columns": ["line", "collective"],
        "rows": [["cell 3, line 2", "all-to-all"], ["cell 3, line 1", "all-reduce"]],
        "nodes": [[last], []],
        "text": "",
    }
    for program in made["programs"]:
        program["devices"] = 4
    return made


def moved(page):
    return page.locator(".lz-box", has=page.locator(".lz-flag.lz-sent"))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pointing_at_an_operation_draws_its_sharding_and_that_of_its_operand(show, theme):
    page = show(on_four(), theme=theme)
    card = page.locator(".lz-lying")
    assert not card.is_visible() and moved(page).count() == 1
    moved(page).hover()
    assert card.is_visible()
    assert card.locator(".lz-moved").inner_text() == f"⇄ {MOVE}"
    reads, own = card.locator(".lz-way").all()
    assert ROWS["text"] in reads.inner_text() and reads.inner_text().startswith("reads ")
    assert COLUMNS["text"] in own.inner_text()
    assert own.locator("td").all_inner_texts() == ["0,2", "1,3"]
    assert reads.locator("tr").count() == 2


def test_sharding_drawings_are_shown_by_keyboard(show):
    page = show(on_four())
    moved(page).focus()
    page.keyboard.press("Enter")
    assert page.locator(".lz-lying .lz-way").count() == 2
    page.keyboard.press("Escape")
    assert not page.locator(".lz-lying").is_visible()


def test_the_card_does_not_hide_what_is_pointed_at(show):
    page = show(on_four())
    for box in page.locator(".lz-box:not(.lz-frame)").all():
        box.hover()
        card = page.locator(".lz-lying")
        if not card.is_visible():
            continue
        a, b = box.bounding_box(), card.bounding_box()
        over = min(a["x"] + a["width"], b["x"] + b["width"]) - max(a["x"], b["x"])
        down = min(a["y"] + a["height"], b["y"] + b["height"]) - max(a["y"], b["y"])
        assert over <= 0 or down <= 0, (box.inner_text(), a, b)


def test_the_list_of_operations_is_not_covered(show):
    page = show(on_four())
    moved(page).click()
    page.get_by_role("button", name="Operations").click()
    assert not page.locator(".lz-lying").is_visible()
    page.get_by_role("button", name="Drawing").click()
    assert page.locator(".lz-lying").is_visible()


def test_the_line_that_moves_a_value_is_marked(show):
    page = show(on_four())
    line = page.locator(".lz-code-line", has=page.locator(".lz-sent"))
    assert line.count() == 1
    assert line.locator(".lz-sent").get_attribute("title") == MOVE


def test_a_line_that_sends_nothing_is_marked_as_its_operation_is(show):
    made = on_four()
    made["reshardings"][0]["sent"] = False
    page = show(made)
    line = page.locator(".lz-code-line", has=page.locator(".lz-flag"))
    assert line.count() == 1 and line.locator(".lz-flag").get_attribute("title") == MOVE
    assert page.locator(".lz-code-line .lz-sent, .lz-box .lz-sent").count() == 0


def test_the_legend_explains_the_mark_where_there_is_one(show):
    assert "⇄" in show(on_four()).locator(".lz-legend:not(.lz-source-legend)").inner_text()
    assert "⇄" not in show(data.small()).locator(".lz-legend:not(.lz-source-legend)").inner_text()


def test_selecting_a_line_highlights_its_collectives_and_shardings(show):
    page = show(on_four())
    moved(page).click()
    tab(page, "Collectives")
    assert "all-to-all" in page.locator("tr.lz-lit").inner_text()
    assert page.locator(".lz-ways .lz-way.lz-lit").count() == 1
    assert page.locator(".lz-plain .lz-moved.lz-lit").count() == 1
    page.locator(".lz-ways .lz-way").first.click()
    tab(page, "Graph")
    assert page.locator(".lz-box.lz-lit").count() >= 1


def test_figures_are_said_to_be_of_one_device(show):
    page = show(on_four())
    assert "bytes and FLOPs per device, on 4 devices" in page.locator(".lz-header").inner_text()
    tab(page, "Cost")
    total = page.locator("tr.lz-total")
    assert total.locator("td").first.inner_text() == "all kernels, per device; times: on all 4 devices"
    assert any("on all 4 devices" in (one.get_attribute("title") or "") for one in total.locator("td").all())
    tab(page, "Memory")
    assert "Allocated per device" in page.locator(".lz-tiles").inner_text()
    tab(page, "Fusion")
    assert "bytes per device" in page.locator(".lz-toolbar").first.inner_text()


def test_a_program_on_one_device_shows_no_sharding(show):
    page = show(data.small())
    assert "per device" not in page.locator(".lazynb-inspector").inner_text()
    assert page.locator(".lz-flag.lz-sent").count() == 0 and not page.locator(".lz-lying").is_visible()
