"""Long chains and long sessions."""

from __future__ import annotations

import gc
import resource
import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
from timing import cpu_seconds

import lazynb
from lazynb.config import config


def test_a_chain_of_ten_thousand_operations_is_shown_and_run(clean):
    x = jnp.ones((8, 8))
    with lazynb.lazy():
        y = x
        for _ in range(10_000):
            y = y + x
        assert repr(y) == "LazyTensor(float32[8,8], pending: 10000 operations)"
        graph = lazynb.graph(y)
        assert cpu_seconds(lambda y=y: lazynb.graph(y)._repr_mimebundle_()) < 1.0
        bundle = lazynb.graph(y)._repr_mimebundle_()
        assert len(graph) == 10_000
        assert "10,000 operations" in bundle["text/plain"]
        assert len(graph.to_jaxpr().eqns) >= 10_000
        np.testing.assert_array_equal(y, np.full((8, 8), 10_001.0))
    del y, graph
    gc.collect()


def test_five_hundred_live_values_are_computed_by_one_sync(clean):
    with lazynb.lazy():
        values = [jnp.float32(i) * 2 for i in range(500)]
        lazynb.sync()
        assert [int(v) for v in values[::100]] == [0, 200, 400, 600, 800]
    assert not any(v.is_pending for v in values)


def test_memory_does_not_grow_over_ten_thousand_flushes(clean):
    x = jnp.ones((16, 16))
    step_inputs = np.float32(0.5)

    def run(steps):
        y = x
        for _ in range(steps):
            y = jnp.tanh(y * step_inputs)
            lazynb.sync(y)
        return y

    with lazynb.lazy():
        run(1_000)
        gc.collect()
        tracemalloc.start()
        run(1_000)
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        run(10_000)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    # The event log is bounded at config.max_events, and fills during the run.
    assert after - before < 8_000_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident < 60_000  # kB
    assert lazynb.cache_info().misses <= 2


def test_a_new_but_equal_jitted_function_in_each_step_is_a_hit(clean):
    x = jnp.ones(4)
    with lazynb.lazy():
        for _ in range(50):
            step = jax.jit(lambda a: jnp.sin(a) * 2 + 1)  # a new function object, the same content
            float(step(x).sum())
    assert lazynb.cache_info().misses == 1


def test_max_executables_bounds_executables_and_recordings(clean, monkeypatch):
    monkeypatch.setattr(config, "max_executables", 5)
    with lazynb.lazy():
        for size in range(1, 15):
            float(jnp.ones(size).sum())
        assert len(lazynb.cache_info()) == 5
        recorded = lazynb.cache_info().recorded
        for size in range(15, 25):
            float(jnp.ones(size).sum())
        assert lazynb.cache_info().recorded <= recorded + 5


def test_a_trace_over_the_limit_is_flushed(clean, monkeypatch):
    monkeypatch.setattr(config, "max_program", 50)
    monkeypatch.setattr(config, "max_pending", 200)
    with lazynb.lazy():
        y = jnp.ones(3)
        for _ in range(1_000):
            y = y * 1.0
    assert {b.kind for b in lazynb.breaks()} == {"limit"}
    np.testing.assert_array_equal(y, np.ones(3))


def test_unreferenced_results_do_not_accumulate(clean, monkeypatch):
    monkeypatch.setattr(config, "max_program", 50)
    x = jnp.ones(3)
    with lazynb.lazy():
        for _ in range(2_000):
            x + 1  # noqa: B018
    assert not lazynb.breaks()
    assert lazynb.cache_info().recorded < 1_000
