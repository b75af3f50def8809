"""axe-core with all of its rules: nothing serious or critical in any tab, state and form of the inspector, whatever tabs there
are."""

from __future__ import annotations

import copy
from typing import Any

import inspections as data
import jax
import jax.numpy as jnp
import pytest
from lab_page import by_axe
from test_browser_devices import on_four
from test_browser_pair import pair
from test_browser_switch import both

import lazynb
from lazynb.report.inspection.inspection_page import static_mime_bundle

KERNEL = "(message, answer) => {}"
DARK = {"light": ("#fff", "#111"), "dark": ("#111", "#e6e6e6")}
SEVERE = """async (within) => {
  const { violations } = await axe.run(within);
  const told = (node) => `${node.html.slice(0, 160)} ${(node.any[0] ?? node.all[0] ?? node.none[0])?.message ?? ""}`;
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes.length} of ${nodes.slice(0, 3).map(told).join(" | ")}`);
}"""


def severe(page: Any, within: str) -> list[str]:
    """What axe-core calls serious or critical in a part of the page, by any of its rules."""
    return by_axe(page, SEVERE, within)


def test_axe_finds_a_planted_violation(show):
    page = show(data.small())
    page.evaluate("document.querySelector('.lazynb-inspector').append(document.createElement('img'))")
    assert any("image-alt" in one for one in severe(page, ".lazynb-inspector"))


PROGRAMS = {
    "measured, with a kernel": lambda: data.measured(live=True),
    "of four devices": on_four,
    "with what jax.jit compiles": lambda: both(live=True),
    "long names": data.long_names,
    "nothing recorded": data.empty,
}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_tab_has_no_severe_violation(show, name, theme):
    made = copy.deepcopy(PROGRAMS[name]())
    page = show(made, theme, width=1000, kernel=KERNEL if made.get("live") else "null")
    found = {}
    for tab in page.get_by_role("tab").all():
        tab.click()
        page.wait_for_timeout(40)
        found[tab.inner_text()] = severe(page, ".lazynb-inspector")
    assert len(found) >= 8 and not any(found.values()), found


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_tab_with_a_selection_has_no_severe_violation(show, theme):
    page = show(data.measured(live=True), theme, kernel=KERNEL)
    page.locator(".lz-code-line.lz-thing").nth(1).click()
    for tab in page.get_by_role("tab").all():
        tab.click()
        page.wait_for_timeout(40)
        assert severe(page, ".lazynb-inspector") == [], tab.inner_text()
    page.get_by_role("tab").first.click()
    page.get_by_role("button", name="Operations", exact=True).click()
    assert severe(page, ".lazynb-inspector") == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_two_inspectors_side_by_side_have_no_severe_violation(show, theme):
    page = show(pair(), theme)
    for at in range(page.get_by_role("tab").count()):
        page.get_by_role("tab").nth(at).click()
        page.wait_for_timeout(40)
        assert severe(page, "#inspector") == [], at


# ---- the static form ---------------------------------------------------------------------------------------


def stored(browser: Any, html: str, theme: str) -> Any:
    """A page as nbconvert, or a code host, makes one of a stored notebook."""
    ground, ink = DARK[theme]
    page = browser.new_page(viewport={"width": 1100, "height": 900})
    page.set_content(
        f'<!doctype html><html lang="en"><title>t</title><body style="background:{ground};color:{ink};'
        f'font:13px sans-serif">{html}</body></html>'
    )
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    return page


def programs():
    """What there is to look at: a graph that waits, a compilation, breaks and the cache."""
    lazynb.clear_cache()
    x = jnp.linspace(0.0, 1.0, 128 * 64).reshape(128, 64)
    with lazynb.lazy():
        h = jnp.tanh(x @ x.T) * 2
        p = jax.nn.softmax(h)
        waiting = lazynb.graph(p)._repr_mimebundle_()["text/html"]
        if float(p.sum()) > 1:
            q = jnp.sin(p) + h
        made = lazynb.compile(q)
        lazynb.sync(q)
    every = (
        "lines",
        "graph",
        "kernels",
        "boundaries",
        "fates",
        "memory",
        "hlo",
        "times",
        "code",
        "cache",
        "breaks",
    )
    return {
        "graph": waiting,
        "inspection": static_mime_bundle(made, opened=every)["text/html"],
        "breaks": lazynb.breaks()._repr_html_(),
        "cache": lazynb.cache_info()._repr_html_(),
    }


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_static_forms_have_no_severe_violation(browser, clean, theme):
    for name, html in programs().items():
        page = stored(browser, html, theme)
        assert severe(page, "body") == [], name
        page.close()
