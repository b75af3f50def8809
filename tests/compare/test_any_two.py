"""Programs that have nothing to do with each other: all kernels are accounted for, and the reverse says the
reverse."""

from __future__ import annotations

import copy
import functools
import itertools

import jax
import jax.numpy as jnp
import pytest
from xla.programs import PROGRAMS

import lazynb
from lazynb.compare.differences.compilation_side import CompilationSide
from lazynb.report.comparison_report import Diff, side_of

pytestmark = pytest.mark.xdist_group("compare any two")
SOME = list(PROGRAMS)[::8]


@functools.cache
def side(name, again=False):
    return side_of(PROGRAMS[name](), name, {})


@pytest.mark.parametrize("name", SOME)
def test_a_program_compiled_twice_has_no_changes(name):
    diff = Diff(side(name), side(name, again=True))
    assert list(diff.changes) == [] and list(diff.passes) == []


def test_every_kernel_is_accounted_for_in_both_directions():
    for before, now in itertools.permutations(map(side, SOME), 2):
        diff, back = Diff(before, now), Diff(now, before)
        changes = [change for change in diff.changes if change.kind != "time" and change.now is not None]
        for figure in ("kernels", "written"):
            more = getattr(now.figures, figure) - getattr(before.figures, figure)
            assert more == sum(getattr(c.now, figure) - getattr(c.before, figure) for c in changes)
        there = sorted((change.kind, change.amount) for change in changes)
        assert there == sorted((c.kind, -c.amount) for c in back.changes if c.now is not None)
        assert diff.changes and len(diff.headline) == len(back.headline)
        assert before.name in repr(diff) and now.name in diff.to_html()


def test_a_loop_body_attributed_to_the_loop_or_to_its_operations_is_no_change():
    """What JAX lowers as a function bears the scope of the call alone, and JAX 0.10 and 0.12 differ in it."""

    def recurrent(w, x):
        return jax.lax.scan(lambda h, row: (jnp.tanh(h @ w + row),) * 2, jnp.zeros(4), x)

    data = side_of(lazynb.compile(recurrent, jnp.ones((4, 4)), jnp.ones((3, 4))), "", {}).data
    by_name = {node["name"]: node["id"] for node in data["nodes"]}

    def attributed(inner):
        made = copy.deepcopy(data)
        for line in made["programs"][0]["hlo"]["before"]["lines"]:
            for opcode, name in ((" tanh(", "tanh"), (" dot(", "dot_general")):
                if opcode in line["text"]:
                    line["nodes"] = [by_name[name if inner else "scan"]]
        return CompilationSide(made, "inner" if inner else "outer")

    sides = attributed(True), attributed(False)
    assert sides[0].lowered.keys() != sides[1].lowered.keys()
    assert [str(change) for pair in (sides, sides[::-1]) for change in Diff(*pair).changes] == []
