"""What is inside of jitted functions, loops and branches: lines, fates, and what must hold of any program."""

from __future__ import annotations

import functools
from collections import Counter

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from xla.programs_inside import INSIDE, TRUTHS
from xla.statements import failures, wrong

import lazynb
from lazynb.report.inspection.inspection_data import inspection
from lazynb.user_code.code_ownership import is_user_code


@functools.cache
def compilation(name: str):
    made = INSIDE[name]()
    made.fates  # before the dump goes: only the newest are kept
    return made


def by_line(made) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for node in made.snapshot.nodes:
        if node.kind == "op":
            line = node.place.text.strip().partition(" = ")[0]
            found.setdefault(line, []).append(made.fates[node.id].kind)
    return {
        line: ", ".join(
            f"{kind} {count}" if count > 1 else kind for kind, count in sorted(Counter(kinds).items())
        )
        for line, kinds in found.items()
    }


@pytest.mark.parametrize("name", INSIDE)
def test_each_line_inside_has_its_fate(name):
    assert by_line(compilation(name)) == TRUTHS[name]


@pytest.mark.parametrize("name", INSIDE)
def test_reports_about_inner_operations_are_correct_and_complete(name):
    made = compilation(name)
    assert list(wrong(made)) == []
    coverage = inspection(made)["coverage"]
    assert coverage["lost"] == 0 and coverage["operations"] == made.operations


def test_recomputations_of_a_checkpoint_are_reported():
    made = compilation("checkpointed")
    nodes = [node for node in made.snapshot.nodes if node.kind == "op"]
    again = [node.name for node in nodes if "it is a recomputation" in made.fates[node.id].text]
    assert again == ["sin", "cos", "sin"]


@pytest.mark.parametrize("seed", range(6))
def test_reports_about_random_nested_programs_are_correct(seed):
    assert failures(seed, inside=True) == []


@jax.jit
def _where(choice, one, other):
    own = lax.select(choice, one, other)
    return own * 1.0


alike = jax.jit(lambda choice, one, other: lax.select(choice, one, other) * 1.0)


def test_a_user_function_equal_to_a_library_function_is_opened(monkeypatch):
    code = _where.__wrapped__.__code__
    monkeypatch.setattr(
        "lazynb.recording.jaxpr_structure.is_user_code", lambda one: one is not code and is_user_code(one)
    )
    names = []
    x = jnp.ones(8)
    for function in (_where, alike, _where):
        with lazynb.lazy():
            made = lazynb.compile(function(x > 0, x, x))
        names.append([node.name for node in made.snapshot.nodes if node.kind == "op"])
    assert names == [["greater", "where"], ["greater", "select_n", "mul"], ["greater", "where"]]
