"""What is said of the breaks of random programs is so."""

from __future__ import annotations

import pytest

from tests.breaks.random_programs import Writer
from tests.breaks.statements import failures


@pytest.mark.parametrize("start", range(0, 40, 10))
def test_break_reports_of_random_programs_are_correct(start, clean, no_other_loop):
    assert {seed: found for seed in range(start, start + 10) if (found := failures(seed))} == {}


@pytest.mark.full
@pytest.mark.parametrize("start", range(10_000, 10_300, 50))
def test_break_reports_of_more_random_programs_are_correct(start, clean, no_other_loop):
    assert {seed: found for seed in range(start, start + 50) if (found := failures(seed))} == {}


def test_the_program_generator_covers_each_break_code_and_statement_kind():
    """All that Python itself can ask for, and in each kind of statement."""
    texts = [file.text for seed in range(200) for file in Writer(seed).files]
    codes = {
        code
        for seed in range(200)
        for file in Writer(seed).files
        for several in file.codes.values()
        for code in several
    }
    assert codes >= {f"LNB{number}" for number in (*range(101, 111), 112, 113, 116, 117, 119, 201, 202)}
    for statement in (
        "while ",
        "except ",
        "lambda ",
        "yield",
        "with ",
        "class ",
        "exec(",
        "eval(",
        "from random_",
    ):
        assert any(statement in text for text in texts)
