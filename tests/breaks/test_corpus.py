"""Every break of every program is found, on its line, under its code, with its operations; and no other."""

from __future__ import annotations

import sys

import jax
import numpy as np
import pytest

import lazynb
from lazynb.running.break_log import break_log
from tests.breaks.corpus import Program, compiled, load, prepare

PROGRAMS = load()


def run(program: Program, name: str, lazy: bool) -> dict:
    """Runs a program; its variables, and under ``error`` what it raised."""
    code, variables = compiled(program, name)
    try:
        if lazy:
            with lazynb.lazy():
                exec(code, variables)
        else:
            exec(code, variables)
    except Exception as error:
        variables["error"] = error
    return variables


def line_of(error: BaseException, name: str) -> int:
    found, entry = 0, error.__traceback__
    while entry is not None:
        if entry.tb_frame.f_code.co_filename == name:
            found = entry.tb_lineno
        entry = entry.tb_next
    return found


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.name)
def test_each_program_breaks_at_the_expected_lines_codes_and_operations(
    program: Program, clean, place, capsys, no_other_loop
):
    prepare(program, place)
    name = f"<{program.name}>"
    lazily = run(program, name, lazy=True)
    found = {
        (
            one.location.file.replace(f"{place}/", "") if one.location.file != name else "main",
            one.location.line,
            one.code,
        ): one
        for one in lazynb.breaks()
    }
    assert len(found) == len(lazynb.breaks())
    expected = {(one.file, one.line, one.code): one for one in program.breaks}
    assert found.keys() == expected.keys()
    for key, one in found.items():
        written = expected[key]
        assert (key, one.count, one.ops) == (
            key,
            written.times,
            one.ops if written.ops is None else written.ops,
        )
        assert (one.library is None) == (written.through is None), (key, one.library)
        assert written.through is None or written.through in one.library.file.replace("\\", "/")
    for one in lazynb.breaks():
        text = program.files[
            "main" if one.location.file == name else one.location.file.replace(f"{place}/", "")
        ]
        assert one.location.text == text.splitlines()[one.location.line - 1].strip()
    assert called(program, name, place) == {
        (one.file, one.line, one.code): one.times for one in program.calls
    }
    error = lazily.get("error")
    raised = (line_of(error, name), type(error).__name__) if error is not None else None
    assert raised == program.raises, error
    for module in list(sys.modules):
        if str(getattr(sys.modules[module], "__file__", "")).startswith(str(place)):
            del sys.modules[module]
    same(run(program, f"<{program.name}, eagerly>", lazy=False), lazily)


def called(program: Program, name: str, place) -> dict:
    """The lines of the program that call functions with breaks, and how many each led to."""
    found = {}
    for tally in break_log.tallies():
        for sums in tally.calling.values():
            caller = sums.spot.place
            file = "main" if caller.file == name else caller.file.replace(f"{place}/", "")
            if file in program.files:
                found[file, caller.line, tally.record().code] = sums.count
    return found


@pytest.mark.parametrize(
    "program", [one for one in PROGRAMS if one.name.endswith("_cured")], ids=lambda one: one.name
)
def test_a_cured_program_has_no_break_of_the_codes_it_cures(program: Program):
    (broken,) = [one for one in PROGRAMS if one.name == program.name.removesuffix("_cured")]
    codes = {one.code for one in broken.breaks} - {"LNB201", "LNB202"}
    left = sum(one.times for one in program.breaks if one.code in codes)
    assert codes and left == 0


def same(eager: dict, lazily: dict) -> None:
    """What both computed is equal."""
    assert ("error" in eager) == ("error" in lazily)
    if "error" in eager:
        assert type(eager["error"]) is type(lazily["error"])
    assert ("out" in eager) == ("out" in lazily)
    left, right = jax.tree.leaves(eager.get("out")), jax.tree.leaves(lazily.get("out"))
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        if isinstance(one, str | bytes):
            assert one == other
        else:
            np.testing.assert_allclose(np.asarray(other), np.asarray(one), rtol=1e-5, atol=1e-6)


def test_the_corpus_has_200_programs_and_covers_every_break_code():
    assert len(PROGRAMS) >= 200
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS)
    assert sum(not program.breaks for program in PROGRAMS) >= 10
    assert {one.code for program in PROGRAMS for one in program.breaks} >= {
        "LNB101",
        "LNB102",
        "LNB103",
        "LNB104",
        "LNB105",
        "LNB106",
        "LNB107",
        "LNB108",
        "LNB109",
        "LNB110",
        "LNB111",
        "LNB112",
        "LNB113",
        "LNB116",
        "LNB117",
        "LNB118",
        "LNB119",
        "LNB201",
        "LNB202",
        "LNB301",
        "LNB303",
        "LNB304",
        "LNB305",
    }
