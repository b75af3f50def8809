"""The inspector in a real browser: click, hover, type, and read what is lit."""

from __future__ import annotations

import re

import inspections as data
import pytest
from reading import CONTRAST, answers_held, tab, thing, things

TABS = ["Graph", "Fusion", "HLO", "Code", "Cost", "Memory", "Cache", "Breaks"]

# What stands in for Python: each answers after a moment, as a kernel does.
KERNEL_THAT_ANSWERS = """(message, answer) => {
  const late = { kind: "fused", name: "late", before: "  %late = f32[] add(%a, %b)", after: "", nodes: [], into: "f" };
  const verified = { verdict: "without h the boundary is gone", label: "verified by recompiling" };
  const answers = {
    ask: () => ({ type: "boundaries", boundaries: window.said }),
    verify: () => ({ type: "boundary", boundary: { ...window.said[message.boundary], ...verified } }),
    profile: () => ({ type: "times", ...window.times }),
    pass: () => ({ ...message, type: "pass", changes: [late] }),
    stage: () => ({ ...message, type: "stage", stage: { text: "HloModule late", lines: [] } }),
  };
  setTimeout(() => answer({ ...answers[message.type](), id: message.id }));
}"""
KERNEL_THAT_FAILS = """(message, answer) => {
  setTimeout(() => answer({ id: message.id, type: "error", message: "the dump could not be written" }), 10);
}"""


def go(page, position: int) -> None:
    """Moves the slider of passes."""
    page.locator(".lz-slider").evaluate(
        "(slider, to) => { slider.value = to; slider.dispatchEvent(new Event('input')); }", position
    )


def to_the_end(page) -> None:
    """Scrolls the instructions: only those in sight exist."""
    page.locator(".lz-rows").evaluate("rows => { rows.scrollTop = 1e6; }")
    page.wait_for_timeout(60)


def test_hover_on_a_line_lights_its_nodes_and_kernels(show):
    page = show(data.small())
    page.locator(thing("line:0:3")).hover()
    assert things(page, ".lz-canvas") == ["cluster:2", "node:7", "node:8"]
    assert things(page, ".lz-source") == ["cluster:2", "line:0:3"]
    page.locator(".lz-title").hover()
    assert things(page, ".lazynb-inspector") == []


def test_click_sticks_and_escape_clears(show):
    page = show(data.small())
    page.locator(thing("node:6")).click()
    page.locator(".lz-title").hover()
    assert "node:6" in things(page, ".lz-canvas")
    assert "line:0:2" in things(page, ".lz-source")
    assert things(page, ".lz-canvas", "lz-stuck") == ["node:6"]
    assert "add (h)" in page.locator(".lz-foot").inner_text()
    page.keyboard.press("Escape")
    assert things(page, ".lazynb-inspector") == []


def test_a_selection_is_seen_in_every_view(show):
    page = show(data.measured())
    page.locator(thing("line:0:6")).click()
    page.locator(".lz-title").hover()
    tab(page, "Fusion")
    assert {"cluster:0", "node:3", "node:4"} <= set(things(page, ".lz-cards"))
    assert things(page, ".lz-map") == ["cluster:0"]
    tab(page, "HLO")
    assert things(page, ".lz-rows") == ["cluster:0", "instruction:0:tanh_multiply_fusion"]
    page.locator(".lz-rows").evaluate("rows => { rows.scrollTop = 0; }")
    page.wait_for_timeout(60)
    assert {"cluster:0", "instruction:0:i3", "instruction:0:i4"} <= set(things(page, ".lz-rows"))
    tab(page, "Cost")
    assert things(page, ".lz-costs") == ["cluster:0"]
    assert things(page, ".lz-roofline") == ["cluster:0"]
    tab(page, "Memory")
    assert "value:i4" in things(page, ".lz-memory")


def test_a_kernel_lights_its_lines_nodes_and_instructions(show):
    page = show(data.measured())
    tab(page, "Cost")
    page.locator(f"tr{thing('cluster:2')}").click()
    page.locator(".lz-title").hover()
    assert {"line:0:2", "line:0:3"} <= set(things(page, ".lz-source"))
    tab(page, "Graph")
    assert {"node:6", "node:7", "node:8"} <= set(things(page, ".lz-canvas"))
    assert not {"node:5", "node:9"} & set(things(page, ".lz-canvas"))
    tab(page, "HLO")
    assert "instruction:0:i6" in things(page, ".lz-rows")
    to_the_end(page)
    assert "instruction:0:add_logistic_fusion" in things(page, ".lz-rows")


def test_an_instruction_lights_its_line(show):
    page = show(data.small())
    tab(page, "HLO")
    page.locator(thing("instruction:0:i16")).hover()
    assert things(page, ".lz-source") == ["cluster:5", "line:0:10"]
    go(page, 0)
    page.locator(thing("instruction:0:i5")).hover()
    assert "line:0:2" in things(page, ".lz-source")


def test_duplicated_operation_is_in_both_kernels(show):
    page = show(data.small())
    page.locator(thing("node:11")).click()
    tab(page, "Fusion")
    page.locator(".lz-title").hover()
    assert things(page, ".lz-map") == ["cluster:4", "cluster:5"]
    assert page.locator(f"{thing('cluster:5')} .lz-twice").count() == 2


def test_tabs_are_switched_by_keyboard(show):
    page = show(data.small())
    page.get_by_role("tab", name="Graph").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.textContent") == "Fusion6"
    assert page.get_by_role("tab", name="Fusion").get_attribute("aria-selected") == "true"
    assert page.locator(".lz-fusion").is_visible()
    page.keyboard.press("End")
    assert "never broken" in page.locator(".lz-panel").inner_text()
    page.keyboard.press("Home")
    assert page.locator(".lz-canvas").is_visible()
    assert page.locator('[role=tab][tabindex="0"]').count() == 1


def test_enter_selects_what_has_the_focus(show):
    page = show(data.small())
    page.locator(thing("node:8")).focus()
    page.keyboard.press("Enter")
    assert things(page, ".lz-canvas", "lz-stuck") == ["node:8"]
    page.locator(thing("line:0:6")).focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press(" ")
    assert things(page, ".lz-source", "lz-stuck") == ["line:0:8"]


def test_search_finds_counts_and_moves(show):
    page = show(data.small())
    tab(page, "HLO")
    page.keyboard.press("/")
    page.keyboard.type("EXPONENTIAL")
    assert page.locator(".lz-found").inner_text() == "1 of 2"
    assert set(page.locator(".lz-rows mark").all_inner_texts()) == {"exponential"}
    page.keyboard.press("Enter")
    assert page.locator(".lz-found").inner_text() == "2 of 2"
    assert "clone" in page.locator(".lz-hit-now").inner_text()
    page.keyboard.press("Shift+Enter")
    assert page.locator(".lz-found").inner_text() == "1 of 2"
    page.keyboard.press("Escape")
    assert page.locator("mark").count() == 0


def test_passes_are_stepped_through_one_by_one(show):
    page = show(data.small())
    tab(page, "HLO")
    assert "After all passes" in page.locator(".lz-stage-title").inner_text()
    go(page, 0)
    assert "Before the passes" in page.locator(".lz-stage-title").inner_text()
    page.get_by_role("button", name="Next stage").click()
    assert "Pass 1 of 5: constant_folding" in page.locator(".lz-stage-title").inner_text()
    assert page.locator(".lz-change").count() == 2
    go(page, 4)
    assert page.locator(".lz-change").count() == 16
    assert "into tanh_multiply_fusion" in page.locator(".lz-change").first.inner_text()
    page.locator(".lz-change").first.hover()
    assert things(page, ".lz-source") == ["cluster:0", "line:0:6"]
    go(page, 5)
    assert "Only the counts" in page.locator(".lz-hlo-body").inner_text()


def test_play_goes_through_the_passes(show):
    page = show(data.small())
    tab(page, "HLO")
    page.get_by_role("button", name="Play the passes").click()
    assert "Before" in page.locator(".lz-stage-title").inner_text()
    page.wait_for_function("document.querySelector('.lz-slider').value === '1'", timeout=5000)
    page.get_by_role("button", name="Pause").click()


def test_every_operation_has_its_fate_in_words(show):
    page = show(data.small())
    page.get_by_role("button", name="Operations").click()
    rows = page.locator(".lz-fate")
    assert rows.count() == 18
    assert "dead: nothing uses it" in page.locator(f".lz-fate{thing('node:14')}").inner_text()
    page.get_by_label("Filter operations").fill("folded")
    assert rows.count() == 1
    page.get_by_label("Filter operations").fill("")
    page.get_by_label("Only this fate").select_option("library")
    assert rows.count() == 1 and "YNNPACK" in rows.first.inner_text()


def test_boundaries_say_why(show):
    page = show(data.small())
    tab(page, "Fusion")
    kept = page.locator(f".lz-boundary{thing('boundary:6')}")
    assert "h" in kept.locator(".lz-var").all_inner_texts()
    assert "del h" in kept.inner_text() and "rule inferred" in kept.inner_text()
    assert page.get_by_role("button", name="Verify").count() == 0, "no kernel, no experiment"
    kept.hover()
    assert "line:0:2" in things(page, ".lz-source")


@pytest.mark.parametrize("inspection", ["small", "empty", "long_names", "hostile"])
def test_every_tab_of_every_sample_is_drawn_without_failure(show, inspection):
    page = show(getattr(data, inspection)())
    for name in TABS:
        tab(page, name)
        assert page.locator(".lz-panel").inner_text().strip(), name
        assert page.locator(".lz-failed").count() == 0, name
        assert page.evaluate("window.injected") is None, name
        assert page.locator(".lazynb-inspector img").count() == 0, name
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (
            "the page must not grow sideways"
        )


def test_markup_in_names_is_text(show):
    page = show(data.hostile())
    evil = "<img src=x onerror=window.injected=1>"
    assert page.locator(".lz-title").inner_text() == evil
    page.locator(thing("node:4")).hover()
    assert evil in page.locator(".lz-foot").inner_text()
    tab(page, "Fusion")
    assert evil in page.locator(thing("boundary:6")).last.inner_text()
    tab(page, "HLO")
    go(page, 1)
    assert evil in page.locator(".lz-hlo-body").inner_text()
    assert page.evaluate("window.injected") is None


@pytest.mark.parametrize(
    "broken",
    [
        {},
        None,
        {
            "version": 1,
            "nodes": [{"id": 0}, 7, None],
            "clusters": [{"id": 0, "nodes": None}],
            "programs": [{}],
            "boundaries": [{}],
        },
    ],
)
def test_missing_fields_blank_nothing(show, broken):
    page = show(broken)
    for name in TABS:
        tab(page, name)
        assert page.locator(".lz-panel").inner_text().strip()
        assert page.locator(".lz-failed").count() == 0


def test_a_view_that_fails_leaves_the_others(show):
    page = show(data.small(), before="delete window.ResizeObserver")
    assert page.locator(".lz-failed").inner_text().startswith("The view Graph failed: ")
    tab(page, "HLO")
    assert page.locator(".lz-failed").inner_text().startswith("The view HLO failed: ")
    tab(page, "Memory")
    assert page.locator(".lz-range").count() > 5


def test_data_of_another_version_are_reported(show):
    page = show(data.small(version=2))
    assert "another version" in page.locator(".lz-errors").inner_text()


def test_absent_figures_say_why(show):
    page = show(data.measured())
    tab(page, "Cost")
    absent = page.locator(f"tr{thing('cluster:4')} .lz-absent")
    assert absent.all_inner_texts() == ["–", "–", "–"]
    assert "no cost of exp_reduce_fusion" in absent.first.get_attribute("title")
    page = show(data.small())
    tab(page, "Cost")
    assert "needs" in page.locator(".lz-plot").inner_text()
    assert page.locator(".lz-roofline").count() == 0


def test_a_kernel_in_a_loop_is_executed_often(show):
    """Its cost is of one execution, its time of all."""
    made = data.measured()
    once = show(made)
    made["clusters"][2]["time"]["calls"] = 10
    made["clusters"][2]["cost"]["executions"] = 10
    often = show(made)
    for page in (once, often):
        tab(page, "Cost")
    assert "×10" in often.locator(f"tr{thing('cluster:2')}").inner_text()
    assert once.locator(".lz-times").count() == 0
    places = [
        page.locator(f".lz-dot{thing('cluster:2')}").get_attribute("aria-label") for page in (once, often)
    ]
    assert "2.66 GFLOP/s" in places[0] and "26.6 GFLOP/s" in places[1], places


def test_a_loop_says_how_often_it_turns(show):
    """And a kernel in it what it moves in all."""
    made = data.small()
    loop, inner = made["clusters"][1:3]
    loop.update(kind="control", opcode="while", turns=12)
    inner["inside"] = loop["id"]
    inner["cost"]["executions"] = 12
    page = show(made)
    tab(page, "Fusion")
    card = page.locator(f"article{thing('cluster:1')}")
    assert "12 turns" in card.inner_text() and "in all" not in card.inner_text()
    assert "12 turns" in page.locator(f".lz-map-holder {thing('cluster:1')}").first.text_content()
    card = page.locator(f"article{thing('cluster:2')}").inner_text()
    assert "×12" in card and f"{inner['output_bytes'] * 12 // 2**20} MiB in all" in card
    loop["turns"] = None
    page = show(made)
    tab(page, "Fusion")
    assert "turns not known" in page.locator(f"article{thing('cluster:1')}").inner_text()


@pytest.mark.parametrize(
    ("cache", "words"),
    [
        ("compiled", "compiled in 183 ms"),
        ("disk", "loaded in 183 ms (disk)"),
        ("hit", "cache hit"),
        ("given", "given compiled"),
    ],
)
def test_the_header_says_compiled_loaded_or_cache_hit(show, cache, words):
    made = data.small()
    made["programs"][0].update(cache=cache, compile_seconds=0.183)
    page = show(made)
    assert page.locator(".lz-event").first.inner_text() == words


@pytest.mark.parametrize(
    ("operations", "unit", "blocks"), [(1100, "", 44), (1500, "cell", 4), (10_000, "cell", 4)]
)
def test_many_kernels_are_shown_as_a_map_of_blocks(show, operations, unit, blocks):
    page = show(data.large(operations))
    tab(page, "Fusion")
    assert page.locator(".lz-block").count() == blocks
    assert (page.locator(".lz-map-note").inner_text().endswith(f"a block is a {unit}.")) if unit else True
    page.locator(".lz-block").last.click()
    assert page.locator(".lz-code-line.lz-lit").count() > 0
    assert page.locator(".lz-block.lz-stuck").count() == 1


def test_the_map_groups_kernels_by_line(show):
    made = data.large(1500)
    for one in made["clusters"]:
        one["place"] = made["nodes"][100 + 400 * (one["id"] % 3)]["place"]
    page = show(made)
    tab(page, "Fusion")
    assert page.locator(".lz-block-kind").all_text_contents() == [
        f"line {at}: 20 kernels" for at in (1, 22, 43)
    ]
    page.locator(".lz-block").first.click()
    assert things(page, ".lz-source", "lz-stuck") == ["line:0:1"]


def test_costs_are_sorted_by_time(show):
    page = show(data.measured())
    tab(page, "Cost")
    page.get_by_role("button", name="Time").click()
    assert page.locator(".lz-costs tbody .lz-chip").all_inner_texts()[:2] == ["c1", "c5"]


def test_the_memory_tab_shows_the_peak_and_donated_values(show):
    page = show(data.small())
    tab(page, "Memory")
    assert page.locator(".lz-tile").first.inner_text().split("\n") == ["Allocated", "3 MiB"]
    assert page.locator(".lz-range", has_text="donated").count() == 1
    page.locator(f".lz-range{thing('value:i6')}").click()
    tab(page, "Graph")
    assert "node:6" in things(page, ".lz-canvas")


def two_programs():
    made = data.small()
    second = {
        **made["programs"][0],
        "number": 1,
        "cache": "hit",
        "hlo": {
            "before": made["programs"][0]["hlo"]["before"],
            "after": {"text": "HloModule second", "lines": []},
            "passes": [],
        },
    }
    made["programs"].append(second)
    for one in made["clusters"][3:]:
        one["program"] = 1
    return made


def test_the_program_selector_switches_programs(show):
    page = show(two_programs())
    tab(page, "Fusion")
    assert page.locator(".lz-card").count() == 3
    page.get_by_label("Program", exact=True).select_option("1")
    assert page.locator(".lz-card").count() == 3
    assert page.locator(f".lz-card{thing('cluster:5')}").count() == 1
    tab(page, "HLO")
    assert "HloModule second" in page.locator(".lz-rows").inner_text()
    page.locator(f".lz-code-line{thing('line:0:6')}").click()
    assert page.get_by_label("Program", exact=True).input_value() == "0", "the view follows what was clicked"


def live_page(show, kernel, **more):
    page = show(data.small(live=True, **more), kernel=kernel)
    page.evaluate(
        "([said, times]) => { window.said = said; window.times = times; }",
        [
            [{**one, "said": "fusion would duplicate"} for one in data.BOUNDARIES],
            {"clusters": data.TIMES, "machine": data.MACHINE},
        ],
    )
    return page


def test_asking_the_compiler_renews_the_reasons(show):
    page = live_page(show, KERNEL_THAT_ANSWERS)
    tab(page, "Fusion")
    ask = page.get_by_role("button", name="Ask the compiler")
    ask.focus()
    with answers_held(page):
        page.keyboard.press("Enter")
        assert re.search(r"compiling again… \d+ s", page.locator(".lz-body .lz-ask-state").first.inner_text())
        assert ask.is_disabled() and page.get_by_role("button", name="Verify", exact=True).first.is_disabled()
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.textContent") == "Ask the compiler", (
            "a key must not go to the notebook"
        )
    page.wait_for_selector("text=fusion would duplicate")
    assert ask.is_enabled() and len(page.evaluate("window.sent")) == 1
    sent = page.evaluate("window.sent")
    assert sent[0]["type"] == "ask" and sent[0]["id"]


def test_verifying_a_boundary_shows_its_verdict(show):
    page = live_page(show, KERNEL_THAT_ANSWERS)
    tab(page, "Fusion")
    page.locator(f".lz-boundary{thing('boundary:6')}").get_by_role("button", name="Verify").click()
    page.wait_for_selector("text=without h the boundary is gone")
    assert "verified by recompiling" in page.locator(f".lz-boundary{thing('boundary:6')}").inner_text()
    assert things(page, ".lz-cards", "lz-stuck") == [], "the button is not the boundary"


def test_a_pending_answer_survives_a_redraw(show):
    page = live_page(show, KERNEL_THAT_ANSWERS)
    tab(page, "Fusion")
    boundary = page.locator(f".lz-boundary{thing('boundary:6')}")
    with answers_held(page):
        boundary.get_by_role("button", name="Verify").click()
        # The kernel sends what it worked out meanwhile.
        page.evaluate("data => window.replace(data)", data.small(live=True))
        assert "compiling an experiment" in boundary.inner_text()
    page.wait_for_selector("text=without h the boundary is gone")
    assert page.locator(".lz-waiting").count() == 0


def test_the_footer_shows_the_reason_and_label_of_the_selected_boundary(show):
    page = live_page(show, KERNEL_THAT_ANSWERS)
    tab(page, "Fusion")
    card = page.locator(f".lz-boundary{thing('boundary:6')}")
    card.locator(".lz-reason").click()
    foot = page.locator(".lz-foot")
    assert "rule inferred" in foot.inner_text() or "compiler said" in foot.inner_text()
    card.get_by_role("button", name="Verify").click()
    page.wait_for_selector("text=without h the boundary is gone")
    assert "verified by recompiling" in foot.inner_text() and "`" not in foot.inner_text()


@pytest.mark.parametrize(
    "kernel", ["() => { throw new Error('Cannot send'); }", "() => setTimeout(window.disconnect, 50)"]
)
def test_a_dead_kernel_is_reported_and_can_be_asked_again(show, kernel):
    page = live_page(show, kernel)
    tab(page, "Cost")
    page.get_by_role("button", name="Measure").click()
    page.wait_for_selector(".lz-error")
    assert "Run the cell again" in page.locator(".lz-error").inner_text()
    assert page.get_by_role("button", name="Measure").is_enabled()


def test_measuring_shows_times_and_the_roofline(show):
    page = live_page(show, KERNEL_THAT_ANSWERS)
    tab(page, "Cost")
    page.get_by_role("button", name="Measure").click()
    page.wait_for_selector(".lz-roofline")
    assert "1.9 ms" in page.locator(f"tr{thing('cluster:1')}").inner_text()
    assert page.locator(".lz-dot").count() == 5, "the kernel without a cost has no place in the plot"


def test_missing_pass_changes_and_text_are_requested_from_the_kernel(show):
    made = data.small()
    programs = made["programs"]
    programs[0]["hlo"]["before"] = {"text": None, "lines": []}
    page = live_page(show, KERNEL_THAT_ANSWERS, programs=programs)
    tab(page, "HLO")
    go(page, 5)
    page.wait_for_selector("text=%late")
    go(page, 0)
    page.get_by_role("button", name="Load the text").click()
    page.wait_for_selector("text=HloModule late")


@pytest.mark.parametrize(("where", "button"), [("Fusion", "Ask the compiler"), ("Cost", "Measure")])
def test_an_error_stays_beside_its_button(show, where, button):
    page = live_page(show, KERNEL_THAT_FAILS)
    tab(page, where)
    page.get_by_role("button", name=button).click()
    page.wait_for_selector(".lz-error")
    assert "the dump could not be written" in page.locator(".lz-error").inner_text()
    assert page.get_by_role("button", name=button).is_enabled()
    tab(page, "Graph")
    assert page.locator(".lz-box").count() == 21


def test_error_that_answers_nothing_is_shown(show):
    page = live_page(show, KERNEL_THAT_ANSWERS)
    page.evaluate("window.answer({ type: 'error', message: 'the kernel restarted' })")
    assert "the kernel restarted" in page.locator(".lz-errors").inner_text()
    page.get_by_role("button", name="Dismiss").click()
    assert page.locator(".lz-errors").inner_text() == ""


def test_new_data_keeps_the_tab(show):
    page = live_page(show, KERNEL_THAT_ANSWERS)
    tab(page, "Memory")
    page.evaluate("data => window.replace(data)", data.small(title="cell 4"))
    assert page.locator(".lz-title").inner_text() == "cell 4"
    assert page.get_by_role("tab", name="Memory").get_attribute("aria-selected") == "true"
    assert page.locator(".lazynb-inspector").count() == 1


def test_later_data_keep_selection_and_zoom(show):
    """The kernel sends the same program again with more of it worked out: nothing that the user did is
    lost."""
    page = live_page(show, KERNEL_THAT_ANSWERS)
    page.locator(thing("node:8")).click()
    page.get_by_role("button", name="Zoom in (+)").click()
    level = page.locator(".lz-level").inner_text()
    later = data.measured(live=True)
    later["programs"][0]["hlo"]["passes"][4].update(fused=2, changes=[])
    page.evaluate("data => window.replace(data)", later)
    assert things(page, ".lz-canvas", "lz-stuck") == ["node:8"]
    assert page.locator(".lz-level").inner_text() == level
    tab(page, "Cost")
    assert page.locator(".lz-roofline").count() == 1
    tab(page, "HLO")
    go(page, 5)
    assert "2 fused" in page.locator(".lz-stage-title").inner_text()


def test_the_tab_that_was_asked_for_is_opened(show):
    page = show(data.small(), kernel="() => {}", before="window.show = ['memory', 'hlo']")
    assert page.get_by_role("tab", name="Memory").get_attribute("aria-selected") == "true"


def test_uncounted_passes_are_counted_on_request(show):
    made = data.small()
    made["programs"][0]["hlo"]["passes"][4].update(added=None, removed=None, rewritten=None, fused=None)
    page = live_page(show, KERNEL_THAT_ANSWERS, programs=made["programs"])
    tab(page, "HLO")
    go(page, 5)
    page.wait_for_selector("text=1 fused")


def test_unmounting_removes_elements_and_listeners(show):
    page = live_page(show, KERNEL_THAT_ANSWERS)
    assert page.evaluate("window.listening()") == 3
    page.evaluate("window.unmount()")
    assert page.evaluate("window.listening()") == 0
    assert page.locator(".lazynb-inspector").count() == 0


def test_keys_stay_out_of_the_notebook(show):
    """JupyterLab looks for the mark on what has the focus. With Ctrl a key is its own, but for somebody who
    types."""
    page = show(data.small())
    marked = "() => document.activeElement.hasAttribute('data-lm-suppress-shortcuts')"
    page.locator(thing("node:8")).focus()
    for keys, ours in [("d", True), ("Control+s", False), ("b", True)]:
        page.keyboard.press(keys)
        assert page.evaluate(marked) is ours, keys
    page.keyboard.press("/")
    for keys, ours in [("d", True), ("Control+z", True), ("Control+s", False)]:
        page.keyboard.press(keys)
        assert page.evaluate(marked) is ours, keys


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_can_be_read(show, theme):
    """WCAG AA: 4.5 to 1, in every view, with something selected."""
    page = show(data.measured(), theme=theme)
    page.locator(thing("line:0:8")).click()
    page.locator(".lz-title").hover()
    ground = page.locator(".lazynb-inspector").evaluate("e => getComputedStyle(e).backgroundColor")
    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 28)"}[theme]
    for name in ["Graph", "Fusion", "HLO", "Cost", "Memory", "Cache"]:
        tab(page, name)
        assert page.evaluate(CONTRAST) == [], name
    tab(page, "HLO")
    go(page, 2)
    assert page.evaluate(CONTRAST) == []


@pytest.mark.parametrize("width", [1400, 900, 600, 380])
def test_no_tab_overflows_at_any_width(show, width):
    page = show(data.measured(), width=width)
    for name in TABS:
        tab(page, name)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
        assert page.locator(".lz-panel").bounding_box()["width"] > 0.4 * width, name


TIMES = {
    "lowering": 0.012,
    "compiling": 0.05,
    "xla": 0.044,
    "stages": [["HLO passes", 0.01], ["LLVM to machine code", 0.034]],
    "passes": [{"name": "fusion", "runs": 2, "changed": 1, "seconds": 0.003}],
    "others": {"name": "", "runs": 90, "changed": 0, "seconds": 0.001},
    "writing": 0.002,
    "lines": [
        {
            "place": {"label": "line 3", "line": 3, "text": "h", "cell": 3, "source": 0},
            "operations": 2,
            "before": 5,
            "after": 4,
            "compiled": 1,
            "lowering": 0.004,
            "seconds": 0.03,
        }
    ],
    "inferred": "inferred: by share of what there is",
    "source": "XLA's own timing of this compilation",
}


def test_compile_times_are_shown_in_the_hlo_tab(show):
    given = data.small()
    given["programs"][0]["times"] = TIMES
    given["programs"][0]["hlo"]["passes"][0]["seconds"] = 0.0015
    page = show(given)
    tab(page, "HLO")
    button = page.get_by_role("button", name="Times")
    assert button.get_attribute("aria-pressed") == "false"
    button.click()
    text = page.locator(".lz-hlo-body").inner_text()
    for words in (
        "Lowering 12 ms, compiling 50 ms, of which XLA 44 ms: XLA's own timing of this compilation.",
        "LLVM to machine code",
        "all other passes",
        "writing it down, for this view (inferred)",
        "5 → 4",
        "inferred: by share of what there is",
    ):
        assert words in text, words
    widths = (
        page.locator(".lz-times-part")
        .first.locator(".lz-time-bar")
        .evaluate_all("bars => bars.map(bar => bar.getBoundingClientRect().width)")
    )
    assert widths[0] / widths[1] == pytest.approx(10 / 34, rel=0.05)
    page.locator(".lz-times-pane tr.lz-thing").hover()
    assert "line:0:3" in things(page, ".lz-source")
    button.click()
    assert "After all passes" in page.locator(".lz-stage-title").inner_text()
    go(page, 1)
    assert "1.5 ms" in page.locator(".lz-stage-title").inner_text()


def test_a_program_without_compile_times_shows_the_reason(show):
    given = data.small()
    given["programs"][0]["times"] = {"why_not": "Not compiled here: the program was given compiled."}
    page = show(given)
    tab(page, "HLO")
    page.get_by_role("button", name="Times").click()
    assert page.locator(".lz-times-pane").inner_text() == given["programs"][0]["times"]["why_not"]
    assert page.locator(".lz-times-part").count() == 0
