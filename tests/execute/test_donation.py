"""Inputs that nobody can reach any more give their memory to results, and only those."""

import gc
import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb

SHAPE = (512, 1024)  # 2 MB


def pointer(tensor):
    return tensor._value.unsafe_buffer_pointer()


def test_a_loop_holds_one_copy_of_its_state():
    with lazynb.lazy():
        state, seen = jnp.zeros(SHAPE), set()
        for _ in range(6):
            state = state * 0.5 + 1.0
            lazynb.sync()
            seen.add(pointer(state))
        assert float(state[0, 0]) == 2.0 - 2.0**-5
    assert len(seen) <= 2  # the zeros are part of the first program


def test_an_unreferenced_state_from_outside_is_donated():
    state = jnp.full(SHAPE, 3.0)
    place = state.unsafe_buffer_pointer()
    with lazynb.lazy():
        state = state + 1
        lazynb.sync()
        assert pointer(state) == place
        assert np.all(np.asarray(state) == 4)


@pytest.mark.parametrize(
    "keep",
    [
        lambda x: x,
        lambda x: [x],
        lambda x: x.addressable_data(0),
        lambda x: jax.device_put(x, jax.devices()[0]),
        lambda x: np.asarray(x),
        lambda x: np.from_dlpack(x),
        lambda x: x.addressable_shards[0].data,
    ],
)
@pytest.mark.parametrize("inside", [False, True])
def test_reachable_inputs_are_not_donated(keep, inside):
    x = jnp.full(SHAPE, 3.0)
    if not inside:
        kept = keep(x)
    with lazynb.lazy():
        if inside:
            x = x * 1.0
            lazynb.sync()
            kept = keep(x)
        for _ in range(2):
            y = x + 1
            del x
            lazynb.sync()
            x = y
        del y
        assert np.all(np.asarray(jax.tree.leaves(kept)[0]) == 3) and np.all(np.asarray(x) == 5)


def test_an_input_of_another_pending_trace_is_not_donated():
    with lazynb.lazy():
        x = jnp.full(SHAPE, 3.0) * 1.0
        lazynb.sync()
        with lazynb.lazy():
            later = x + 2
        with lazynb.lazy():
            y = x + 1
        del x
        lazynb.sync(y)
        assert np.all(np.asarray(later) == 5) and np.all(np.asarray(y) == 4)


def test_a_value_kept_in_a_cycle_costs_one_executable_more_at_most():
    class Node:
        pass

    with lazynb.lazy():
        state = jnp.zeros(SHAPE)
        before = None
        for step in range(12):
            if step % 3 == 0:
                node = Node()
                node.me, node.state = node, state
                del node
            state = state + 1
            lazynb.sync()
            if step == 2:
                before = lazynb.cache_info().misses
        assert np.all(np.asarray(state) == 12)
        assert lazynb.cache_info().misses - before <= 2
    gc.collect()


def test_small_arrays_are_not_donated():
    with lazynb.lazy():
        state = jnp.zeros(8)
        for _ in range(3):
            state = state + 1
            lazynb.sync()
        misses = lazynb.cache_info().misses
        kept = [state]
        for _ in range(3):
            state = state + 1
            kept.append(state)
            lazynb.sync()
        assert lazynb.cache_info().misses == misses
        assert [float(x[0]) for x in kept] == [3, 4, 5, 6]


def test_two_donatable_inputs_for_one_result_give_the_right_value():
    with lazynb.lazy():
        a, b = jnp.full(SHAPE, 1.0) * 1, jnp.full(SHAPE, 2.0) * 1
        lazynb.sync()
        a = a + b
        del b
        lazynb.sync()
        assert np.all(np.asarray(a) == 3)


def test_no_warning_is_shown(recwarn):
    with lazynb.lazy():
        state = jnp.zeros(SHAPE)
        for _ in range(3):
            state = (state + 1).astype(jnp.float32)
            other = state.sum(axis=0)
            lazynb.sync()
    assert other.shape == (1024,)
    assert not [w for w in recwarn if "donat" in str(w.message).lower()]


def test_donate_argnums_of_the_user_reuses_the_memory():
    step = jax.jit(lambda x: x * 2 + 1, donate_argnums=0)
    x = jnp.full(SHAPE, 1.0)
    place = x.unsafe_buffer_pointer()
    with lazynb.lazy():
        y = step(x)
        lazynb.sync()
        assert pointer(y) == place and x.is_deleted()


def test_a_number_that_the_user_donates_gives_its_memory():
    step = jax.jit(lambda x: x + 1, donate_argnums=0)
    with lazynb.lazy():
        x = jnp.array(0.0)
        before = x.unsafe_buffer_pointer()
        found = step(x)
        assert found.unsafe_buffer_pointer() == before and x.is_deleted()
    assert float(found) == 1


def test_memory_that_a_call_cannot_use_is_warned_of_once():
    def warned(mode):
        add = jax.jit(lambda x, y: x + y.sum(), donate_argnums=(0, 1))
        with mode(), pytest.warns(UserWarning, match="Some donated buffers were not usable") as caught:
            for _ in range(2):
                add(jnp.ones(()), jnp.ones(3)).block_until_ready()
        return [str(one.message).partition("\n")[0] for one in caught]

    assert warned(lazynb.lazy) == warned(lazynb.eager)
    assert len(warned(lazynb.lazy)) == 1


def test_a_donating_program_compiled_ahead_is_the_one_that_runs():
    with lazynb.lazy():
        state = jnp.zeros(SHAPE) * 1.0
        lazynb.sync()
        state = state + 1
        lazynb.compile(state)
        misses = lazynb.cache_info().misses
        lazynb.sync()
        assert lazynb.cache_info().misses == misses and np.all(np.asarray(state) == 1)


def test_a_failed_run_keeps_its_inputs(monkeypatch):
    def boom(x):
        raise ValueError("boom")

    monkeypatch.setattr(
        logging.getLogger("jax._src.callback"), "disabled", True
    )  # pytest keeps what it logs, frames and all
    with lazynb.lazy():
        x = jnp.full(SHAPE, 3.0) * 1.0
        lazynb.sync()
        y = jax.pure_callback(boom, jax.ShapeDtypeStruct(SHAPE, jnp.float32), x + 1)
        z = x * 2
        del x
        with pytest.raises(Exception, match="boom"):
            y.block_until_ready()
        del y
        gc.collect()
        assert np.all(np.asarray(z) == 6)
