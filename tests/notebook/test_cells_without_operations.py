"""``%%compile`` of a cell that records nothing says what to do; after a break it shows what ran."""

from __future__ import annotations

import pytest


def header(captured):
    return captured.outputs[-1].data["text/plain"].split("\n")[0]


@pytest.fixture
def cells(notebook):
    notebook.run("import lazynb\nfrom functools import partial\nx = jnp.ones(8)\nlazynb.sync()")
    return notebook


DEFINES = [
    ("def step(v):\n    return jnp.tanh(v) * 2", "`step`", "lazynb.inspect(step, v)"),
    ("@jax.jit\ndef step(w, x, rate=0.1):\n    return w @ x", "`step`", "lazynb.inspect(step, w, x)"),
    ("step = jax.jit(lambda v: jnp.tanh(v))", "`step`", "lazynb.inspect(step, v)"),
    ("def loss(w): return w.sum()\nslope = jax.grad(loss)", "`slope`", "lazynb.inspect(slope, w)"),
    ("def a(v): return v\ndef b(u): return a(u)", "`a`, `b`", "lazynb.inspect(b, u)"),
    ("import math\nrate = 0.1\ndef main(): return jnp.ones(3)", "`main`", "lazynb.inspect(main)"),
    ("def f(*parts): return sum(parts)", "`f`", "lazynb.inspect(f, ...)"),
    ("@partial(jax.jit, static_argnames='n')\ndef f(v, *, n): return v * n", "`f`", "inspect(f, v, n=...)"),
    ("class Model:\n    def __call__(self, x): return x\nmodel = Model()", "`model`", "inspect(model, x)"),
]


@pytest.mark.parametrize("body, names, call", DEFINES)
def test_a_cell_that_defines_functions_says_how_to_look_at_them(cells, body, names, call):
    said = header(cells.run(f"%%compile\n{body}"))
    assert said.startswith(f"This cell only defines {names}, and records no operations: call ")
    assert call in said and "Nothing was pending" not in said


@pytest.mark.parametrize(
    "body",
    [
        "3",
        "rate = 0.1",
        "import math",
        "class Model:\n    pass",
        "def words(n): return 'a' * n\nprint(words(3))",  # it was called, and has no arrays
        "async def f(v): return v",
        "def turns(v):\n    yield v",
        "from math import sin as f",
        "name = 'step'\nvalue = len",  # Python's own
    ],
)
def test_other_cells_without_operations_report_that_nothing_was_pending(cells, body):
    assert header(cells.run(f"%%compile\n{body}")) == "Nothing was pending"


def test_a_cell_that_defines_and_runs_code_is_reported_as_both(cells):
    said = header(cells.run("%%compile\ndef step(v): return v\nprint('there')"))
    assert said.startswith("This cell defines `step`, and records no operations: call it")


def test_operations_pending_from_earlier_cells_are_counted(cells):
    cells.run("y = x + 1")
    said = header(cells.run("%%compile\ndef step(v):\n    return v"))
    assert said.startswith("This cell only defines `step`") and "apart: 1 operation that" in said


def test_a_named_compilation_of_a_definition_suggests_inspect(cells):
    said = cells.run("%%compile made --no-run\ndef step(v):\n    return v")
    assert "lazynb.inspect(step, v)" in header(said) and not cells["made"].traces


def test_a_function_is_inspected_with_its_arguments(cells):
    cells.run("def step(v):\n    return v * 2")
    said = cells.run("%inspect step", error=TypeError)
    assert "lazynb.inspect(step, v)" in str(said.error)
    shown = repr(cells.run("lazynb.inspect(step, x)").result)
    assert shown.startswith("1 operation → 1 kernel")


# what ran: operations and kernels of each, which the cell's breaks ran already
RAN = [
    ("y = jnp.tanh(x) * 2\nprint(float(y.sum()))", "3 operations", "ran at a trace break"),
    ("y = x * 2\nlazynb.sync()", "1 operation →", "ran at a trace break"),
    ("y = x * 5\ny.block_until_ready()", "1 operation →", "ran at a trace break"),
    ("y = np.asarray(x + 3)", "1 operation →", "ran at a trace break"),
    ("for i in range(3):\n    if (x * i).sum() > 99: break", "3 operations", "ran at a trace break, 3 times"),
    ("def f(v): return v - 1\nprint(f(x))", "1 operation →", "ran at a trace break"),
]


@pytest.mark.parametrize("body, operations, words", RAN)
def test_after_a_break_the_programs_that_ran_are_shown(cells, body, operations, words):
    said = header(cells.run(f"%%compile\n{body}"))
    assert said.startswith(operations) and words in said


# ---- stages of jit in a notebook ---------------------------------------------------------------------------


def test_inspect_magic_takes_what_jit_lowered_and_compiled(cells, tmp_path):
    cells.run("def step(v):\n    return jnp.tanh(v) * 2\nlowered = jax.jit(step).lower(x)")
    assert "cell " in header_of(cells.run("%inspect lowered"))
    said = cells.run("%inspect lowered.compile()").shown["text/plain"]
    assert said.startswith("2 operations → 1 kernel · given compiled · 100 % of") and "not run" not in said
    assert "Note: This program was given compiled." in said
    saved = tmp_path / "step.json"
    cells.run(f"lazynb.compile(lowered.compile()).save_json({str(saved)!r})")
    again = repr(cells.run(f"lazynb.inspect({str(saved)!r})").result)
    assert again == said


def header_of(captured):
    return captured.shown["text/plain"]
