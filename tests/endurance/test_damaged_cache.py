"""Damage to the cache on disk: a miss, a warning, no wrong value and no error in a cell."""

from __future__ import annotations

import random
import sys

import pytest

from .attacks import damaged_cache

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it forks, and locks files")


@pytest.fixture(scope="module")
def served():
    with damaged_cache.server() as (server, place):
        yield server, place


@pytest.mark.parametrize("kind", [*damaged_cache.BEFORE, *damaged_cache.WITHIN])
def test_damage_is_a_miss_and_what_is_damaged_is_written_anew(kind, served):
    assert not damaged_cache.try_damage(*served, random.Random(1), kind)


def test_a_process_that_is_killed_as_it_writes_leaves_nothing_behind(served):
    for seed in range(5):
        assert not damaged_cache.try_kill(*served, random.Random(seed), took=1.0)


def test_what_processes_that_ended_were_writing_is_removed(served):
    server, place = served
    folder = place / "left"
    programs = damaged_cache.random_programs(random.Random(1))
    server.run(folder, programs)
    for number in range(20):
        (folder / f"{number}.writing").write_bytes(b"half")
        (folder / f"{number}.loading").write_bytes(b"")
    server.run(folder, programs)
    assert {file.suffix for file in folder.iterdir()} - {".loading"} == {""}
    assert len(list(folder.glob("*.loading"))) <= 1


def test_random_damage(served):
    figures = damaged_cache.attack(3, seed=1, kinds=("bit", "truncated", "noise", "kill"))
    assert figures["tries"] and not sum(figures[kind] for kind in ("lost", "wrong", "hung"))
