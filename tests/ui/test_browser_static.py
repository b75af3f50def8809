"""What is stored in a notebook, on a phone and on a wide page: nothing makes the page wider than it is, sentences have
room, and what is shortened is told whole by its tooltip."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import lazynb
from lazynb.compare.differences.kernel_prediction import ComparedPrediction, Verdict
from lazynb.report.inspection.inspection_data import inspection
from lazynb.report.inspection.inspection_html import to_html
from lazynb.report.prediction_report import PredictionResult
from lazynb.user_code import call_stack
from lazynb.user_code.source_lines import Place

WIDTHS = [360, 800, 1200, 1600]
NAME = "normalised_output_of_the_last_attention_layer"
CELL = f"""for _ in range(16):
    {NAME} = jnp.tanh(x @ w) / jnp.sqrt(1.0 + (x ** 2).mean(-1, keepdims=True)) * jax.nn.sigmoid(x) + jnp.cos(x) * 0.125
    x = jnp.sin({NAME}) + 0.5
if x.sum() > 1e9: raise SystemExit
y = jax.nn.softmax(x)
"""

# What no scrolling brings into sight: beside the page, and in no box that scrolls.
AWAY = """() => [...document.querySelectorAll('body *')].filter((e) => {
  const box = e.getBoundingClientRect();
  if (!box.width || (box.right <= innerWidth + 1 && box.left >= -1)) return false;
  for (let up = e.parentElement; up; up = up.parentElement)
    if (['auto', 'scroll'].includes(getComputedStyle(up).overflowX)) return false;
  return true;
}).map((e) => `${e.tagName}: ${e.textContent.trim().slice(0, 50)}`)"""
# Sentences that are a word or two wide.
NARROW = """() => [...document.querySelectorAll('td, div, span')].filter((e) =>
  [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim().length > 40)
  && e.getClientRects().length && e.closest('td, div').getBoundingClientRect().width < 160
).map((e) => e.textContent.trim().slice(0, 60))"""
DOTS = """() => [...document.querySelectorAll('body *')].filter((e) =>
  [...e.childNodes].some((n) => n.nodeType === 3 && /…$/.test(n.data.trim()))
  && !(e.closest('[title]')?.title.length >= e.textContent.trim().length)
).map((e) => e.textContent.trim().slice(0, 60))"""


@pytest.fixture
def forms(clean):
    """The static forms of a session with a loop, a trace break and long names, by what asks for them."""
    call_stack.register_cell("<cell 7>", 7, CELL)
    scope = {"jax": jax, "jnp": jnp, "x": jnp.ones((16, 16)), "w": jnp.ones((16, 16)) * 0.01}
    with lazynb.lazy():
        exec(compile(CELL, "<cell 7>", "exec"), scope)
        made = lazynb.compile(scope["y"], scope[NAME])
        data = inspection(made)
        places = [Place("cell", n, text, 3) for n, text in enumerate(CELL.split("\n")[1:4])]
        verdicts = tuple(Verdict(one, two, True, False, ()) for one, two in zip(places, places[1:]))
        pending = lazynb.graph(jnp.cos(scope["y"]) @ scope["w"])
        return {
            "inspection": to_html(
                data, made.snapshot, opened=("fates", "memory", "code", "hlo", "times", "cache", "breaks")
            ),
            "pending": pending._repr_mimebundle_()["text/html"],
            "predict": PredictionResult(ComparedPrediction(verdicts, ()))._repr_mimebundle_()["text/html"],
            "breaks": lazynb.breaks()._repr_html_(),
            "cache": lazynb.cache_info()._repr_html_(),
        }


@pytest.mark.parametrize("width", WIDTHS)
def test_stored_forms_have_room(browser, forms, width):
    page = browser.new_page(viewport={"width": width, "height": 900})
    for name, html in forms.items():
        page.set_content(f'<!doctype html><body style="margin:12px;font:13px sans-serif">{html}</body>')
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
        assert page.evaluate(AWAY) == [], name
        assert page.evaluate(NARROW) == [], name
        assert page.evaluate(DOTS) == [], name
        assert len(page.inner_text("body")) > 60, name
    page.close()


def test_a_reason_is_in_sight_without_scrolling(browser, forms):
    """On a phone: why a boundary lies where it does, what became of an operation, what to write instead of a break."""
    page = browser.new_page(viewport={"width": 360, "height": 900})
    for name, text in [("inspection", "is expensive"), ("breaks", "instead:"), ("cache", "reason:")]:
        page.set_content(
            f'<!doctype html><body style="margin:12px;font:13px sans-serif">{forms[name]}</body>'
        )
        found = page.get_by_text(text).last.bounding_box()
        assert found["x"] >= 0 and found["x"] + min(found["width"], 200) <= 360, name
        assert found["width"] >= 200, name
    page.close()


def test_each_line_stands_whole_in_the_stored_form(browser, forms):
    page = browser.new_page(viewport={"width": 360, "height": 900})
    page.set_content(
        f'<!doctype html><body style="margin:12px;font:13px sans-serif">{forms["inspection"]}</body>'
    )
    for line in filter(None, CELL.split("\n")):
        assert page.get_by_text(line.strip()).count() >= 1
    page.close()
