"""A share of NumPy's own tests, with arrays that begin as lazy ones. scripts/numpy_suite.py runs all of them."""

from __future__ import annotations

import numpy_suite
import pytest

TABLE = numpy_suite.NumPyTable((numpy_suite.PLUGIN / "differences.toml").read_text())


@pytest.mark.parametrize("file", TABLE.share)
def test_a_share_of_numpy_s_own_tests_passes_lazily(file, capsys):
    status = numpy_suite.main([file, "--most", "20"])
    printed = capsys.readouterr().out
    assert status == 0, printed
    assert " 0 tests pass eagerly" not in printed


def test_each_reason_names_tests_of_files_that_are_run():
    folder = numpy_suite.sources()
    there = {path.relative_to(folder).with_suffix("").as_posix() for path in folder.glob("*/test_*.py")}
    named = {pattern.partition(".py")[0] for pattern in TABLE.reasons}
    assert named <= there - TABLE.left_out.keys()
