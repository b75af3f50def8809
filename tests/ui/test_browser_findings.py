"""What stands out, above the tabs: it lights up what it is about, and offers the experiment."""

from __future__ import annotations

import inspections as data
import pytest
from lab_page import violations
from reading import CONTRAST, tab, thing, things

KEPT = {
    "kind": "held",
    "text": "`h` (512 KiB) is written because its name still holds it: deleting it before the run would "
    "spare that.",
    "bytes": 524288,
    "label": "rule inferred",
    "clusters": [2],
    "nodes": [6],
    "boundary": None,
    "variables": ["h"],
    "verdict": "",
}
CALLED = {
    **KEPT,
    "kind": "library",
    "text": "512 KiB go through memory from cell 3, line 2 to cell 3, line 3: YNNPACK does the work of `dot`.",
    "clusters": [1, 2],
    "nodes": [5, 6],
    "boundary": 1,
    "variables": [],
}
TWICE = {
    **KEPT,
    "kind": "again",
    "text": "`sub` and `exp` of cell 3, line 8 are computed in each of 2 kernels: 262 k elements are computed "
    "again.",
    "clusters": [4, 5],
    "nodes": [10, 11],
    "variables": [],
}
FINDINGS = [KEPT, CALLED, TWICE]

KERNEL = """(message, answer) => {
  const found = window.found;
  const verified = found.map((one) => ({ ...one, label: "verified by recompiling", verdict: "It spares 512 KiB." }));
  const answers = {
    verify: () => ({ type: "boundary", boundary: window.boundary, findings: verified }),
    without: () => ({ type: "without", compared: window.pair, findings: verified }),
  };
  setTimeout(() => answer({ ...answers[message.type](), id: message.id }), 100);
}"""


def live(show, **more):
    page = show(data.small(live=True, findings=FINDINGS, **more), kernel=KERNEL)
    one = data.small()
    pair = {
        "version": 1,
        "names": ["as it is", "without h"],
        "before": one,
        "now": one,
        "nodes": [],
        "lines": [],
    }
    page.evaluate(
        "([found, pair, boundary]) => Object.assign(window, { found, pair, boundary })",
        [FINDINGS, pair, {**data.BOUNDARIES[1], "label": "verified by recompiling"}],
    )
    return page


def test_three_findings_are_shown_above_the_tabs(show):
    page = show(data.small(findings=FINDINGS))
    rows = page.locator(".lz-finding")
    assert rows.count() == 3 and "`" not in rows.first.inner_text()
    assert rows.first.locator("code").inner_text() == "h" and "rule inferred" in rows.first.inner_text()
    assert [row.locator(".lz-chip").all_inner_texts() for row in rows.all()] == [
        ["c2"],
        ["c1", "c2"],
        ["c4", "c5"],
    ]
    below = page.locator(".lz-tabs").bounding_box()["y"]
    assert rows.last.bounding_box()["y"] < below
    assert page.get_by_role("button", name="Verify").count() == 0, "no kernel, no experiment"
    assert page.get_by_role("region", name="Findings").is_visible()


@pytest.mark.parametrize("made", [data.small, data.empty, lambda: data.small(findings=[])])
def test_without_findings_no_box_is_shown(show, made):
    page = show(made())
    assert not page.locator(".lz-findings").is_visible()


def test_a_finding_lights_what_it_is_about(show):
    page = show(data.small(findings=FINDINGS))
    page.locator(".lz-finding").nth(2).hover()
    assert set(things(page, ".lz-source", "lz-lit")) == {"line:0:8", "cluster:4", "cluster:5"}
    assert page.locator(".lz-foot").inner_text().startswith("sub and exp of cell 3")
    page.locator(".lz-finding").nth(1).click()
    tab(page, "Fusion")
    assert page.locator(f".lz-boundary{thing('boundary:1')}.lz-stuck").count() == 1


def test_findings_are_selected_by_keyboard(show):
    page = show(data.small(findings=FINDINGS))
    row = page.locator(".lz-finding").nth(1)
    row.focus()
    assert row.evaluate("row => row.matches(':focus-visible')")
    page.keyboard.press("Enter")
    assert "lz-stuck" in row.get_attribute("class")
    page.keyboard.press("Escape")
    assert "lz-stuck" not in row.get_attribute("class")


def test_verifying_renews_the_sentence(show):
    page = live(show)
    page.locator(".lz-finding").nth(1).get_by_role("button", name="Verify").click()
    page.wait_for_selector(".lz-findings >> text=It spares 512 KiB.")
    assert "verified by recompiling" in page.locator(".lz-finding").nth(1).inner_text()
    assert page.evaluate("window.sent")[0]["boundary"] == 1
    assert things(page, ".lz-findings", "lz-stuck") == [], "the button is not the finding"


def test_the_program_without_the_variable_is_compared_on_request(show):
    page = live(show)
    button = page.get_by_role("button", name="Compare with del h")
    button.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".lz-pair")
    assert page.evaluate("window.sent")[0]["variables"] == ["h"]
    assert page.locator(".lz-pair-name").all_inner_texts() == ["as it is", "without h"]
    assert "Both are shown below." in page.locator(".lz-finding").first.inner_text()
    button.click()
    page.wait_for_timeout(300)
    assert page.locator(".lz-pair").count() == 1, "the newer takes the place of the older"
    page.get_by_role("button", name="Close the comparison").click()
    assert page.locator(".lz-pair").count() == 0
    page.evaluate("window.unmount()")
    assert page.locator("#inspector").inner_text() == ""


def test_an_experiment_that_fails_says_so(show):
    page = show(
        data.small(live=True, findings=FINDINGS),
        kernel="(message, answer) => answer({ id: message.id, type: 'error', message: 'nothing is left' })",
    )
    page.get_by_role("button", name="Compare with del h").click()
    page.wait_for_selector(".lz-finding >> text=nothing is left")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 800, 1600])
def test_findings_are_not_cut_and_have_sufficient_contrast(show, theme, width):
    long = [{**one, "text": one["text"] + " " + "`averyveryverylongname_`" * 12} for one in FINDINGS]
    page = show(data.small(live=True, findings=long), theme, width, kernel="() => {}")
    for text in page.locator(".lz-finding, .lz-finding-said, .lz-finding p").all():
        assert text.evaluate("one => one.scrollWidth <= one.clientWidth + 1")
    assert page.evaluate(CONTRAST) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(show, theme):
    page = live(show) if theme == "light" else show(data.small(findings=FINDINGS), theme)
    assert violations(page, ".lz-findings") == []
