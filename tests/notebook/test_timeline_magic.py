"""%breaks shows where the time of the cells went: as text, and as HTML that needs no trust."""

from __future__ import annotations

import base64
import re
import time
from pkgutil import resolve_name

import jax
import pytest

import lazynb
from lazynb.running.run_statistics import recording_share
from lazynb.running.session_timeline import of_cell

LOOP = """\
import time
def helper(x):
    return float(x.sum())
x = jnp.ones(4)
for step in range(30):
    x = jnp.sin(x)
    helper(x)
time.sleep(0.05)
"""


def run(notebook, cell):
    number = notebook.shell.execution_count
    began = time.perf_counter()
    notebook.run(cell)
    return number, time.perf_counter() - began


def test_the_timeline_of_a_cell_is_as_long_as_the_cell_ran(notebook):
    number, took = run(notebook, LOOP)
    timeline = of_cell(number)
    assert timeline.title == f"cell {number}"
    assert 0.05 < timeline.seconds <= took
    assert sum(timeline.parts) == pytest.approx(timeline.seconds, abs=1e-9)
    assert timeline.after.python >= 0.05
    (row,) = timeline.rows
    assert (row.count, row.location.line) == (30, 3)
    assert [[place.line for place in one.places] for one in row.callers] == [[7]]
    assert row.first > row.median


def test_time_between_two_cells_is_in_no_timeline(notebook):
    first, _ = run(notebook, LOOP)
    time.sleep(0.2)
    second, _ = run(notebook, LOOP)
    timeline = lazynb.breaks().timeline
    assert timeline.title == "2 runs of cells"
    both = of_cell(first).seconds + of_cell(second).seconds
    assert timeline.seconds == pytest.approx(both, abs=1e-9)
    assert sum(timeline.parts) == pytest.approx(both, abs=1e-9)


def test_a_cell_that_failed_or_runs_still_has_an_end(notebook):
    number = notebook.shell.execution_count
    notebook.run("float(jnp.ones(3).sum())\n1 / 0", error=ZeroDivisionError)
    ended = of_cell(number).seconds
    time.sleep(0.05)
    assert of_cell(number).seconds == ended
    shown = notebook.run("float(jnp.ones(3).sum())\nimport lazynb\nlazynb.breaks()").shown
    assert "2 runs of cells" in shown["text/plain"]


def test_the_timeline_is_shown_as_text_and_html(notebook):
    number, _ = run(notebook, LOOP)
    for cell in ("%breaks", "import lazynb\nlazynb.breaks()"):
        shown = notebook.run(cell).shown
        text, page = shown["text/plain"], shown["text/html"]
        lines = text.splitlines()
        at = next(at for at, line in enumerate(lines) if line.startswith("Timeline of "))
        assert re.fullmatch(
            rf"Timeline of [\d.]+ m?s in cell {number}: ░ recording .*, · Python [\d.]+ m?s", lines[at]
        )
        assert re.fullmatch(r"  [░█▓▒·]{96}  over time", lines[at + 1])
        assert re.fullmatch(
            rf"  [░█▓▒· ]{{24}}  cell {number}, line 3  30 times, [\d.]+ m?s in all, "
            r"median [\d.]+ (µs|ms), first [\d.]+ m?s",
            lines[at + 2],
        )
        assert lines[at + 3].strip() == f"called from cell {number}, line 7"
        assert re.fullmatch(r"  ·+ *  after the last break  [\d.]+ m?s", lines[at + 4])
        assert max(map(len, lines)) < 150
        # what an untrusted notebook takes away is not there
        assert not re.search(r"<(svg|style|script|button|input)", page)
        images = re.findall(r'<img alt="([^"]*)" [^>]*src="data:image/svg\+xml;base64,([^"]+)"', page)
        assert any("over time: " in alt and "compiling" in alt for alt, _ in images)
        assert all(base64.b64decode(data).startswith(b"<svg xmlns=") for _, data in images)
        assert f"cell {number}, line 3" in page and "median" in page


def test_nothing_is_drawn_where_nothing_broke(notebook):
    notebook.run("x = jnp.ones(3) * 2")
    shown = notebook.run("%breaks").shown
    assert shown == {"text/plain": "no trace breaks", "text/html": "<p>no trace breaks</p>"}


# ---- each second counts once, as what it was spent on ------------------------------------------------------

SLEEP = 0.15
BODY = "y = jnp.sort(jnp.tanh(a @ a)) * 2\ny\n"
PLANTED = [  # the function that sleeps (or the cell does), the cell, and the part that grows
    ("lazynb.running.trace_executable.lower", f"%%compile\n{BODY}", "compiling"),
    ("lazynb.running.trace_executable.lower", f"%%compile\n{BODY}float(y.sum())", "compiling"),
    (
        "lazynb.running.trace_executable.lower",
        "x = jnp.sin(a)\nlazynb.compile(x)\nfloat(x.sum())",
        "compiling",
    ),
    ("lazynb.running.trace_executable.lower", f"%%compile --as-jit\n{BODY}", "compiling"),
    ("lazynb.notebook.cell_compilation.BackgroundLayout", f"%%compile\n{BODY}", "analysing"),
    ("lazynb.notebook.run_magics.ValueComparison", f"%%numerics\n{BODY}", "analysing"),
    ("lazynb.notebook.run_magics.ValueComparison", f"%%numerics\n{BODY}float(y.sum())\ny + 1", "analysing"),
    ("lazynb.compare.costs.call_explanation._finished", f"%%explain\n{BODY}", "analysing"),
    (
        "lazynb.xla.compiled_program.CompiledProgram.ask",
        "x = jnp.sin(a)\nk.ask()\nfloat(x.sum())",
        "analysing",
    ),
    (
        "lazynb.report.comparison_report.Diff",
        "x = jnp.sin(a)\nlazynb.diff(k, k)\nfloat(x.sum())",
        "analysing",
    ),
    (
        "lazynb.notebook.inspection_display.compilation_of",
        "x = jnp.sin(a)\nlazynb.inspect(k)\nfloat(x.sum())",
        "analysing",
    ),
    ("lazynb.report.graph.lazy_graph.build", "x = jnp.sin(a)\ndisplay(x)\nfloat(x.sum())", "analysing"),
    ("", "x = jnp.sin(a)\npause()\nfloat(x.sum())", "recording"),
    ("", "pause()\nx = jnp.sin(a)\nfloat(x.sum())", "python"),
    ("", f"%%compile\npause()\n{BODY}", "python"),
    ("", f"%%numerics\n{BODY}pause()\ny", "recording"),
    ("", f"%%explain\n{BODY}pause()\ny", "recording"),
    ("", f"%%explain\npause()\n{BODY}", "python"),
]


@pytest.mark.parametrize("function, cell, part", PLANTED)
def test_each_second_counts_as_what_it_was_spent_on(notebook, monkeypatch, function, cell, part):
    notebook.run("import lazynb\na = jnp.ones((64, 64))\nlazynb.sync(a)")
    notebook.run("k = lazynb.compile(jnp.sort(jnp.tanh(a)) * 2)")
    lazynb.clear_cache()
    notebook.shell.user_ns["pause"] = lambda: time.sleep(SLEEP)
    if function:
        original = resolve_name(function)
        monkeypatch.setattr(function, lambda *args, **kwargs: time.sleep(SLEEP) or original(*args, **kwargs))
    number, took = run(notebook, cell)
    timeline = of_cell(number)
    assert sum(timeline.parts) == pytest.approx(timeline.seconds, abs=1e-9) and timeline.seconds <= took
    assert getattr(timeline.parts, part) >= SLEEP
    for other in {"recording", "python", "running", "waiting"} - {part}:
        assert getattr(timeline.parts, other) < SLEEP, other
    assert recording_share().record_seconds < SLEEP


def test_what_jax_compiles_while_a_trace_is_open_is_no_recording(notebook):
    event = "/jax/core/compile/backend_compile_duration"

    def compile_for_jax():
        time.sleep(SLEEP)
        jax.monitoring.record_event_duration_secs(event, SLEEP, fun_name="jit(f)")

    notebook.shell.user_ns["compile_for_jax"] = compile_for_jax
    number, _ = run(notebook, "x = jnp.ones(3) * 2\ncompile_for_jax()\nfloat(x.sum())")
    parts = of_cell(number).parts
    assert parts.compiling >= SLEEP > parts.recording


def test_time_of_numerics_is_no_recording_of_its_runs(notebook, monkeypatch):
    original = resolve_name("lazynb.notebook.run_magics.ValueComparison")
    slow = lambda code: time.sleep(SLEEP) or original(code)  # noqa: E731
    monkeypatch.setattr("lazynb.notebook.run_magics.ValueComparison", slow)
    for _ in range(3):  # the last two are hits
        notebook.run("%%numerics\nx = jnp.ones(3) * 2")
    share = recording_share()
    assert share.runs >= 2 and share.record_seconds < SLEEP
    assert all(event.record_seconds < SLEEP for event in lazynb.events())
