"""Lines are shown as the user typed them: a magic as a magic, with the number of its cell."""

from __future__ import annotations

import lazynb
from lazynb.user_code.cells import line_as_typed


def test_the_tables_have_the_magic_that_was_typed(notebook):
    notebook.run("x = jnp.arange(8.0)\nlazynb = __import__('lazynb')\nlazynb.sync()")
    lazynb.clear_cache()
    number = notebook.shell.execution_count
    notebook.run("\n\n%%compile made\ny = jnp.sin(x) * 2\ny")
    notebook.run("z = y + 1\n%time float(z.sum())")
    cache, events = str(lazynb.cache_info()), str(lazynb.events())
    assert f"cell {number}, line 1: %%compile made" in cache
    breaks = str(lazynb.breaks())
    assert "%time float(z.sum())" in breaks
    assert "get_ipython" not in cache + events + breaks


def test_lines_that_are_no_magic_or_ambiguous_stay_unchanged():
    cell = "%load_ext lazynb\nx = get_ipython().user_ns\n"
    compiled = ["get_ipython().run_line_magic('load_ext', 'lazynb')\n", "x = get_ipython().user_ns\n"]
    first, second = (line.strip() for line in compiled)
    assert line_as_typed("y = 1", 1, compiled, cell) == "y = 1"
    assert line_as_typed(first, 1, compiled, cell) == "%load_ext lazynb"
    assert line_as_typed(second, 2, compiled, cell) == second
    joined = "%load_ext \\\n lazynb\ny = 1"  # IPython makes one line of two
    assert line_as_typed(first, 1, [first, "y = 1"], joined) == first


def test_the_cell_that_loads_lazynb_has_its_number(notebook):
    notebook.run("%unload_ext lazynb")
    number = notebook.shell.execution_count
    notebook.run("import jax.numpy as jnp\n%load_ext lazynb\ndef double(x):\n    return x * 2")
    made = notebook.run("import lazynb\nlazynb.compile(double(jnp.arange(4.0)))").result
    (place,) = {node.place for node in made.snapshot.nodes if node.name == "multiply"}
    assert (place.label, place.text) == (f"cell {number}, line 4", "return x * 2")
