"""``lazynb.explain``: one run of a function, what it reports, and what it does with bad input."""

from __future__ import annotations

import functools
import gc
import json
import threading
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from lazynb.compare.costs import call_explanation as explaining
from lazynb.running.flush import execution
from lazynb.running.observers import process_observers


def train(x, times=4):
    for _ in range(times):
        x = jnp.tanh(x) + 0.1
        if x.sum() > 1e6:
            break
    print(x.mean())
    return x


def test_explain_reports_result_breaks_and_compilations(clean):
    found = lazynb.explain(train, jnp.ones(8), times=3)
    with lazynb.lazy():
        expected = train(jnp.ones(8), times=3)
    np.testing.assert_array_equal(found.result, expected)
    assert isinstance(found, lazynb.Explanation)
    assert {(one.code, one.location.text, one.count) for one in found.breaks} == {
        ("LNB101", "if x.sum() > 1e6:", 3),
        ("LNB108", "print(x.mean())", 1),
    }
    assert {one.location.text for one in found.compilations} == {"if x.sum() > 1e6:", "print(x.mean())"}
    assert all(
        one.origin == "compiled" and one.seconds > 0 and one.operations > 0 for one in found.compilations
    )
    assert {(one.code, one.location, one.count) for one in found.counterfactuals} == {
        (one.code, one.location, one.count) for one in found.breaks
    }
    assert found.operations == 3 * 4 + 1 and found.runs == 4
    assert found.name == "train" and found.seconds > 0 and found.error == ""


def test_the_log_has_the_same_breaks(clean):
    found = lazynb.explain(train, jnp.ones(8))
    logged = {(one.code, one.location, one.count, one.ops, one.compiles) for one in lazynb.breaks()}
    assert {(one.code, one.location, one.count, one.ops, one.compiles) for one in found.breaks} == logged


def test_earlier_breaks_are_not_reported(clean):
    with lazynb.lazy():
        train(jnp.ones(8))
    found = lazynb.explain(lambda: jnp.ones(3) + 1)
    assert not found.breaks and len(found.counterfactuals) == 0
    assert lazynb.breaks().total == 5


def test_the_function_runs_once_and_lazily(clean):
    calls = []

    def fn(x):
        calls.append(x)
        y = x + 1
        assert isinstance(y, lazynb.LazyTensor) and y.is_pending
        return y

    x = jnp.ones(3)
    lazynb.explain(fn, x)
    assert len(calls) == 1 and calls[0] is x


def test_results_left_pending_are_computed_without_a_break(clean):
    kept = {}

    def fn(x):
        kept["aside"] = x * 2
        return {"a": x + 1, "b": [x - 1, "text"]}

    found = lazynb.explain(fn, jnp.ones(3))
    assert not any(value.is_pending for value in (kept["aside"], found.result["a"], found.result["b"][0]))
    assert not found.breaks and lazynb.breaks().total == 0
    assert len(found.compilations) == 1


def test_a_cache_hit_is_not_reported_as_a_compilation(clean):
    lazynb.explain(train, jnp.ones(8))
    found = lazynb.explain(train, jnp.ones(8))
    assert len(found.compilations) == 0 and found.breaks.total == 5


def test_a_recompilation_says_why(clean):
    lazynb.explain(train, jnp.ones(8))
    found = lazynb.explain(train, jnp.ones(9))
    assert found.compilations and all(one.reason for one in found.compilations)


def test_inside_lazy_mode_nothing_else_is_forced(clean):
    with lazynb.lazy():
        other, argument = jnp.ones(3) * 2, jnp.ones(3) * 3
        found = lazynb.explain(lambda x: float((x + 1).sum()), argument)
        after = other + 1
        assert found.result == 12.0
        assert after.is_pending
    assert "some of what its breaks forced was pending before it was called" in found.notes


def test_values_pending_in_other_bodies_stay_pending(clean):
    with lazynb.lazy():
        other = jnp.ones(3) * 2
    lazynb.explain(lambda: jnp.ones(3) + 1)
    assert other.is_pending


def test_nested_explanations_each_report_their_breaks(clean):
    inner = []

    def fn(x):
        inner.append(lazynb.explain(train, x))
        return float(x.sum() + 1)

    outer = lazynb.explain(fn, jnp.ones(8))
    assert inner[0].breaks.total == 5 and outer.breaks.total == 6
    assert not (execution.local.observers or process_observers)


def test_strict_mode_is_suspended(clean):
    with lazynb.lazy(strict=True):
        assert lazynb.explain(train, jnp.ones(8)).breaks.total == 5
        assert execution.local.strict
    assert not execution.local.strict


def test_breaks_of_other_threads_are_not_reported(clean):
    def fn(x):
        def work():
            with lazynb.lazy():
                float((x * 5).sum())

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return x + 1

    assert lazynb.explain(fn, jnp.ones(3)).breaks.total == 0


# ---- bad input ---------------------------------------------------------------------------------------------


def failing(x):
    float(x.sum() + 1)
    raise ValueError("mine")


def test_an_exception_passes_through_with_what_was_explained(clean):
    with pytest.raises(ValueError, match="mine") as raised:
        lazynb.explain(failing, jnp.ones(3))
    found = raised.value.lazynb_explanation
    assert [one.location.text for one in found.breaks] == ["float(x.sum() + 1)"]
    assert found.error == "ValueError: mine" and found.result is None
    assert "ValueError" in repr(found) and found.to_dicts()["error"] == found.error
    assert any("lazynb_explanation" in note for note in raised.value.__notes__)
    assert not (execution.local.observers or process_observers) and not isinstance(
        jnp.ones(3) + 1, lazynb.LazyTensor
    )


def test_an_explanation_that_fails_does_not_cost_the_exception(clean, monkeypatch):
    monkeypatch.setattr(explaining, "counterfactuals", lambda breaks: 1 / 0)
    with pytest.raises(ValueError, match="mine"):
        lazynb.explain(failing, jnp.ones(3))


def test_a_failing_callback_raises_its_error(clean):
    broken = [True]

    def host(a):
        if broken[0]:
            raise RuntimeError("no luck")
        return np.asarray(a)

    def fn(x):
        return jax.pure_callback(host, jax.ShapeDtypeStruct((3,), np.float32), x)

    with pytest.raises(Exception, match="no luck") as raised:
        lazynb.explain(fn, jnp.ones(3))
    assert raised.value.lazynb_explanation.runs == 0
    broken[0] = False  # the traceback keeps the pending tensor


def test_an_interrupt_passes_and_leaves_nothing_behind(clean):
    def fn(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lazynb.explain(fn, jnp.ones(3))
    assert not (execution.local.observers or process_observers)


def generator(x):
    yield x + 1


class Generating:
    def __call__(self, x):
        yield x + 1


async def asynchronous(x):
    return x + 1


@pytest.mark.parametrize(
    "fn", [generator, functools.partial(generator, 1), Generating()], ids=["function", "partial", "object"]
)
def test_a_generator_function_is_refused(fn, clean):
    with pytest.raises(TypeError, match=r"generator function.*list\("):
        lazynb.explain(fn, jnp.ones(3))


def test_async_functions_non_functions_and_transformations_are_refused(clean):
    with pytest.raises(TypeError, match="asynchronous"):
        lazynb.explain(asynchronous, jnp.ones(3))
    with pytest.raises(TypeError, match="not int"):
        lazynb.explain(3)
    with pytest.raises(lazynb.LazynbError, match="inside a JAX transformation"):
        jax.jit(lambda x: lazynb.explain(train, x))(jnp.ones(3))


def test_a_function_that_returns_a_generator_is_noted_as_not_run(clean):
    found = lazynb.explain(lambda x: generator(x), jnp.ones(3))
    assert any("returned a generator" in note for note in found.notes)


def test_a_function_without_arrays_reports_that_nothing_was_recorded(clean):
    found = lazynb.explain(lambda: 3)
    assert found.result == 3 and found.runs == 0
    assert any("nothing was recorded" in note for note in found.notes)
    assert (
        "Nothing was recorded" in repr(found)
        and "Nothing was recorded" in found._repr_mimebundle_()["text/html"]
    )


def test_a_result_that_is_no_pytree(clean):
    class Own:
        def __init__(self, x):
            self.x = x

    assert not lazynb.explain(lambda x: Own(x + 1), jnp.ones(3)).result.x.is_pending


# ---- what it shows and keeps -------------------------------------------------------------------------------


def test_plain_data_is_json(clean):
    data = json.loads(json.dumps(lazynb.explain(train, jnp.ones(8)).to_dicts()))
    assert data["name"] == "train" and data["runs"] == 5
    assert [one["code"] for one in data["breaks"]] == ["LNB101", "LNB108"] or [
        one["code"] for one in data["breaks"]
    ] == ["LNB108", "LNB101"]
    assert data["counterfactuals"][0]["programs"][1] in (1, None)


def test_text_and_html_name_the_same_breaks(clean):
    def fn(x):
        y = x + 1
        if y.sum() > 0 and "<b>" != "&":
            y = y * 2
        return y

    bundle = lazynb.explain(fn, jnp.ones(3))._repr_mimebundle_()
    for text in bundle.values():
        for words in (
            "fn: 1 trace break in 1 line, 2 compilations",
            "Without the break",
            "Compilations",
            "LNB101",
            "Measured on your values",
            "use jnp.where",
        ):
            assert words in text, (words, text)
    assert "&lt;b&gt;" in bundle["text/html"] and '<b>" !=' not in bundle["text/html"]
    assert "<script" not in bundle["text/html"] and "<style" not in bundle["text/html"]


def test_looking_runs_and_compiles_nothing(clean, monkeypatch):
    found = lazynb.explain(train, jnp.ones(8))
    with lazynb.lazy():
        pending = jnp.ones(3) + 1
        events = len(lazynb.events())
        monkeypatch.setattr("lazynb.running.trace_executable.Executable.run", lambda *_: 1 / 0)
        monkeypatch.setattr(
            "lazynb.running.trace_executable.Executable.compile_again", lambda *_, **__: 1 / 0
        )
        assert repr(found) and found._repr_mimebundle_() and found.to_dicts()
        assert pending.is_pending and len(lazynb.events()) == events


def test_a_display_that_fails_degrades(clean, monkeypatch):
    found = lazynb.explain(train, jnp.ones(8))
    monkeypatch.setattr("lazynb.report.explanation_report.headline", lambda one: 1 / 0)
    bundle = found._repr_mimebundle_()
    assert "cannot be shown" in bundle["text/plain"] and "text/html" not in bundle


def test_an_explanation_keeps_only_the_result_alive(clean):
    seen = []

    def fn(x):
        y = x * 2 + 1
        float(y.sum())
        seen.append(weakref.ref(y))
        z = y * 3
        float(z.sum())
        seen.append(weakref.ref(z._value))
        return x - 1

    x = jnp.ones(5) * 4
    seen.append(weakref.ref(x))
    found = lazynb.explain(fn, x)
    del x
    gc.collect()
    assert [reference() for reference in seen] == [None, None, None]
    assert found.result is not None


@pytest.mark.parametrize(("bound", "value"), [("_RUNS", 10), ("_FLOWS", 40)])
def test_the_number_of_recorded_runs_is_bounded(bound, value, clean, monkeypatch):
    monkeypatch.setattr(f"lazynb.running.run_recorder.{bound}", value)

    def fn(x):
        for _ in range(30):
            x = x + 1
            float(x.sum())
        return x

    found = lazynb.explain(fn, jnp.ones(3))
    assert found.breaks.total == 30 and found.runs == 30
    assert any("20 more ran" in note for note in found.notes)
