"""The switch between lazynb's program and that of ``jax.jit``, in a real browser."""

from __future__ import annotations

import copy
import json

import inspections as data
import pytest
from reading import CONTRAST, answers_held, tab, thing, things

FIGURES = "1 kernel, 1 MiB through memory"


def of_jit() -> data.Json:
    """The same cell as one kernel: its operations and lines are the same, its kernels are not."""
    made = data.small(form="returns `loss`; 3 arguments, 2 constants", ran=False)
    made["clusters"] = made["clusters"][:1]
    made["clusters"][0]["nodes"] = [node["id"] for node in made["nodes"] if node["kind"] == "op"]
    made["boundaries"] = []
    for fate in made["fates"]:
        fate["clusters"] = [0]
    return made


def both(live: bool = False, stored: bool = True, why: str = "") -> data.Json:
    made = data.small(live=live)
    other = {**of_jit(), "live": live} if stored else None
    made["other"] = {
        "own": "6 kernels, 5 MiB through memory",
        "figures": FIGURES if stored else "",
        "why": why,
        "inspection": other,
    }
    return made


def kernel(answer: str) -> str:
    """A kernel that answers what is asked about the other program, and that question."""
    code = '{ hlo: "%late", facts: [], language: "", assembly: "", llvm: "", note: "" }'
    return f"""(message, answer) => {{
      const late = (said) => setTimeout(() => answer({{ ...said, id: message.id }}));
      if (message.type === "other") late({answer});
      if (message.type === "code") late({{ type: "code", cluster: message.cluster, code: {code} }});
    }}"""


def compiled() -> str:
    other = copy.deepcopy(both(live=True)["other"])
    return json.dumps({"type": "other", "other": other}).replace("<", "\\u003c")


def side(page, name):
    return page.get_by_role("radio", name=name)


def shown(page) -> str:
    return page.locator(".lazynb-inspector:visible .lz-counts").inner_text()


def test_there_is_no_switch_where_there_is_one_program(show):
    page = show(data.small())
    assert page.locator(".lz-switch").is_hidden()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_switch_shows_either_program_in_one_inspector(show, theme, tmp_path):
    page = show(both(), theme=theme)
    assert page.locator(".lazynb-inspector:visible").count() == 1
    assert "6 kernels, 5 MiB" in side(page, "lazynb's program").inner_text()
    assert FIGURES in side(page, "as jax.jit").inner_text()
    assert side(page, "lazynb's program").get_attribute("aria-checked") == "true"
    assert "6 kernels" in shown(page)
    tab(page, "Fusion")
    side(page, "as jax.jit").click()
    assert page.locator(".lazynb-inspector:visible").count() == 1
    assert "1 kernel" in shown(page) and page.get_by_text("as jax.jit").first.is_visible()
    assert page.get_by_role("tab", name="Fusion").get_attribute("aria-selected") == "true"
    assert page.locator(".lazynb-inspector:visible .lz-cards .lz-card").count() == 1
    assert page.evaluate(CONTRAST) == []
    page.locator(".lazynb-inspector:visible").screenshot(path=tmp_path / f"switch-{theme}.png")


def test_the_keyboard_switches_and_keeps_the_focus(show):
    page = show(both())
    assert side(page, "as jax.jit").get_attribute("tabindex") == "-1"
    side(page, "lazynb's program").focus()
    page.keyboard.press("ArrowRight")
    assert side(page, "as jax.jit").get_attribute("aria-checked") == "true"
    assert page.evaluate("document.activeElement.textContent").startswith("as jax.jit")
    page.keyboard.press("ArrowLeft")
    assert side(page, "lazynb's program").get_attribute("aria-checked") == "true"
    assert page.evaluate("document.activeElement.textContent").startswith("lazynb's program")


def test_the_selection_is_kept(show):
    page = show(both())
    here = ".lazynb-inspector:visible"
    page.locator(f"{here} .lz-source {thing('line:0:8')}").click()
    side(page, "as jax.jit").click()
    assert "line:0:8" in things(page, f"{here} .lz-source", "lz-stuck")
    page.keyboard.press("Escape")
    side(page, "lazynb's program").click()
    assert things(page, here, "lz-stuck") == []
    page.locator(f"{here} {thing('node:6')}").first.click()
    side(page, "as jax.jit").click()
    assert "line:0:2" in things(page, f"{here} .lz-source")
    assert "add (h)" in page.locator(f"{here} .lz-foot").inner_text()


def test_switching_with_a_selected_kernel_selects_its_operations(show):
    page = show(both())
    here = ".lazynb-inspector:visible"
    tab(page, "Fusion")
    page.locator(f"{here} .lz-cards {thing('cluster:4')}").first.click()
    side(page, "as jax.jit").click()
    said = page.locator(f"{here} .lz-foot").inner_text()
    assert "What was selected in the other program" in said and "3 operations" in said and "in c0" in said


def test_the_other_program_is_asked_for_once_and_answers_for_itself(show):
    page = show(both(live=True, stored=False), kernel=kernel(compiled()))
    assert "not compiled yet" in side(page, "as jax.jit").inner_text()
    assert page.evaluate("window.sent") == []
    with answers_held(page):
        side(page, "as jax.jit").click()
        assert "compiling, running nothing" in page.locator(".lz-switch [role=status]").inner_text()
    page.wait_for_function(
        "document.querySelector('.lz-side[aria-checked=true]').textContent.startsWith('as')"
    )
    assert FIGURES in side(page, "as jax.jit").inner_text()
    tab(page, "Code")
    page.wait_for_function("window.sent.some((one) => one.type === 'code' && one.of === 'other')")
    side(page, "lazynb's program").click()
    side(page, "as jax.jit").click()
    assert [one["type"] for one in page.evaluate("window.sent")].count("other") == 1


@pytest.mark.parametrize(
    "given, kernel_, words",
    [
        (both(stored=False), "null", "This saved page has lazynb's program alone"),
        (
            both(live=True, stored=False, why="cell 3, line 2 needed a value."),
            "() => {}",
            "cell 3, line 2 needed",
        ),
        (
            both(live=True, stored=False),
            kernel('{ type: "error", message: "XLA refuses it" }'),
            "XLA refuses it",
        ),
        (
            both(live=True, stored=False),
            kernel(
                '{ type: "other", other: { own: "", figures: "", why: "an array is gone.", inspection: null } }'
            ),
            "an array is gone",
        ),
    ],
)
def test_a_missing_jit_program_is_reported(show, given, kernel_, words):
    page = show(given, kernel=kernel_)
    side(page, "as jax.jit").click()
    page.wait_for_selector(".lz-switch .lz-error")
    assert words in page.locator(".lz-switch [role=status]").inner_text()
    assert side(page, "lazynb's program").get_attribute("aria-checked") == "true"
    assert "6 kernels" in shown(page)


def test_figures_that_come_later_leave_the_switch_as_it_is(show):
    page = show(both(live=True), kernel="() => {}")
    side(page, "as jax.jit").click()
    later = both(live=True)
    later["other"]["figures"] = "1 kernel, 3 MiB through memory"
    page.evaluate("later => window.replace(later)", later)
    assert "3 MiB" in side(page, "as jax.jit").inner_text()
    assert side(page, "as jax.jit").get_attribute("aria-checked") == "true"
    page.evaluate("window.unmount()")
    assert page.locator(".lazynb-inspector").count() == 0 and page.evaluate("window.listening()") == 0
