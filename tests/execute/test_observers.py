"""Explaining costs nothing when nobody asks: what a run calls, and what an observer leaves alone."""

from __future__ import annotations

import collections
import gc
import sys
import weakref

import jax.numpy as jnp
import pytest

import lazynb
from lazynb.running.observers import observing
from lazynb.running.run_recorder import RunRecorder

LATER = (
    "run_recorder",
    "trace_summary",
    "names",
    "answer",
    "difference",
    "misses",
    "recording",
    "describe",
    "advice",
    "explain",
    "counterfactual",
    "merged",
    "callers",
)
"""Modules that nothing calls when a cached trace is recorded and run."""


def called_in(modules, work):
    """How often ``work`` calls functions of lazynb, by module and name."""
    found = collections.Counter()

    def notice(frame, event, _):
        path = frame.f_code.co_filename
        if event == "call" and "lazynb" in path:
            found[path.rpartition("/")[2].removesuffix(".py"), frame.f_code.co_name] += 1

    sys.setprofile(notice)
    try:
        work()
    finally:
        sys.setprofile(None)
    return {name: count for name, count in found.items() if modules is None or name[0] in modules}


def step(x):
    y = x
    for _ in range(9):
        y = y + x
    return float(y.sum())


@pytest.fixture
def cached(clean):
    x = jnp.ones((4, 4))
    with lazynb.lazy():
        for _ in range(3):
            step(x)
        yield x


def test_a_cached_run_calls_no_explaining_function_without_an_observer(cached):
    assert called_in(LATER, lambda: step(cached)) == {}


def test_an_observed_run_calls_explaining_functions(cached):
    with observing(RunRecorder()):
        assert called_in(LATER, lambda: step(cached))


def test_a_run_of_a_cached_trace_makes_few_calls(cached):
    calls = called_in(None, lambda: step(cached))
    of_a_run = ("flush", "executable", "breaks", "events", "donation")
    flush = sum(count for (module, _), count in calls.items() if module in of_a_run)
    assert flush <= 18, calls


def test_a_cached_run_leaves_nothing_but_its_log_entries(cached):
    def blocks():
        gc.collect()
        return sys.getallocatedblocks()

    for _ in range(5):
        step(cached)
    before = blocks()
    for _ in range(100):
        step(cached)
    assert (blocks() - before) / 100 < 30  # an event, a break, a Spot: 20 objects or so


def test_a_recorder_keeps_no_tensor_and_no_large_array(clean):
    observer = RunRecorder()
    with lazynb.lazy(), observing(observer):
        x = jnp.ones(1 << 20) * 2
        y = x + 1
        float(y[0])
        value, tensor = weakref.ref(y._value), weakref.ref(y)
        del x, y
        gc.collect()
        assert value() is None and tensor() is None
    assert len(observer.runs) == 1 and observer.breaks[0].kind == "float"


def test_a_recorder_knows_which_results_were_reachable_at_each_break(clean):
    observer = RunRecorder()
    with lazynb.lazy(), observing(observer):
        x = jnp.ones(3) * 2
        y = x + 1
        float((x + y).sum())
        z = y * 2
        del x
        float((z + y).sum())
        del y
        float((z * 3).sum())
    first, *_ = observer.runs
    slots = sorted(first.wanted)
    assert [[first.alive(slot, number) for number in range(3)] for slot in slots[:2]] == [
        [True, False, False],
        [True, True, False],
    ]  # x went before the second break was over, y before the third


def test_a_recorder_knows_which_results_feed_later_runs(clean):
    observer = RunRecorder()
    outside = jnp.ones(3)
    with lazynb.lazy(), observing(observer):
        y = outside * 2
        float(y.sum())
        z = y + outside
        float(z.sum())
    first, second = observer.runs
    assert [source.earlier for source in first.sources if source.held.aval.shape] == [None]
    assert {source.earlier for source in second.sources if source.held.aval.shape} == {
        (0, first.wanted[0]),
        None,
    }
    held = {
        id(source.held) for seen in observer.runs for source in seen.sources if source.held.value() is outside
    }
    assert len(held) == 1
    observer.release()
    assert not second.sources
