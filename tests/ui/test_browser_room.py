"""Where text has its room: at each width nothing that the user wrote is cut, and what is wide scrolls or wraps."""

from __future__ import annotations

import inspections as data
import pytest
from lab_page import violations
from reading import tab, thing

from lazynb.compare.differences.kernel_prediction import ComparedPrediction, Verdict
from lazynb.report.prediction_report import PredictionResult
from lazynb.running.record_table import Records
from lazynb.user_code.source_lines import Place

TABS = ["Graph", "Fusion", "HLO", "Code", "Cost", "Memory", "Cache", "Breaks"]
LONG = "normalised_output_of_the_last_attention_layer"
LINE = f"    {LONG} = jax.nn.gelu({LONG} @ weights_of_the_projection + bias) / jnp.sqrt(1.0 + eps)"
WHY = "the number 3 at cell 15, line 2 is now 4: from here on it is an input of every program that has it"

# Every text that ends in dots, or is cut off without any, and cannot be scrolled to. (An area of memory is as large as the
# value: its tooltip and the list below have the whole name.)
CUT = """() => {
  const cut = [];
  for (const e of document.querySelectorAll('.lazynb-inspector *')) {
    const { overflowX, overflowY, whiteSpace } = getComputedStyle(e);
    if (e.closest('svg, .lz-patch[title]') || !e.clientWidth || !e.getClientRects().length) continue;
    const wide = ['hidden', 'clip'].includes(overflowX) && e.scrollWidth > e.clientWidth + 1;
    const high = ['hidden', 'clip'].includes(overflowY) && e.scrollHeight > e.clientHeight + 3 && whiteSpace !== 'nowrap';
    if (wide || high) cut.push(`${e.className}: ${e.textContent.trim().slice(0, 50)}`);
  }
  return cut;
}"""


def long():
    """Long names and lines wherever a user can have them."""
    made = data.measured()
    made["nodes"][6]["names"] = made["nodes"][13]["names"] = [LONG]
    made["fates"][0]["text"] = "transpose-folding removed it: what read it now reads args[0]"
    made["sources"][0]["lines"][1] = LINE
    made["clusters"][2]["name"] = "broadcast_multiply_add_subtract_exponential_fusion.12"
    made["boundaries"][0]["variables"] = [LONG]
    made["programs"][0]["memory"]["buffers"][4]["variables"] = [LONG]
    made["cache"]["columns"] = ["n", "lines", "last line", "reason"]
    made["cache"]["rows"] = [["0", "cell 3, lines 2–9", LINE.strip(), WHY]]
    return made


@pytest.mark.parametrize("width", [360, 800, 1200, 1600])
def test_no_name_is_cut(show, width):
    page = show(long(), width=width)
    for name in TABS:
        tab(page, name)
        page.wait_for_timeout(40)
        assert page.evaluate(CUT) == [], name
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
    tab(page, "Graph")
    page.get_by_role("button", name="Operations", exact=True).click()
    page.wait_for_timeout(40)
    assert page.evaluate(CUT) == []


def test_a_line_wraps_beside_its_kernels(show):
    page = show(long(), width=1200)
    line = page.locator(thing("line:0:2"))
    text, chip = line.locator(".lz-text").bounding_box(), line.locator(".lz-chip").first.bounding_box()
    assert text["height"] > 40 and chip["x"] >= text["x"] + text["width"]
    assert text["y"] <= chip["y"] < text["y"] + 22, "the chips stand at the first row"
    assert line.locator(".lz-bars").bounding_box()["height"] >= text["height"] - 2


def test_a_long_name_has_its_own_row_in_a_box(show):
    page = show(long())
    box = page.locator(thing("node:6"))
    [name, beside] = [
        box.locator(".lz-name").bounding_box(),
        box.locator(".lz-vars, .lz-band").bounding_box(),
    ]
    assert beside["y"] >= name["y"] + name["height"] - 2
    short = page.locator(thing("node:8"))
    assert short.locator(".lz-first .lz-vars").count() == 1, "a short one stands beside it"


def test_chips_of_many_kernels_have_room(show):
    """c16, c100: wider than c1."""
    made = data.small()
    for cluster in made["clusters"]:
        cluster["label"] = f"c{cluster['id'] + 100}.{cluster['id']}"
    made["fates"][8]["clusters"] = [3, 4, 5]
    page = show(made)
    over = page.evaluate(
        """() => [...document.querySelectorAll('.lz-box .lz-chip')].filter((chip) => {
            const [a, b] = [chip.getBoundingClientRect(), chip.closest('.lz-box').getBoundingClientRect()];
            return a.right > b.right || a.left < b.left;
        }).map((chip) => chip.textContent)"""
    )
    assert over == []


def test_every_tab_is_in_sight_on_a_phone(show):
    page = show(data.measured(), width=360)
    for name in TABS:
        box = page.get_by_role("tab", name=name).bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 360, name


def test_the_figures_of_a_kernel_fit(show):
    page = show(data.measured(), width=360)
    tab(page, "Cost")
    for cell in page.locator(f"tr{thing('cluster:2')} td:visible").all():
        box = cell.bounding_box()
        assert box["x"] + box["width"] <= 360
    assert "line 3" in page.locator(f"tr{thing('cluster:2')} .lz-kernel-more").inner_text()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_tab_has_an_accessibility_violation(show, theme):
    kernel = "(message, answer) => {}"
    page = show(data.measured(live=True), theme, width=1000, kernel=kernel)
    for name in TABS:
        tab(page, name)
        assert violations(page, ".lazynb-inspector") == [], name


# ---- reports, which are stored as HTML without a style sheet -------------------------------------------------


def report(browser, html: str, width: int):
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.set_content(f'<body style="margin:12px;font:13px sans-serif">{html}</body>')
    return page


def test_a_verdict_is_in_sight(browser):
    """That of ``%%predict``, whatever the lines look like."""
    places = [Place("cell", n, text, 3) for n, text in enumerate([LINE, "y = 2", LINE])]
    verdicts = tuple(Verdict(one, two, True, False, ()) for one, two in zip(places, places[1:]))
    shown = PredictionResult(ComparedPrediction(verdicts, ()))._repr_mimebundle_()["text/html"]
    for width in 360, 800:
        page = report(browser, shown, width)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        said = page.get_by_text("You expected one kernel").first.bounding_box()
        assert said["width"] > width / 2
        assert LINE.strip() in page.inner_text("body").replace("\n", " ")
        page.close()


def test_a_sentence_in_a_table_is_no_column_of_words(browser):
    """The reason of a miss, what to write instead of a break."""
    columns = ["code", "kind", "line", "times", "operations", "compiled", "time", "instead"]
    row = dict(
        zip(columns, ["LNB101", "bool", "cell 3, line 2: if `x` > 0:", "1", "4", "1", "272.94 ms", WHY])
    )
    page = report(browser, Records([1], "", lambda record: row)._repr_html_(), 360)
    said = page.get_by_text("instead:").bounding_box()
    assert said["width"] > 200 and said["height"] < 100
    assert page.locator("code").inner_text() == "x"
    page.close()
