"""``%%numerics``: a cell eagerly and compiled, operation by operation."""

from __future__ import annotations

import numpy as np
from IPython.core.error import UsageError

import lazynb
from lazynb.compare.numerics import numerics_code
from lazynb.compare.numerics.value_comparison import ValueComparison


def html(captured):
    return "".join(output.data.get("text/html", "") for output in captured.outputs)


def text(captured):
    return "".join(output.data.get("text/plain", "") for output in captured.outputs)


def test_a_cell_is_compared_and_its_values_are_right(notebook):
    shown = notebook.run("""\
        %%numerics found
        x = jnp.array([1.0, 2.0, 1000.0])
        e = jnp.exp(x)
        p = e / e.sum()
        p""")
    found = notebook["found"]
    assert isinstance(found, lazynb.Numerics) and found.first is None
    born = [(one.location.line, one.name, one.kind, one.where) for one in found.nonfinite]
    assert born == [(3, "exp", "Inf", "eager and compiled"), (4, "div", "NaN", "eager and compiled")]
    assert all(one.location.cell is not None for one in found.nonfinite)
    assert "NaN" in html(shown) and "e = jnp.exp(x)" in text(shown)
    assert "nan" in shown.stdout and not notebook["p"].is_pending
    np.testing.assert_allclose(notebook["e"].tolist()[:2], np.exp([1.0, 2.0]), rtol=1e-6)


def test_a_break_is_noted_and_the_other_operations_are_compared(notebook):
    notebook.run("""\
        %%numerics found
        x = jnp.arange(3.0) * 2
        if x.sum() > 1:
            y = x + 1
        z = y * y""")
    found = notebook["found"]
    [note] = [note for note in found.notes if "needed a value" in note]
    assert "line 3" in note and "(bool)" in note and "move that line" in note
    assert {one.location.text for one in found.operations} == {"y = x + 1", "z = y * y"}
    assert notebook["z"].tolist() == [1.0, 9.0, 25.0]


def test_a_cell_without_operations_has_nothing_to_compare(notebook):
    notebook.run("%%numerics found\na = 3")
    assert not len(notebook["found"].operations) and "nothing to compare" in repr(notebook["found"])
    assert notebook["a"] == 3


def test_an_error_of_the_cell_is_raised(notebook):
    notebook.run("%%numerics\njnp.ones(3) @ jnp.ones(4)", error=TypeError)
    notebook.run("%%numerics 3x\n1", error=UsageError)


def test_an_interrupt_leaves_the_cell_pending(notebook, monkeypatch):
    def interrupted(self, code):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ValueComparison, "__init__", interrupted)
        notebook.run("%%numerics\nx = jnp.arange(3.0)\ny = jnp.cos(x) * 2", error=KeyboardInterrupt)
    assert notebook["y"].is_pending
    notebook.run("assert y.tolist()[0] == 2.0")


def test_unneeded_operations_of_earlier_cells_are_not_compared(notebook):
    notebook.run("before = jnp.arange(4.0) * 3")
    notebook.run("%%numerics found\nafter = before + 1")
    names = [one.name for one in notebook["found"].operations]
    assert "mul" in names and names[-1] == "add"  # what `after` needs
    notebook.run("%%numerics found\nother = jnp.arange(2.0) + 1")
    assert {one.location.line for one in notebook["found"].operations} == {2}


def test_a_cell_over_the_operation_limit_is_noted_and_still_computed(notebook, monkeypatch):
    monkeypatch.setattr(numerics_code, "MOST_OPERATIONS", 5)
    notebook.run("%%numerics found\nx = jnp.ones(2)\nfor _ in range(9):\n    x = x * 2 + 1")
    assert "look at up to 5" in " ".join(notebook["found"].notes)
    assert notebook["x"].tolist() == [1023.0, 1023.0]
