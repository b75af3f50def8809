"""Remembered calls give back each reference that they take, also where they fail.

In a process of its own: in one that has run a thousand tests to count all objects takes minutes, and their
caches grow in between.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lazynb.recording.replay import native_replay

built = pytest.mark.skipif(native_replay._fast is None, reason=native_replay.describe())

# Those of a few milliseconds; ``python tests/record/leaks.py`` has all.
QUICK = (
    "arrays numbers numbers_of_numpy tensors words_and_values lists argument_returned wrong_arguments "
    "failing_hashes failing_functions deleted from_other_frames calls_themselves configured_again "
    "handed_over handed_over_with_an_error jitted of_many_arguments places"
)

LEAKING = """
import ctypes
from call_kinds import KINDS, X

take = ctypes.pythonapi.Py_IncRef
take.argtypes = [ctypes.py_object]

def leaking(calls):
    take(X)
    take(float(len(calls)))  # which nobody knows afterwards

KINDS["leaking"] = leaking
"""


def found(program: str) -> str:
    """What a program that can import this folder's modules prints."""
    done = subprocess.run(
        [sys.executable, "-c", f"import leaks\n{program}"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@built
def test_recalled_calls_leave_no_references_behind():
    said = found(f"""
found = leaks.left_behind({QUICK!r}.split(), leaks.FAST, times=10)
print(found.leaks, found)
""")
    assert said.startswith("False "), said


def test_the_leak_check_finds_a_planted_leak():
    said = found(f"""{LEAKING}
found = leaks.left_behind(["leaking"], leaks.PURE, times=10)
print(*(name.split()[0] for name in found.gained), found.blocks > leaks.LEAST)
""")
    assert said == "ArrayImpl True\n", said
