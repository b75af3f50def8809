"""What a call donates is gone for its caller when the results arrive, and not before."""

import contextlib
import random
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from interrupts import everywhere

import lazynb
from lazynb import jax_compat as jc
from lazynb.recording.lazy_trace import thread_trace

donating = jax.jit(lambda a, b: (a + b, b * 0.5), donate_argnums=(0, 1))
first = jax.jit(lambda a: a + 1, donate_argnums=0)


@pytest.fixture(autouse=True)
def lazily():
    with lazynb.lazy():
        yield


def step(state):
    return donating(*state)


def taken_apart(state):
    a, b = donating(*state)
    return a, b


def kept_in_a_variable(state):
    after = donating(*state)
    assert len(after) == 2
    return after


@pytest.mark.parametrize(
    "call, pending",
    [
        (lambda state: donating(*state), True),
        (step, False),
        (taken_apart, "earlier cell"),
        (kept_in_a_variable, "earlier cell"),
    ],
)
def test_no_interrupt_of_a_donating_call_loses_its_arguments(call, pending):
    names = {}

    def run():
        names["state"] = call(names["state"])

    def prepare():
        thread_trace().make_current()  # an interrupt inside of JAX may leave its evaluating trace
        names["state"] = jnp.full(64, 2.0) * 1, jnp.full(64, 4.0) * 1
        if not pending:
            lazynb.sync()
        if pending == "earlier cell":
            thread_trace().cut()
        return run

    prepare()()
    for at in everywhere(prepare, "", 37):
        a, b = names["state"]
        assert (float(a[0]), float(b[0])) in ((2.0, 4.0), (6.0, 2.0)), at


def alarms(rounds):
    """Loops in which an alarm raises, at whatever instruction it comes; how often."""
    draw, state, count = random.Random(1), (jnp.ones(4), jnp.ones(4)), 0
    while count < rounds:
        # (JAX makes a ValueError of an interrupt that comes as it compares keys of a cache, or an AttributeError.)
        with contextlib.suppress(KeyboardInterrupt, ValueError, AttributeError):
            signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-5, 2e-3))
            for _ in range(400):
                state = donating(*state)
            signal.setitimer(signal.ITIMER_REAL, 0)
            count -= 1
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert np.isfinite(float(state[0][0]) + float(state[1][0]))
        count += 1


def test_no_alarm_in_a_loop_of_donating_calls_loses_the_state():
    """Also as the results are on their way through JAX, and before the caller stores them."""

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        alarms(200)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_what_is_lost_is_there_while_the_interrupt_is_handled():
    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    state = jnp.ones(3) * 2

    plain = getattr(jc.pjit_module, jc.NEED_TO_REBUILD)

    def answer(profiler):
        found = plain(profiler)
        if armed:
            signal.raise_signal(signal.SIGALRM)
        return found

    armed = False
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(jc.pjit_module, jc.NEED_TO_REBUILD, answer)
            state = first(state)
            armed = True
            try:
                state = first(state)
            except KeyboardInterrupt:
                assert not state.is_deleted() and state.tolist() == [3.0] * 3
    finally:
        signal.signal(signal.SIGALRM, before)
    assert (state + 1).tolist() == [4.0] * 3


def test_donated_arguments_are_deleted_whatever_becomes_of_the_results():
    def in_a_function(x):
        return float(first(x)[0])

    for use in (
        first,
        lambda x: first(x).block_until_ready(),
        lambda x: float(first(x)[0]),
        lambda x: [first(x)],
        in_a_function,
        lambda x: first(first(x)),
    ):
        for x in (jnp.arange(3.0) * 1, jax.block_until_ready(jnp.arange(4.0) + 0)):
            use(x)
            assert x.is_deleted()
            with pytest.raises(RuntimeError, match="deleted"):
                x + 1
    x = jnp.arange(3.0) * 1
    result = first(x)
    del result
    with pytest.raises(RuntimeError, match="deleted"):
        np.asarray(x)


def test_donated_arguments_are_deleted_inside_of_a_transformation():
    x = jnp.arange(6.0).reshape(2, 3) * 1
    y = jax.vmap(first)(x)
    assert y.tolist() == [[1, 2, 3], [4, 5, 6]]
    with lazynb.eager():
        other = jnp.arange(6.0).reshape(2, 3) * 1
        jax.vmap(first)(other)
        gone = other.is_deleted()
    assert x.is_deleted() == gone


def test_an_array_from_outside_is_deleted_as_the_call_returns():
    with lazynb.eager():
        x = jnp.arange(3.0) * 1
    y = first(x)
    assert x.is_deleted() and y.tolist() == [1, 2, 3]
