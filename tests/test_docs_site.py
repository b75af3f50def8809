"""The documentation as `make docs` builds it: no warning, no dead link, nothing from another host."""

from __future__ import annotations

import functools
import html.parser
import os
import re
import urllib.parse

import pytest
from test_docs import ROOT, anchors, run

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("docs")]


class Page(html.parser.HTMLParser):
    """What a built page has and leads to."""

    def __init__(self, text: str):
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ids |= {found[name] for name in ("id", "name") if found.get(name)}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if tag in ("script", "img", "iframe", "source") and found.get("src"):
            self.loaded.append(found["src"])
        if tag == "link" and found.get("rel") in ("stylesheet", "preload", "icon") and found.get("href"):
            self.loaded.append(found["href"])


@functools.cache
def built(parent):
    """The folder of the site, built once for the tests of one process, and what the build said."""
    for name in ("myst_nb", "pydata_sphinx_theme", "ipykernel"):
        pytest.importorskip(name, reason="needs lazynb[docs]")
    target = parent / "docs" / "site"
    target.parent.mkdir()
    done = run(ROOT / "scripts" / "documentation.py", target, timeout=900)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    return target, done


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The pages by their path, and what the build said."""
    target, done = built(tmp_path_factory.getbasetemp())
    return (
        {str(page.relative_to(target)): Page(page.read_text()) for page in target.rglob("*.html")},
        target,
        done,
    )


def test_the_site_is_built_without_a_warning(site):
    pages, _, done = site
    assert done.stderr == "" and "WARNING" not in done.stdout
    assert f"{len(pages)} pages" in done.stdout


def test_every_entry_has_its_anchor(site):
    pages, _, _ = site
    for name, wanted in anchors().items():
        assert wanted <= pages[f"reference/{name}.html"].ids, name


def test_every_link_leads_somewhere(site):
    pages, target, _ = site
    wrong = []
    for name, page in pages.items():
        for link in page.links:
            to = urllib.parse.urlsplit(link)
            if to.scheme:
                continue
            path = (
                os.path.normpath(os.path.join(os.path.dirname(name), urllib.parse.unquote(to.path)))
                if to.path
                else name
            )
            there = (target / path).exists()
            if not there or (
                to.fragment and path in pages and urllib.parse.unquote(to.fragment) not in pages[path].ids
            ):
                wrong.append((name, link))
    assert wrong == []


def test_nothing_comes_from_another_host(site):
    pages, target, _ = site
    for name, page in pages.items():
        assert [one for one in page.loaded if urllib.parse.urlsplit(one).scheme in ("http", "https")] == [], (
            name
        )
    assert not any(
        "@import" in style.read_text() and "http" in style.read_text().partition("@import")[2][:200]
        for style in (target / "_static").glob("*.css")
    )


def test_the_pages_show_what_the_cells_showed(site):
    _, target, _ = site
    first = (target / "guide" / "first-notebook.html").read_text()
    assert "12 operations pending" in first and "data:image/svg+xml;base64," in first and "LNB101" in first
    fusion = (target / "notebooks" / "02-fusion.html").read_text()
    assert "You expected" in fusion and "Your lines, and the kernels they went to" in fusion


def test_docstrings_are_rendered_in_full(site):
    _, target, _ = site
    text = re.sub(r"<[^>]*>", "", (target / "reference" / "python.html").read_text())
    assert "exactly one each, by its node number in snapshot." in " ".join(text.split())
    assert re.search(r"Raises:?\s+Exception", text) and "Arguments:" not in text, "sections are fields"
