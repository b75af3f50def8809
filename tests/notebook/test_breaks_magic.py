"""%breaks, %lazy and %lazy strict in a notebook."""

from __future__ import annotations

import re

import pytest
from IPython.core.error import UsageError

import lazynb
from lazynb.recording.break_reasons import REASONS
from lazynb.running.flush import execution
from lazynb.running.record_table import scrolling

LOOP = """\
x = jnp.ones(4)
for step in range(5):
    x = x * 0.5
    loss = float(x.sum())
ok = bool(x.sum() > 0)
"""


def test_breaks_are_grouped_ranked_and_summed(notebook):
    notebook.run(LOOP)
    found = notebook.run("%breaks").result
    assert {(one.code, one.kind, one.count, one.location.line) for one in found} == {
        ("LNB103", "float", 5, 4),
        ("LNB101", "bool", 1, 5),
    }
    assert [one.seconds for one in found] == sorted((one.seconds for one in found), reverse=True)
    assert (found.total, found.lines) == (6, 2)
    assert found.seconds == pytest.approx(sum(one.seconds for one in found))
    assert 0 < found.compile_seconds < found.seconds
    by_kind = {one.kind: one for one in found}
    assert by_kind["float"].location.cell == by_kind["bool"].location.cell is not None
    assert by_kind["float"].location.text == "loss = float(x.sum())"


def test_breaks_shows_a_table_with_costs_and_hints(notebook):
    notebook.run(LOOP)
    shown = notebook.run("%breaks").shown
    lines = shown["text/plain"].splitlines()
    assert re.fullmatch(r"6 trace breaks in 2 lines cost [\d.]+ m?s, of which [\d.]+ m?s compiling", lines[0])
    assert lines[2].split() == ["code", "kind", "line", "times", "operations", "compiled", "time"]
    row = next(line for line in lines if line.startswith("LNB103  float"))
    assert re.search(r"line 4: loss = float\(x.sum\(\)\) +5 +\d+ +\d+ +[\d.]+ m?s$", row)
    assert f"LNB103 float: {REASONS['float'].hint}" in lines
    assert max(map(len, lines)) < 150
    page, _, timeline = shown["text/html"].partition("<p>Timeline of ")
    assert timeline.count("<tr>") == 2 + ("after the last break" in timeline)
    assert (
        page.startswith(f"<p>{lines[0]}</p>{scrolling('<table>', 'table').removesuffix('</div>')}")
        and page.count("<tr>") == 3
        and REASONS["float"].hint in page
    )


def test_the_asking_function_has_a_column_where_it_is_known(notebook):
    notebook.run(LOOP + "y = jnp.zeros((x * 2).argmax())\n")
    found = notebook.run("%breaks")
    assert "asked by" in found.shown["text/plain"] and "jax.numpy.zeros" in found.shown["text/plain"]
    assert ">asked by</th>" in found.shown["text/html"]


def test_a_long_line_is_cut_in_the_table_alone(notebook):
    notebook.run("total = float(jnp.ones(4).sum()" + " + 1.0" * 30 + ")")
    found = notebook.run("%breaks")
    assert found.result[0].location.text.endswith("+ 1.0)")
    assert max(map(len, found.shown["text/plain"].splitlines())) < 150 and "…" in found.shown["text/plain"]


def test_source_lines_are_escaped_in_html(notebook):
    notebook.run("small = bool(jnp.ones(4).sum() <3)  # <script>")
    assert "<script>" not in notebook.run("%breaks").shown["text/html"]


def test_breaks_reports_that_there_are_none(notebook):
    notebook.run("x = jnp.ones(4) * 2")
    shown = notebook.run("%breaks").shown
    assert shown["text/plain"] == "no trace breaks" and shown["text/html"] == "<p>no trace breaks</p>"


def test_breaks_counts_explicit_barriers_separately(notebook):
    notebook.run("lazynb_x = jnp.ones(4) * 2\nimport lazynb\nlazynb.sync()")
    assert "; 1 of them was asked for" in notebook.run("%breaks").shown["text/plain"]


@pytest.mark.parametrize("name", ["LNB103", "lnb103", "float"])
def test_breaks_with_a_code_explains_that_code(name, notebook):
    shown = notebook.run(f"%breaks {name}").shown
    assert shown["text/plain"] == str(REASONS["float"])
    assert "LNB103" in shown["text/html"] and "out.append(float(x.sum()))" in shown["text/html"]


def test_an_unknown_code_is_refused_with_a_suggestion(notebook):
    found = notebook.run("%breaks LNB1033", error=UsageError)
    assert "LNB103" in str(found.error)


def test_lazy_shows_the_number_and_cost_of_breaks(notebook):
    assert notebook.run("%lazy").stdout.strip().endswith("· 0 trace breaks")
    notebook.run(LOOP)
    assert re.search(r"· 6 trace breaks \([\d.]+ m?s lost\)", notebook.run("%lazy").stdout)


def test_strict_raises_at_the_first_break_and_nothing_is_lost(notebook):
    assert "lazy mode is on (strict)" in notebook.run("%lazy strict").stdout
    found = notebook.run("y = jnp.ones(4) * 2\nz = float(y.sum())\nlate = 1", error=lazynb.TraceBreakError)
    assert (found.error.code, found.error.kind, found.error.ops) == ("LNB103", "float", 4)
    assert found.error.location.line == 2 and found.error.location.text == "z = float(y.sum())"
    for part in (
        "LNB103 float",
        "float() needed a value",
        "z = float(y.sum())",
        "4 pending operations",
        REASONS["float"].hint,
        "%breaks LNB103",
    ):
        assert part in str(found.error)
    assert notebook["y"].is_pending and "late" not in notebook.shell.user_ns
    assert not lazynb.breaks() and not lazynb.events()
    notebook.run("%lazy on\nz = float(y.sum())")
    assert notebook["z"] == 8.0


def test_strict_mode_allows_explicit_barriers_and_compile(notebook):
    notebook.run("%lazy strict\nimport lazynb")
    notebook.run("y = (jnp.ones(4) * 2).block_until_ready()\nz = y + 1\nlazynb.sync()\nw = float(z.size)")
    notebook.run("%%compile\nv = z * 2\nv")
    notebook.run("y\n")
    assert {one.kind for one in lazynb.breaks()} == {"block", "sync"}


def test_strict_holds_in_cells_only_and_ends_with_the_extension(notebook):
    notebook.run("%lazy strict")
    assert not execution.local.strict
    notebook.run("y = jnp.ones(4) * 2")
    assert float(notebook["y"].sum()) == 8.0  # between cells
    notebook.run("%unload_ext lazynb")
    assert not execution.local.strict
    notebook.run("z = float(jnp.ones(4).sum())")
    notebook.run("%load_ext lazynb")
    notebook.run("z = float(jnp.ones(4).sum())")


def test_strict_mode_applies_to_a_part_of_a_cell(notebook):
    notebook.run("import lazynb\nwith lazynb.lazy(strict=True):\n    y = jnp.ones(4) * 2\nz = float(y.sum())")
    notebook.run("with lazynb.lazy(strict=True):\n    z = float((y * 2).sum())", error=lazynb.TraceBreakError)
    notebook.run("z = float((y * 2).sum())")


def test_the_display_says_what_reading_would_run(notebook):
    notebook.run("y = jnp.ones(4) * 2\nz = y.sum()")
    for cell in ("z", "%graph z", "import lazynb\nlazynb.graph(z)"):
        shown = notebook.run(cell).shown
        assert "Reading it runs 4 operations: not compiled yet." in shown["text/plain"]
        assert "Reading it runs 4 operations: not compiled yet." in shown["text/html"]
    assert "lazynb.sync() runs 4 operations: not compiled yet." in notebook.run("%graph").shown["text/plain"]
    notebook.run("float(z)")
    notebook.run("y = jnp.ones(4) * 2\nz = y.sum()")
    assert "Reading it runs 4 operations: compiled already, " in notebook.run("z").shown["text/plain"]
    assert notebook["z"].is_pending


def test_strict_mode_in_an_eager_cell_raises_only_for_pending_values(notebook):
    notebook.run("%lazy strict")
    notebook.run("y = jnp.ones(4) * 2")
    notebook.run("%%eager\nz = float(jnp.ones(4).sum())")  # nothing pending is needed
    found = notebook.run("%%eager\nz = y + 1", error=lazynb.TraceBreakError)
    assert found.error.kind == "eager" and notebook["y"].is_pending
    notebook.run("%lazy off")
    notebook.run("z = y + 1")


def test_displaying_values_raises_nothing_in_strict_mode(notebook):
    notebook.run("%lazy strict")
    notebook.run("y = jnp.ones(4) * 2")
    for cell in ("y", "%graph y", "repr(y)", "y?", "%whos", "%lazy", "%breaks", "%cache"):
        notebook.run(cell)
    assert notebook["y"].is_pending


def test_the_documented_compile_example_makes_no_break(notebook):
    for cell in (REASONS["compile"].example, REASONS["compile"].cure):
        notebook.run(cell)
        assert not lazynb.breaks()


def test_a_break_in_an_imported_module_names_the_module(notebook, tmp_path, monkeypatch):
    (tmp_path / "lazynb_steps.py").write_text("def report(x):\n    return f'{x.sum():.1f}'\n")
    monkeypatch.syspath_prepend(tmp_path)
    notebook.run("import lazynb_steps\ntext = lazynb_steps.report(jnp.ones(3))")
    one = lazynb.breaks()[0]
    assert (one.kind, one.location.label, one.location.text) == (
        "format",
        "lazynb_steps.py:2",
        "return f'{x.sum():.1f}'",
    )
