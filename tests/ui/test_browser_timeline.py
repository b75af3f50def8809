"""The timeline of breaks in the inspector: bars that add up, help that opens, lines that are selected."""

from __future__ import annotations

import inspections
import pytest
from lab_page import violations
from playwright.sync_api import expect
from reading import CONTRAST, tab

LONG = "the_normalised_attention_scores_of_the_first_layer = float(attention_scores_of_the_first_layer.sum())"


def spot(line, text, source=0, file="aaaaaaaa", cell=3):
    return {
        "label": f"cell {cell}, line {line}",
        "line": line,
        "text": text,
        "cell": cell,
        "source": source,
        "file": file,
    }


def row(line, kind, code, parts, **more):
    standard = {
        "code": code,
        "kind": kind,
        "asked": False,
        "text": f"{kind}() needed a value",
        "hint": "collect the tensors and convert them after the loop",
        "place": spot(line, f"line {line} of the cell"),
        "library": "",
        "count": 1,
        "operations": 3,
        "compiles": 1,
        "seconds": sum(parts[1:4]),
        "parts": parts,
        "median": sum(parts),
        "first": sum(parts),
        "steps": [parts],
        "callers": [],
        "gone": None,
    }
    return {**standard, **more}


def timeline(name, rows, after=0.1, fixed=()):
    parts = [sum(one["parts"][i] for one in rows) for i in range(5)]
    parts[4] += after
    return {
        "name": name,
        "title": "cell 3" if name == "This cell" else "2 runs of cells",
        "seconds": sum(parts),
        "parts": parts,
        "after": after,
        "strip": [[part / 96 for part in parts]] * 96,
        "rows": rows,
        "fixed": list(fixed),
        "notes": ["1 break in other threads, not drawn"],
    }


LOOP = row(
    6,
    "float",
    "LNB103",
    [0.1, 0.5, 0.2, 0.1, 0.1],
    count=1000,
    median=0.0005,
    first=0.6,
    steps=[[0.01, 0.5, 0.05, 0.02, 0.02], [0.0001, 0, 0.0002, 0.0001, 0.0001]],
    callers=[
        {"places": [spot(8, "s = helper(x)"), spot(10, "main()")], "count": 990, "seconds": 0.9},
        {"places": [], "count": 10, "seconds": 0.1},
    ],
)
ELSEWHERE = row(
    2,
    "bool",
    "LNB101",
    [0, 0.2, 0, 0, 0.05],
    place=spot(2, LONG, source=None, file="bbbbbbbb", cell=1),
    gone=3,
)
HELP = [
    {
        "code": "LNB103",
        "kind": "float",
        "text": "float() needed a value",
        "hint": "…",
        "programs": [
            ["A program that has it", "out.append(float(x))"],
            ["The same without it", "out.append(x)"],
        ],
    }
]


def data():
    fixed = [
        {
            "code": "LNB101",
            "kind": "bool",
            "place": ELSEWHERE["place"],
            "since": 3,
        }
    ]
    found = [timeline("This cell", [LOOP]), timeline("Session", [LOOP, ELSEWHERE], fixed=fixed)]
    return {**inspections.small(), "timelines": {"of": found, "help": HELP}}


@pytest.fixture
def page(show):
    page = show(data())
    tab(page, "Breaks")
    return page


# Widths of a bar's pieces, as shares of the room that it has.
SHARES = """bar => [...bar.children].map(one =>
  one.getBoundingClientRect().width / bar.getBoundingClientRect().width)"""


def test_a_bar_has_the_shares_of_its_parts(page):
    bar = page.locator(".lz-broken .lz-went").first
    assert bar.evaluate(SHARES) == pytest.approx([0.1, 0.5, 0.2, 0.1, 0.1], abs=0.01)
    assert bar.get_attribute("aria-label") == (
        "recording 100 ms, compiling 500 ms, running 200 ms, waiting 100 ms, Python 100 ms"
    )
    rest = page.locator(".lz-broken tr", has_text="after the last break").locator(".lz-went")
    assert rest.evaluate(SHARES) == pytest.approx([0.1], abs=0.01), "the longest line has all of the room"
    expect(page.locator(".lz-timeline-head")).to_contain_text("1.1 s in cell 3")
    words = "over time: recording 100 ms, compiling 500 ms, running 200 ms, waiting 100 ms, Python 200 ms"
    assert page.get_by_role("img", name=words).count() == 1


def test_a_row_shows_count_times_and_callers(page):
    first = page.locator(".lz-broken tbody tr").first
    expect(first).to_contain_text("1,000 × · 1 s · median 500 µs · first 600 ms")
    expect(first).to_contain_text("called from cell 3, line 8 and 1 more")
    expect(page.locator(".lz-timeline")).to_contain_text("1 break in other threads, not drawn")


def test_the_code_opens_its_help_by_keyboard(page):
    code = page.get_by_role("button", name="LNB103")
    assert code.get_attribute("aria-expanded") == "false"
    code.focus()
    page.keyboard.press("Enter")
    assert code.get_attribute("aria-expanded") == "true"
    opened = page.locator(".lz-opened")
    for said in (
        "collect the tensors and convert them after the loop",
        "out.append(float(x))",
        "out.append(x)",
        "cell 3, line 8 s = helper(x) ← cell 3, line 10 main()",
        "nowhere: it is the outermost line",
        "The first 2 of 1,000 steps",
    ):
        expect(opened).to_contain_text(said)
    page.keyboard.press("Enter")
    assert opened.count() == 0 and code.get_attribute("aria-expanded") == "false"


def test_a_line_is_selected_and_told_to_the_page(page):
    page.evaluate("window.went = []; window.addEventListener('lazynb-go', e => window.went.push(e.detail))")
    page.locator(".lz-broken .lz-go").first.click()
    assert page.evaluate("window.went") == [{"file": "aaaaaaaa", "line": 6, "cell": 3}]
    tab(page, "Graph")
    lit = page.locator(".lz-source .lz-code-line.lz-lit")
    assert lit.count() == 1 and "tanh" in lit.inner_text()


def test_a_line_of_another_cell_is_told_though_it_is_not_shown(page):
    page.get_by_role("button", name="Session").click()
    page.evaluate(
        """window.told = []; window.addEventListener('lazynb-line',
        ({ detail: { file, line, cell, lines } }) => window.told.push([file, line, cell, lines.length]))"""
    )
    page.locator(".lz-broken .lz-go", has_text="cell 1, line 2").click()
    assert page.evaluate("window.told") == [["bbbbbbbb", 2, 1, 1]]


def test_fixed_breaks_are_listed_for_the_session(page):
    assert page.get_by_text("Fixed: did not come again").count() == 0
    page.get_by_role("button", name="Session").click()
    fixed = page.locator(".lz-fixed-list")
    expect(fixed).to_contain_text("LNB101 cell 1, line 2")
    expect(fixed).to_contain_text("gone since run 3")
    assert page.locator(".lz-broken .lz-fixed").count() == 1


def test_rows_of_the_cache_go_to_their_line(show):
    made = data()
    made["cache"] = {
        "columns": ["n", "last line"],
        "rows": [["0", "x = jnp.tanh(x0) * scale"], ["1", "gone"]],
        "nodes": [],
        "places": [spot(6, "x = jnp.tanh(x0) * scale"), None],
        "text": "2 executables",
    }
    page = show(made)
    tab(page, "Cache")
    assert page.locator("td .lz-go").count() == 1
    page.locator("td .lz-go").click()
    tab(page, "Graph")
    assert page.locator(".lz-source .lz-code-line.lz-lit").count() == 1


def test_data_without_timelines_show_the_table(show):
    made = inspections.small()
    made.pop("timelines", None)
    made["breaks"] = {"columns": ["code"], "rows": [["LNB108"]], "nodes": [], "text": "1 trace break"}
    page = show(made)
    tab(page, "Breaks")
    expect(page.locator(".lz-table td")).to_contain_text("LNB108")


def test_without_breaks_a_sentence_is_shown(show):
    made = {**inspections.small(), "timelines": {"of": [], "help": []}}
    made["breaks"] = {"columns": [], "rows": [], "nodes": [], "places": [], "text": ""}
    page = show(made)
    tab(page, "Breaks")
    expect(page.get_by_text("The trace was never broken.")).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 800, 1600])
def test_the_timeline_does_not_overflow_and_has_sufficient_contrast(show, theme, width):
    page = show(data(), theme, width=width)
    tab(page, "Breaks")
    page.get_by_role("button", name="Session").click()
    page.get_by_role("button", name="LNB103").click()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(
        "(() => { const e = document.querySelector('.lz-timeline'); return e.scrollWidth <= e.clientWidth })()"
    )
    assert violations(page, ".lazynb-inspector") == []
    assert page.evaluate(CONTRAST) == []


def test_a_thousand_lines_are_quick(show):
    made = data()
    rows = [{**LOOP, "place": spot(6, f"line {n}")} for n in range(1000)]
    made["timelines"]["of"] = [timeline("Session", rows)]
    page = show(made)
    took = page.evaluate(
        """() => { const began = performance.now();
        [...document.querySelectorAll('[role=tab]')].find(one => one.textContent.includes('Breaks')).click();
        document.querySelector('.lz-timeline').getBoundingClientRect();
        return performance.now() - began; }"""
    )
    assert took < 2000  # a tenth of it on an idle machine; Python sends sixty


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_line_that_breaks_has_a_mark_in_the_source(show, theme):
    data = inspections.small()
    asked = row(6, "sync", "LNB201", [0.1, 0, 0.1, 0, 0], asked=True)
    broken = row(10, "float", "LNB103", [0.1, 0.2, 0.1, 0.3, 0], count=4)
    data["timelines"] = {"of": [timeline("Session", [asked, broken])], "help": []}
    page = show(data, theme)
    marked = page.locator(".lz-code-line:has(.lz-break-mark)")
    expect(marked).to_have_count(1)
    assert marked.locator(".lz-number").inner_text() == "10"
    said = marked.locator(".lz-break-mark").get_attribute("aria-label")
    assert said.startswith("trace break LNB103: float() needed a value, 4 times, 600 ms")
    expect(page.locator(".lz-source-legend")).to_contain_text("a trace break")
    assert not violations(page, ".lz-source")
    page = show(inspections.small(), theme)
    expect(page.locator(".lz-break-mark")).to_have_count(0)
