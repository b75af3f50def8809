"""The documentation's pages in Chromium, opened as files: inspectors without a kernel, and what axe-core says."""

from __future__ import annotations

import json

import docs_sources
import inspections as data
import pytest
from lab_page import ROOT
from test_axe import severe
from test_docs_site import built

from lazynb.report.inspection.inspection_page import embedded_data

SCRIPT = ROOT / "docs" / "_static" / "lazynb.js"
docs = pytest.mark.xdist_group("docs")


@pytest.fixture
def opened(browser):
    """Opens a page's file. A script error in the page fails the test."""
    pages, errors = [], []

    def open_page(file, theme="light"):
        page = browser.new_page(viewport={"width": 1300, "height": 900}, color_scheme=theme)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(file.as_uri())
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert errors == []


def own_page(folder, held):
    """A page as the documentation's: the static form in an output, and the script."""
    docs_sources.write_front_end(folder / "lazynb-inspector.js")
    (folder / "lazynb.js").write_text(SCRIPT.read_text())
    form = '<div class="output"><div class="lazynb-inspection">the static form</div>'
    file = folder / "page.html"
    file.write_text(
        f'<!doctype html><script defer src="lazynb.js"></script><body>{form}{held}</div></body>',
        encoding="utf-8",
    )
    return file


def test_an_inspector_stands_in_place_of_the_form(opened, tmp_path):
    page = opened(own_page(tmp_path, embedded_data(data.measured())))
    page.locator(".lazynb-inspector").wait_for()
    assert not page.get_by_text("the static form").is_visible()
    page.get_by_role("tab", name="Memory").click()
    assert page.get_by_role("tabpanel").is_visible()


@pytest.mark.parametrize("held", ["", '<div hidden data-lazynb-stored="bm9uc2Vuc2U="></div>'])
def test_the_form_stays_where_there_is_no_data(opened, tmp_path, held):
    page = opened(own_page(tmp_path, held))
    page.wait_for_timeout(500)
    assert page.get_by_text("the static form").is_visible() and page.locator(".lazynb-inspector").count() == 0


def test_stored_data_are_compressed_and_omitted_if_too_large():
    small, large = data.small(), data.large(10_000)
    for node in large["nodes"]:
        node["name"] += str(hash(str(node)))  # names that nothing makes shorter
    assert 0 < len(embedded_data(small)) < len(json.dumps(small)) / 3
    assert embedded_data(large) == ""


# ---- the site itself ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return built(tmp_path_factory.getbasetemp())[0]


def shown(opened, site, name, theme="light"):
    page = opened(site / name, theme)
    holders = page.locator("[data-lazynb-stored]").count()
    if holders:
        page.locator(".lazynb-live .lazynb-inspector").nth(holders - 1).wait_for()
    return page, holders


class TestSite:
    pytestmark = docs

    def test_the_guide_has_inspectors(self, opened, site):
        page, holders = shown(opened, site, "guide/inspector.html")
        assert holders >= 2
        first = page.locator(".lazynb-live").first
        assert first.locator(".lz-code-line", has_text="h = x @ w + 1.0").locator(".lz-chip").count() >= 1
        first.get_by_role("tab", name="Fusion").click()
        assert "c0" in first.get_by_role("tabpanel").inner_text()

    @pytest.mark.parametrize("name", ["01-tour", "02-fusion"])
    def test_each_stored_form_of_a_notebook_becomes_an_inspector(self, opened, site, name):
        kept = (ROOT / "notebooks" / f"{name}.ipynb").read_text().count("data-lazynb-stored")
        if not kept:
            pytest.skip("stored before static forms held their data: `make notebooks`")
        assert shown(opened, site, f"notebooks/{name}.html")[1] == kept

    @pytest.mark.parametrize(("theme", "part", "least"), [("light", "", 25), ("dark", "guide/", 12)])
    def test_no_page_has_an_accessibility_violation(self, opened, site, theme, part, least):
        """In every page whose HTML this checkout makes; those of notebooks hold what was stored."""
        found = {}
        for file in sorted(site.rglob("*.html")):
            name = str(file.relative_to(site))
            if name.startswith(part) and not name.startswith(("_static/", "notebooks/")):
                page, _ = shown(opened, site, name, theme)
                found[name] = severe(page, "html")
                page.close()
        assert len(found) >= least and not any(found.values()), {
            name: one for name, one in found.items() if one
        }
