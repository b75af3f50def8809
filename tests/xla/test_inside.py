"""What is inside of jitted functions, loops and branches: lines, fates, and what must hold of any program."""

from __future__ import annotations

import functools
from collections import Counter

import pytest
from xla.programs_inside import INSIDE, TRUTHS
from xla.statements import failures, wrong

from lazynb.view.inspection.contents import inspection


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
def test_what_is_said_is_so(name):
    made = compilation(name)
    assert list(wrong(made)) == []
    coverage = inspection(made)["coverage"]
    assert coverage["lost"] == 0 and coverage["operations"] == made.operations


@pytest.mark.parametrize("seed", range(6))
def test_random_programs(seed):
    assert failures(seed, inside=True) == []
