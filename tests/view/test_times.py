"""What compiling took, as data, text and HTML: what nobody timed is said, and no figure stands for it."""

from __future__ import annotations

import copy
import warnings

import jax
import jax.numpy as jnp
import pytest

import lazynb
from lazynb.cli.arguments import parser
from lazynb.report.inspection.inspection_data import inspection
from lazynb.report.inspection.inspection_file import inspection_entry, read_inspections
from lazynb.report.inspection.inspection_html import to_html
from lazynb.report.inspection.inspection_text import summary, to_text
from lazynb.xla.external.external_programs import read_compiled

MATRIX = jax.ShapeDtypeStruct((16, 16), jnp.float32)


def some(x, w):
    h = jnp.cumsum(x @ w, 0)
    return jax.nn.softmax(h)


@pytest.fixture(scope="module")
def compilation():
    lazynb.clear_cache()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = lazynb.compile(some, MATRIX, MATRIX)
        assert inspection(made)["notes"] == []
    return made


@pytest.fixture
def data(compilation):
    return copy.deepcopy(inspection(compilation))


def test_the_data_are_those_of_the_compilation(compilation, data):
    [known], [program] = compilation.compile_times, data["programs"]
    times = program["times"]
    assert (times["lowering"], times["xla"]) == (known.lowering, known.xla)
    assert sum(seconds for _, seconds in times["stages"]) == pytest.approx(known.xla)
    listed = sum(one["seconds"] for one in times["passes"]) + times["others"]["seconds"]
    assert listed == pytest.approx(sum(one.own for one in known.passes))
    assert sum(one["runs"] for one in times["passes"]) + times["others"]["runs"] == len(known.passes)
    seconds = [one["seconds"] for one in times["passes"]]
    assert seconds == sorted(seconds, reverse=True)
    assert {line["place"]["text"].partition(" ")[0] for line in times["lines"]} == {"h", "return"}
    assert times["kernels"] == len(known.kernels) > 0


def test_a_pass_has_its_seconds_where_they_are_known(compilation, data):
    [known] = compilation.compile_times
    by_file = {one.file: one.own for one in known.passes}
    steps = zip(data["programs"][0]["hlo"]["passes"], compilation.hlo.passes, strict=True)
    for info, step in steps:
        assert info["seconds"] == by_file.get(step.file)
    assert any(info["seconds"] is not None for info in data["programs"][0]["hlo"]["passes"])


def test_the_text_has_a_summary_and_on_request_every_pass(data):
    glance, full = to_text(data), to_text(data, times=True)
    assert "Compile time: lowering " in glance and "longest passes: " in glance
    assert "lines that took longest (inferred): " in glance and "Seconds of each pass" not in glance
    for words in (
        "Seconds of each pass, by XLA",
        "(all others)",
        "for this view; inferred",
        "h = jnp.cumsum",
    ):
        assert words in full
    assert "XLA's time by line is inferred: code generation by share of the kernels" in full


def test_the_html_has_the_tables(compilation, data):
    html = to_html(data, compilation.snapshot)
    for words in ("What compiling took", "LLVM to machine code", "more rows not listed", "XLA, inferred"):
        assert words in html
    assert '<details open><summary style="cursor:pointer">What compiling took' not in html
    assert to_html(data, compilation.snapshot, opened=("times",)) != html


def test_a_cache_hit_names_the_compilation_of_its_times(compilation):
    again = inspection(lazynb.compile(some, MATRIX, MATRIX))
    times = again["programs"][0]["times"]
    assert again["programs"][0]["cache"] == "hit"
    assert times["lowering"] is None and times["compiling"] is None
    assert "the compilation whose program the cache gave" in times["source"]
    assert "Compile time" not in to_text(again)
    assert "Compile time: XLA " in to_text(again, times=True)
    assert summary(times).endswith("the compilation whose program the cache gave.")


def test_a_precompiled_program_has_no_times():
    given = inspection(read_compiled(jax.jit(some).lower(MATRIX, MATRIX).compile()))
    assert "Compile time" not in to_text(given)
    assert "Compile time. Not compiled here: the program was given compiled." in to_text(given, times=True)
    assert given["programs"][0]["times"]["lines"] == []


def test_older_files_have_no_times(compilation, data, tmp_path):
    saved = inspection_entry(compilation)
    del saved.data["programs"][0]["times"]
    for text in (to_text(saved.data), to_html(saved.data, saved.graph)):
        assert "Compile time" not in text
    assert "Compile time: not known." in to_text(saved.data, times=True)


def test_a_saved_file_keeps_its_times(compilation, tmp_path):
    from lazynb.report.inspection.inspection_file import SavedInspections

    SavedInspections([inspection_entry(compilation)]).save(tmp_path / "some.json")
    read = read_inspections(tmp_path / "some.json")
    assert "Seconds of each pass, by XLA" in read.text(times=True)
    assert "Seconds of each pass, by XLA" not in read.text()


def test_the_inspect_command_has_a_times_option():
    assert parser("").parse_args(["inspect", "some.json", "--times"]).times
    assert not parser("").parse_args(["inspect", "some.json"]).times
