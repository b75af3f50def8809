"""Whose operations the page counts: the cell's own, of all its programs; what earlier cells left is apart."""

from __future__ import annotations

import inspections as data
import pytest

EARLIER = {
    "cell": 3,
    "operations": 2,
    "kernels": 57,
    "lines": [
        {"label": "cell 3, line 1", "text": "key = jax.random.key(0)", "operations": 1},
        {"label": "cell 3, line 2", "text": "<b>X</b> = jax.random.normal(key)", "operations": 1},
    ],
}
APART = "2 operations that earlier cells left pending, from cell 3 → 57 kernels"


def with_second(**of_second):
    """The small inspection with a program of two operations behind it, and a kernel in that."""
    made = data.small(cell=5, title="")
    first = made["programs"][0]
    first["runs"] = 3
    made["programs"].append({**first, "number": 1, "operations": 2, "runs": 0, "cache": "hit", **of_second})
    made["clusters"].append({**made["clusters"][0], "id": 6, "program": 1, "name": "second", "nodes": []})
    return made


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_operations_of_earlier_cells_are_listed_apart(show, theme):
    page = show(data.small(cell=5, title="", earlier=[EARLIER], apart=APART), theme)
    assert page.locator(".lz-title").inner_text() == "Cell 5"
    assert page.locator(".lz-counts b").all_inner_texts() == ["18 operations", "6 kernels"]
    assert page.locator(".lz-earlier summary").inner_text() == f"Apart: {APART}"
    assert not page.locator(".lz-earlier li").first.is_visible()
    page.locator(".lz-earlier summary").click()
    lines = page.locator(".lz-earlier li").all_inner_texts()
    assert lines == [
        "cell 3, line 1key = jax.random.key(0)1 operation",
        "cell 3, line 2<b>X</b> = jax.random.normal(key)1 operation",
    ]
    assert page.locator(".lz-earlier b").count() == 0


def test_without_earlier_operations_no_section_is_shown(show):
    page = show(data.small(cell=5))
    assert page.locator(".lz-earlier").count() == 0


def test_the_last_program_of_the_cell_is_selected(show):
    """It computes the value of the cell; the header counts all of them."""
    page = show(with_second())
    assert page.locator(".lz-counts b").all_inner_texts() == ["20 operations", "7 kernels"]
    select = page.locator("select.lz-programs")
    assert select.input_value() == "1"
    assert select.locator("option").all_inner_texts() == [
        "Program 1 of 2: 18 operations, miss: first time in 213 ms, ran 3 times at a trace break",
        "Program 2 of 2: 2 operations, cache hit",
    ]
    page.get_by_role("tab", name="Fusion").click()
    assert page.locator(".lz-cards .lz-card").count() == 1


def test_programs_that_did_not_run_are_marked(show):
    assert "not run" not in show(data.small()).locator(".lz-header").inner_text()
    assert "not run" in show(data.small(ran=False)).locator(".lz-header").inner_text()
    assert "the last not run" in show({**with_second(), "ran": False}).locator(".lz-header").inner_text()
    ran = with_second(runs=1)
    assert "not run" not in show({**ran, "ran": False}).locator(".lz-header").inner_text()


def test_results_are_no_boundaries_between_kernels(show):
    made = data.small()
    between = sum(boundary["consumer"] is not None for boundary in made["boundaries"])
    assert between < len(made["boundaries"])
    page = show(made)
    assert f"{between} boundaries" in page.locator(".lz-counts").inner_text()
    page.get_by_role("tab", name="Fusion").click()
    assert f"6 kernels, {between} boundaries" in page.locator(".lz-toolbar").inner_text()


def test_an_empty_cell_reports_that_nothing_was_compiled(show):
    page = show(data.empty())
    page.get_by_role("tab", name="Fusion").click()
    assert "Nothing was compiled" in page.locator(".lz-panel").inner_text()


# ---- the drawing -------------------------------------------------------------------------------------------


def grouped(result: int):
    """The small inspection with its groups drawn closed, and node ``result`` a result."""
    nodes = [{**node, "output": node["id"] == result} for node in data.NODES]
    return data.small(nodes=nodes, groups=data.groups(data.view(nodes, "<ipython-input-3>")))


def test_groups_say_that_they_hold_results(show):
    page = show(grouped(13))  # the last operation of softmax
    [group] = page.locator(".lz-group.lz-result").all()
    assert "5 operations" in group.inner_text() and group.locator(".lz-band").inner_text() == "→ s"
    assert group.locator(".lz-band").get_attribute("title") == "div (s)"
    assert show(grouped(20)).locator(".lz-group.lz-result").count() == 0


def test_short_names_are_never_cut(show):
    """A short name is never cut, whatever stands beside it."""
    made = data.small()
    page = show(made)
    cut = page.evaluate(
        """() => [...document.querySelectorAll('.lz-box:not(.lz-group) .lz-name')]
            .filter((name) => name.scrollWidth > name.clientWidth + 1).map((name) => name.textContent)"""
    )
    assert cut == []


def test_the_name_of_an_input_is_in_its_middle(show):
    page = show(data.small())
    off = page.evaluate(
        """() => [...document.querySelectorAll('.lz-kind-input')].map((box) => {
            const text = document.createRange();
            text.selectNodeContents(box.querySelector('.lz-name'));
            const [a, b] = [text.getBoundingClientRect(), box.getBoundingClientRect()];
            return Math.abs(a.x + a.width / 2 - b.x - b.width / 2);
        })"""
    )
    assert off and max(off) < 1.5


def test_a_box_that_holds_everything_is_opened(show):
    made = data.small()
    every = {"id": 0, "rule": "line", "label": "all", "inside": "", "where": ""}
    outer = {**every, "parts": [{**every, "id": 1, "parts": list(range(3, 21))}]}
    page = show({**made, "groups": [0, 1, 2, outer]})
    assert page.locator(".lz-canvas .lz-frame").count() == 2
    assert page.locator(".lz-canvas .lz-box:not(.lz-frame)").count() == 21
    halves = [
        {**every, "id": 1, "parts": list(range(3, 12))},
        {**every, "id": 2, "parts": list(range(12, 21))},
    ]
    assert show({**made, "groups": [0, 1, 2, *halves]}).locator(".lz-canvas .lz-frame").count() == 0
