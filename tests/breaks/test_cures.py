"""Every cure that a hint offers cures: a program does literally what it says, and the break is gone."""

from __future__ import annotations

import re

import jax
import numpy as np
import pytest

import lazynb
from lazynb.config import config
from lazynb.recording.break_reasons import REASONS
from lazynb.running import break_log
from tests.breaks.cures import BY_EXPRESSION, CURES, EXAMPLE, TOO_LONG, Cure
from tests.test_reasons import numbers, run

APPLIED = [
    pytest.param(kind, words, cure, id=f"{kind}: {words}")
    for kind, cures in CURES.items()
    for words, cure in cures.items()
    if cure is not EXAMPLE
]


def _left_of(hint: str, cures: dict[str, Cure]) -> set[str]:
    """The words of ``hint`` that are none of its cures'."""
    for words in sorted(cures, key=len, reverse=True):
        assert words in hint, (hint, words)
        hint = hint.replace(words, "|")
    return {part.strip() for part in re.split(r"[|,;:]|\bor\b|\band\b|\buse\b|\bwith\b", hint)} - {""}


@pytest.mark.parametrize("kind", REASONS)
def test_each_cure_that_a_hint_offers_has_a_program(kind):
    assert not _left_of(REASONS[kind].hint, CURES[kind])


def test_each_program_belongs_to_a_hint():
    assert set(CURES) == set(REASONS)
    assert not _left_of(break_log._TOO_LONG.partition(":")[0], TOO_LONG)


@pytest.fixture
def settings(monkeypatch):
    """Some programs change them."""
    for name in ("max_program", "max_pending"):
        monkeypatch.setattr(config, name, getattr(config, name))
    before = jax.config.jax_enable_x64
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.mark.parametrize(("kind", "words", "cure"), APPLIED)
def test_applying_a_hint_removes_the_break_and_keeps_the_result(kind, words, cure, clean, settings, capsys):
    reason = REASONS[kind]
    broken, before = run(cure.broken or reason.example, f"{kind}, broken")
    cured, after = run(cure.program, f"{kind}, {words}")
    times = [sum(one.count for one in found if one.kind == kind) for found in (before, after)]
    assert times[1] == cure.left < times[0], (before, after)
    others = {one.kind for one in after} - {kind}
    assert all(REASONS[one].explicit for one in others), after
    np.testing.assert_allclose(numbers(cured["out"]), numbers(broken["out"]), rtol=1e-6)


@pytest.mark.parametrize(("kind", "words", "broken", "cured"), BY_EXPRESSION)
def test_a_hint_applies_to_the_expression_that_has_it(kind, words, broken, cured, clean):
    if "integer_pow" in broken and jax.__version_info__ < (0, 12):
        pytest.skip("this JAX reads no exponent of integer_pow")
    before, found = run(broken, f"{kind}, {words}: broken")
    [asked] = [one for one in found if one.kind == kind]
    assert words in asked.hint, asked.hint
    after, found = run(cured, f"{kind}, {words}: cured")
    assert sum(one.count for one in found if one.kind == kind) < asked.count or not found
    np.testing.assert_allclose(numbers(after["out"]), numbers(before["out"]), rtol=1e-6)


def test_a_long_program_is_cut_as_its_hint_says(clean, monkeypatch):
    [cure] = TOO_LONG.values()
    monkeypatch.setattr(config, "max_program", 100_000)
    _, found = run(cure.program, "long, cured")
    assert {one.kind for one in found} == {"sync", "float"}
    assert all(one.hint != break_log._TOO_LONG for one in found)
    tally = break_log.Tally(lazynb.user_code.call_stack.current_position(), kind="float")
    tally.add(1, 2400, 1, 1.0, 1.0)
    monkeypatch.setattr(config, "max_program", 2_000)
    assert tally.record().hint == break_log._TOO_LONG
