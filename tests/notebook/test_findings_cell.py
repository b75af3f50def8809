"""Findings of a cell: what its last expression gives is wanted, what a name keeps beside is told."""

from __future__ import annotations

import pytest

CELL = """
h = jnp.tanh(x) * 2
k = h + 1
out = (k @ w).sum()
{last}"""


@pytest.fixture
def arrays(notebook):
    notebook.run("x, w = jnp.ones((256, 512)), jnp.ones((512, 512))")
    notebook.run("import lazynb; lazynb.sync()")
    return notebook


def kept(notebook, last: str) -> list[tuple[str, ...]]:
    notebook.run("%%compile made" + CELL.format(last=last))
    return [finding.variables for finding in notebook["made"].findings if finding.kind == "held"]


@pytest.mark.parametrize(
    "last, variables",
    [("out", [("h", "k")]), ("h", [("k",)]), ("h, k", []), ("del h, k\nout", [])],
)
def test_the_last_expression_of_a_cell_is_not_reported_as_held(arrays, last, variables):
    assert kept(arrays, last) == variables


def test_values_read_at_a_trace_break_are_not_reported_as_held(arrays):
    arrays.run("%%compile made\nh = jnp.tanh(x) * 2\nk = h + 1\nprint(k.sum())\nk.mean()")
    made = arrays["made"]
    assert made.runs[0] and not [one for one in made.findings if one.kind == "held" and one.program == 0]


def test_the_static_form_shows_the_findings(arrays):
    shown = arrays.run("%%compile made" + CELL.format(last="out"))
    html = "".join(output.data.get("text/html", "") for output in shown.outputs)
    assert "their names still hold them" in html
