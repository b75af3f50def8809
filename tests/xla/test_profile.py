"""Time of each kernel: real programs, made-up profiles whose answer is known, other profiles, interrupts."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings

import jax
import jax.numpy as jnp
import pytest

from lazynb import jax_compat as jc
from lazynb.errors import LazynbError
from lazynb.xla.cost import kernel_profile as profiling
from lazynb.xla.cost.kernel_profile import ProfilerBusy, profile
from lazynb.xla.hlo import module as hlo


@pytest.fixture(autouse=True)
def quiet():
    """jaxlib's iterators come without a module name, of which Python 3.12 warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def scan(x, w):
    def body(carry, _):
        carry = jnp.tanh(carry @ w)
        return carry, carry.sum()

    return jax.lax.scan(body, x, None, length=20)


def compiled(fn, *args):
    done = jax.jit(fn).lower(*args).compile()
    return done, hlo.parse(done.as_text())


# ---- real programs -----------------------------------------------------------------------------------------


def test_each_kernel_of_a_program_is_timed():
    x = jnp.ones((300, 300))
    done, module = compiled(lambda x: (jnp.sort(jnp.sin(x)), (x @ x).sum()), x)
    found = profile(lambda: done(x), runs=4, module=module)
    kernels = {
        one.name
        for one in module.computations[module.entry].instructions.values()
        if one.opcode in ("sort", "fusion", "dot")
    }
    assert kernels <= set(found.timings) <= set(module.by_name)
    for timing in found.timings.values():
        assert 0 < timing.low <= timing.median <= timing.high < 1
        assert (timing.runs, timing.calls) == (4, 1)
    slowest = max(found.timings, key=lambda name: found.timings[name].median)
    assert module.by_name[slowest].opcode == "sort"
    assert found.wall.runs == 4 and found.wall.high >= found.timings[slowest].low
    assert "4 runs" in found.text and jax.__version__ in found.text


def test_body_of_a_loop_is_summed_over_its_iterations():
    x = jnp.ones((16, 16)) * 0.01
    done, module = compiled(scan, x, x)
    found = profile(lambda: done(x, x), runs=3, module=module).timings
    (loop,) = [one for one in module if one.opcode == "while"]
    body = module.computations[loop.attribute("body").lstrip("%")].instructions
    inside = [name for name in body if name in found]
    assert inside and all(found[name].calls == 20 for name in inside)
    assert found[loop.name].calls == 1
    assert sum(found[name].low for name in inside) < found[loop.name].high


def test_a_loop_continued_in_other_threads_is_timed_to_its_end():
    """Its event ends with the first iteration. Only releases that compile such a loop as one function have
    another event."""
    x = jnp.ones((1000, 1000))
    done, module = compiled(
        lambda x: jnp.sort(jax.lax.fori_loop(0, 4, lambda i, c: jnp.sin(c) * 2 + x, x)), x
    )
    found = profile(lambda: done(x), runs=3, module=module).timings
    loops = [one.name for one in module if one.opcode in ("while", "call") and one.name in found]
    inside = [name for name, timing in found.items() if timing.calls == 4]
    assert len(loops) == 1
    assert found[loops[0]].high >= max([found[name].low for name in inside], default=0)
    again = profile(lambda: done(x), runs=3).timings  # without the module, at least not less than its parts
    assert again[loops[0]].high >= max([again[name].low for name in inside], default=0)


def test_spread_kernels_end_when_the_last_thread_is_done():
    """Twice the work in one kernel does not take the same time, whichever thread returned first."""
    small, large = jnp.ones(1 << 20), jnp.ones(1 << 23)
    times = []
    for x in (small, large):
        done, module = compiled(lambda x: jnp.sin(jnp.sin(jnp.sin(x))), x)
        (timing,) = profile(lambda: done(x), runs=5, module=module).timings.values()
        times.append(timing.low)
    assert times[1] > 3 * times[0]  # eight times the elements


def test_each_of_several_programs_is_timed():
    x = jnp.ones((100, 100))
    first, _ = compiled(lambda x: jnp.sin(x), x)
    second, _ = compiled(lambda x: jnp.sort(x @ x), x)
    found = profile(lambda: second(first(x)), runs=3)
    assert len(found.programs) == 2
    assert "sort" in " ".join(found.programs[1].timings) and "sort" in " ".join(found.timings)
    assert "sort" not in " ".join(found.programs[0].timings)


def test_the_profiled_program_is_found_among_others():
    """What makes donated inputs anew may well take longer than the program."""

    def small(x):
        return jnp.sin(x[:10])

    x = jnp.arange(100000.0)
    make = jax.jit(lambda: jnp.sort(jnp.cos(jnp.arange(100000.0)))).lower().compile()
    done = jax.jit(small).lower(x).compile()
    module = hlo.parse(done.as_text())
    found = profile(lambda: done(make()), runs=3, module=module)
    assert len(found.programs) == 2
    assert set(found.timings) <= set(module.by_name) and not any("sort" in name for name in found.timings)
    assert any("sort" in name for name in profile(lambda: done(make()), runs=3).timings)


def test_a_run_without_a_kernel_has_no_timings():
    found = profile(lambda: None, runs=2)
    assert found.programs == () and found.timings == {}
    assert "no times of kernels" in found.text


def test_the_program_runs_the_requested_number_of_times():
    calls = []
    profile(lambda: calls.append(0), runs=3)
    assert len(calls) == 1 + 3 + 3  # warm up; with and without the profiler
    with pytest.raises(ValueError, match="at least 1"):
        profile(lambda: calls.append(0), runs=0)
    assert len(calls) == 7


@pytest.mark.parametrize(("took", "wall"), [([0.001, 1, 5, 2, 6, 3, 7], 2), ([1, 5, 6, 7], 6)])
def test_wall_is_without_the_profiler_where_that_is_quick(monkeypatch, took, wall):
    left = list(took)
    monkeypatch.setattr(profiling, "_seconds", lambda run: left.pop(0))
    assert profile(lambda: None, runs=3).wall.median == wall and left == []


# ---- when it cannot ----------------------------------------------------------------------------------------


def test_a_running_profile_of_the_user_is_kept(tmp_path):
    x = jnp.ones((100, 100))
    done, _ = compiled(lambda x: jnp.sort(x), x)
    calls = []
    jax.profiler.start_trace(str(tmp_path))
    try:
        with pytest.raises(ProfilerBusy, match="in use"):
            profile(lambda: calls.append(0))
        assert calls == []  # refused before anything ran
        jax.block_until_ready(done(x))
    finally:
        jax.profiler.stop_trace()
    (written,) = tmp_path.rglob("*.xplane.pb")
    data = jax.profiler.ProfileData.from_file(str(written))
    names = {event.name for plane in data.planes for line in plane.lines for event in line.events}
    assert any(name.startswith("sort") for name in names)
    assert profile(lambda: done(x), runs=1).timings  # free again
    assert issubclass(ProfilerBusy, LazynbError)


def test_profiling_needs_no_temporary_directory(monkeypatch, tmp_path):
    """Nothing goes through a file: a temporary directory that is missing or read-only is no matter."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "missing"))
    monkeypatch.setattr("tempfile.tempdir", None)
    done, _ = compiled(lambda x: jnp.sin(x), jnp.ones(1000))
    assert profile(lambda: done(jnp.ones(1000)), runs=1).timings


def test_error_of_the_run_ends_the_profile():
    calls = []

    def fails_later():
        calls.append(0)
        if len(calls) == 3:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as kept:  # with its frames, as a notebook keeps the last error
        profile(fails_later)
    assert profile(lambda: None, runs=1).wall.runs == 1
    assert kept.tb is not None


def test_interrupt_gets_through_at_once():
    x = jnp.arange(200000.0)
    done, _ = compiled(lambda x: jax.lax.fori_loop(0, 150, lambda i, c: jnp.sort(c)[::-1], x), x)
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    start = time.perf_counter()
    held = []

    def run():
        held.append(done(x))
        return held[-1]

    timer.start()
    with pytest.raises(KeyboardInterrupt):
        profile(run)
    took = time.perf_counter() - start
    jax.block_until_ready(held)
    whole = time.perf_counter() - start
    assert took < max(0.6, 0.7 * whole)  # the program itself takes 1.6 s
    assert profile(lambda: None, runs=1).wall.runs == 1


# ---- made-up profiles --------------------------------------------------------------------------------------


def plane(name, *lines):
    """A plane of events ``(line, name, start us, duration us, stats)``, as a text proto."""
    texts = ["hlo_op", "hlo_module"]
    numbers = ["program_id", "_p", "_c"]
    known = [*texts, *numbers]
    stats = "".join(
        f'stat_metadata {{ key: {k + 1} value {{ id: {k + 1} name: "{one}" }} }}\n'
        for k, one in enumerate(known)
    )
    names, body = {}, ""
    for line in lines:
        events = ""
        for event, start, duration, values in line:
            number = names.setdefault(event, len(names) + 1)
            shown = {
                key: f'str_value: "{value}"' if key in texts else f"int64_value: {value}"
                for key, value in values.items()
            }
            said = "".join(
                f"stats {{ metadata_id: {known.index(key) + 1} {value} }}" for key, value in shown.items()
            )
            events += f"events {{ metadata_id: {number} offset_ps: {start * 10**6} duration_ps: {duration * 10**6} {said} }}\n"
        body += f'lines {{ id: {len(body)} name: "thread" timestamp_ns: 0 {events} }}\n'
    events = "".join(
        f'event_metadata {{ key: {k} value {{ id: {k} name: "{one}" }} }}\n' for one, k in names.items()
    )
    return f'planes {{ name: "{name}" {body} {events} {stats} }}\n'


def op(name, start, duration, link=None, program=1):
    values = {"hlo_op": name, "hlo_module": "jit_lazynb", "program_id": program}
    return (name, start, duration, values if link is None else {**values, "_p": link})


def end(name, at, link):
    return (f"end: {name}", at, 0, {"_c": link})


def times(*planes, module=None):
    """Microseconds and executions by instruction, of the only program."""
    data = jax.profiler.ProfileData.text_proto_to_serialized_xspace("".join(planes))
    found = profiling._run_times(list(profiling._events(data)), profiling._nested_instructions(module))
    return {
        name: (round(seconds * 1e6), calls)
        for run in found.values()
        for name, (seconds, calls) in run.items()
    }


def test_a_kernel_is_timed_until_its_last_thread_is_done():
    """Spread over threads: its call returns after 10 us, another thread finishes it, goes on with the next
    and notes it then."""
    assert times(
        plane(
            "/host:CPU", [op("copy", 0, 10, 7)], [op("sin", 50, 30, 8), end("sin", 79, 8), end("copy", 81, 7)]
        )
    ) == {"copy": (50, 1), "sin": (30, 1)}


def test_the_noted_end_of_a_kernel_counts_without_a_following_kernel():
    assert times(plane("/host:CPU", [op("copy", 0, 10, 7)], [end("copy", 40, 7)])) == {"copy": (40, 1)}


def task(at):
    return ("ThreadpoolListener::StartRegion", at, 0, {})


def test_a_late_thread_does_not_extend_the_time_of_its_kernel():
    """It was held up behind its share of the work: another thread went on to the next kernel, and to one
    after that."""
    assert times(
        plane(
            "/host:CPU",
            [op("copy", 0, 60, 7)],
            [
                task(5),
                op("sin", 50, 30, 8),
                end("sin", 79, 8),
                op("sort", 80, 5, 9),
                end("sort", 84, 9),
                end("copy", 86, 7),
            ],
        )
    ) == {"copy": (50, 1), "sin": (30, 1), "sort": (5, 1)}


def test_another_kernel_run_first_by_the_finishing_thread_is_not_counted():
    """The finishing thread had another kernel to run first, a task of its own."""
    assert times(
        plane(
            "/host:CPU",
            [op("copy", 0, 10, 7)],
            [
                task(2),
                op("other", 3, 20, 6),
                end("other", 22, 6),
                task(25),
                op("sin", 50, 30, 8),
                end("sin", 79, 8),
                end("copy", 81, 7),
            ],
        )
    ) == {"copy": (50, 1), "other": (20, 1), "sin": (30, 1)}


def test_a_kernel_in_one_thread_is_timed_by_its_event():
    assert times(plane("/host:CPU", [op("copy", 0, 10, 7), end("copy", 9, 7), op("sin", 100, 5, 8)])) == {
        "copy": (10, 1),
        "sin": (5, 1),
    }


LOOP = """HloModule jit_lazynb

%body (c: f32[]) -> f32[] {
  %c = f32[] parameter(0)
  ROOT %step = f32[] sine(%c)
}

%condition (d: f32[]) -> pred[] {
  %d = f32[] parameter(0)
  ROOT %less = pred[] compare(%d, %d), direction=LT
}

ENTRY %main (x: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %loop = f32[] while(%x), condition=%condition, body=%body
  ROOT %after = f32[] cosine(%loop)
}
"""


def test_a_loop_continued_by_another_thread_is_timed_to_its_end():
    host = plane(
        "/host:CPU",
        [op("loop", 0, 21, 1), op("step", 1, 19, 2)],
        [
            op("step", 30, 20, 3),
            end("step", 49, 3),
            op("after", 60, 40, 4),
            end("after", 99, 4),
            end("loop", 101, 1),
            end("step", 102, 2),
        ],
    )
    assert times(host, module=hlo.parse(LOOP)) == {"loop": (50, 1), "step": (29 + 20, 2), "after": (40, 1)}
    assert times(host) == {
        "loop": (101, 1),
        "step": (29 + 20, 2),
        "after": (40, 1),
    }  # until its end was noted


def test_two_executions_of_a_loop_are_timed_separately():
    """Its first end is noted when all is over; what ran in its second execution is no part of the first."""
    host = plane(
        "/host:CPU",
        [op("loop", 0, 5, 1), op("step", 1, 3, 2)],
        [
            task(2),
            op("loop", 30, 25, 3),
            op("step", 31, 20, 4),
            end("step", 50, 4),
            end("loop", 54, 3),
            op("after", 60, 40, 5),
            end("after", 99, 5),
            end("loop", 101, 1),
            end("step", 102, 2),
        ],
    )
    assert times(host, module=hlo.parse(LOOP)) == {
        "loop": (30 + 25, 2),
        "step": (29 + 20, 2),
        "after": (40, 1),
    }


def test_a_loop_without_a_noted_end_is_timed_to_its_last_step():
    """The program was over, and the profile too, before the last thread had noted what it finished long
    ago."""
    host = plane(
        "/host:CPU",
        [op("loop", 0, 21, 1), op("step", 1, 19, 2)],
        [op("step", 30, 20, 3), end("step", 49, 3), op("after", 60, 40, 4), end("after", 99, 4)],
    )
    assert times(host, module=hlo.parse(LOOP)) == {"loop": (50, 1), "step": (29 + 20, 2), "after": (40, 1)}


def test_times_of_a_device_are_those_of_its_kernels():
    """The host's events with the same names are launches."""
    host = plane("/host:CPU", [op("fusion", 0, 1), op("fusion", 2, 1)])
    device = plane("/device:GPU:0", [op("fusion", 5, 30), op("fusion", 40, 32)], [op("copy", 5, 7)])
    assert times(host, device) == {"fusion": (62, 2), "copy": (7, 1)}


def test_programs_of_one_name_stay_apart():
    data = jax.profiler.ProfileData.text_proto_to_serialized_xspace(
        plane("/host:CPU", [op("fusion", 0, 5, program=2), op("fusion", 10, 7, program=1)])
    )
    run = profiling._run_times(list(profiling._events(data)), profiling._nested_instructions(None))
    first, second = profiling._programs([run, run])
    assert [round(one.timings["fusion"].median * 1e6) for one in (first, second)] == [5, 7]
    assert first.timings["fusion"].runs == 2


def test_branch_not_taken_has_fewer_runs():
    runs = [{("m", 1): {"a": (1e-6, 1)}}, {("m", 1): {"a": (3e-6, 1), "b": (2e-6, 4)}}]
    (program,) = profiling._programs(runs)
    assert program.timings["a"] == profiling.Timing(2e-6, 1e-6, 3e-6, 2, 1)
    assert program.timings["b"] == profiling.Timing(2e-6, 2e-6, 2e-6, 1, 4)


# ---- private names of jaxlib -------------------------------------------------------------------------------


def test_a_new_profile_session_gives_kernel_events():
    session = jc.new_profile()
    jax.block_until_ready(jax.jit(jnp.sort)(jnp.ones(1000)))
    data = session.stop()
    assert isinstance(data, bytes)
    planes = list(jax.profiler.ProfileData.from_serialized_xspace(data).planes)
    events = [event for one in planes for line in one.lines for event in line.events]
    assert any("hlo_op" in dict(event.stats) for event in events)
    assert not any(event.name.startswith("$") for event in events)  # no Python calls
    first = jc.new_profile()
    second = jc.new_profile()
    with pytest.raises(RuntimeError, match="Another profiling session"):
        second.stop()
    assert isinstance(first.stop(), bytes)
