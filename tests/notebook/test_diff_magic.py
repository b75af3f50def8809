"""``%diff``, ``%%compile --against``, ``--flag`` and ``--without``."""

from __future__ import annotations

import re

import pytest
from IPython.core.error import UsageError

import lazynb
from lazynb.report.inspection.inspection_data import inspection
from lazynb.report.inspection.source_data import file_key

BEFORE = "\nh = jnp.tanh(x)\ns = jnp.sum(h * x, axis=0)\ndel h\ns"
AFTER = BEFORE.replace("del h\n", "")


@pytest.fixture
def held(notebook):
    """x, 1 MiB; ``before`` is what a cell was compiled to."""
    notebook.run("x = jnp.ones((512, 512))\nimport lazynb\nlazynb.sync()")
    notebook.run(f"%%compile before --no-run{BEFORE}")
    return notebook


def texts(out):
    return [each.data["text/plain"] for each in out.outputs]


def test_diff_of_two_cells_names_changed_kernels_memory_and_results(held):
    held.run(f"%%compile after --no-run{AFTER}")
    found = held.run("%diff before after")
    assert found.result.headline == [
        "cell 5, lines 2, 3: two kernels instead of one; done by XLA's own code and YNNPACK instead of "
        "YNNPACK; 1 MiB more written to memory, because `h` is alive (rule inferred)",
        "cell 5, line 2: peak memory is 2 MiB instead of 1 MiB; `h` takes 1 MiB more of it",
        "cell 5, line 2: what `tanh` gives is now a result",
    ]
    assert "because `h` is alive" in found.shown["text/html"] and "`h` is alive" in found.shown["text/plain"]
    back = held.run("%diff after before").result
    assert back.headline[0].endswith("because in after `h` is alive (rule inferred)")
    assert held.run("%diff before before").result.to_dicts() == []


def test_lines_are_buttons_of_the_inspectors_on_the_page(held):
    """Those of both cells, by a key that the inspectors know their cells by."""
    held.run(f"%%compile after --no-run{AFTER}")
    page = held.run("%diff before after").shown["text/html"]
    found = re.findall(r'data-lazynb-file="(\w+)" data-lazynb-line="(\d+)">([^<]+)<', page)
    files = {key: side for side in ("before", "after") for key in _files(held[side])}
    assert {(files[file], int(line), text) for file, line, text in found} == {
        ("before", 2, "cell 4, line 2"),
        ("before", 3, "cell 4, line 3"),
        ("after", 2, "cell 5, line 2"),
        ("after", 3, "cell 5, line 3"),
    }


def _files(compilation):
    return {file_key(source["file"]) for source in inspection(compilation, live=True)["sources"]}


def test_a_recomputed_and_kept_value_is_reported_as_one_more_kernel(held):
    """XLA writes h for whoever holds it, and computes it once more inside the other kernel."""
    held.run("%%compile one --no-run\nh = jnp.sin(x)\ny = jnp.exp(h * 3)\ndel h\ny")
    held.run("%%compile two --no-run\nh = jnp.sin(x)\ny = jnp.exp(h * 3)\ny")
    first = held.run("%diff one two").result.headline[0]
    assert "line 2: one kernel more; 1 MiB more written to memory" in first
    assert first.endswith("because `h` is a result of the program (rule inferred)")


def test_against_shows_the_difference_under_the_value(held):
    shown = texts(held.run(f"%%compile --against before{AFTER}"))
    assert shown[0].startswith("1. ") and "`h` is alive" in shown[0] and "this cell" in shown[0]
    assert len(shown) == 2  # and the inspector


def test_against_compares_with_the_former_value_of_the_same_name(held):
    shown = texts(held.run(f"%%compile before --no-run --against before{BEFORE}"))
    assert shown[0].startswith("Nothing differs") and "before, before" in shown[0]


def test_against_with_nothing_recorded_reports_nothing_to_compare(held):
    held.run("lazynb.sync()")
    shown = texts(held.run("%%compile --against before\n1 + 1"))
    assert shown[0].startswith("Nothing to compare with before")


def test_without_ynnpack_compiles_and_compares_without_the_library(held):
    held.run("%%compile with_it --no-run\nx @ x + 1")
    out = held.run("%%compile alone --against with_it --without YNNPACK\nz = x @ x + 1\nz")
    shown = texts(out)
    assert "instead of" in shown[0] and "YNNPACK" in shown[0].splitlines()[1]
    header = "Compiled with other flags: alone without YNNPACK (xla_cpu_experimental_ynn_fusion_type=)."
    assert shown[0].splitlines()[0] == header
    assert "to be looked at: what runs is the program without" in shown[1]
    assert not held["alone"].is_run and held["alone"].flags
    assert float(held["z"][0, 0]) == 513  # not by _, which is not a value's where somebody installs gettext
    assert not any(cluster.library for cluster in held["alone"].clusters)
    assert "YNNPACK" in [cluster.library for cluster in held["with_it"].clusters]


def test_a_flag_leaves_the_program_that_runs_alone(held):
    held.run("%%compile plain --no-run\njnp.tanh(x) + jnp.sin(x) * 2")
    misses = lazynb.cache_info().misses
    held.run("%%compile odd --flag xla_disable_hlo_passes=fusion\njnp.tanh(x) + jnp.sin(x) * 2")
    assert lazynb.cache_info().misses == misses
    assert len(held["odd"].clusters) > len(held["plain"].clusters) == 1
    assert len(held.run("%diff plain odd").result.changes) == 2


@pytest.mark.parametrize(
    "options, words",
    [
        ("--flag xla_cpu_nonsense=1", "No such compile option: 'xla_cpu_nonsense'"),
        ("--flag xla_cpu_enable_fast_math", "write its name and value"),
        ("--flag xla_cpu_enable_fast_math=perhaps", "is not a valid bool value"),
        ("--without cuDNN", "lazynb supports only YNNPACK"),
        ("--flag xla_cpu_enable_fast_math=true --for v5e", "without --for and --as-jit"),
        ("--without YNNPACK --as-jit", "without --for and --as-jit"),
        ("--against nobody", "there is no variable nobody: %%compile nobody fills it"),
        ("--against nothing.json", "nothing.json cannot be read"),
        ("--against before --as-jit", "%diff NAME[0] NAME[1]"),
        ("--against x", "nothing of this is pending any more"),
    ],
)
def test_bad_flags_are_refused_in_one_line(held, options, words):
    said = str(held.run(f"%%compile {options}\nz = x + 1\nz", error=UsageError).error)
    assert words in said and "\n" not in said


@pytest.mark.parametrize(
    "names, words",
    [
        ("before nobody", "there is no variable nobody"),
        ("before 1+", "is no variable and no file"),
        ("before before.traces", "compares two of these"),
        ("before lazynb.sync", "a function is compiled for its arguments: write (sync, x, y)"),
    ],
)
def test_objects_that_cannot_be_compared_are_refused(held, names, words):
    assert words in str(held.run(f"%diff {names}", error=UsageError).error)


def test_diff_writes_an_html_page(held, tmp_path):
    held.run(f"%diff before before --html {tmp_path / 'page.html'}")
    assert "Nothing differs" in (tmp_path / "page.html").read_text()
