"""A short campaign, and that a campaign finds what is wrong."""

import contextlib
import os
import subprocess
import sys

import pytest

import lazynb

from .campaign import campaign
from .comparison import compare
from .interrupts import Aim, Interrupter
from .plants import PLANTS
from .processes import Worlds
from .programs import _OFTEN, _files, generate
from .reproducer import script

MINUTES = float(os.environ.get("LAZYNB_ENDURANCE_MINUTES", "0.33"))


def test_a_campaign_of_random_programs_finds_no_difference():
    """``.ci/run`` gives it minutes. What it finds is printed, with a program that shows it."""
    report = campaign(MINUTES * 60, os.environ.get("LAZYNB_ENDURANCE_SEED", "1"), least=12)
    print(report.text())
    for found in report.found:
        print(script(found.program, found.outcome, f"the campaign, program {found.seed}"))
    assert report.figures["values compared"] > 100
    assert report.figures["interrupts"] > 3
    assert not report.found, [(found.seed, found.finding) for found in report.found]


@pytest.mark.skipif(
    not os.environ.get("LAZYNB_ENDURANCE_FAULTS"), reason="minutes each: LAZYNB_ENDURANCE_FAULTS=1 runs them"
)
@pytest.mark.parametrize("name", PLANTS)
def test_a_campaign_finds_each_planted_fault(name):
    plant = PLANTS[name]
    report = campaign(
        90,
        "7",
        patience=0,
        only=plant.kinds,
        signals=name == "interrupts",
        until=plant.found,
        environment={"LAZYNB_ENDURANCE_PLANT": name},
    )
    assert {found.finding.what for found in report.found} & plant.found


def test_the_same_seed_gives_the_same_program():
    assert generate("3:4") == generate("3:4") != generate("3:5")


def test_signals_are_aimed_at_existing_modules():
    """A module that moves takes its name in ``programs`` along."""
    files = set(_files())
    assert set(_OFTEN) <= files
    assert {
        "recording/replay/array_functions.py",
        "recording/snapshot/trace_description.py",
        "jax_compat/xla_executables.py",
    } <= files


@pytest.mark.full
def test_a_reproducer_runs_and_fails_where_a_value_differs(tmp_path):
    with Worlds() as worlds:
        programs = (
            generate(f"5:{number}", ("updates", "trees", "views"), signals=False) for number in range(50)
        )
        program = next(one for one in programs if one.style == "cells")
        outcome = compare(program, worlds)
    assert outcome.finding is None
    right = script(program, outcome, "a test")
    number = next(number for number, values in enumerate(outcome.expected) if values)
    name = next(iter(outcome.expected[number]))
    outcome.expected[number][name] = ("array", "float32", (), "strong", "free", "[99.0]")
    for text, status in ((right, 0), (script(program, outcome, "a test"), 1)):
        (tmp_path / "reproducer.py").write_text(text)
        done = subprocess.run([sys.executable, tmp_path / "reproducer.py"], capture_output=True, text=True)
        assert done.returncode == status, done.stderr


def test_a_signal_arrives_at_each_instruction():
    """And is handled where CPython looks for signals; the function is over before the last ones are."""
    interrupter, handled = Interrupter(lazynb.__file__), []
    for count in range(1, 40):
        region = lazynb.lazy()
        try:
            with interrupter.armed(Aim("recording/lazy_mode.py", "Region.__enter__", count)) as shot:
                try:
                    region.__enter__()
                finally:
                    sys.settrace(None)
        except KeyboardInterrupt:
            pass
        handled.append(shot.handled.split(":")[1] if shot.handled else "")
        with contextlib.suppress(IndexError):  # it was not entered
            region.__exit__(None, None, None)
    with lazynb.lazy():
        pass
    assert any(handled) and len(set(handled)) > 1
