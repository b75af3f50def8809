"""The report: one page, no network, nothing of the program's text taken for markup, marks on the right
lines."""

from __future__ import annotations

import html.parser
import re
import textwrap

import pytest

pytest.importorskip("jinja2", reason="Jinja2 is not installed here")

import lazynb  # noqa: E402
from lazynb.compare.costs.budget import Account, Limits  # noqa: E402
from lazynb.report.inspection.source_data import LineMark, sources  # noqa: E402
from lazynb.report.run_report import RunReport  # noqa: E402
from lazynb.user_code.source_lines import Place  # noqa: E402

pytestmark = pytest.mark.usefixtures("clean")

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(html.parser.HTMLParser):
    """The page's tags, ids, links and text; fails where a tag is not closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.ids, self.links, self.attributes, self.open, self.text = [], {}, [], [], [], ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        found = dict(attrs)
        if "id" in found:
            assert found["id"] not in self.ids
            self.ids[found["id"]] = self.getpos()
        if "href" in found:
            self.links.append(found["href"])
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text += data


def report(source, limits=None, tmp_path=None, error=""):
    """The report of ``source``, run lazily from a file of that text; its page."""
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(source), encoding="utf-8")
    account = Account(limits or Limits())
    account.open()
    try:
        with lazynb.lazy():
            exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), {"__name__": "program"})
    finally:
        account.close()
    used = account.used()
    verdict = "over budget: ..." if used.over(account.limits) else ""
    made = RunReport(
        program=str(path),
        arguments=("--name", "<b>x</b>"),
        status=0,
        error=error,
        where="",
        seconds=1.5,
        counter=account.counter,
        used=used,
        limits=account.limits,
        verdict=verdict,
    )
    made.save(tmp_path / "out.html")
    return Page((tmp_path / "out.html").read_text(encoding="utf-8"))


LOOP = """
    import jax.numpy as jnp
    x = jnp.ones(3)
    for step in range(4):
        x = x * 2
        print(float(x.sum()))  # <script>alert("&amp;")</script>
    if x[0] > 3: pass
"""


def test_the_page_needs_no_network_and_no_script(tmp_path):
    page = report(LOOP, tmp_path=tmp_path)
    assert not {"script", "img", "link", "iframe", "object"} & set(page.tags)
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links) and page.links
    assert not [name for name in page.attributes if name.startswith("on") or name == "src"]


def test_program_text_is_escaped(tmp_path):
    page = report(LOOP, tmp_path=tmp_path, error="ValueError: <img src=x onerror=alert(1)>")
    assert 'print(float(x.sum()))  # <script>alert("&amp;")</script>' in page.text
    assert "<img src=x onerror=alert(1)>" in page.text and "--name '<b>x</b>'" in page.text


def test_marks_stand_on_their_lines(tmp_path):
    page = report(LOOP, tmp_path=tmp_path)
    text = (tmp_path / "out.html").read_text()
    lines = [part.partition("</div>")[0] for part in text.split('<div class="line')[1:]]
    assert len(lines) == 7 and lines[0].count("LNB") == 0  # the whole short file; its first line is blank
    loop, branch = lines[5], lines[6]
    assert (
        "has-break" in loop
        and "LNB103 float ×4" in loop
        and "has-compile" in loop
        and "instead: collect" in loop
    )
    assert "LNB101 bool ·" in branch and "×" not in branch.partition("LNB101")[2].partition("<")[0]
    assert all("has-break" not in line for line in lines[:5])
    assert "program.py:6" in page.text


def test_long_files_are_folded_but_for_what_is_marked(tmp_path):
    filler = "\n".join(f"y{n} = {n}" for n in range(1000))
    page = report(
        f"import jax.numpy as jnp\n{filler}\nfloat(jnp.ones(3).sum())\n{filler}\n", tmp_path=tmp_path
    )
    assert page.tags.count("details") == 2
    assert "995 lines" in page.text and "595 more lines" in page.text and "y999 = 999" in page.text


def test_a_source_that_is_gone_shows_the_lines_that_are_known():
    [gone] = sources(
        [LineMark(Place("/no/such/file.py", 30, "float(x)"), "break", "LNB103 float", "1 ms", ())]
    )
    assert [(line["number"], line["text"]) for part in gone["parts"] for line in part["lines"]] == [
        (30, "float(x)")
    ]


def test_limits_are_shown_with_a_verdict_each(tmp_path):
    page = report(LOOP, Limits(compiles=100, breaks=4, kernels=1000), tmp_path)
    assert "over budget" in page.text and page.text.count("✗ over") == 1 and page.text.count("✓ within") == 2
    assert "Kernels" in page.text


def test_a_program_without_jax_gives_a_report_too(tmp_path):
    page = report("print('no arrays')", Limits(breaks=0), tmp_path)
    assert "within budget" in page.text and "None: nothing made" in page.text and "details" not in page.tags


def test_control_characters_and_lone_surrogates_are_replaced(tmp_path):
    report(LOOP, tmp_path=tmp_path, error="ValueError: \x1b[31m \ud800")
    assert "\x1b" not in (tmp_path / "out.html").read_text(encoding="utf-8")


def test_rows_and_sources_are_bounded(tmp_path):
    source = "import jax.numpy as jnp\nx = jnp.ones(3)\n" + "\n".join("float(x.sum())" for _ in range(230))
    page = report(source, tmp_path=tmp_path)
    assert "30 more" in page.text and page.tags.count("tr") < 250


def test_colours_can_be_read(tmp_path):
    """Ink on chips, in light and dark: contrast of at least 4.5 (WCAG 2)."""

    def luminance(colour):
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    def mix(colour, share, ground):
        pairs = ((int(colour[at : at + 2], 16), int(ground[at : at + 2], 16)) for at in (1, 3, 5))
        return "#" + "".join(f"{round(above * share + below * (1 - share)):02x}" for above, below in pairs)

    def contrast(ink, ground):
        high, low = sorted((luminance(ink), luminance(ground)), reverse=True)
        return (high + 0.05) / (low + 0.05)

    report(LOOP, tmp_path=tmp_path)
    style = (tmp_path / "out.html").read_text().partition("</style>")[0]
    grounds = re.findall(r"--bg: (#\w{6})", style)
    checked = 0
    for kind in ("break", "compile"):
        [hue] = re.findall(rf"--{kind}: (#\w{{6}})", style)
        [share] = re.findall(rf"\.mark\.{kind} .*var\(--{kind}\) (\d+)%", style)
        for ink, ground in zip(re.findall(rf"--{kind}-ink: (#\w{{6}})", style), grounds, strict=True):
            assert contrast(ink, mix(hue, int(share) / 100, ground)) >= 4.5
            checked += 1
    assert checked == 4
