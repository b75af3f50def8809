"""Two compilations side by side, in a real browser: one selection for both."""

from __future__ import annotations

import copy

import inspections as data
import pytest
from reading import CONTRAST, thing, things

SHIFT = 3
"""The lines of the second program stand so many lines further down."""


def pair() -> data.Json:
    """A program, and the same without its last operation and two lines further down."""
    before, now = data.small(), copy.deepcopy(data.small())
    now["sources"][0]["first"] += SHIFT
    for node in now["nodes"]:
        if node["place"]:
            node["place"]["line"] += SHIFT
    operations = [node for node in before["nodes"] if node["kind"] == "op"]
    lines = sorted({node["place"]["line"] for node in operations})
    return {
        "version": 1,
        "names": ["before the edit", "now"],
        "before": before,
        "now": now,
        "nodes": [[node["id"], node["id"]] for node in operations[:-1]],
        "lines": [
            {"before": 0, "before_line": line, "now": 0, "now_line": line + SHIFT} for line in lines[:-1]
        ],
    }


def side(number: int) -> str:
    return f".lz-pair > div:nth-child({number + 1})"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_both_stand_side_by_side_under_their_names(show, theme):
    page = show(pair(), theme=theme)
    boxes = [page.locator(f"{side(at)} .lazynb-inspector").bounding_box() for at in (0, 1)]
    assert boxes[0]["y"] == boxes[1]["y"] and boxes[1]["x"] >= boxes[0]["x"] + boxes[0]["width"]
    assert page.locator(".lz-pair-name").all_inner_texts() == ["before the edit", "now"]
    assert page.evaluate(CONTRAST) == []
    page.set_viewport_size({"width": 800, "height": 900})
    boxes = [page.locator(f"{side(at)} .lazynb-inspector").bounding_box() for at in (0, 1)]
    assert boxes[1]["y"] >= boxes[0]["y"] + boxes[0]["height"] and boxes[0]["x"] == boxes[1]["x"]


def test_a_line_selects_its_line_however_far_down(show):
    made = pair()
    page = show(made)
    line = made["lines"][0]["before_line"]
    page.locator(f"{side(0)} .lz-source {thing(f'line:0:{line}')}").click()
    assert f"line:0:{line + SHIFT}" in things(page, f"{side(1)} .lz-source")
    assert f"line:0:{line}" not in things(page, f"{side(1)} .lz-source")
    nodes = [things(page, f"{side(at)} .lz-panel") for at in (0, 1)]
    assert nodes[0] and nodes[0] == nodes[1]
    page.keyboard.press("Escape")
    assert things(page, side(1)) == []


def test_an_operation_and_a_kernel_select_from_either_side(show):
    made = pair()
    page = show(made)
    node = made["nodes"][0][1]
    page.locator(f"{side(1)} .lz-panel {thing(f'node:{node}')}").first.click()
    assert f"node:{node}" in things(page, f"{side(0)} .lz-panel")
    page.keyboard.press("Escape")
    page.locator(f"{side(0)}").get_by_role("tab", name="Fusion").click()
    page.locator(f"{side(0)} article{thing('cluster:1')}").click()
    assert things(page, f"{side(1)} .lz-source")


def test_both_show_the_same_view(show):
    page = show(pair())
    for at, name in ((0, "Cost"), (1, "Memory")):
        page.locator(side(at)).get_by_role("tab", name=name).click()
        chosen = page.locator('.lz-pair [role=tab][aria-selected="true"]').all_inner_texts()
        assert [text.split()[0] for text in chosen] == [name, name]
    page.keyboard.press("ArrowLeft")
    chosen = page.locator('.lz-pair [role=tab][aria-selected="true"]').all_inner_texts()
    assert [text.split()[0] for text in chosen] == ["Cost", "Cost"]


def test_an_operation_of_one_side_only_selects_nothing_in_the_other(show):
    made = pair()
    alone = max(node["id"] for node in made["before"]["nodes"] if node["kind"] == "op")
    page = show(made)
    page.locator(f"{side(0)} .lz-panel {thing(f'node:{alone}')}").first.click()
    assert things(page, side(1)) == []


def test_unmounting_removes_both_inspectors(show):
    page = show(pair())
    page.evaluate("window.unmount()")
    assert page.locator(".lazynb-inspector, .lz-pair").count() == 0


def test_two_programs_of_one_file_keep_their_lines(show):
    """Each inspector on the page hears of a line that another selects; here they have the same file."""
    made = pair()
    assert made["before"]["sources"][0]["file"] == made["now"]["sources"][0]["file"]
    page = show(made)
    for at, key in ((0, "before_line"), (1, "now_line")):
        line = made["lines"][1][key]
        page.locator(f"{side(at)} .lz-source {thing(f'line:0:{line}')}").click()
        for other, there in ((0, "before_line"), (1, "now_line")):
            lit = things(page, f"{side(other)} .lz-source", "lz-stuck")
            assert f"line:0:{made['lines'][1][there]}" in lit, (at, other, lit)
        page.keyboard.press("Escape")
