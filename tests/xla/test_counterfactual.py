"""What a break costs: what is joined, what stays a result, that the joined program gives the same values, and
the figures."""

from __future__ import annotations

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from lazynb.compare.costs import counterfactual
from lazynb.compare.costs.joint_program import JointProgram, SeparateRuns, Spread, measure
from lazynb.recording.break_reasons import ASKED_FOR
from lazynb.running.executable_cache import executables
from lazynb.running.flush import execution
from lazynb.running.observers import observing
from lazynb.running.run_recorder import RecordedBreak, RunRecorder


def watch(fn, *args):
    """Runs ``fn`` lazily before an observer; both that and what it returned, which must stay in reach."""
    observer = RunRecorder()
    with lazynb.lazy(), observing(observer):
        result = fn(*args)
        execution.run_all(ASKED_FOR)
    return observer, result


# ---- programs: each with how many results the program without its breaks has. (Variables of the function still run count.) ---


def read_only(x):
    s = (x * 2).sum()
    float(s)
    return jnp.sin(s) + x


def kept(x):
    y = x * 2
    float(y.sum())
    return y, jnp.sin(y)


def dropped(x):
    y = x * 2
    z = y + 1
    float(z.sum())
    y = jnp.sin(z)
    del z
    return y


def loop(x):
    for _ in range(5):
        x = jnp.tanh(x) * 1.1
        if x.sum() > 1e9:
            break
    return x


def numbers(x):
    total = 0.0
    for k in range(12):
        x = x * (1.0 + k / 10) + k
        total += x.mean().item()
    return x + total


def through_python(x):
    scale = float(jnp.abs(x).max())
    return x / scale


def weak(x):
    y = jnp.sum(x) * 2.0
    int(y)
    return y + 1, y * x.astype(jnp.bfloat16)


def keys(x):
    key = jax.random.key(3)
    for _ in range(3):
        key, own = jax.random.split(key)
        x = x + jax.random.normal(own, x.shape)
        print(x.sum())
    return x, key


def gradients(x):
    params = {"w": jnp.ones((4, 4)), "b": jnp.zeros(4)}

    def loss(params):
        return jnp.mean(jnp.tanh(x @ params["w"] + params["b"]) ** 2)

    for _ in range(3):
        value, grads = jax.value_and_grad(loss)(params)
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
        float(value)
    return params


def barriers(x):
    for _ in range(3):
        x = jnp.cos(x) @ jnp.ones((4, 4))
        lazynb.sync()
    return x


PROGRAMS = {
    read_only: 2,
    kept: 3,
    dropped: 2,
    loop: 6,
    numbers: 13,
    through_python: 2,
    weak: 3,
    keys: 6,
    gradients: 7,
    barriers: 1,
}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_the_joined_program_gives_what_the_parts_give(program, clean):
    observer, result = watch(program, jnp.linspace(-1.0, 2.0, 16).reshape(4, 4))
    apart = SeparateRuns(observer.breaks)
    apart.find_values()
    joined = JointProgram(apart)
    outputs = apart.outputs()
    expected = dict(
        zip([(seen.number, slot) for seen in apart.runs for slot in seen.wanted], apart.run()(), strict=True)
    )
    found = joined.run()()
    assert len(outputs) == len(found) == PROGRAMS[program]
    assert apart.made_up == 0
    for key, value in zip(outputs, found, strict=True):
        one, other = expected[key], value
        assert (one.shape, one.dtype, one.committed) == (other.shape, other.dtype, other.committed)
        if jnp.issubdtype(one.dtype, jax.dtypes.extended):
            one, other = jax.random.key_data(one), jax.random.key_data(other)
        else:
            assert one.weak_type == other.weak_type
        rtol = 2e-2 if program is weak else 1e-5  # bfloat16
        np.testing.assert_allclose(np.asarray(one, np.float64), np.asarray(other, np.float64), rtol=rtol)
    del result


@pytest.mark.parametrize("bits", [32, 64])
def test_the_joined_program_runs_under_the_recorded_x64_mode(bits, clean):
    with jax.enable_x64(bits == 64):
        x = jnp.linspace(0.0, 1.0, 7)
        observer, result = watch(lambda x: (float(x.sum()), jnp.sin(x.sum() * 2.0))[1], x)
    apart = SeparateRuns(observer.breaks)
    apart.find_values()
    [_, value] = JointProgram(apart).run()()
    assert value.dtype == (jnp.float64 if bits == 64 else jnp.float32) and value.dtype == result.dtype


# ---- against the program that lazynb makes where the break is really gone ----------------------------------


def chain(x, breaks):
    for _ in range(6):
        x = jnp.sin(x) * 1.01 + 0.5
        if breaks:
            x.block_until_ready()
    return x


def losses(x, breaks):
    kept = []
    for _ in range(4):
        x = x * 1.01 + x.mean()
        total = x.sum()
        kept.append(total)
        if breaks:
            float(total)
    return x, kept


def training(x, breaks):
    params = {"w": jnp.ones((16, 4)), "b": jnp.zeros(4)}

    def loss(params):
        return jnp.mean(jnp.tanh(x[:, :16] @ params["w"] + params["b"]) ** 2)

    for number in range(3):
        value, grads = jax.value_and_grad(loss)(params)
        if breaks and number < 2:
            value.block_until_ready()
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
        del value, grads
    return params


def passes(x, breaks):
    y = jnp.exp(x) - 1
    if breaks:
        lazynb.sync()
    y = (y @ y.T) * 0.5
    if breaks:
        lazynb.sync()
    return y.max(axis=0)


@pytest.mark.parametrize("program", [chain, losses, training, passes], ids=lambda program: program.__name__)
def test_the_joined_program_equals_the_one_without_the_break(program, clean):
    x = jnp.linspace(0.1, 0.9, 64 * 64).reshape(64, 64)
    observer, result = watch(program, x, True)
    apart = SeparateRuns(observer.breaks)
    apart.find_values()
    joined = JointProgram(apart).executable
    del result
    lazynb.clear_cache()
    with lazynb.lazy():
        result = program(x, False)
        lazynb.sync()
    [real] = executables.order
    assert _plain(joined) == _plain(real)
    assert (joined.operations, len(joined.wanted)) == (real.operations, len(real.wanted))
    del result


def _plain(executable):
    """The optimised module without what says where each instruction comes from."""
    text = re.sub(r", (metadata|origin|stack_frame_id)=({[^}]*}|\S+)", "", executable.compiled.as_text())
    return [line for line in text.splitlines() if " = " in line]


# ---- figures -----------------------------------------------------------------------------------------------


def straight(x):
    y = x * 2 + 1
    y.block_until_ready()
    y = y * 3 - 1
    return y


def test_one_break_has_counts_of_programs_kernels_and_bytes(clean):
    [one] = lazynb.explain(straight, jnp.ones(1000)).counterfactuals
    assert (one.code, one.kind, one.location.text) == ("LNB202", "block", "y.block_until_ready()")
    assert (one.count, one.followed, one.joined, one.inferred) == (1, 1, 1, False)
    assert one.operations == 4
    assert one.programs == (2, 1) and one.compiles == (2, 1)
    assert one.kernels == (2, 1)
    assert one.bytes == (
        16_000,
        8_000,
    )  # the first y is not written and read again
    assert one.compile_seconds.then > 0 and one.compile_seconds.now > 0
    assert one.now.low <= one.now.median <= one.now.high and one.now.runs > 3
    assert one.saved == pytest.approx(one.now.median - one.then.median)
    assert one.total == one.saved
    assert one.inputs == "measured on your values" and one.problem == ""
    assert "the program takes the same path" in one.assumptions


def test_a_loop_is_joined_in_part_and_the_rest_is_inferred(clean):
    def train(x):
        for _ in range(50):
            x = jnp.sin(x) + 0.1
            float(x.sum())
        return x

    [one] = lazynb.explain(train, jnp.ones(64)).counterfactuals
    assert (one.count, one.followed) == (50, 49)  # nothing runs after the last
    assert one.joined == counterfactual.BREAKS == 32 and one.inferred
    assert one.programs == (33, 1) and one.compiles == (1, 1)
    assert one.total == pytest.approx(one.saved * 49)
    assert one.saved == pytest.approx((one.now.median - one.then.median) / 32)


def test_long_iterations_are_joined_up_to_a_bound(clean):
    def train(x):
        for _ in range(6):
            for _ in range(90):
                x = x * 1.01
            float(x.sum())
        return x

    [one] = lazynb.explain(train, jnp.ones(8)).counterfactuals
    assert one.operations <= counterfactual.JOINED and one.joined == 2


def test_other_breaks_between_the_joined_ones_stay(clean):
    def train(x):
        for _ in range(5):
            x = jnp.sin(x) + 0.1
            float(x.sum())
            y = x * 3
            if y.sum() > 0:
                x = x + 1
        return x

    for one in lazynb.explain(train, jnp.ones(64)).counterfactuals:
        assert one.joined == 1 and one.programs == (2, 1)


def test_breaks_of_several_lines_are_also_left_out_together(clean):
    def train(x):
        for _ in range(12):
            x = jnp.sin(x) + 0.1
            float(x.sum())
            if x.mean() > 100:
                break
        return x * 2

    found = lazynb.explain(train, jnp.ones(64))
    assert found.together.kind == "all" and found.together.count == found.together.followed == 24
    assert found.together.joined == 24 and found.together.programs == (25, 1)
    assert any("branch" in text for text in found.together.assumptions)
    assert "All of them left out (24 of 24 in one program)" in repr(found)
    assert found.to_dicts()["together"]["joined"] == 24
    assert lazynb.explain(straight, jnp.ones(10)).together is None


def test_rows_are_sorted_by_the_time_saved(clean):
    def program(x, small):
        y = x
        for _ in range(4):
            y = y * 1.01 + 0.5
            y.block_until_ready()
        s = small + 1
        float(s)
        return y, s * 2

    first, *_, last = lazynb.explain(program, jnp.ones(4_000_000), jnp.ones(())).counterfactuals
    assert (first.kind, last.kind) == ("block", "float")
    assert first.saved > 0
    assert first.total > (last.total or 0.0)


def test_a_difference_is_clear_when_the_middle_halves_lie_apart(clean):
    [one] = lazynb.explain(straight, jnp.ones(10)).counterfactuals

    def with_times(now, then):
        return dataclasses.replace(
            one, now=Spread(sum(now) / 2, *now, 9), then=Spread(sum(then) / 2, *then, 9)
        )

    assert with_times((2.0, 3.0), (0.5, 1.0)).clear and with_times((0.5, 1.0), (2.0, 3.0)).clear
    assert not with_times((1.0, 3.0), (0.5, 2.0)).clear
    assert not dataclasses.replace(one, now=None).clear


def test_a_branch_break_states_its_assumption(clean):
    def program(x):
        if x.sum() > 0:
            x = x * 2
        return x

    [one] = lazynb.explain(program, jnp.ones(3)).counterfactuals
    assert any("branch" in text and "jnp.where" in text for text in one.assumptions)


# ---- why there are no figures ------------------------------------------------------------------------------


def only_last(x):
    return float((x + 1).sum())


def on_two_devices(x):
    y = x + 1
    return jax.device_put(y, jax.devices()[1]) * 3


def calling_back(x):
    for _ in range(2):
        x = jax.pure_callback(lambda a: np.asarray(a) + 1, jax.ShapeDtypeStruct((3,), np.float32), x)
        float(x.sum())
    return x


def reconfigured(x):
    with jax.default_matmul_precision("highest"):
        y = jnp.sin(x)
        float(y.sum())
    with jax.enable_x64(True):
        return jnp.cos(y) * 2


NO_FIGURES = {
    only_last: "nothing ran after it",
    on_two_devices: "different devices",
    calling_back: "calls Python back",
    reconfigured: "configuration",
}


@pytest.mark.parametrize("program", NO_FIGURES, ids=lambda program: program.__name__)
def test_breaks_without_figures_state_the_reason(program, clean):
    found = lazynb.explain(program, jnp.ones(3)).counterfactuals
    assert any(NO_FIGURES[program] in one.problem for one in found), found
    assert all(one.saved is None and one.total is None for one in found if one.problem)


def test_programs_longer_than_max_program_are_not_joined(clean, monkeypatch):
    monkeypatch.setattr(lazynb.config, "max_program", 20)

    def program(x):
        for _ in range(2):
            for _ in range(15):
                x = x + 1
            float(x.sum())
        return x

    [one] = lazynb.explain(program, jnp.ones(3)).counterfactuals
    assert "max_program" in one.problem and one.joined == 0


def breaks_twice(x):
    x = x + 1
    float(x)
    x = x * 2
    int(x)
    return x - 3


def test_only_the_costliest_rows_are_worked_out(clean, monkeypatch):
    monkeypatch.setattr(counterfactual, "MOST", 1)

    found = lazynb.explain(breaks_twice, jnp.ones(())).counterfactuals
    assert [one.problem.startswith("not worked out") for one in found] == [False, True]


def test_breaks_beyond_the_time_limit_are_not_worked_out(clean, monkeypatch):
    monkeypatch.setattr(counterfactual, "PATIENCE", 0)

    found = lazynb.explain(breaks_twice, jnp.ones(())).counterfactuals
    assert sorted(one.problem.startswith("not worked out") for one in found) == [False, True]


def test_a_callback_is_not_called_again(clean):
    calls = []

    def host(a):
        calls.append(1)
        return np.asarray(a) + 1

    def program(x):
        for _ in range(3):
            x = jax.pure_callback(host, jax.ShapeDtypeStruct((3,), np.float32), x)
            float(x.sum())
        return x

    lazynb.explain(program, jnp.ones(3))
    assert len(calls) == 3


def test_assumptions_are_stated_only_for_existing_break_kinds():
    assert counterfactual._NEEDS.keys() <= lazynb.recording.break_reasons.REASONS.keys()


# ---- it leaves no traces -----------------------------------------------------------------------------------


def large(x):
    for _ in range(4):
        x = x * 1.5 + 1
        float(x[0])
    return x


def donated_inputs(run):
    lazynb.clear_cache()
    run()
    return sorted(len(executable.donated) for executable in executables.order)


def test_explaining_donates_the_same_inputs(clean):
    def plainly():
        with lazynb.lazy():
            large(jnp.ones(1 << 20)).block_until_ready()

    alone = donated_inputs(plainly)
    assert any(alone)
    assert donated_inputs(lambda: lazynb.explain(large, jnp.ones(1 << 20))) == alone


def test_deleted_large_inputs_are_replaced_and_reported(clean):
    def program():
        with lazynb.eager():
            x = jnp.ones(1 << 20) + 1
        y = x * 2
        del x
        float(y[0])
        return y + 1

    [one] = lazynb.explain(program).counterfactuals
    assert "made up" in one.inputs and one.saved is not None


def test_explaining_leaves_caches_and_logs_unchanged(clean):
    with lazynb.lazy():
        loop(jnp.ones((4, 4))).block_until_ready()
    lazynb.explain(loop, jnp.ones((4, 4)))
    before = (
        executables.hits,
        executables.misses,
        len(executables.order),
        executables.trie.size,
        lazynb.breaks().total,
        len(lazynb.events()),
    )
    lazynb.explain(loop, jnp.ones((4, 4)))
    after = (
        executables.hits,
        executables.misses,
        len(executables.order),
        executables.trie.size,
        lazynb.breaks().total,
        len(lazynb.events()),
    )
    assert after == (before[0] + 5, before[1], before[2], before[3], before[4] + 5, before[5] + 5)


def test_measuring_alternates_the_programs_after_a_warm_up():
    order = []

    def way(name):
        return lambda: (order.append(name), lambda: jnp.ones(()))[1]

    one, other = measure(way("a"), way("b"))
    assert one.runs == other.runs == len(order) // 2 - 1
    assert order[:4] in (["a", "b", "b", "a"], ["b", "a", "a", "b"])


def test_a_break_is_known_by_line_kind_and_detail(clean):
    observer, _ = watch(loop, jnp.ones((4, 4)))
    assert all(isinstance(one, RecordedBreak) for one in observer.breaks)
    assert len({one.identity for one in observer.breaks}) == 1
