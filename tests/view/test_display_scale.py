"""Showing 10,000 pending operations takes a time in proportion to their number, however the code that
recorded them looks."""

from __future__ import annotations

import contextlib
import random

import jax.numpy as jnp
import pytest

import lazynb
from lazynb.report.graph.graph_layout import LayoutUnavailable, run_engine
from lazynb.user_code import call_stack
from tests.timing import cpu_seconds

COUNT = 10_000


def chain(x):
    for _ in range(COUNT):
        x = jnp.sin(x)
    return x


def fan(x):
    total = x
    for part in [x * 2.0 for _ in range(COUNT // 2)]:
        total = total + part
    return total


def written_out(x):
    """Each operation on a line of its own, of a file that is not there."""
    scope = {"x": x}
    exec(compile("x = x * 1.5\n" * COUNT, "written-out.py", "exec"), scope)
    return scope["x"]


def cells(x):
    scope = {"x": x}
    text = "x = x * 1.5\n" * 50
    for number in range(COUNT // 50):
        call_stack.register_cell(f"<scale-{number}>", number, text)
        exec(compile(text, f"<scale-{number}>", "exec"), scope)
    return scope["x"]


def tangle(x):
    draw, values = random.Random(0), [x]
    for _ in range(COUNT):
        values.append(
            draw.choice([jnp.add, jnp.multiply])(draw.choice(values[-50:]), draw.choice(values[-50:]))
        )
    return values[-1]


@pytest.mark.parametrize("record", [chain, fan, written_out, cells, tangle])
def test_displaying_10000_operations_takes_time_linear_in_their_number(record, clean, monkeypatch):
    monkeypatch.setattr(
        lazynb.config, "max_program", 2 * COUNT
    )  # one trace, gone with its result: the next test runs nothing
    with contextlib.suppress(LayoutUnavailable):
        run_engine("digraph { 1 }")  # an engine that has to be loaded is loaded once
    with lazynb.lazy():
        y = record(jnp.ones((8, 8)))
        assert (
            cpu_seconds(y._repr_mimebundle_, runs=2) < 2.5
        )  # 0.2 to 0.6 on a quiet machine; written out it took 30
        view = lazynb.graph(y).view()
    assert len(view.boxes) <= 150
