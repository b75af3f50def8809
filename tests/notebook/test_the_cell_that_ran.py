"""The inspector shows the cell that was run: what earlier cells had left pending stands apart.

Each notebook has its truth beside it. Cell 1 loads lazynb, cell 2 imports; the cells of a test begin with 3.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import lazynb
from lazynb.notebook.cell_programs import CellPrograms
from lazynb.report.inspection import inspection_phrases
from lazynb.report.inspection.inspection_data import inspection
from lazynb.xla.compile_entry import last_compilation

RANDOM = """
    key = jax.random.key(0)
    first, second = jax.random.split(key)
    X = jax.random.normal(first, (64, 32))
"""


@pytest.fixture
def cells(notebook):
    notebook.run("w = jnp.ones(32)")
    lazynb.sync()
    return notebook


def pending(notebook):
    """How many operations wait and are needed, as the drawing counts them."""
    return sum(node.kind == "op" and not node.dead for node in notebook.run("%graph").result.nodes)


def shown():
    return inspection(last_compilation())


def header(captured):
    return captured.outputs[-1].data["text/plain"].split("\n")[0]


def own(data):
    """The cell, and the operations by name, of which each belongs to one of the programs shown."""
    names = sorted(node["name"] for node in data["nodes"] if node["kind"] == "op" and not node["dead"])
    assert len(names) == sum(program["operations"] for program in data["programs"])
    assert len(data["clusters"]) == sum(
        cluster["program"] < len(data["programs"]) for cluster in data["clusters"]
    )
    return data["cell"], names


def apart(data):
    """By cell, the operations that it had left, and the lines that wrote them with their operations."""
    found = {}
    for left in data["earlier"]:
        lines = {
            tuple(map(int, re.findall(r"\d+", line["label"]))): line["operations"] for line in left["lines"]
        }
        assert sum(lines.values()) == left["operations"]
        found[left["cell"]] = lines
    return found


# ---- one cell after another --------------------------------------------------------------------------------


def test_pending_random_numbers_of_an_earlier_cell_are_shown_apart(cells):
    cells.run(RANDOM)  # 4
    waiting = pending(cells)  # 5
    captured = cells.run("%%compile report\njax.nn.sigmoid(X @ w)")  # 6: matmul and sigmoid
    data = shown()
    assert own(data) == (6, ["matmul", "sigmoid"])
    assert (
        len(data["programs"]) == 1
        and cells["report"] is last_compilation()
        and cells["report"].operations == 2
    )
    assert [left["cell"] for left in data["earlier"]] == [4]
    assert data["earlier"][0]["operations"] == waiting > 2
    assert {cell for cell, _ in apart(data)[4]} == {4}
    kernels = sum(cluster["kind"] != "control" for cluster in data["clusters"])
    left = sum(cluster.kind != "control" for cluster in last_compilation().earlier[0].clusters)
    assert header(captured).startswith(f"2 operations → {kernels} kernels · recorded in cell 6 · ")
    assert header(captured).endswith(
        f"apart: {waiting} operations that earlier cells left pending, from cell 4 → {left} kernels"
    )
    html = captured.outputs[-1].data["text/html"]
    assert "What earlier cells had left pending" in html and "jax.random.split(key)" in html


def test_values_are_those_of_the_same_cells_eagerly(cells):
    cells.run(RANDOM)
    cells.run("%%compile\ny = jax.nn.sigmoid(X @ w)\ny")
    cells.run(f"%%eager{RANDOM.replace('    ', '')}e = jax.nn.sigmoid(X @ w)")
    assert (np.asarray(cells["y"]) == np.asarray(cells["e"])).all()


def test_operations_left_pending_by_predict_are_shown_apart(cells):
    cells.run(RANDOM)  # 4
    cells.run("%%predict 2\ny = jax.nn.sigmoid(X @ w)")  # 5
    assert own(shown()) == (5, ["matmul", "sigmoid"]) and list(apart(shown())) == [4]
    cells.run("%%compile\nz = y * 2 + 1\nz")  # 6
    assert own(shown()) == (6, ["add", "multiply"])
    assert apart(shown())[5] == {(5, 2): 2} and list(apart(shown())) == [4, 5]


def test_operations_of_earlier_cells_are_counted_by_cell_and_line(cells):
    cells.run("a = jnp.sin(w)\nb = a * 2 + 1")  # 4: three operations
    cells.run("c = jnp.cos(w)\n\nd = jnp.exp(w)")  # 5: two
    captured = cells.run("%%compile\ne = jnp.tanh(w)\ne")  # 6: one, which needs none of them
    assert own(shown()) == (6, ["tanh"])
    assert apart(shown()) == {4: {(4, 1): 1, (4, 2): 2}, 5: {(5, 1): 1, (5, 3): 1}}
    assert "apart: 5 operations that earlier cells left pending, from cells 4, 5 → " in header(captured)
    assert not any(cells[name].is_pending for name in "abcde")
    captured = cells.run("%%compile\ne = jnp.tanh(w)\ne")
    assert not shown()["earlier"] and "apart" not in header(captured)


def test_unreachable_operations_of_earlier_cells_are_not_counted(cells):
    cells.run("a = jnp.sin(w)\nb = jnp.cos(w)")  # 4
    cells.run("del a")
    cells.run("%%compile\njnp.tanh(w)")
    assert apart(shown()) == {4: {(4, 2): 1}}


def test_no_run_shows_earlier_operations_apart_and_runs_nothing(cells):
    cells.run("a = jnp.sin(w)")  # 4
    captured = cells.run("%%compile --no-run\njnp.tanh(a)")  # 5
    assert own(shown()) == (5, ["tanh"]) and apart(shown()) == {4: {(4, 1): 1}}
    assert "not run" in header(captured) and cells["a"].is_pending


def test_an_error_after_a_break_shows_what_ran(cells):
    captured = cells.run(
        "%%compile\na = jnp.sin(w) * 2\nn = float(a[1])\nb = jnp.cos(w) + n\n1 / 0", error=ZeroDivisionError
    )
    assert "it ran at a trace break" in header(captured) and "recorded in cell 4" in header(captured)
    assert [program["runs"] for program in shown()["programs"]] == [1]
    assert "cos" not in own(shown())[1] and cells["b"].is_pending
    captured = cells.run("%%compile\na = jnp.sin(w) * 3\n1 / 0", error=ZeroDivisionError)
    assert not captured.outputs  # nothing ran


def test_as_jit_after_several_breaks_shows_what_ran(cells):
    captured = cells.run(
        "%%compile both --as-jit\na = jnp.sin(w)\nm = float(a[1])\nb = a + m\nn = float(b[2])\nb * n"
    )
    assert "2 of them ran at a trace break" in header(captured)
    data = inspection(cells["both"][0])
    assert [program["runs"] for program in data["programs"]] == [1, 1, 0]
    assert "line 3 needed a value" in data["other"]["why"]


# ---- cells that record nothing -----------------------------------------------------------------------------


def test_compiling_a_value_of_an_earlier_cell_shows_that_cell(cells):
    cells.run("V = jnp.cos(w) * 3")  # 4
    captured = cells.run("%%compile\nV")  # 5
    assert own(shown()) == (4, ["cos", "multiply"]) and not shown()["earlier"]
    assert "recorded in cell 4" in header(captured)
    assert header(cells.run("%%compile\nV")) == "Nothing was pending"


def test_compiling_a_precompiled_value_shows_its_cell_and_a_cache_hit(cells):
    cells.run("V = jnp.cos(w) * 3")  # 4
    cells.run("%%compile --no-run\nV")
    captured = cells.run("%%compile\nV")
    assert own(shown()) == (4, ["cos", "multiply"]) and "cache hit" in header(captured)


def test_compiling_a_value_of_one_earlier_cell_shows_the_other_apart(cells):
    cells.run("V = jnp.cos(w) * 3")  # 4
    cells.run("U = jnp.sin(w)")  # 5
    cells.run("%%compile\nV")
    assert own(shown()) == (4, ["cos", "multiply"]) and apart(shown()) == {5: {(5, 1): 1}}


def test_a_cell_without_operations_shows_only_earlier_operations(cells):
    assert header(cells.run("%%compile\n1 + 1")) == "Nothing was pending"
    cells.run("V = jnp.cos(w) * 3")  # 5
    captured = cells.run("%%compile\n1 + 1")
    assert own(shown()) == (6, []) and apart(shown()) == {5: {(5, 1): 2}}
    assert header(captured).startswith("The cell recorded no operations · apart: 2 operations that")
    html = captured.outputs[-1].data["text/html"]
    assert "jnp.cos(w) * 3" in html and "<th" in html and "Optimised HLO" not in html
    assert not cells["V"].is_pending


def test_printing_a_pending_value_shows_the_cell_that_recorded_it(cells):
    cells.run("V = jnp.cos(w) * 3")  # 4
    captured = cells.run("%%compile\nprint(V)")
    assert own(shown()) == (4, ["cos", "multiply"]) and "recorded in cell 4" in header(captured)


# ---- several programs in one cell --------------------------------------------------------------------------


def test_a_break_in_the_middle_shows_both_programs(cells):
    cells.run("a = jnp.sin(w)")  # 4
    captured = cells.run(
        """
        %%compile
        h = a * 3
        if h.sum() > 1e9:
            y = jnp.tanh(h)
        else:
            y = jnp.exp(h) - 1
        y""".strip("\n")
        .replace("        %%", "%%", 1)
        .replace("\n        ", "\n")
    )  # 5
    data = shown()
    assert own(data) == (5, ["exp", "greater", "multiply", "reduce_sum", "subtract"])
    assert [program["operations"] for program in data["programs"]] == [3, 2]
    assert [program["runs"] for program in data["programs"]] == [1, 0]
    assert apart(data) == {4: {(4, 1): 1}}
    assert "2 programs, one after the other · 1 of them ran at a trace break" in header(captured)
    assert header(captured).startswith("5 operations → ")


def test_a_program_that_ran_at_breaks_in_a_loop_has_its_run_count(cells):
    captured = cells.run(
        "%%compile\nt = w\nfor i in range(5):\n    t = t * 2\n    if t.sum() > 1e9: break\nt + 1"
    )
    assert [program["runs"] for program in shown()["programs"]] == [5, 0]
    assert own(shown()) == (4, ["add", "greater", "multiply", "reduce_sum"])
    assert "1 of them ran at a trace break, 5 times" in header(captured)


def test_a_cell_that_ran_entirely_at_a_break_is_shown(cells):
    captured = cells.run("%%compile\nprint(w + 1)")
    assert own(shown()) == (4, ["add"]) and "it ran at a trace break" in header(captured)
    captured = cells.run("%%compile --no-run\nprint(w + 2)")
    assert own(shown()) == (5, ["add"]) and "not run" not in header(captured)


def test_programs_over_the_limit_are_counted_in_a_note(cells):
    lines = "\n".join(f"print((w * {number}).sum())" for number in range(40))
    captured = cells.run(f"%%compile\n{lines}\nw + 1")
    data = shown()
    [note] = [note for note in data["notes"] if "not shown here" in note]
    hidden = int(re.search(r"ran (\d+) other programs", note)[1])
    assert len(data["programs"]) + hidden == 41 and data["nodes"][-1]["name"] == "add"
    assert header(captured).startswith(f"{2 * (len(data['programs']) - 1) + 1} operations")


def test_a_prediction_across_programs_is_wrong_because_the_trace_was_cut(cells):
    """Kernels of two programs may have one name: they are two."""
    cells.run("%%predict 2 4\na = w * 3\nprint(a)\nb = w * a\nb")
    text = cells.run("%inspect").shown["text/plain"]
    assert "2 programs" in text
    captured = cells.run("%%predict 2 4\na = w * 3\nprint(a)\nb = a * w\nb")
    text = captured.outputs[-1].data["text/plain"]
    assert "0 of 1 right" in text and "the trace was cut between them" in text


# ---- who wrote a line, and who recorded it -----------------------------------------------------------------


def test_operations_of_a_function_belong_to_the_calling_cell(cells):
    cells.run("def f(x):\n    return jnp.tanh(x) + 1")  # 4
    cells.run("def g(x):\n    return f(x) * 2")  # 5
    cells.run("V = g(w)")  # 6
    cells.run("%%compile\nf(V)")  # 7
    data = shown()
    assert own(data) == (7, ["add", "tanh"])
    assert apart(data) == {6: {(4, 2): 2, (5, 2): 1}}
    assert {node["place"]["cell"] for node in data["nodes"] if node["kind"] == "op"} == {4}


def test_a_rerun_cell_replaces_its_former_pending_operations(cells):
    cells.run("V = jnp.cos(w)")  # 4
    cells.run("V = jnp.cos(w)")  # 5: the value of cell 4 is gone
    cells.run("%%compile\nV * 2")  # 6
    assert own(shown()) == (6, ["multiply"]) and list(apart(shown())) == [5]
    cells.run("kept = [V := jnp.cos(w)]")  # 7
    cells.run("kept += [V := jnp.sin(w)]")  # 8
    captured = cells.run("%%compile\nV * 2")  # 9
    assert own(shown()) == (9, ["multiply"]) and "cache hit" in header(captured)
    assert apart(shown()) == {7: {(7, 1): 1}, 8: {(8, 1): 1}}


def test_operations_of_failed_cells_are_shown_apart(cells):
    cells.run("V = jnp.cos(w)\nU = V * 2\n1 / 0", error=ZeroDivisionError)  # 4
    cells.run("%%compile\nT = jnp.sin(w)\nundefined", error=NameError)  # 5
    cells.run("%%compile\nU + 1")  # 6
    assert own(shown()) == (6, ["add"])
    assert apart(shown()) == {4: {(4, 1): 1, (4, 2): 1}, 5: {(5, 2): 1}}


def test_operations_of_a_nested_cell_are_counted_once(cells):
    cells.run("a = jnp.sin(w)\nget_ipython().run_cell('b = jnp.cos(w)')\nc = jnp.exp(w)")  # 4
    cells.run("%%compile\nd = jnp.tanh(w)\nget_ipython().run_cell('e = d + 1')\ne * d")
    assert own(shown())[1] == ["add", "multiply", "tanh"]
    [(_, lines)] = [*apart(shown()).items()] if len(apart(shown())) == 1 else [(None, {})]
    counted = sum(left["operations"] for left in shown()["earlier"])
    assert counted == 3, lines


def test_compile_called_inside_a_cell_shows_that_cell(cells):
    cells.run("a = jnp.sin(w)")  # 4
    cells.run("b = jnp.cos(w)\nget_ipython().run_cell_magic('compile', '', 'b * 2')")  # 5
    assert own(shown()) == (5, ["cos", "multiply"]) and apart(shown()) == {4: {(4, 1): 1}}


# ---- afterwards --------------------------------------------------------------------------------------------


def test_inspect_after_compile_shows_the_cells_own_operations(cells):
    cells.run(RANDOM)
    cells.run("%%compile report\njax.nn.sigmoid(X @ w)")
    for expression in ("", "report"):
        assert cells.run(f"%inspect {expression}").shown["text/plain"].startswith("2 operations → ")
    cells.run("import lazynb")
    assert repr(cells.run("lazynb.inspect()").result).startswith("2 operations → ")
    assert repr(cells.run("lazynb.inspect(report.earlier[0])").result).split(" operations")[0] != "2"


def test_the_panel_shows_the_operations_of_the_cell_apart_from_earlier_ones(cells):
    """JupyterLab's panel shows what a cell ran by the same account."""
    cells.run("a = jnp.sin(w)")  # 4
    leftovers = cells.shell.find_line_magic("lazy").__self__._extension.leftovers
    cells.run("found = []")
    cells.shell.user_ns["begin"] = lambda: CellPrograms(leftovers.earlier, cells.shell.user_ns, 6)
    cells.run("""
        from lazynb.running.observers import observing
        runs = begin()
        with observing(runs):
            b = a * 3
            print(b)
            b + 1
    """)  # 6
    data = inspection(cells["runs"].compilation())
    assert own(data) == (6, ["multiply"]) and apart(data) == {4: {(4, 1): 1}}
    assert inspection_phrases.headline(data) == "1 operation → 1 kernel"
