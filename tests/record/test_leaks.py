"""Remembered calls give back each reference that they take, also where they fail."""

from __future__ import annotations

import ctypes

import pytest
from call_kinds import KINDS, X
from leaks import left_behind
from random_calls import FAST, PURE
from references import LEAST

from lazynb.record.fast import accelerator

built = pytest.mark.skipif(accelerator._fast is None, reason=accelerator.describe())

# Those of a few milliseconds; ``python tests/record/leaks.py`` has all.
QUICK = (
    "arrays numbers numbers_of_numpy tensors words_and_values lists argument_returned wrong_arguments "
    "failing_hashes failing_functions deleted from_other_frames calls_themselves configured_again "
    "handed_over handed_over_with_an_error jitted of_many_arguments places"
).split()


@built
def test_nothing_is_left_behind(clean):
    found = left_behind(QUICK, FAST, times=10)
    assert not found.leaks, str(found)


take = ctypes.pythonapi.Py_IncRef
take.argtypes = [ctypes.py_object]


def test_references_that_are_not_given_back_are_found(clean, monkeypatch):
    def leaking(calls):
        take(X)
        take(float(len(calls)))  # which nobody knows afterwards

    monkeypatch.setitem(KINDS, "leaking", leaking)
    found = left_behind(["leaking"], PURE, times=10)
    assert [name.split()[0] for name in found.gained] == ["ArrayImpl"] and found.blocks > LEAST
