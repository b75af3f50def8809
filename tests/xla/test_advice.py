"""Advice: steps that take longer to record than to run, and which function to wrap."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import pytest

import lazynb
from lazynb.compare.costs import recording_advice
from lazynb.running.run_statistics import RecordingShare, recording_share
from lazynb.user_code.call_graph import CallGraph, changes


def loss_fn(params, x):
    hidden = jnp.tanh(x @ params["w"] + params["b"])
    return jnp.mean((hidden - 1) ** 2)


def step(params, x):
    value, grads = jax.value_and_grad(loss_fn)(params, x)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


def train(params, x, steps=8):
    losses = []
    for _ in range(steps):
        params, value = step(params, x)
        losses.append(float(value))
    return params, losses


def start():
    return {"w": jnp.ones((8, 8)), "b": jnp.zeros(8)}, jnp.ones((4, 8))


def test_a_step_that_takes_longer_to_record_than_to_run_gets_advice(clean):
    found = lazynb.explain(train, *start())
    [one] = found.advice
    assert one.record_seconds > one.run_seconds > 0
    assert one.function == "step" and one.location.text == "def step(params, x):"
    assert one.covered == one.operations and one.count >= 6
    assert one.lazy_seconds > one.record_seconds
    assert one.gain == pytest.approx(one.lazy_seconds / one.run_seconds) and one.gain > 1
    assert one.doubts == () and one.inputs == "measured on your values"
    assert "`step = jax.jit(step)`" in one.text and "measured" in one.text
    assert "Recording takes longer than running" in repr(found)


def test_following_the_advice_leaves_no_further_advice(clean):
    """Wrapped, the step is one operation, and there is nothing left to say."""
    params, x = start()
    before = lazynb.explain(train, params, x).advice[0]
    wrapped = jax.jit(step)

    def train_wrapped(params, x):
        for _ in range(8):
            params, value = wrapped(params, x)
            float(value)
        return params

    found = lazynb.explain(train_wrapped, params, x)
    assert len(found.advice) == 0
    assert found.operations == 8 and before.operations > 10


def test_a_loop_that_is_begun_again_is_the_same_step(clean):
    def epochs(params, x):
        for _ in range(3):
            params, _ = train(params, x, steps=5)
            print((x * 2).sum())
        return params

    [one] = lazynb.explain(epochs, *start()).advice
    assert one.function == "step" and one.count >= 11


def test_a_step_that_runs_long_gets_no_advice(clean):
    def heavy(x):
        for _ in range(4):
            x = jnp.tanh(x @ x) + 0.1 * x - jnp.mean(x)
            float(x[0, 0])
        return x

    assert len(lazynb.explain(heavy, jnp.ones((700, 700))).advice) == 0


def test_advice_on_a_function_with_a_break_inside_says_to_remove_the_break(clean):
    def update(x):
        y = x - jax.grad(lambda x: jnp.sum(jnp.sin(x) * jnp.tanh(x) + jnp.exp(x) * 0.5))(x)
        float(y.sum())
        return y

    def run(x):
        for _ in range(6):
            x = update(x)
        return x

    [one] = lazynb.explain(run, jnp.ones(4)).advice
    assert one.doubts == ("a trace break lies inside it",)
    assert one.function.endswith("update") and "take that out" in one.text


class Model:
    def __init__(self):
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return sum(
            jax.tree.leaves(jax.grad(loss_fn)({"w": jnp.ones((8, 8)), "b": jnp.zeros(8)}, x))[1].sum()
            for _ in range(2)
        )


def test_advice_on_a_function_not_shown_to_be_pure_names_its_state(clean):
    model = Model()

    def run(x):
        for _ in range(6):
            float(model.forward(x))

    [one] = lazynb.explain(run, jnp.ones((4, 8))).advice
    assert one.function == "Model.forward"
    assert any("`calls`" in doubt for doubt in one.doubts) and "cannot be shown to be pure" in one.text


# ---- steps -------------------------------------------------------------------------------------------------


class Fake:
    """A break whose programs are the letters of a name."""

    def __init__(self, name):
        self.name = name

    @property
    def runs(self):
        return [
            type(
                "Seen",
                (),
                {"run": type("Run", (), {"binding": type("Binding", (), {"executable": _PROGRAMS[letter]})})},
            )
            for letter in self.name
        ]


_PROGRAMS = {letter: object() for letter in "abcdefgh"}


@pytest.mark.parametrize(
    ("breaks", "expected"),
    [
        ("aaaa", ["aaaa"]),
        ("aa", []),
        ("abcabcabc", ["abcabcabc"]),
        ("xaaabbb".replace("x", "h"), ["aaa", "bbb"]),
        ("hababab", ["ababab"]),
        ("ababababc", ["abababab"]),
        ("abcdefgh", []),
        ("", []),
    ],
)
def test_repeated_break_sequences_are_found_as_steps(breaks, expected):
    found = list(recording_advice.steps([Fake(letter) for letter in breaks]))
    assert ["".join(one.name for time in step.times for one in time) for step in found] == expected


def test_ten_thousand_breaks_are_looked_through_fast():
    assert len(list(recording_advice.steps([Fake("a")] * 10_000))) == 1


# ---- who calls whom ----------------------------------------------------------------------------------------


def helper(x):
    return x + 1


def outer(x):
    inner = functools.partial(helper)
    return [inner(y) for y in (x,)]


decorated = jax.jit(outer)


def test_calls_are_followed_through_names_wrappers_and_closures():
    closed = helper

    def around(x):
        return closed(x) + sum(outer(x))

    calls = CallGraph([around])
    assert {code.co_name for code in calls.functions} >= {"around", "helper", "outer"}
    assert helper.__code__ in calls.reached(around.__code__)
    assert around.__code__ not in calls.reached(helper.__code__)
    assert outer.__code__ in CallGraph([decorated]).functions
    assert outer.__code__ in CallGraph([functools.partial(decorated)]).functions
    assert Model.forward.__code__ in CallGraph([Model().forward]).functions
    assert len(CallGraph([3, None, int, len, "text"]).functions) == 0


def test_functions_called_from_elsewhere_are_shared():
    calls = CallGraph([outer, lambda x: helper(x)])
    assert calls.shared(outer.__code__) == {helper.__code__}


def test_recursive_functions_are_followed_once():
    def again(x):
        return again(x) if x else 0

    assert CallGraph([again]).reached(again.__code__) == {again.__code__}


def test_assignments_to_outer_variables_and_attributes_are_found():
    count = 0
    box = []

    def counting(x):
        nonlocal count
        count += 1
        box.attribute = x
        local = {"a": 1}
        local["b"] = 2
        return local

    assert {what for what, _ in changes(counting.__code__)} == {
        "`count` of the function around it",
        "the attribute `attribute`",
    }
    assert list(changes(helper.__code__)) == []


# ---- the ordinary session ----------------------------------------------------------------------------------


def test_the_share_of_recording_in_a_session_is_measured(clean):
    assert recording_share() == RecordingShare(0, 0.0, 0.0) and recording_share().share == 0.0
    with lazynb.lazy():
        train(*start(), steps=40)
    small = recording_share()
    assert small.runs >= 35 and small.record_seconds > 0 and small.run_seconds > 0
    lazynb.clear_cache()
    with lazynb.lazy():
        x = jnp.ones((700, 700))
        for _ in range(5):
            float((x @ x)[0, 0])
    large = recording_share()
    assert large.share < 0.5 and large.share < small.share
    assert large.hint == ""


def test_the_hint_is_for_sessions_in_which_recording_dominates():
    assert (
        "90%" in RecordingShare(100, 9.0, 1.0).hint and "lazynb.explain" in RecordingShare(100, 9.0, 1.0).hint
    )
    assert RecordingShare(5, 9.0, 1.0).hint == "" and RecordingShare(100, 1.0, 9.0).hint == ""
