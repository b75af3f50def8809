"""Random programs with a random edit: what is told is the edit that was made.

``LAZYNB_RANDOM=1 LAZYNB_PROGRAMS=300`` looks at 300 new ones. The full tier has 1,000.
"""

from __future__ import annotations

import os

import pytest
import tiers

hypothesis = pytest.importorskip("hypothesis")

from execute.miss_programs import DATA, cases  # noqa: E402
from execute.test_misses import Cells, compiled_later, told  # noqa: E402

import lazynb  # noqa: E402
from lazynb.running.trace_executable import Executable  # noqa: E402

INSIDE = "in `lambda`: "
COUNT = int(os.environ.get("LAZYNB_PROGRAMS") or (1_000 if tiers.FULL else 40))


def run(case):
    """What is told of each miss after the edit, and the exceptions."""
    lazynb.sync()
    lazynb.clear_cache()
    cells = Cells()
    cells.number = 1
    cells.outside(DATA)
    before = cells.run_all(case.before or [""])[1]
    misses, after = cells.run_all(case.after)
    return [[_plain(cause) for cause in told(miss)] for miss in misses], before + after


def _plain(cause):
    """A cause without the jitted function that it is in: whether that is told depends on what is like it.
    Whether a number becomes an input depends on the lines before it."""
    kind, text = cause
    if kind == "constant":
        return kind, text.rpartition(": ")[0]
    return ("replaced", text.removeprefix(INSIDE)) if text.startswith(INSIDE) else cause


@pytest.fixture
def quick(monkeypatch):
    """Without XLA's work, which is none of this test's matter: what is told comes from what is recorded."""
    monkeypatch.setattr(Executable, "compile", compiled_later)


@hypothesis.settings(max_examples=COUNT, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(cases)
def test_the_explained_miss_cause_is_the_edit_that_was_made(quick, case):
    found, raised = run(case)
    assert list(map(frozenset, found)) == list(case.misses) and raised == list(case.raised)
    assert all(len(set(causes)) == len(causes) for causes in found)
