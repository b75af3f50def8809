"""Timelines: the parts add up to the time that went by, and each is what it says."""

from __future__ import annotations

import threading
import time

import jax.numpy as jnp
import pytest

import lazynb
from lazynb.running.break_log import breaks
from lazynb.running.flush import execution
from lazynb.running.session_timeline import BINS, Timeline, of_session
from lazynb.running.step_log import Step, StepSpan, log
from lazynb.running.time_log import Parts
from lazynb.running.timeline_drawing import text_bar, text_strip
from lazynb.user_code.call_stack import current_position

SLEEP = 0.06


def read(x):
    return float(x.sum())


def adds_up(timeline: Timeline) -> None:
    """The parts of everything, of the rows with what is behind them, and of the strip."""
    assert sum(timeline.parts) == pytest.approx(timeline.seconds, abs=1e-9)
    rows = sum(row.total for row in timeline.rows)
    assert rows + sum(timeline.after) == pytest.approx(timeline.seconds, abs=1e-9)
    assert len(timeline.strip) == BINS
    for part in range(6):
        assert sum(one[part] for one in timeline.strip) == pytest.approx(
            timeline.parts[part], rel=1e-9, abs=1e-9
        )
    for one in timeline.strip:
        assert sum(one) == pytest.approx(timeline.seconds / BINS, abs=1e-9)
    assert min(min(one) for one in [timeline.parts, *timeline.strip]) >= -1e-9


def test_the_parts_of_a_loop_sum_to_its_elapsed_time(clean):
    x = jnp.ones(8)
    with lazynb.lazy():
        began = time.perf_counter()
        for _ in range(5):
            x = jnp.sin(x)
            read(x)
            time.sleep(SLEEP)
        read(x + 1)
        went_by = time.perf_counter() - began
    timeline = breaks().timeline
    adds_up(timeline)
    assert timeline.seconds <= went_by and timeline.seconds >= 5 * SLEEP
    (row,) = timeline.rows
    assert (row.count, row.kind, row.location.text) == (6, "float", "return float(x.sum())")
    assert row.operations == sum(one.ops for one in breaks())
    assert row.seconds == pytest.approx(breaks().seconds, rel=0.2)
    assert (
        row.parts.compiling == pytest.approx(breaks().compile_seconds, abs=1e-9) and row.parts.compiling > 0
    )
    assert row.first == sum(row.steps[0]) and len(row.steps) == 6


def test_time_between_breaks_is_recording_only_while_a_trace_is_open(clean):
    x = jnp.ones(8)
    with lazynb.lazy():
        read(jnp.sin(x))
        time.sleep(SLEEP)  # nothing is pending: Python
        read(jnp.sin(x))
        y = jnp.cos(x)
        time.sleep(2 * SLEEP)  # a trace is open: recording, with the Python between the operations
        read(y)
    (row,) = breaks().timeline.rows
    first, second, third = row.steps
    assert second.python >= SLEEP > second.recording
    assert third.recording >= 2 * SLEEP > third.python
    assert first.compiling > 0 and second.compiling == 0


def test_time_after_a_trace_was_sealed_is_not_counted_as_recording(clean):
    x = jnp.ones(8)
    with lazynb.lazy():
        read(jnp.sin(x) * 2)
    lazynb.clear_cache()
    with lazynb.lazy():
        y = jnp.sin(x) * 2
        execution.local.cut()  # as at the beginning of a notebook cell
        time.sleep(4 * SLEEP)
        read(y)
    (event, *_) = lazynb.events()
    assert event.record_seconds < 3 * SLEEP
    timeline = breaks().timeline
    adds_up(timeline)
    assert timeline.parts.python >= 4 * SLEEP
    assert timeline.parts.recording < 3 * SLEEP


def test_barriers_and_requested_runs_are_steps_of_the_timeline(clean):
    with lazynb.lazy():
        x = jnp.ones(8) * 3
        lazynb.sync()
        execution.flush([(y := x + 1)._pending], "compile")
        read(y)
    timeline = breaks().timeline
    adds_up(timeline)
    assert {row.kind for row in timeline.rows} >= {"sync", "compile"}
    assert "compile" not in {one.kind for one in breaks()}


def test_callers_of_the_function_that_breaks_are_counted(clean):
    def inner(x):
        return float(x.sum())

    def outer(x):
        return inner(x)

    with lazynb.lazy():
        for turn in range(3):
            outer(jnp.ones(4) + turn)
        inner(jnp.ones(4))
    (row,) = breaks().timeline.rows
    found = {tuple(place.text for place in one.places): one.count for one in row.callers}
    assert {places[0]: count for places, count in found.items()} == {
        "return inner(x)": 3,
        "inner(jnp.ones(4))": 1,
    }
    assert next(places for places in found if len(places) > 1)[1] == "outer(jnp.ones(4) + turn)"
    assert sum(one.seconds for one in row.callers) == pytest.approx(row.total)


def test_breaks_of_another_thread_are_counted_apart(clean):
    def work():
        with lazynb.lazy():
            read(jnp.ones(4) * 2)

    with lazynb.lazy():
        read(jnp.ones(4))
        other = threading.Thread(target=work)
        other.start()
        other.join()
        read(jnp.ones(4))
    timeline = breaks().timeline
    adds_up(timeline)
    assert timeline.elsewhere == 1
    assert "1 break in other threads, not drawn" in repr(breaks())


def test_the_number_of_forgotten_breaks_is_reported(clean, monkeypatch):
    import collections

    monkeypatch.setattr(log, "_steps", collections.deque(maxlen=3))
    with lazynb.lazy():
        for _ in range(5):
            read(jnp.ones(4))
    timeline = breaks().timeline
    adds_up(timeline)
    assert timeline.forgotten == 2 and timeline.rows[0].count == 3
    assert "2 earlier breaks no longer known one by one" in repr(breaks())


def test_clearing_the_cache_clears_the_steps(clean):
    with lazynb.lazy():
        read(jnp.ones(4))
    lazynb.clear_cache()
    assert not breaks().timeline and log.total == 0


def step(began, ended, recorded=(), compiling=0.0, running=0.0, waiting=0.0):
    runs = [(0.0, until - since, since) for since, until in recorded]
    return Step(
        "float",
        current_position(1),
        "",
        None,
        1,
        1,
        0,
        (*runs, (running, 0.0, began)),
        began,
        ended,
        compiling,
        waiting,
    )


def test_overlapping_steps_and_excessive_figures_still_sum_to_the_elapsed_time():
    """A break within a break ends first; traces that are recorded at the same time count once."""
    steps = [
        step(2.0, 3.0, ((0.5, 1.5), (1.0, 1.75))),
        step(1.0, 4.0, ((0.0, 2.5),), compiling=2.0, running=2.0),
        step(3.2, 3.6, waiting=9.0),
        step(5.0, 6.0, ((4.5, 5.5),), waiting=0.25),
    ]
    span = StepSpan(0.0, 7.0, steps, 0)
    assert span.parts[0].tolist() == [1.25, 0.0, 0.0, 0.0, 1.75, 0.0]
    assert span.parts[1].tolist() == [0.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    assert span.parts[2].tolist() == [0.0] * 6
    assert span.parts[3].tolist() == [0.5, 0.0, 0.0, 0.25, 1.25, 0.0]
    assert span.after == Parts(python=1.0)
    adds_up(Timeline("made up", [span]))


def test_a_bar_has_as_many_characters_as_its_share():
    assert text_bar((0, 0, 0, 0, 0, 0), 1.0, 20) == ""
    assert text_bar((1, 2, 1, 0, 0, 0), 8.0, 16) == "░░████▓▓"
    assert text_bar((0, 0, 0, 1e-9, 0, 0), 1.0, 20) == "▒"
    assert text_strip([Parts(compiling=1.0), Parts(python=0.2, waiting=0.3)]) == "█▒"


def test_a_timeline_of_ten_thousand_steps_is_computed_within_two_seconds(clean):
    made = [step(n + 0.5, n + 0.9, ((n, n + 0.4),), 0.1, 0.1, 0.1) for n in range(10_000)]
    began = time.process_time()
    timeline = of_session(made, 10_000)
    assert time.process_time() - began < 2  # a tenth of a second on an idle machine
    adds_up(timeline)
    assert timeline.rows[0].count == 10_000 and len(timeline.rows[0].steps) == 20
