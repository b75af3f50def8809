"""What ``lazynb.diff`` finds on pairs of programs, beside the truth that is written with them."""

from __future__ import annotations

import functools

import pytest
from compare.pairs import ARGUMENTS, pairs, said

import lazynb
from lazynb.report.comparison_report import Diff

PAIRS = {pair.name: pair for pair in pairs()}
EACH = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.xdist_group(f"compare {name}")) for name in PAIRS]
)


@functools.cache
def compared(name: str) -> Diff:
    before, now = PAIRS[name].functions()
    return lazynb.diff((before, *ARGUMENTS), (now, *ARGUMENTS))


@EACH
def test_exactly_the_known_differences_are_found(name):
    diff = compared(name)
    assert sorted(map(said, diff.changes)) == sorted(PAIRS[name].truth)
    whole, parts = (diff.before.figures, diff.now.figures), [c for c in diff.changes if c.now]
    for figure in ("kernels", "written"):
        old, new = (getattr(side, figure) for side in whole)
        assert new - old == sum(getattr(c.now, figure) - getattr(c.before, figure) for c in parts)


@EACH
def test_swapping_the_sides_negates_each_change(name):
    diff = compared(name)
    back = Diff(diff.now, diff.before)
    amounts = sorted((change.kind, change.amount) for change in diff.changes if change.now)
    assert sorted((c.kind, -c.amount) for c in back.changes if c.now) == amounts
    assert [abs(c.amount) for c in back.changes[:1]] == [abs(c.amount) for c in diff.changes[:1]]
    assert len(back.headline) == len(diff.headline)


@EACH
def test_a_program_has_no_changes_against_itself(name):
    diff = compared(name)
    for side in (diff.before, diff.now):
        same = Diff(side, side)
        assert list(same.changes) == [] and list(same.passes) == []
        assert repr(same).startswith("Nothing differs")


def test_the_table_has_enough_pairs_with_and_without_differences():
    assert len(PAIRS) >= 30
    without = [pair for pair in PAIRS.values() if not pair.truth]
    assert 5 <= len(without) <= len(PAIRS) / 3
