"""After a question to the compiler, everything that shows a boundary's reason shows the new one."""

from __future__ import annotations

import inspections as data
from reading import tab, thing

KERNEL = """(message, answer) => {
  setTimeout(() => answer({ type: "boundaries", boundaries: window.said, id: message.id }), 50);
}"""
REASON = "XLA's pass `fusion` found that `reduce.7` is read twice."
PLAIN = REASON.replace("`", "")


def test_every_place_that_shows_the_reason_follows_the_compilers_answer(show):
    page = show(data.small(live=True), kernel=KERNEL)
    answer = [{**one, "text": REASON, "label": "compiler said"} for one in data.BOUNDARIES]
    page.evaluate("said => { window.said = said; }", answer)
    wire = page.locator(f".lz-canvas .lz-wire{thing('boundary:2')} title").first
    before = wire.text_content()
    assert "rule inferred" in before and "`" not in before
    tab(page, "Fusion")
    page.locator(f".lz-cards {thing('boundary:2')} .lz-aval").click()
    assert "rule inferred" in page.locator(".lz-foot").inner_text()
    page.get_by_role("button", name="Ask the compiler").click()
    page.wait_for_selector(".lz-reason >> text=is read twice")
    shown = {
        "card": page.locator(f".lz-cards {thing('boundary:2')}").inner_text(),
        "foot": page.locator(".lz-foot").inner_text(),
        "tooltip of the foot": page.locator(".lz-foot-facts").get_attribute("title"),
        "map": page.locator(f".lz-map {thing('boundary:2')} title").text_content(),
    }
    tab(page, "Graph")
    shown["drawing"] = page.locator(f".lz-canvas .lz-wire{thing('boundary:2')} title").first.text_content()
    for where, text in shown.items():
        assert PLAIN in text, (where, text)
        assert "rule inferred" not in text and "`" not in text, (where, text)
        assert "compiler said" in text, (where, text)
