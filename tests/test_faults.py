"""The faults that `make faults` plants."""

from __future__ import annotations

import ast

import pytest

from tests.faults.planting import BEGUN, FAILED, ROOT, Fault, faults

TEXT = "a = 1\nb = f(\n    a\n)\n\na = 1\n"


def test_a_fault_replaces_its_lines_alone():
    fault = Fault("lazynb/one.py", 2, "remove-call", "b = f(\n    a\n)", "pass")
    assert fault.lines(TEXT) == range(2, 5)
    assert fault.planted(TEXT) == "a = 1\npass\n\na = 1\n"


@pytest.mark.parametrize(("line", "first"), [(1, 1), (2, 1), (5, 6), (90, 6)])
def test_of_several_places_the_nearest_has_the_fault(line, first):
    assert Fault("lazynb/one.py", line, "AddNot", "a = 1", "a = 2").lines(TEXT) == range(first, first + 1)


def test_a_fault_whose_text_is_gone_has_no_lines():
    assert Fault("lazynb/one.py", 1, "AddNot", "a = 1\nb", "a = 2").lines(TEXT) is None


def test_every_fault_that_has_a_place_gives_another_program():
    places = 0
    for fault in faults():
        text = (ROOT / fault.file).read_text() if (ROOT / fault.file).exists() else ""
        if fault.lines(text) is None:
            continue
        places += 1
        planted = fault.planted(text)
        assert planted != text
        if not fault.is_in_c:
            assert ast.dump(ast.parse(planted)) != ast.dump(ast.parse(text)), fault
    assert places


def test_the_failed_test_and_the_one_that_hangs_are_read_from_pytests_output():
    output = "tests/a/test_b.py::test_one[x - y] PASSED [ 50%]\ntests/a/test_b.py::test_two[a b] "
    assert BEGUN.findall(output)[-1].strip() == "tests/a/test_b.py::test_two[a b]"
    closing = "= short test summary info =\nFAILED tests/a/test_b.py::test_one[x - y] - AssertionError: no\n1 failed"
    assert FAILED.search(closing)[1] == "tests/a/test_b.py::test_one[x - y]"
