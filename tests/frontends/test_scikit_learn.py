"""scikit-learn takes arrays that can be written to by the array API standard, and docs/numpy.md says what
breaks."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.frontends import listing
from tests.frontends.scikit_learn import ROWS, table

pytest.importorskip("sklearn")

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def found(request):
    """What the rows came to that the tests of this run ask for, by their text."""
    cases = [
        item.callspec.params
        for item in request.session.items
        if item.path == request.path and hasattr(item, "callspec")
    ]
    command = [sys.executable, "-m", "tests.frontends.scikit_learn", *(case["text"] for case in cases)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("text", ROWS)
def test_estimators_give_the_results_types_and_breaks_of_the_table(text, found):
    assert found[text]["error"] < 1e-4
    assert found[text]["same type"]
    if version("scikit-learn").startswith("1.9."):  # the table was written with it
        assert found[text]["breaks"] == ROWS[text][1]


def test_the_page_has_the_table():
    assert table() in listing.PAGE.read_text()
