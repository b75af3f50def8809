"""``lazynb.explain`` on the corpus of trace breaks: it reports what the log says, and every row has figures
or says why not."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import lazynb
from lazynb.compare.costs import counterfactual
from lazynb.compare.costs.joint_program import JointProgram, SeparateRuns
from lazynb.running.flush import execution
from lazynb.running.observers import process_observers
from tests.breaks.corpus import compiled, load, prepare

PROGRAMS = load()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.name)
def test_each_corpus_program_is_explained_with_the_breaks_of_the_log(
    program, clean, place, capsys, monkeypatch
):
    prepare(program, place)
    name = f"<{program.name}>"
    code, variables = compiled(program, name)
    monkeypatch.setattr(counterfactual, "JointProgram", _compared)
    try:
        found = lazynb.explain(exec, code, variables)
    except Exception as error:
        found = error.lazynb_explanation
    assert not (execution.local.observers or process_observers)
    if "thread" not in program.name:  # what other threads force is not seen
        assert [_row(one) for one in found.breaks] == [_row(one) for one in lazynb.breaks()]
    rows = {(one.code, one.location, one.count) for one in found.breaks}
    assert {(one.code, one.location, one.count) for one in found.counterfactuals} <= rows
    for one in found.counterfactuals:
        assert bool(one.problem) != (one.saved is not None), one
        assert one.programs.now is None or one.programs.now > one.programs.then == 1
    for text in found._repr_mimebundle_().values():
        assert "cannot be shown" not in text


def _row(one):
    return one.code, one.location, one.count, one.ops, one.compiles


def _compared(apart: SeparateRuns) -> JointProgram:
    """The joined program, whose results are held against those of the parts."""
    joined = JointProgram(apart)
    if any(seen.run.binding.executable.callbacks for seen in apart.runs):
        return joined
    given = apart.run()()
    keys = [(seen.number, slot) for seen in apart.runs for slot in seen.wanted]
    if len(given) == len(keys):  # none was donated
        parts = dict(zip(keys, given, strict=True))
        for key, value in zip(apart.outputs(), joined.run()(), strict=True):
            with contextlib.suppress(TypeError):  # random keys are no numbers
                one, other = np.asarray(parts[key], np.complex128), np.asarray(value, np.complex128)
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    return joined
