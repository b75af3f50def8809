"""Programs that have nothing to do with each other: all kernels are accounted for, and the reverse says the
reverse."""

from __future__ import annotations

import functools
import itertools

import pytest
from xla.programs import PROGRAMS

from lazynb.view.reports.comparison import Diff
from lazynb.view.reports.side import side_of

pytestmark = pytest.mark.xdist_group("compare any two")
SOME = list(PROGRAMS)[::8]


@functools.cache
def side(name, again=False):
    return side_of(PROGRAMS[name](), name, {})


@pytest.mark.parametrize("name", SOME)
def test_a_program_compiled_twice_is_the_same(name):
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
