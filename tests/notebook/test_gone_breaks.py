"""A break that was cured is marked as gone when its cell has run again."""

from __future__ import annotations

import lazynb

BROKEN = "x = jnp.ones(4) * 2\ntotal = float(x.sum())\nif x[0] > 1:\n    y = x"
CURED = "x = jnp.ones(4) * 2\nif x[0] > 1:\n    y = x"


def run(notebook, cell, identity=None):
    """Runs a cell that the front end knows by ``identity``; its execution count."""
    number = notebook.shell.execution_count
    notebook.shell.run_cell(cell, store_history=True, cell_id=identity)
    return number


def gone():
    return {(one.code, one.location.text): one.gone_since for one in lazynb.breaks()}


def test_a_cured_break_is_gone_since_the_run_that_cured_it(notebook):
    run(notebook, BROKEN, "a")
    assert set(gone().values()) == {None}
    cured = run(notebook, CURED, "a")
    run(notebook, CURED, "a")
    assert gone() == {("LNB103", "total = float(x.sum())"): cured, ("LNB101", "if x[0] > 1:"): None}
    assert f"gone since run {cured}" in repr(lazynb.breaks())
    assert f"gone since run {cured}" in lazynb.breaks()._repr_html_()
    assert "1 did not come again when its cell ran anew" in lazynb.breaks().summary
    assert [one.gone_since for one in lazynb.breaks()][-1] == cured


def test_the_same_cell_again_cures_nothing(notebook):
    for _ in range(3):
        run(notebook, BROKEN, "a")
    assert set(gone().values()) == {None}


def test_another_cell_cures_nothing(notebook):
    run(notebook, BROKEN, "a")
    run(notebook, CURED, "b")
    assert gone()["LNB103", "total = float(x.sum())"] is None


def test_a_run_that_failed_cures_nothing(notebook):
    run(notebook, BROKEN, "a")
    run(notebook, "1 / 0\n" + CURED, "a")
    assert gone()["LNB103", "total = float(x.sum())"] is None
    cured = run(notebook, CURED, "a")
    assert gone()["LNB103", "total = float(x.sum())"] == cured


def test_a_break_that_comes_back_is_there_again(notebook):
    for cell in (BROKEN, CURED, BROKEN):
        run(notebook, cell, "a")
    assert set(gone().values()) == {None}


def test_a_break_in_a_redefined_function_is_gone_after_its_caller_runs(notebook):
    run(notebook, "def f(x):\n    return float(x.sum())", "def")
    run(notebook, "f(jnp.ones(3) * 2)", "use")
    run(notebook, "def f(x):\n    return x.sum()", "def")
    assert gone()["LNB103", "return float(x.sum())"] is None  # not known yet
    cured = run(notebook, "f(jnp.ones(3) * 2)", "use")
    assert gone()["LNB103", "return float(x.sum())"] == cured


def test_a_break_of_two_cells_is_gone_after_both_run(notebook):
    run(notebook, "def f(x, read):\n    return float(x.sum()) if read else x", "def")
    for cell in ("a", "b"):
        run(notebook, "f(jnp.ones(3) * 2, True)", cell)
    text = "return float(x.sum()) if read else x"
    run(notebook, "f(jnp.ones(3) * 2, False)", "a")
    assert gone()["LNB103", text] is None
    last = run(notebook, "f(jnp.ones(3) * 2, False)", "b")
    assert gone()["LNB103", text] == last


def test_a_front_end_without_ids_knows_a_cell_by_its_text(notebook):
    notebook.run("read = True")
    cell = "x = jnp.ones(3) * 2\nif read:\n    print(x)"
    run(notebook, cell)
    assert set(gone().values()) == {None}
    notebook.run("read = False")
    cured = run(notebook, cell)
    assert set(gone().values()) == {cured}


def test_the_totals_of_the_status_and_of_the_list_are_the_same(notebook):
    for cell in (BROKEN, CURED, "for i in range(3):\n    float(jnp.ones(2).sum() + i)"):
        run(notebook, cell, str(len(cell)))
    total = lazynb.breaks().total
    assert total == sum(one.count for one in lazynb.breaks())
    assert f"{total} trace breaks" in notebook.run("%lazy").stdout
    assert lazynb.breaks().summary.startswith(f"{total} trace breaks in ")
