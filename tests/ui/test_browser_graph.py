"""The live graph reads as the stored one does: filled boxes, the user's lines, the names of what is kept; a map of
what is out of sight; changes that can be followed."""

from __future__ import annotations

import inspections as data
import pytest


def thing(key: str) -> str:
    return f'.lz-canvas [data-thing="{key}"]'


def long_chain(count: int = 40):
    """A chain of operations, a line each: far too long for its pane."""
    nodes = [
        {
            **data.node(
                number,
                "sin",
                [number - 1] if number else [],
                "f32[8]",
                1,
                names=["y"] * (number == count - 1),
            ),
            "place": {
                "label": f"a.py:{number}",
                "line": number,
                "text": f"y = step_{number}(y)",
                "cell": None,
                "source": None,
            },
            "output": number == count - 1,
        }
        for number in range(count)
    ]
    return data.empty() | {"nodes": nodes, "groups": [node["id"] for node in nodes]}


def scroll(page) -> tuple[float, float]:
    return tuple(page.locator(".lz-canvas").evaluate("e => [e.scrollLeft, e.scrollTop]"))


def test_a_box_has_the_line_and_the_variable(show):
    page = show(data.small())
    box = page.locator(thing("node:8"))  # kept as `a`, and no result
    assert box.locator(".lz-vars").inner_text() == "a"
    result = page.locator(".lz-box.lz-result").first
    assert result.locator(".lz-band").inner_text().startswith("→ ")
    said = page.locator(".lz-statement").all_inner_texts()
    assert said and all(text.strip() for text in said)
    assert all(a != b for a, b in zip(said, said[1:])), (
        "a line stands once for the boxes that follow each other"
    )
    fill = "e => [getComputedStyle(e).backgroundColor, getComputedStyle(document.querySelector('.lz-canvas')).backgroundColor]"
    box_fill, ground = page.locator(thing("node:8")).evaluate(fill)
    assert box_fill != ground


def test_a_graph_that_does_not_fit_is_shown_at_full_size_with_a_map(show):
    page = show(long_chain())
    assert page.locator(".lz-level").inner_text() == "100 %"
    overview = page.locator(".lz-overview")
    assert overview.is_visible() and overview.get_attribute("role") == "slider"
    assert overview.get_attribute("aria-valuenow") == "0"
    name = page.locator(".lz-box .lz-name").first
    assert name.bounding_box()["height"] >= 15, "it can be read"
    page.get_by_role("button", name="Fit into the window (0)").click()
    page.wait_for_function("!document.querySelector('.lz-overview').checkVisibility()")
    page.locator(".lz-level").click()
    page.wait_for_function("document.querySelector('.lz-overview').checkVisibility()")


def test_a_graph_that_fits_has_no_overview_map(show):
    page = show(long_chain(3))
    assert not page.locator(".lz-overview").is_visible()
    assert page.locator(".lz-level").inner_text() == "100 %"


def test_the_overview_map_scrolls_by_keyboard(show):
    page = show(long_chain())
    overview = page.locator(".lz-overview")
    overview.focus()
    page.keyboard.press("ArrowDown")
    down = scroll(page)[1]
    assert down > 50
    page.keyboard.press("End")
    end = scroll(page)[1]
    assert end > down and overview.get_attribute("aria-valuenow") == "100"
    page.keyboard.press("Home")
    assert scroll(page)[1] == 0
    assert "% of the height" in overview.get_attribute("aria-valuetext")


def test_the_overview_map_scrolls_by_pointer(show):
    page = show(long_chain())
    place = page.locator(".lz-overview").bounding_box()
    x, y = place["x"] + place["width"] / 2, place["y"] + place["height"] * 0.9
    page.mouse.click(x, y)
    low = scroll(page)[1]
    assert low > 500
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y - 60, steps=4)
    page.mouse.up()
    assert scroll(page)[1] < low - 200
    assert page.locator(".lz-stuck").count() == 0, "nothing is selected by it"


def test_the_map_shows_what_is_lit(show):
    page = show(long_chain())
    assert not page.locator(".lz-map-lit").get_attribute("d")
    page.locator(thing("node:1")).click()
    assert page.locator(".lz-map-lit").get_attribute("d").count("M") == 1


ANIMATED = "() => document.getAnimations().filter((one) => one instanceof Animation && !(one instanceof CSSTransition)).length"


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_boxes_move_when_a_group_opens(show, motion):
    page = show(data.large(300))
    page.emulate_media(reduced_motion=motion)
    page.locator(".lz-group .lz-toggle").first.evaluate("e => e.click()")
    moving = page.evaluate(ANIMATED)
    assert moving > 1 if motion == "no-preference" else moving == 0
    frame = page.locator(".lz-frame").first
    page.wait_for_function(f"({ANIMATED})() === 0")
    assert frame.is_visible()


def test_full_size_by_key_brings_back_what_is_selected(show):
    page = show(long_chain())
    canvas = page.locator(".lz-canvas")
    page.locator(thing("node:2")).click()
    canvas.evaluate("e => e.scrollTo(0, e.scrollHeight)")
    canvas.focus()
    page.keyboard.press("0")
    page.keyboard.press("1")
    page.wait_for_function(
        """() => {
          const [box, pane] = ['.lz-stuck.lz-box', '.lz-canvas'].map((one) => document.querySelector(one).getBoundingClientRect());
          return box.bottom > pane.top + 4 && box.top < pane.bottom - 4;
        }"""
    )
    assert page.locator(".lz-level").inner_text() == "100 %"
