"""Transcendentals beside FLOPs, and costs by line: in data, text and the static form."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import lazynb
from lazynb.report.inspection.inspection_data import inspection
from lazynb.report.inspection.inspection_html import to_html
from lazynb.report.inspection.inspection_phrases import flops_text, line_costs, total
from lazynb.report.inspection.inspection_text import to_text

ROWS, COLUMNS = 64, 128


@pytest.fixture
def made(clean):
    """``tanh`` and a product of matrices on two lines, each a kernel."""
    x, w = jnp.ones((ROWS, COLUMNS)), jnp.ones((COLUMNS, COLUMNS))
    with lazynb.lazy():
        h = jnp.tanh(x)
        out = h @ w
        compilation = lazynb.compile(out)
    yield compilation
    del h, out


def test_transcendentals_are_counted_beside_flops(made):
    data = inspection(made)
    first, second = line_costs(data["clusters"])
    assert (first.flops, first.transcendentals) == (0.0, ROWS * COLUMNS)
    assert (second.flops, second.transcendentals) == (2 * ROWS * COLUMNS * COLUMNS, 0.0)
    assert second.place["line"] == first.place["line"] + 1
    assert first.clusters == [0] and second.clusters == [1]


def test_line_costs_are_in_text_and_html(made):
    data = inspection(made)
    text, html = to_text(data), to_html(data, made.snapshot)
    assert "0 FLOPs + 8.2 k transc." in text and "2.1 M FLOPs" in text
    assert "Cost by line, each kernel on the line that most of it was written on:" in text
    assert ">transcendentals<" in html and "transcendentals 8.2 k, bytes read and written" in html
    assert "each kernel on the line that most of it was written on" in html


def test_one_line_has_no_table_of_lines(clean):
    with lazynb.lazy():
        out = jnp.ones((64, 64)) * 2
        compilation = lazynb.compile(out)
    data = inspection(compilation)
    assert "by line" not in to_text(data) and "By line" not in to_html(data, compilation.snapshot)
    assert ">transcendentals<" not in to_html(data, compilation.snapshot)


def test_loop_costs_count_once_per_iteration(clean):
    x = jnp.ones((64, 64))
    with lazynb.lazy():
        out = jax.lax.fori_loop(0, 5, lambda _, v: jnp.sin(v) * 2, x)
        compilation = lazynb.compile(out)
    costs = line_costs(inspection(compilation)["clusters"])
    assert sum(cost.transcendentals or 0 for cost in costs) == 5 * 64 * 64


def test_a_line_with_an_unknown_kernel_cost_is_unknown(made):
    data = inspection(made)
    data["clusters"][0]["cost"] = None
    first, second = line_costs(data["clusters"])
    assert first.flops is None and second.flops is not None
    assert flops_text(None) == ""


def test_zero_transcendentals_are_left_out_of_the_total():
    known = {"low": 5.0, "high": 5.0}
    none = {"flops": known, "transcendentals": {"low": 0.0, "high": 0.0}, "bytes": known, "unknown": []}
    assert total(none) == "All kernels, as often as they run: FLOPs 5, bytes read and written 5 B"
