"""How the kernels came about, in the browser: passes are played and stepped through, boxes move and are selected, and
the picture stays quick."""

from __future__ import annotations

import inspections as data
import pytest
from formations import chain, formation, with_formation
from reading import CONTRAST, tab, things

FRAMES = """async () => {
  const slider = document.querySelector(".lz-formation .lz-slider");
  const began = performance.now();
  let steps = 0, frames = 0;
  for (; frames < 132; frames += 1) {
    if (frames % 6 === 0) {
      slider.value = String(steps % (Number(slider.max) + 1));
      slider.dispatchEvent(new Event("input"));
      steps += 1;
    }
    await new Promise((drawn) => requestAnimationFrame(drawn));
  }
  return { steps, frames, rate: frames / ((performance.now() - began) / 1000) };
}"""


def passes(page) -> None:
    tab(page, "Fusion")
    page.get_by_role("button", name="Passes", exact=True).click()


def go(page, stage: int) -> None:
    page.locator(".lz-formation .lz-slider").evaluate(
        "(slider, to) => { slider.value = to; slider.dispatchEvent(new Event('input')); }", stage
    )
    page.wait_for_timeout(700)


def title(page) -> str:
    return page.locator(".lz-formation .lz-stage-title").inner_text()


def places(page) -> dict[str, dict[str, float]]:
    """By what it says, where each box is."""
    return page.locator(".lz-formed-box:not([hidden])").evaluate_all(
        """boxes => Object.fromEntries(boxes.map((box) => {
          const { x, y, width, height } = box.getBoundingClientRect();
          return [box.title.split(" = ")[0], { x, y, width, height }];
        }))"""
    )


def hulls(page) -> dict[str, dict[str, float]]:
    return page.locator(".lz-skin:not([hidden])").evaluate_all(
        """all => Object.fromEntries(all.map((one) => {
          const { x, y, width, height } = one.getBoundingClientRect();
          return [one.title, { x, y, width, height }];
        }))"""
    )


def around(hull, box) -> bool:
    return (
        hull["x"] <= box["x"]
        and hull["y"] <= box["y"]
        and hull["x"] + hull["width"] >= box["x"] + box["width"]
        and hull["y"] + hull["height"] >= box["y"] + box["height"]
    )


def test_boxes_are_put_together_and_come_apart_again(show):
    page = show(with_formation())
    passes(page)
    go(page, 0)
    assert "Before the passes" in title(page) and "4 kernels" in title(page)
    alone = places(page)
    assert sorted(alone) == ["a", "b", "c", "d"] and hulls(page) == {}
    go(page, 2)
    assert "Pass 2 of 3: fusion" in title(page) and "4 → 2 kernels" in title(page)
    assert "3 put together, 1 copied" in title(page)
    now, drawn = places(page), hulls(page)
    assert sorted(now) == ["a", "a.copy", "b", "c", "d"]
    for kernel, boxes in {"tanh_multiply_fusion": ["a", "b"], "wrapped": ["a.copy", "c"]}.items():
        assert all(around(drawn[kernel], now[box]) for box in boxes)
    assert not around(drawn["tanh_multiply_fusion"], now["c"])
    assert abs(now["a"]["y"] - now["b"]["y"]) < abs(alone["a"]["y"] - alone["b"]["y"]), "they moved together"
    go(page, 0)
    assert places(page) == alone, "the layout is that which it was"


def test_boxes_of_one_stage_do_not_cover_each_other(show):
    page = show(chain(120))
    passes(page)
    for stage in (0, 1, 2):
        go(page, stage)
        found = list(places(page).values())
        assert len(found) == 120
        for i, a in enumerate(found):
            for b in found[i + 1 :]:
                apart = (
                    a["x"] + a["width"] <= b["x"] + 0.5
                    or b["x"] + b["width"] <= a["x"] + 0.5
                    or a["y"] + a["height"] <= b["y"] + 0.5
                    or b["y"] + b["height"] <= a["y"] + 0.5
                )
                assert apart


def test_eliminated_operations_show_their_fate(show):
    page = show(with_formation())
    passes(page)
    go(page, 3)
    assert "1 removed" in title(page) and "d" not in places(page)
    gone = page.locator(".lz-formation-gone")
    assert "Gone since this pass" in gone.inner_text() and "folded to a constant" in gone.inner_text()
    page.locator(".lz-gone-row").click()
    assert "line:0:10" in things(page, ".lz-source")


def test_a_box_selects_its_line_and_kernel(show):
    page = show(with_formation())
    passes(page)
    go(page, 3)
    page.locator(".lz-formed-box[title^='b = ']").click()
    assert things(page, ".lz-source") == ["cluster:0", "line:0:6"]
    assert page.locator(".lz-formed-box.lz-stuck").count() == 1
    assert "b = f32[8]{0} tanh" in page.locator(".lz-foot").inner_text()
    page.keyboard.press("Escape")
    page.locator(".lz-formed-box[title^='b = ']").focus()
    page.keyboard.press("Enter")
    assert page.locator(".lz-formed-box.lz-stuck").count() == 1
    tab(page, "Graph")
    assert things(page, ".lz-canvas") != []


def test_a_line_lights_its_boxes(show):
    page = show(with_formation())
    passes(page)
    go(page, 2)
    page.locator('.lz-code-line[data-thing="line:0:6"]').click()
    lit = page.locator(".lz-formed-box.lz-lit:not([hidden])").all_inner_texts()
    assert lit and all("line 6" in one for one in lit)


def test_play_pause_and_step_by_keys(show):
    page = show(with_formation())
    passes(page)
    go(page, 0)
    canvas = page.locator(".lz-formation .lz-canvas")
    canvas.focus()
    page.keyboard.press(".")
    assert "Pass 1 of 3" in title(page)
    page.keyboard.press(",")
    assert "Before" in title(page)
    page.get_by_label("Speed").select_option("4")
    canvas.focus()
    page.keyboard.press("p")
    assert page.get_by_role("button", name="Pause").count() == 1
    page.wait_for_function(
        "document.querySelector('.lz-formation .lz-stage-title').textContent.includes('Pass 3 of 3')"
    )
    page.wait_for_selector("[aria-label='Play the passes']")
    page.keyboard.press("p")
    page.wait_for_function(
        "document.querySelector('.lz-formation .lz-stage-title').textContent.includes('Pass 1 of 3')"
    )
    page.keyboard.press("p")
    page.wait_for_timeout(800)
    assert "Pass 1 of 3" in title(page), "it is paused"
    assert page.locator(".lz-formation .lz-slider").get_attribute("aria-valuetext").startswith("Pass 1 of 3")


def test_reduced_motion_disables_the_animation(show):
    page = show(with_formation())
    page.emulate_media(reduced_motion="reduce")
    passes(page)
    go(page, 0)
    page.locator(".lz-formation .lz-slider").evaluate(
        "slider => { slider.value = 2; slider.dispatchEvent(new Event('input')); }"
    )
    at_once = places(page)
    page.wait_for_timeout(700)
    assert places(page) == at_once and len(at_once) == 5


def test_the_words_that_changed_are_marked(show):
    page = show(with_formation())
    passes(page)
    go(page, 1)
    change = page.locator(".lz-formation-changes .lz-change").first
    assert change.locator("del").all_inner_texts() == ["divide", "8"]
    assert change.locator("ins").all_inner_texts() == ["multiply", "0.125"]
    width = page.locator(".lz-formation-changes .lz-scroll").evaluate(
        "list => list.scrollWidth - list.clientWidth"
    )
    assert width <= 0, "lines are wrapped"


def test_a_large_program_is_drawn_around_the_selection(show):
    page = show(chain(2000))
    passes(page)
    note = page.locator(".lz-formation .lz-map-note")
    assert "600 of 2,000 instructions are drawn, the first" in note.inner_text()
    page.locator('.lz-code-line[data-thing="line:0:70"]').click()
    assert "around what is selected" in note.inner_text()
    assert page.locator(".lz-formed-box.lz-lit:not([hidden])").count() >= 1


def test_a_selected_box_out_of_view_is_scrolled_to(show):
    """One alone, so that no arrow is lit."""
    made = chain(300)
    nodes = made["programs"][0]["hlo"]["formation"]["boxes"][-1]["stands"][0]["nodes"]
    made["findings"] = [{"kind": "again", "text": "the last operation", "nodes": nodes}]
    page = show(made)
    passes(page)
    box, canvas = page.locator(".lz-formed-box").last, page.locator(".lz-formation .lz-canvas")

    def in_sight() -> bool:
        own, pane = box.bounding_box(), canvas.bounding_box()
        return pane["y"] < own["y"] + own["height"] and own["y"] < pane["y"] + pane["height"]

    assert not in_sight()
    page.locator(".lz-finding").click()
    assert page.locator(".lz-formed-box.lz-lit").count() == 1 and in_sight()


def test_the_slider_shows_where_much_happens(show):
    page = show(with_formation())
    passes(page)
    marks = page.locator(".lz-player .lz-weights span").evaluate_all(
        "all => all.map((one) => one.getBoundingClientRect().height)"
    )
    assert marks == pytest.approx([0, 9 / 4, 9, 9 / 4], abs=0.1), "of the boxes that each pass touches"


LATE = """(message, answer) => {
  setTimeout(() => answer({ id: message.id, ...window.late, type: "formation", program: 0 }), 50);
}"""


def test_the_formation_is_requested_from_the_kernel(show):
    made = data.small(live=True)
    page = show(made, kernel=LATE)
    page.evaluate("late => { window.late = late; }", {"formation": formation(), "passes": []})
    passes(page)
    page.wait_for_selector(".lz-formed-box")
    assert [one["type"] for one in page.evaluate("window.sent")] == ["formation"]


def test_passes_that_were_not_written_down_are_offered(show):
    made = data.small(live=True)
    steps = made["programs"][0]["hlo"]["passes"]
    made["programs"][0]["hlo"]["passes"] = []
    page = show(made, kernel=LATE)
    page.evaluate("late => { window.late = late; }", {"formation": formation(), "passes": steps[:3]})
    passes(page)
    assert "not written down" in page.locator(".lz-formation").inner_text()
    assert page.evaluate("window.sent.length") == 0, "nothing is compiled unasked"
    page.get_by_role("button", name="Compile again and show").click()
    page.wait_for_selector(".lz-formed-box")
    assert "of 3" in title(page)


def test_an_error_is_shown_with_a_retry_button(show):
    page = show(
        data.small(live=True),
        kernel="(message, answer) => answer({ id: message.id, type: 'error', message: 'too large to follow' })",
    )
    passes(page)
    page.wait_for_selector("text=too large to follow")
    assert page.get_by_role("button", name="Ask again").count() == 1


def test_a_saved_view_without_a_formation_says_so(show):
    page = show(data.small())
    passes(page)
    assert "too long to be kept" in page.locator(".lz-formation").inner_text()
    page.get_by_role("button", name="Kernels", exact=True).click()
    assert page.locator(".lz-card").count() == 6


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_can_be_read(show, theme):
    page = show(with_formation(), theme=theme)
    passes(page)
    go(page, 2)
    assert page.evaluate(CONTRAST) == []


@pytest.mark.parametrize("width", [360, 800, 1600])
def test_the_formation_does_not_overflow_at_any_width(show, width):
    page = show(with_formation(), width=width)
    passes(page)
    go(page, 1)
    sticking = page.evaluate("document.querySelector('.lazynb-inspector').scrollWidth - innerWidth")
    assert sticking <= 0
    for name in ("Previous pass (,)", "Next pass (.)", "Fit into the window (0)"):
        box = page.get_by_role("button", name=name).bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= width


def test_dragging_the_slider_does_not_lay_the_page_out_for_each_box(show):
    """300 operations, first as large as they can be read, then all in sight. A frame lays the page out once, and a
    step of the slider twice more; reading a size after each write would do it 300 times a step. The milliseconds
    depend on the machine, and are only printed."""
    page = show(chain(300))
    passes(page)
    assert page.locator(".lz-formed-box:not([hidden])").count() == 300
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    for view in ("as large as they can be read", "all in sight"):
        before = metrics(session)
        drawn = page.evaluate(FRAMES)
        after = metrics(session)
        work = 1000 * (after["TaskDuration"] - before["TaskDuration"]) / drawn["frames"]
        print(f"\n{view}: {drawn['rate']:.0f} frames a second, {work:.0f} ms of work for each")
        assert 0 < after["LayoutCount"] - before["LayoutCount"] < drawn["frames"] + 3 * drawn["steps"]
        page.get_by_role("button", name="Fit into the window (0)").click()


def metrics(session) -> dict[str, float]:
    """What Chromium counts of the page's own thread."""
    found = session.send("Performance.getMetrics")["metrics"]
    return {one["name"]: one["value"] for one in found}
