"""What reading would run, told before: it comes true, and telling changes nothing."""

from __future__ import annotations

import threading

import jax
import jax.numpy as jnp
import numpy as np

import lazynb
from lazynb.config import config
from lazynb.recording.lazy_trace import thread_trace
from lazynb.recording.trace_registry import trie
from lazynb.running.executable_cache import executables
from lazynb.running.read_cost import read_cost


def state():
    """All that a look might change."""
    return (
        list(map(id, executables.order)),
        executables.hits,
        executables.misses,
        trie.size,
        len(lazynb.events()),
        len(lazynb.breaks()),
        [id(pending.state) for pending in thread_trace().all_pending()],
        [
            (len(pending.state.large), len(pending.state.executables))
            for pending in thread_trace().all_pending()
        ],
    )


def foretold(tensor):
    """The outlook for ``tensor``, having seen that it comes true: what is run, whether from the cache."""
    before = state()
    ahead = read_cost([tensor])
    assert state() == before
    assert ahead is not None
    ran = len(lazynb.events())
    np.asarray(tensor)
    events = list(lazynb.events())[ran:]
    assert sum(event.computed for event in events) == ahead.operations
    assert len(events) == ahead.programs
    if ahead.cached is not None:
        assert ahead.compiled == sum(event.cache == "hit" for event in events)
        assert ahead.cached == all(event.cache == "hit" for event in events)
    return ahead


def one():
    x = jnp.arange(6.0)
    return (x * 2).sum()


def with_others():
    x = jnp.arange(6.0)
    kept = jnp.cos(x)
    total = (x * 2).sum()
    return total, kept


def dead(extra):
    x = jnp.arange(6.0)
    for _ in range(extra):
        jnp.exp(x)
    return (x * 3).sum()


def called():
    return jax.jit(lambda v: jnp.tanh(v).sum())(jnp.arange(4.0))


@lazynb.lazy()
def test_the_predicted_cost_says_whether_the_program_is_compiled(clean):
    first, second, third = foretold(one()), foretold(one()), foretold(one())
    assert (first.cached, second.cached, third.cached) == (False, True, True)
    assert first.seconds is None and first.ran is None
    assert second.seconds is not None and 0 < second.seconds < 1 and second.ran
    last = f"{1000 * second.seconds:.2f} ms last time"
    assert second.text == f"Reading it runs {second.operations} operations: compiled already, {last}."
    assert first.text == f"Reading it runs {first.operations} operations: not compiled yet."


@lazynb.lazy()
def test_reachable_results_are_counted_and_dead_ones_are_not(clean):
    alone = foretold(one()).operations
    total, kept = with_others()
    assert foretold(total).operations == alone + 1 and not kept.is_pending
    assert foretold(dead(0)).operations == foretold(dead(3)).operations


@lazynb.lazy()
def test_dead_operations_do_not_prevent_a_predicted_cache_hit(clean):
    assert foretold(dead(0)).cached is False
    assert foretold(dead(2)).cached is True  # another path, the same program


@lazynb.lazy()
def test_other_reachable_results_predict_a_cache_miss(clean):
    total, kept = with_others()
    assert foretold(total).cached is False
    del kept
    total, _ = with_others()
    del _
    assert foretold(total).cached is False
    assert foretold(one()).cached is not None


@lazynb.lazy()
def test_a_jitted_function_is_predicted_as_miss_and_then_as_hit(clean):
    assert (foretold(called()).cached, foretold(called()).cached) == (False, True)


@lazynb.lazy()
def test_the_cost_of_several_traces_is_summed(clean, monkeypatch):
    monkeypatch.setattr(config, "max_program", 3)

    def chain():
        x = jnp.arange(4.0)
        for _ in range(7):
            x = jnp.sin(x)
        return x

    first, second = foretold(chain()), foretold(chain())
    assert first.programs == second.programs == 3 and first.operations == 8
    assert (first.cached, second.cached) == (False, True)
    assert second.seconds is None
    assert first.text == "Reading it runs 8 operations in 3 programs: not compiled yet."


@lazynb.lazy()
def test_a_donating_program_is_predicted_as_cached_from_the_second_step(clean):
    """A loop's own large results are donated, which is a program of its own."""
    x = jnp.ones((1024, 1024)) * 2
    lazynb.sync()
    for step in range(4):
        x = x + 1.0
        ahead = foretold(x)
        assert ahead.cached is (step > 0)


@lazynb.lazy()
def test_predicting_the_cost_waits_for_no_result(clean, monkeypatch):
    """Whether an input from outside is nobody else's is known only when it is there: then nothing is said."""

    def refuse(*args):
        raise AssertionError("waited")

    for _ in range(2):
        with lazynb.eager():
            x = jnp.ones((1024, 1024))
        x = x + 1.0
        with monkeypatch.context() as patch:
            patch.setattr(jax, "block_until_ready", refuse)
            ahead = read_cost([x])
        np.asarray(x)
    assert ahead is not None and ahead.cached is None and ahead.text == "Reading it runs 1 operation."


@lazynb.lazy()
def test_a_program_compiled_ahead_is_predicted_as_compiled_but_not_run(clean):
    total = one()
    lazynb.compile(total)
    ahead = read_cost([total])
    assert (
        ahead.cached
        and ahead.ran is False
        and ahead.text.endswith("operations: compiled already, not run yet.")
    )


@lazynb.lazy()
def test_values_that_are_not_pending_have_no_predicted_cost(clean):
    total = one()
    float(total)
    assert read_cost([total]) is None and read_cost([]) is None
    assert lazynb.graph(total).outlook is None


@lazynb.lazy()
def test_sync_has_the_predicted_cost_of_all_pending_operations(clean):
    total, kept = with_others()
    ahead = read_cost([])
    assert ahead.text == f"lazynb.sync() runs {ahead.operations} operations: not compiled yet."
    lazynb.sync()
    assert lazynb.events()[-1].computed == ahead.operations
    pair = with_others()
    assert read_cost(pair).text.startswith("Reading them runs ")


def test_no_cost_is_predicted_while_another_thread_holds_the_trace(clean):
    with lazynb.lazy():
        total = one()
    held, done = threading.Event(), threading.Event()

    def work():
        with total._trace.lock:
            held.set()
            done.wait(10)

    thread = threading.Thread(target=work)
    thread.start()
    held.wait(10)
    try:
        assert read_cost([total]) is None
    finally:
        done.set()
        thread.join()
    assert read_cost([total]) is not None


@lazynb.lazy()
def test_the_cost_of_a_long_trace_is_predicted(clean):
    x = jnp.arange(4.0)
    for _ in range(1900):
        x = x + 1.0
    assert read_cost([x]).operations == 1901


@lazynb.lazy()
def test_the_graph_shows_the_predicted_cost_in_each_format(clean):
    total = one()
    graph = lazynb.graph(total)
    sentence = graph.outlook.text
    assert str(graph).splitlines()[2 if graph.title else 1] == sentence and sentence in repr(graph)
    bundle = graph._repr_mimebundle_()
    assert sentence in bundle["text/html"] and sentence in bundle["text/plain"]
    (data,) = [form for mime, form in bundle.items() if mime.endswith("json")]
    assert data["outlook"] == {
        "text": sentence,
        "operations": 3,
        "programs": 1,
        "compiled": 0,
        "cached": False,
        "seconds": None,
        "ran": None,
        "tensors": 1,
    }
    assert sentence in total._repr_mimebundle_()["text/plain"]
    assert total.is_pending
