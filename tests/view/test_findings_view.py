"""The findings of an inspection: as data, in words, and renewed by experiments."""

from __future__ import annotations

import jax.numpy as jnp
import pytest

import lazynb
from lazynb.notebook.frontend_requests import RequestHandler
from lazynb.report.inspection.inspection_data import inspection
from lazynb.report.inspection.inspection_file import SavedInspections, inspection_entry, read_inspections
from lazynb.report.inspection.inspection_html import to_html
from lazynb.report.inspection.inspection_text import to_text


@pytest.fixture
def kept(clean):
    x, w = jnp.ones((256, 512)), jnp.ones((512, 512))
    with lazynb.lazy():
        h = jnp.tanh(x) * 2
        k = h + 1
        out = (k @ w).sum()
        compilation = lazynb.compile(out)
    yield compilation
    del h, k, out


@pytest.fixture
def plain(clean):
    with lazynb.lazy():
        out = jnp.ones((64, 64)) * 2
        yield lazynb.compile(out)


def test_a_headline_has_at_most_three_with_the_ids_of_what_they_are_about(kept):
    data = inspection(kept)
    found = data["findings"]
    assert 1 <= len(found) <= 3 and len({one["kind"] for one in found}) == len(found)
    [held] = [one for one in found if one["kind"] == "held"]
    assert held["variables"] == ["h", "k"] and held["boundary"] is None
    names = [data["clusters"][id_]["name"] for id_ in held["clusters"]]
    assert names == list(kept.findings[0].kernels)
    [between] = [one for one in found if one["kind"] == "boundary"]
    boundary = data["boundaries"][between["boundary"]]
    assert [boundary["producer"], boundary["consumer"]] == between["clusters"]
    assert boundary["bytes"] == between["bytes"]


def test_findings_are_in_text_and_html(kept, tmp_path):
    data = inspection(kept)
    first = data["findings"][0]["text"].split(":")[0].replace("`", "")
    text = to_text(data)
    assert first in text.replace("`", "").split("Why they are not one kernel")[0]
    html = to_html(data, kept.snapshot)
    assert html.count("(rule inferred).") == len(data["findings"]) and "written because" in html


def test_without_findings_no_section_is_shown(plain):
    data = inspection(plain)
    assert data["findings"] == []
    assert "(rule inferred)." not in to_html(data, plain.snapshot) and "\n- " not in to_text(data)


def test_data_without_findings_show_none(kept):
    data = inspection(kept)
    del data["findings"]
    assert "\n- " not in to_text(data) and "(rule inferred)." not in to_html(data, kept.snapshot)


def test_findings_survive_saving_and_opening(kept, tmp_path):
    file = tmp_path / "one.json"
    SavedInspections([inspection_entry(kept)]).save(file)
    assert read_inspections(file).inspections[0]["findings"][0]["kind"] == "held"


def test_a_without_question_compares_with_the_program_without_the_names(kept):
    data = inspection(kept, live=True)
    answer = RequestHandler(kept, data).answer({"type": "without", "variables": ["h", "k"], "id": 1})
    assert answer["type"] == "without", answer
    assert answer["compared"]["names"] == ["as it is", "without h and k"]
    written = [
        sum(cluster["output_bytes"] for cluster in answer["compared"][side]["clusters"])
        for side in ("before", "now")
    ]
    assert written[0] - written[1] >= answer["findings"][0]["bytes"]
    assert answer["findings"][0]["label"] == "verified by recompiling"
    assert data["findings"] == answer["findings"], "a page that is loaded again shows it too"


@pytest.mark.parametrize("names", [None, [], "h", [1], ["nobody"]])
def test_a_without_question_with_bad_names_is_an_error(kept, names):
    answer = RequestHandler(kept, inspection(kept, live=True)).answer(
        {"type": "without", "variables": names, "id": 2}
    )
    assert answer["type"] == "error" and answer["message"]


def test_asking_the_compiler_renews_the_findings(kept):
    data = inspection(kept, live=True)
    answer = RequestHandler(kept, data).answer({"type": "ask", "id": 3})
    labels = {boundary["id"]: boundary["label"] for boundary in answer["boundaries"]}
    between = [one for one in answer["findings"] if one["boundary"] is not None]
    assert between and all(
        one["label"]
        == ("rule inferred" if labels[one["boundary"]] == "compiler said" else labels[one["boundary"]])
        for one in between
    )
