"""``%cache``: the executables, why each was no hit, and one miss explained."""

from __future__ import annotations

from IPython.core.error import UsageError

import lazynb


def test_cache_lists_executables_and_misses_with_cells(notebook):
    notebook.run("x = jnp.ones((4, 3))")
    notebook.run("y = jnp.sin(x)\nprint(float(y.sum()))")
    notebook.run("y = jnp.sin(x)\ny = y * 2\nprint(float(y.sum()))")
    shown = notebook.run("%cache").shown
    for text in shown["text/plain"], shown["text/html"]:
        assert "was added: cell 5, line 2" in text and "what to do" in text and "cell 4" in text
    assert "`multiply`" in shown["text/plain"] and "<code>multiply</code>" in shown["text/html"]


def test_miss_causes_name_variables_and_cells_of_the_notebook(notebook):
    notebook.run("x = jnp.ones((4, 3))\nimport lazynb\nlazynb.sync()")
    cell = "y = jnp.sin(x)\nprint(float(y.sum()))"
    notebook.run(cell)
    notebook.run("x = jnp.ones((5, 3))\nlazynb.sync()")
    number = notebook.shell.execution_count
    notebook.run(cell)
    assert lazynb.cache_info().missed[-1].cause == f"`x` is (5, 3), was (4, 3): cell {number}, line 1"


def test_cache_with_a_number_explains_that_miss(notebook):
    notebook.run("x = jnp.ones((4, 3))")
    notebook.run("y = jnp.sin(x)\nprint(float(y.sum()))")
    notebook.run("y = jnp.cos(x)\nprint(float(y.sum()))")
    number = lazynb.cache_info().missed[-1].number
    shown = notebook.run(f"%cache {number}").shown
    assert "`cos` in place of `sin`" in shown["text/plain"] and "~" in shown["text/plain"]
    assert "<img" in shown["text/html"] or "No drawing" in shown["text/html"]


def test_cache_runs_and_compiles_nothing(notebook):
    notebook.run("x = jnp.ones((4, 3))\nprint(x.sum())")
    notebook.run("y = jnp.sin(x)")
    before = lazynb.cache_info().misses, len(lazynb.events())
    notebook.run("%cache")
    notebook.run("%cache 0")
    assert (lazynb.cache_info().misses, len(lazynb.events())) == before and notebook["y"].is_pending


def test_a_wrong_number_says_which_there_are(notebook):
    assert "nothing was compiled yet" in str(notebook.run("%cache 0", error=UsageError).error)
    notebook.run("print(jnp.sin(jnp.ones(3)))")
    assert "there is no miss 5; there is 0" in str(notebook.run("%cache 5", error=UsageError).error)
    assert "not 'maybe'" in str(notebook.run("%cache maybe", error=UsageError).error)


def test_cache_has_help_and_cache_clear_empties_it(notebook):
    text = notebook.run("%cache?").stdout + str(lazynb.notebook.extension.LazyMagics.cache.__doc__)
    assert "explain the miss" in text and "forget" in text
    notebook.run("print(jnp.sin(jnp.ones(3)))")
    notebook.run("%cache clear")
    assert len(lazynb.cache_info()) == 0 and len(lazynb.cache_info().missed) == 0
