"""A long session keeps a bounded number of entries: each table drops its oldest ones, and displays say so."""

import jax.numpy as jnp
import pytest

import lazynb
from lazynb.config import config
from lazynb.running import break_log, miss_log, step_log
from lazynb.user_code import call_stack, cells, code_ownership, file_versions


@pytest.fixture
def short(monkeypatch, clean):
    """Logs of few entries."""
    monkeypatch.setattr(miss_log, "_LEAST", 4)
    monkeypatch.setattr(config, "max_executables", 2)


def new_programs(count):
    """Runs ``count`` programs that differ in their shapes."""
    with lazynb.lazy():
        for size in range(2, 2 + count):
            float((jnp.ones(size) * 2).sum())


def test_misses_are_bounded_in_number(short):
    new_programs(12)
    assert len(miss_log.miss_log.misses) == 4 and miss_log.miss_log.total == 12
    info = lazynb.cache_info()
    assert info.misses == 12 and len(info.missed) == 4 and len(info) == 2
    assert "the 8 oldest misses cannot be explained any more" in repr(info)
    assert "the 8 oldest misses cannot be explained any more" in info._repr_html_()


def test_a_dropped_miss_of_an_evicted_program_holds_no_trace(short):
    new_programs(12)
    made = [event[-1] for event in miss_log.jax_compile_log.events]
    assert [bool(miss.summary.origins and miss.sources) for miss in made] == [False] * 8 + [True] * 4
    events = lazynb.events()
    assert len(events) == 12 and events[0].cache == "compiled"
    assert events[0].reason == "" and events[-1].reason


def test_a_cached_program_keeps_its_lines_when_its_miss_is_dropped(short, monkeypatch):
    monkeypatch.setattr(config, "max_explained", 1)
    new_programs(2)
    assert len(miss_log.miss_log.misses) == 1
    assert [one.lines for one in lazynb.cache_info()] == [lazynb.cache_info()[1].lines] * 2
    assert all("test_bounded_tables.py" in one.lines for one in lazynb.cache_info())


def test_misses_share_equal_settings(clean):
    new_programs(3)
    assert len({id(miss.settings) for miss in miss_log.miss_log.misses}) == 1


def test_sources_of_cells_are_bounded(monkeypatch, clean):
    monkeypatch.setattr(cells, "cells_by_file", {})
    monkeypatch.setattr(call_stack, "cells_by_file", cells.cells_by_file)
    monkeypatch.setattr(cells, "_KEPT", 3)
    for number in (1, 2, 3, 1, 4):
        call_stack.register_cell(f"<cell {number}>", number, "x")
    assert list(cells.cells_by_file) == ["<cell 3>", "<cell 1>", "<cell 4>"]


def test_runs_of_cells_are_bounded(monkeypatch):
    monkeypatch.setattr(step_log, "_RUNS", 3)
    runs = step_log.CellRuns()
    try:
        for number in range(8):
            runs.begin(number, f"cell {number % 4}")
            runs.end(number)
        assert runs.span(4) is None and runs.span(5) is not None
        assert runs.after("cell 1", 0) == 5 and runs.after("cell 0", 0) is None
        assert len(runs._spans) == len(runs._ended) == len(cells.cells_by_run) == 3
    finally:
        runs.clear()


def test_classified_code_is_bounded(monkeypatch):
    monkeypatch.setattr(code_ownership, "_CODES", 5)
    for number in range(20):
        code = compile(f"x = {number}", "<stdin>", "exec")
        assert code_ownership.is_user_code(code)
    assert len(code_ownership.user_code_cache) <= 6


def test_lines_that_are_typed_in_have_no_versions():
    before = len(file_versions._versions)
    for number in range(5):
        file_versions.note_version(f"<python-input-{number}>")
    assert len(file_versions._versions) == before


def test_dropped_breaks_are_told(monkeypatch, clean):
    monkeypatch.setattr(break_log, "_PLACES", 2)
    with lazynb.lazy():
        x = jnp.ones(3)
        float(x.sum())
        int(x.sum())
        bool(x.sum() > 0)
    found = lazynb.breaks()
    assert found.total == 2
    assert "1 earlier break no longer counted or listed" in repr(found)
