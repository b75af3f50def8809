"""The table of experiments: each verdict is what stands beside the program, and what the text of the recompiled
program says, read by other means."""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from typing import NamedTuple

import pytest
from xla import plain_crossing
from xla.verifications import CASES

import lazynb
from lazynb.running.trace_executable import Executable
from lazynb.xla.evidence import INFERRED, UNKNOWN, VERIFIED
from lazynb.xla.fusion.boundaries import Boundary
from lazynb.xla.fusion.boundary_experiments import NotTestable


class Experiment(NamedTuple):
    """One boundary, and what trying it gave.

    Attributes:
      ends: the primitives of the two kernels' last instructions.
      before: the boundary; ``text`` is that of the program.
      after: the boundary with the verdict; None if it cannot be tested.
      recompiled: the texts of the programs that were compiled for it.
    """

    ends: str
    text: str
    before: Boundary
    after: Boundary | None
    recompiled: list[str]

    @property
    def outcome(self) -> str:
        if self.after is None:
            return "-"
        if self.after.label != VERIFIED:
            return "stays"
        return "gone" if self.after.code == self.before.code else "next"


@functools.cache
def experiments(name: str) -> list[Experiment]:
    lazynb.clear_cache()
    with lazynb.lazy():
        results = CASES[name].make()
        compilation = lazynb.compile(results)
    [trace] = compilation.traces
    return [tried(compilation, trace, one) for one in list(compilation.boundaries) if one.consumer]


def tried(compilation, trace, boundary: Boundary) -> Experiment:
    edge, after = trace.edges[boundary.producer, boundary.consumer], None
    with recompiled_texts() as texts, contextlib.suppress(NotTestable):
        after = compilation.verify(boundary)
    return Experiment(f"{end(edge.source)}>{end(edge.target)}", trace.text, boundary, after, texts)


def end(instruction) -> str:
    scope = instruction.scope if instruction.mark is not None else ""
    return scope.rpartition("/")[2] or instruction.opcode


@contextlib.contextmanager
def recompiled_texts():
    texts: list[str] = []
    compile_again = Executable.compile_again

    def noting(self, **changes):
        compiled = compile_again(self, **changes)
        texts.append(compiled.as_text())
        return compiled

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Executable, "compile_again", noting)
        yield texts


BRIEF = {"sine_summed", "where_summed", "softmax", "two_readers_of_tanh", "product_kept"}
"""The programs that are tried in each run; the others take minutes together."""

every = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in BRIEF else pytest.mark.full) for name in CASES]
)


@every
def test_the_outcome_of_each_experiment_is_the_expected_one(name):
    found: dict[str, set[str]] = {}
    for one in experiments(name):
        found.setdefault(one.ends, set()).add(one.outcome)
    assert {ends: "/".join(sorted(outcomes)) for ends, outcomes in found.items()} == CASES[name].truth


@every
def test_a_verified_boundary_is_absent_only_from_the_last_recompiled_program(name):
    """Only the last program may be without the boundary, and only if the reason is verified."""
    for one in experiments(name):
        if one.after is None:
            continue
        wanted = [True] * (len(one.recompiled) - 1) + [one.after.label != VERIFIED]
        for text, stays in zip(one.recompiled, wanted, strict=True):
            found = plain_crossing.still_crosses(one.text, one.before.producer, one.before.consumer, text)
            assert found in (stays, None), (one.ends, one.after)


@every
def test_no_label_is_stronger_than_its_evidence(name):
    for one in experiments(name):
        if one.after is not None and one.outcome == "stays":
            assert one.after.label in (INFERRED, UNKNOWN) and one.after.code != one.before.code
            assert (one.after.label == UNKNOWN) == one.after.text.startswith("not known")


@pytest.mark.full
def test_most_experiments_can_be_checked_independently():
    tested = [one for name in CASES for one in experiments(name) if one.after is not None]
    told = [
        one
        for one in tested
        if plain_crossing.still_crosses(
            one.text, one.before.producer, one.before.consumer, one.recompiled[-1]
        )
        is not None
    ]
    print(len(tested), len(told), Counter(one.outcome for one in tested))
    assert len(tested) >= 60 and len(told) > 0.75 * len(tested)


def test_a_refuted_reason_does_not_return():
    """Neither when the compiler is asked before, nor when it is asked later."""
    lazynb.clear_cache()
    with lazynb.lazy():
        compilation = lazynb.compile(CASES["product_of_exp"].make())
    compilation.ask()
    [boundary] = [one for one in compilation.boundaries if one.consumer]
    assert boundary.said
    refuted = compilation.verify(boundary)
    assert refuted.label == INFERRED and refuted.said == boundary.said and "stays" in refuted.verdict
    assert refuted in compilation.ask()
