"""Short programs that are often waited for run in the thread that waits."""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from lazynb import jax_compat as jc
from lazynb.running import trace_executable
from lazynb.running.executable_cache import executables

OFTEN = trace_executable._OFTEN


@pytest.fixture(autouse=True)
def every_wait_is_brief(monkeypatch):
    """However busy the machine is."""
    monkeypatch.setattr(trace_executable, "_BRIEF", 1e9)
    monkeypatch.setattr(trace_executable, "_LONG", 1e9)


def newest():
    """The executable that was used last."""
    return next(reversed(executables.order))


def rounds(step, x, count):
    with lazynb.lazy():
        for _ in range(count):
            y = jax.block_until_ready(step(x))
    return y


def test_values_are_the_same_after_switching_to_the_calling_thread():
    def step(x):
        for _ in range(20):
            x = jnp.sin(x) + x / 3
        return x

    lazynb.clear_cache()
    x = jnp.linspace(-2, 2, 4096).reshape(64, 64)
    first = np.asarray(rounds(step, x, 1))
    rounds(step, x, OFTEN - 1)
    assert newest()._call_here is not None and lazynb.cache_info().misses == 1
    assert np.asarray(rounds(step, x, 3)).tobytes() == first.tobytes()
    assert newest().runs == OFTEN + 3


def test_few_waits_load_no_executable_for_the_calling_thread():
    lazynb.clear_cache()
    rounds(lambda x: x * 3 - 1, jnp.ones((8, 8)), OFTEN - 1)
    assert newest()._call_here is None


def test_a_program_that_took_long_can_be_interrupted_the_next_time(monkeypatch):
    """A loop that runs as often as its input says is short, and one day it is not."""
    lazynb.clear_cache()
    turns, x = jnp.array(3), jnp.ones((64, 64))

    @jax.jit
    def step(n):
        return jax.lax.fori_loop(0, n, lambda _, y: jnp.sin(y), x)

    rounds(step, turns, OFTEN)
    assert newest()._call_here is not None
    monkeypatch.setattr(trace_executable, "_LONG", 0.0)
    rounds(step, turns + 1, 1)
    assert newest()._call_here is None and lazynb.cache_info().misses == 1


def test_a_barrier_still_returns_at_once(monkeypatch):
    lazynb.clear_cache()
    x = jnp.ones((8, 8))
    rounds(lambda x: x * 3 - 1, x, OFTEN)
    called = []
    here = newest()._call_here
    monkeypatch.setattr(newest(), "_call_here", lambda *args: called.append(args) or here(*args))
    with lazynb.lazy():
        y = x * 3 - 1
        lazynb.sync(y)
        assert not called
        assert float((x * 3 - 1)[0, 0]) == 2  # another program
        assert not called
        jax.block_until_ready(x * 3 - 1)
        assert len(called) == 1
    assert float(y[0, 0]) == 2


def test_programs_loaded_from_disk_also_run_in_the_calling_thread(tmp_path, monkeypatch):
    monkeypatch.setattr(lazynb.config, "persistent_cache", True)
    monkeypatch.setattr(lazynb.config, "persistent_cache_dir", tmp_path)
    x = jnp.ones((8, 8))
    for origin in ("compiled", "disk"):
        lazynb.clear_cache()
        y = rounds(lambda x: x * 5 - 1, x, OFTEN + 2)
        assert newest().origin == origin and newest()._call_here is not None
        np.testing.assert_array_equal(y, np.full((8, 8), 4))


def test_a_deleted_disk_entry_leaves_the_program_running_as_before(tmp_path, monkeypatch):
    monkeypatch.setattr(lazynb.config, "persistent_cache", True)
    monkeypatch.setattr(lazynb.config, "persistent_cache_dir", tmp_path)
    x = jnp.ones((8, 8))
    for count in (1, OFTEN + 2):
        lazynb.clear_cache()
        rounds(lambda x: x * 7 - 1, x, 1)
        if count > 1:
            assert newest().origin == "disk"
            for file in tmp_path.iterdir():
                file.unlink()
            np.testing.assert_array_equal(rounds(lambda x: x * 7 - 1, x, count), np.full((8, 8), 6))
            assert newest()._call_here is None


def test_donating_programs_run_in_the_calling_thread():
    lazynb.clear_cache()
    side = 512  # large enough to be offered
    with lazynb.lazy():
        x = jax.block_until_ready(jnp.zeros((side, side)) + 0)
        for _ in range(OFTEN + 20):
            x = x + 1
            jax.block_until_ready(x)
        donating = [one for one in executables.order if one.donated]
        assert any(one._call_here is not None for one in donating)
        assert float(x[0, 0]) == OFTEN + 20


def test_programs_with_callbacks_do_not_run_in_the_calling_thread():
    lazynb.clear_cache()

    def step(x):
        return jax.pure_callback(lambda v: np.asarray(v) * 2, jax.ShapeDtypeStruct((4,), np.float32), x) + 1

    y = rounds(jax.jit(step), jnp.ones(4), OFTEN + 2)
    assert all(one._call_here is None for one in executables.order if one.may_fail)
    np.testing.assert_array_equal(y, np.full(4, 3))


def test_the_calling_thread_does_the_computation():
    @jax.jit
    def long(x):
        return jax.lax.fori_loop(0, 3_000_000, lambda i, v: jnp.sin(v), x)

    x = jax.block_until_ready(jnp.float32(1))
    compiled = long.lower(x).compile()
    expected = compiled(x)
    here = jc.synchronous_call(compiled, None)
    assert here is not None
    assert jax.block_until_ready(here(x)) == expected
    before, alone = time.process_time(), time.thread_time()
    jax.block_until_ready(here(x))
    assert time.thread_time() - alone > 0.5 * (time.process_time() - before)


def test_an_executable_that_xla_cannot_serialize_stays_off_the_calling_thread(monkeypatch):
    compiled = jax.jit(lambda x: x + 1).lower(jnp.ones(2)).compile()

    class Loaded:
        client = None

        def local_devices(self):
            return jax.devices()[:1]

        def serialize(self):
            raise RuntimeError("UNIMPLEMENTED")

    monkeypatch.setattr(compiled._executable, "xla_executable", Loaded())
    assert jc.synchronous_call(compiled, None) is None
