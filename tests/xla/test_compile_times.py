"""What compiling took: real programs against a plain reading of XLA's profile, and made-up profiles whose answer
is known."""

from __future__ import annotations

import types
import warnings
from collections import Counter

import jax
import jax.numpy as jnp
import pytest
from jax.profiler import ProfileData

import lazynb
from lazynb import jax_compat as jc
from lazynb.running.compiler_dump import CompileProfile, Dump
from lazynb.xla.cost.compile_times import (
    FROM_CACHED_COMPILATION,
    FROM_SECOND_COMPILATION,
    FROM_THIS_COMPILATION,
    PASSES_STAGE,
    SCHEDULING_STAGE,
    pass_times,
)
from lazynb.xla.cost.line_work import line_work
from lazynb.xla.cost.profiler_events import CompileEvent, NoCompileProfile, read_events
from lazynb.xla.external.external_programs import compile_stage, read_compiled


@pytest.fixture(autouse=True)
def quiet():
    """jaxlib's iterators come without a module name, of which Python 3.12 warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def mixed(x, w, key):
    noise = jax.random.normal(key, (16, 16))
    total = jnp.cumsum(x, 0)
    more = x + 1
    return jax.lax.fori_loop(0, 3, lambda i, a: jnp.tanh(a @ w), noise + total), more


def softmax(x, w, key):
    return jax.nn.softmax(x @ w)


def product(x, w, key):
    return x @ w


MATRIX = jax.ShapeDtypeStruct((16, 16), jnp.float32)
KEY = jax.eval_shape(lambda: jax.random.key(0))


@pytest.fixture(params=[mixed, softmax, product])
def compilation(request, clean):
    return lazynb.compile(request.param, MATRIX, MATRIX, KEY)


def plain_events(data: bytes) -> list[tuple[str, dict]]:
    planes = ProfileData.from_serialized_xspace(data).planes
    return [
        (event.name, dict(event.stats)) for plane in planes for line in plane.lines for event in line.events
    ]


def test_lowering_is_apart_from_compiling(compilation):
    [trace], [times] = compilation.traces, compilation.compile_times
    assert times.source == FROM_THIS_COMPILATION and not times.why_not and times.loading is None
    assert times.lowering > 0 and times.compiling > 0
    assert times.lowering + times.compiling == pytest.approx(trace.compile_seconds)
    assert 0 < times.xla <= times.compiling


def test_the_stages_sum_to_the_time_of_xla(compilation):
    [times] = compilation.compile_times
    assert sum(stage.seconds for stage in times.stages) == pytest.approx(times.xla)
    assert all(stage.seconds >= 0 for stage in times.stages)
    passes = times.stage(PASSES_STAGE) + times.stage(SCHEDULING_STAGE)
    assert 0 < sum(one.seconds for one in times.passes) + times.checking <= passes


def test_each_pass_is_one_that_xla_timed(compilation):
    [trace], [times] = compilation.traces, compilation.compile_times
    noted = Counter(name for name, _ in plain_events(trace.dump.profile.data))
    found = Counter(one.name for one in times.passes)
    assert found and all(count <= noted[name] for name, count in found.items())
    for name in ("algsimp", "fusion", "layout-assignment", "copy-insertion"):
        assert found[name] == noted[name] > 0
    assert not any("(" in name or "::" in name or name == "RunInvariantCheckers" for name in found)


def test_the_passes_that_changed_something_are_those_of_the_dump(compilation):
    [trace], [times] = compilation.traces, compilation.compile_times
    by_file = {one.file: one for one in times.passes if one.file is not None}
    written = [path.name for path in trace.dump.files("*.after_*.before_*.txt")]
    after = [name for name in written if "after_pipeline-start" not in name]
    assert len(by_file) == sum(one.changed for one in times.passes) == len(after) > 0
    ended = [step for step in trace.passes if step.file in by_file]  # the others are in the midst of a pass
    assert ended and all(by_file[step.file].name.replace(" ", "_") == step.name for step in ended)
    assert all(
        f".{step.file:04}." not in name for step in trace.passes if step not in ended for name in after
    )
    assert all(0 <= one.writing <= one.seconds for one in times.passes)
    assert all(one.writing == 0 for one in times.passes if not one.changed)
    assert 0 < times.writing < times.stage(PASSES_STAGE) + times.stage(SCHEDULING_STAGE)


def test_the_timed_kernels_are_those_with_machine_code(compilation):
    [trace], [times] = compilation.traces, compilation.compile_times
    clusters = {cluster.name for cluster in trace.clusters}
    names = [kernel.name for kernel in times.kernels]
    assert len(set(names)) == len(names) and set(names) <= clusters
    files = [path.name for path in trace.dump.files("*.o") if ".part_" not in path.name]
    assert len(names) == len(files)
    lowered = [
        stats for name, stats in plain_events(trace.dump.profile.data) if name == "FusionCompiler::Compile"
    ]
    assert sum(kernel.seconds is not None for kernel in times.kernels) == len(lowered)


def test_a_cache_hit_names_the_compilation_of_its_times(clean):
    first = lazynb.compile(softmax, MATRIX, MATRIX, KEY)
    again = lazynb.compile(softmax, MATRIX, MATRIX, KEY)
    assert (first.cache_event, again.cache_event) == ("compiled", "hit")
    [times] = again.compile_times
    assert times.lowering is None and times.compiling is None
    assert times.source == FROM_CACHED_COMPILATION and times.xla == first.compile_times[0].xla


def test_a_program_that_ran_before_is_not_timed_until_it_is_compiled_again(clean):
    x = jnp.ones((16, 16))
    with lazynb.lazy():
        float(jnp.tanh(x).sum())
        compilation = lazynb.compile(jnp.tanh(x).sum())
    [trace] = compilation.traces
    assert trace.cache_event == "hit" and not trace.has_dump
    assert trace.compile_times.why_not == "Not compiled here: the program was in lazynb's cache."
    assert trace.compile_times.xla is None and not trace.compile_times.passes
    trace.passes
    assert trace.compile_times.source == FROM_SECOND_COMPILATION and trace.compile_times.xla > 0
    assert trace.compile_times.compiling is None


def test_a_program_from_the_persistent_cache_was_loaded(clean, tmp_path, monkeypatch):
    monkeypatch.setattr(lazynb.config, "persistent_cache", True)
    monkeypatch.setattr(lazynb.config, "persistent_cache_dir", str(tmp_path))
    lazynb.compile(mixed, MATRIX, MATRIX, KEY)
    lazynb.clear_cache()
    loaded = lazynb.compile(mixed, MATRIX, MATRIX, KEY)
    assert loaded.cache_event == "disk"
    [times] = loaded.compile_times
    assert times.why_not == "Not compiled here: the program was loaded from the persistent cache."
    assert times.compiling is None and times.xla is None
    assert times.lowering > 0 and times.loading > 0


def test_a_precompiled_program_has_no_times():
    lowered = jax.jit(softmax).lower(MATRIX, MATRIX, KEY)
    [times] = read_compiled(lowered.compile()).compile_times
    assert times.why_not == "Not compiled here: the program was given compiled."
    assert times.lowering is None and times.compiling is None
    [times] = compile_stage(lowered).compile_times
    assert times.lowering is None and times.compiling > 0 and times.source == FROM_THIS_COMPILATION


def test_a_profile_in_progress_is_not_disturbed(clean):
    session = jc.new_profile()
    [times] = lazynb.compile(softmax, MATRIX, MATRIX, KEY).compile_times
    data = session.stop()
    assert "profiler was in use" in times.why_not and times.xla is None
    assert times.lowering > 0 and times.compiling > 0
    assert any(name == "CpuCompiler::RunBackend" for name, _ in plain_events(data))


def test_two_programs_at_a_time_are_not_told_apart():
    profile = CompileProfile()
    with profile.taken("cpu"):
        for number in (3.25, 4.75):
            with jc.no_cache():
                jax.jit(lambda x: jnp.sin(x) * number).lower(MATRIX).compile()  # noqa: B023
    with pytest.raises(NoCompileProfile, match="other programs"):
        read_events(profile.data)


def test_other_chips_and_processes_are_not_profiled():
    for platform, why in (("cuda", "for CPUs alone, not for cuda"), (None, "another process")):
        profile = CompileProfile()
        with profile.taken(platform):
            pass
        assert profile.data is None and why in profile.why_not


def test_an_old_dump_releases_its_profile(clean):
    [trace] = lazynb.compile(softmax, MATRIX, MATRIX, KEY).traces
    dump = trace.dump
    assert dump.profile.data
    newer = [Dump() for _ in range(16)]
    assert newer and not dump.exists and dump.profile.data is None
    assert trace.compile_times.xla is None and "dropped" in trace.compile_times.why_not
    assert trace.compile_times.lowering > 0


def test_an_error_of_the_compiler_comes_through_and_ends_the_profile():
    profile = CompileProfile()
    with pytest.raises(ZeroDivisionError), profile.taken("cpu"):
        raise ZeroDivisionError
    jc.new_profile().stop()  # it would raise if the first were still running


# ---- passes ------------------------------------------------------------------------------------------------


def event(name, start, end, *inside, module=""):
    return CompileEvent(name, start, end, module, list(inside))


def made_up(tmp_path, *files):
    for number, (pipeline, after, size) in enumerate(files):
        (tmp_path / f"module_1.jit_f.{number:04}.{pipeline}.after_{after}.txt").write_text("x" * size)
    dump = Dump()
    return types.SimpleNamespace(files=lambda pattern: sorted(tmp_path.glob(pattern)), keep=dump)


def test_the_time_of_writing_dumps_is_subtracted_from_each_pass(tmp_path):
    checks = event("RunInvariantCheckers", 1.6, 1.7)
    whole = event(
        "CompileCpuExecutable",
        0.0,
        9.0,
        event(
            "main pipe (m)",
            0.0,
            3.0,
            event("RunInvariantCheckers", 0.0, 0.1),
            # 0.2 s for 100 bytes
            event("idle", 0.3, 0.4),
            event("busy", 0.4, 1.7, checks),
            module="m",
        ),
    )
    dump = made_up(
        tmp_path,
        ("main_pipe", "pipeline-start.before_idle", 100),
        ("main_pipe", "busy.before_pipeline-end", 50),
    )
    found = pass_times(whole, dump)
    idle, busy = found.passes
    assert (idle.name, idle.changed, idle.seconds, idle.writing) == ("idle", False, pytest.approx(0.1), 0.0)
    assert (busy.pipeline, busy.changed, busy.file) == ("main pipe", True, 1)
    assert busy.seconds == pytest.approx(1.2) and busy.writing == pytest.approx(0.1)
    assert busy.own == pytest.approx(1.1)
    assert found.checking == pytest.approx(0.2) and found.writing == pytest.approx(0.3)


def test_a_pipeline_in_a_pass_is_counted_once_and_texts_in_its_midst_are_its_own(tmp_path):
    inner = event(
        "inner (m)",
        1.0,
        2.0,
        event("RunInvariantCheckers", 1.0, 1.0),
        event("dce", 1.5, 2.0, event("RunInvariantCheckers", 1.9, 1.9)),
        module="m",
    )
    outer = event(
        "outer (m)",
        0.0,
        4.0,
        event("RunInvariantCheckers", 0.0, 0.0),
        event("inner", 0.5, 3.0, inner, event("RunInvariantCheckers", 3.0, 3.0)),
        module="m",
    )
    files = [
        ("outer", "pipeline-start.before_inner", 10),
        ("inner", "pipeline-start.before_dce", 10),
        ("dce", "halfway", 1),
        ("inner", "dce.before_pipeline-end", 1),
        ("outer", "inner.before_pipeline-end", 1),
    ]
    found = pass_times(event("CompileCpuExecutable", 0.0, 5.0, outer), made_up(tmp_path, *files))
    dce, around = found.passes
    assert (dce.name, dce.seconds, dce.file) == ("dce", pytest.approx(0.5), 3)
    assert dce.writing == pytest.approx(0.1)  # two texts of 1 byte, at 1 s for 20
    assert (around.name, around.seconds, around.file) == ("inner", pytest.approx(1.5), 4)
    assert around.writing == pytest.approx(0.05)


def test_an_inconsistent_profile_gives_no_figure(tmp_path):
    busy = event("busy", 0.5, 1.0, event("RunInvariantCheckers", 1.0, 1.0))
    pipeline = event("main (m)", 0.0, 3.0, event("RunInvariantCheckers", 0.0, 0.0), busy, module="m")
    dump = made_up(
        tmp_path, ("main", "pipeline-start.before_busy", 10), ("main", "other.before_pipeline-end", 10)
    )
    found = pass_times(event("CompileCpuExecutable", 0.0, 5.0, pipeline), dump)
    assert found.writing is None and found.passes[0].writing is None and found.passes[0].file is None
    assert found.passes[0].own == found.passes[0].seconds == pytest.approx(0.5)


# ---- lines -------------------------------------------------------------------------------------------------


def lines_of(compilation):
    [trace] = compilation.traces
    places = {node.id: node.place for node in compilation.snapshot.nodes if node.place is not None}
    return line_work(trace, places)


def test_the_lines_share_all_of_xlas_time(compilation):
    [trace], lines = compilation.traces, lines_of(compilation)
    assert sum(line.operations for line in lines) == trace.operations
    assert sum(line.seconds for line in lines) == pytest.approx(trace.compile_times.xla)
    lowered = [kernel.seconds for kernel in trace.compile_times.kernels if kernel.seconds is not None]
    assert all(line.lowering <= sum(lowered) * 1.0001 for line in lines)
    assert max((line.compiled for line in lines), default=0) <= len(trace.compile_times.kernels)


def test_a_line_of_much_code_comes_before_one_of_little(clean):
    lines = lines_of(lazynb.compile(mixed, MATRIX, MATRIX, KEY))
    by_text = {line.place.text.partition(" = ")[0]: line for line in lines}
    noise, more = by_text["noise"], by_text["more"]
    assert noise.before > 50 and noise.after > 50 and noise.compiled >= 2
    assert (more.operations, more.compiled) == (1, 1) and 1 <= more.before <= 2  # the constant is spread
    assert noise.seconds > more.seconds and lines.index(noise) < lines.index(more)


def test_library_calls_are_not_compiled(clean):
    [line] = lines_of(lazynb.compile(product, MATRIX, MATRIX, KEY))
    assert (line.operations, line.before, line.compiled, line.lowering) == (1, 1, 0, 0.0)


def test_lines_without_times_have_counts(clean):
    x = jnp.ones((16, 16))
    with lazynb.lazy():
        float(jnp.tanh(x).sum())
        compilation = lazynb.compile(jnp.tanh(x).sum())
    [line] = lines_of(compilation)
    assert line.operations == 2 and line.after >= 2
    assert line.before is None and line.seconds is None and line.lowering is None
