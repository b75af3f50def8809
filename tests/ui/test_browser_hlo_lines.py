"""The text of a module: it opens at what runs, its lines are wrapped, and the words that a pass changed are marked."""

from __future__ import annotations

import inspections as data
import pytest
from reading import tab

ROWS = """() => [...document.querySelectorAll(".lz-hlo-line")].map((row) => {
  const text = row.querySelector(".lz-hlo-text").getBoundingClientRect();
  return { top: parseFloat(row.style.top), bottom: parseFloat(row.style.top) + text.height, words: row.textContent };
})"""
CALLED = 80


def long_module() -> dict:
    """Eighty called computations, then the entry, with instructions that are long."""
    text = ["HloModule m"]
    for n in range(CALLED):
        text += ["", f"%called.{n} (p: f32[8]) -> f32[8] {{", f"  ROOT %p{n} = f32[8]{{0}} parameter(0)", "}"]
    text += ["", "ENTRY %main (x: f32[8]) -> f32[8] {"]
    operands = ", ".join(f"%called_with_a_long_name.{n}" for n in range(14))
    text += [f"  %i{n} = f32[8]{{0}} custom-call({operands})" for n in range(40)]
    made = data.small()
    hlo = made["programs"][0]["hlo"]
    hlo["after"] = data.stage(
        [data.line(one, one.split(" = ")[0].strip(" %") if " = " in one else "") for one in [*text, "}"]]
    )
    return made


def test_the_hlo_text_opens_at_the_entry_computation(show):
    page = show(long_module())
    tab(page, "HLO")
    page.wait_for_timeout(100)
    top = page.locator(".lz-rows").bounding_box()
    entry = page.locator(".lz-hlo-line", has_text="ENTRY").bounding_box()
    assert abs(entry["y"] - top["y"]) < 2
    page.locator(".lz-rows").focus()
    page.keyboard.press("Home")
    assert "HloModule m" in page.locator(".lz-hlo-line.lz-active").inner_text(), "what is called is above it"


def test_the_hlo_text_keeps_its_scroll_position(show):
    page = show(long_module())
    tab(page, "HLO")
    page.locator(".lz-rows").evaluate("rows => { rows.scrollTop = 400; }")
    page.wait_for_timeout(60)
    tab(page, "Graph")
    tab(page, "HLO")
    assert page.locator(".lz-rows").evaluate("rows => rows.scrollTop") == 400


@pytest.mark.parametrize("width", [360, 800, 1400])
def test_lines_are_wrapped_and_none_covers_the_next(show, width):
    page = show(long_module(), width=width)
    tab(page, "HLO")
    page.wait_for_timeout(100)
    rows = page.evaluate(ROWS)
    assert len(rows) > 8 and any(row["bottom"] - row["top"] > 30 for row in rows)
    for row, following in zip(rows, rows[1:]):
        assert row["bottom"] <= following["top"] + 1, row["words"]
        assert following["top"] - row["bottom"] <= 21, "room for one line at most is left"
    assert page.locator(".lz-rows").evaluate("rows => rows.scrollWidth - rows.clientWidth") <= 0


def test_search_and_keys_go_to_wrapped_lines(show):
    page = show(long_module())
    tab(page, "HLO")
    page.keyboard.press("/")
    page.keyboard.type("%i37 ")
    assert page.locator(".lz-found").inner_text() == "1 of 1"
    hit, rows = page.locator(".lz-hit-now").bounding_box(), page.locator(".lz-rows").bounding_box()
    assert rows["y"] <= hit["y"] and hit["y"] + hit["height"] <= rows["y"] + rows["height"]
    page.locator(".lz-rows").focus()
    for key in ("Home", "PageDown", "ArrowDown", "PageDown", "End"):
        page.keyboard.press(key)
        hit, rows = page.locator(".lz-active").bounding_box(), page.locator(".lz-rows").bounding_box()
        assert rows["y"] - 1 <= hit["y"] < rows["y"] + rows["height"], key
    assert page.locator(".lz-active").inner_text().strip().endswith("}")


def test_the_words_that_a_pass_changed_are_marked(show):
    before = '%a = f32[8]{0} divide(%x, %constant.8), metadata={op_name="n3"}'
    after = '%a = f32[8]{0} multiply(%x, %constant.9), metadata={op_name="n3"}'
    made = data.small()
    made["programs"][0]["hlo"]["passes"] = [
        {**data.PASSES[1], "changes": [data.change("rewritten", 3, before, after)]}
    ]
    page = show(made)
    tab(page, "HLO")
    page.get_by_role("button", name="Previous stage").click()
    assert page.locator("del").all_inner_texts() == ["divide", "constant.8"]
    assert page.locator("ins").all_inner_texts() == ["multiply", "constant.9"]
    assert before in page.locator(".lz-version-before").inner_text()
    page.locator(".lz-search").fill("divi")
    assert page.locator("del mark").inner_text() == "divi", "what is searched for is marked in them"
