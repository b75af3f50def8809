"""A profile as Perfetto's trace: slices that add up to the measured times, nested as the format asks."""

from __future__ import annotations

import collections
import json
import statistics
import types

import jax
import jax.numpy as jnp
import pytest

import lazynb
from lazynb.report.inspection import perfetto_trace as module
from lazynb.report.inspection.perfetto_trace import NotProfiled
from lazynb.xla.cost import profiler_events
from lazynb.xla.cost.profiler_events import Execution, Timeline

RUNS = 3


@pytest.fixture(scope="module")
def profiled():
    """A compilation with a loop, and what its kernels took."""
    with lazynb.lazy():
        x, w = jnp.ones((128, 64)).block_until_ready(), jnp.ones((64, 128)).block_until_ready()
        h = jnp.tanh(x @ w) / 2
        y = jax.nn.softmax(h)
        z, _ = jax.lax.scan(lambda c, _: (jnp.sin(c) @ c, None), jnp.ones((16, 16)), None, length=3)
        compilation = lazynb.compile(y, z)
        with pytest.raises(NotProfiled, match=r"compilation\.profile\(\) takes one"):
            compilation.to_perfetto()
        return compilation, compilation.profile(RUNS)


def slices(trace):
    """The complete events, each held against what the format documents."""
    found = []
    for event in trace["traceEvents"]:
        assert isinstance(event["name"], str) and {type(event["pid"]), type(event["tid"])} == {int}
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name") and event["args"].keys() == {"name"}
            continue
        assert event["ph"] == "X" and event["ts"] >= 0 and event["dur"] >= 0 and event["cat"]
        found.append(event)
    return found


def test_slices_add_up_to_the_measured_times(profiled, tmp_path):
    compilation, timings = profiled
    path = tmp_path / "trace.json"
    trace = compilation.to_perfetto(path)
    assert json.loads(path.read_text()) == trace and trace["displayTimeUnit"] == "ns"
    took = collections.defaultdict(lambda: collections.defaultdict(float))
    for event in slices(trace):
        took[event["args"]["instruction"]][event["pid"]] += event["dur"]
    seen = 0
    for cluster, timing in zip(compilation.clusters, timings, strict=True):
        runs = took.pop(cluster.name, {})
        if timing is None:
            assert not runs
            continue
        assert len(runs) == timing.runs <= RUNS
        assert statistics.median(runs.values()) == pytest.approx(timing.median * 1e6, abs=0.01)
        seen += 1
    assert not took and seen > 3


def test_slices_of_a_track_nest_and_every_track_has_a_name(profiled):
    trace = profiled[0].to_perfetto()
    tracks = collections.defaultdict(list)
    for event in slices(trace):
        tracks[event["pid"], event["tid"]].append(event)
    named = {(event["pid"], event["tid"]) for event in trace["traceEvents"] if event["name"] == "thread_name"}
    assert named == tracks.keys()
    for events in tracks.values():
        assert len({event["cat"] for event in events}) == 1
        ends = []
        for event in sorted(events, key=lambda one: (one["ts"], -one["dur"])):
            while ends and ends[-1] <= event["ts"] + 1e-6:
                ends.pop()
            assert not ends or event["ts"] + event["dur"] <= ends[-1] + 1e-6
            ends.append(event["ts"] + event["dur"])


def test_slices_tell_the_users_lines(profiled):
    compilation, _ = profiled
    events = slices(compilation.to_perfetto())
    assert {event["args"]["kernel"] for event in events} <= {event["name"].split()[0] for event in events}
    assert any("jax.nn.softmax(h)" in event["args"].get("source", "") for event in events)
    assert all(
        "test_perfetto.py" in event["args"]["lines"] for event in events if event["args"].get("source")
    )
    loops = {event["args"]["instruction"] for event in events if event["cat"] == "loop"}
    assert loops == {
        cluster.name
        for cluster in compilation.clusters
        if cluster.kind == "control" and any(cluster.name == event["args"]["instruction"] for event in events)
    }


def test_a_kernel_that_ends_after_the_next_began_gets_a_track_of_its_own():
    def execution(start, end, thread=1):
        return Execution("f", ("m", 1), thread, start, end)

    tracks = []
    numbers = []
    for one in (execution(0, 4), execution(1, 2), execution(3, 6), execution(5, 7), execution(6, 7, 2)):
        numbers.append(module._track(tracks, one, False)[0])
    assert numbers == [1, 1, 2, 1, 3]


def test_only_runs_of_the_profiled_program_are_kept(monkeypatch):
    def event(op, program, start, end):
        return types.SimpleNamespace(op=op, program=(program, 1), line=4, start=start, end=end)

    kept = Timeline()
    kept.add([event("copy", "copies", 50, 60), event("f", "own", 100, 2100), event("g", "own", 300, 200)])
    kept.add([event("copy", "copies", 5, 6)])
    first, second = kept.of({"f", "g", "copy"})
    assert [(one.op, one.start, one.end) for one in first] == [
        ("f", pytest.approx(5e-8), pytest.approx(2.05e-6)),
        ("g", pytest.approx(2.5e-7), pytest.approx(2.5e-7)),
    ]
    assert second == [] and Timeline().of({"f"}) == []
    monkeypatch.setattr(profiler_events, "MAX_EXECUTIONS", 4)
    kept.add([event("f", "own", 1, 2)])
    assert kept.left_out == 1 and len(kept.runs) == 2


def test_a_profile_without_kernels_is_refused(profiled, monkeypatch):
    compilation, _ = profiled
    monkeypatch.setattr(Timeline, "of", lambda self, ops: [[]])
    with pytest.raises(NotProfiled, match="gave no times of kernels"):
        compilation.to_perfetto()
