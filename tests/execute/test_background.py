"""A thread that is kept for waiting keeps nothing else, and one that still waits blocks nobody."""

from __future__ import annotations

import signal
import threading
import time
import weakref

import jax.numpy as jnp
import pytest

import lazynb
from lazynb.running import background_thread, trace_executable


class Held:
    """What work refers to."""


def test_a_finished_wait_releases_its_callable():
    held = Held()
    gone = weakref.ref(held)
    background_thread.wait_in_worker(lambda held=held: None)
    del held
    until = time.monotonic() + 10
    while gone() is not None and time.monotonic() < until:  # the other thread lets go a moment later
        time.sleep(0.01)
    assert gone() is None


def test_waiting_threads_are_reused():
    seen = {background_thread.wait_in_worker(threading.get_ident) for _ in range(20)}
    assert len(seen) <= 2 and threading.get_ident() not in seen


def test_a_wait_that_goes_on_does_not_block_the_next(monkeypatch):
    """As after an interrupt: the work continues, and another wait begins."""
    begun, end = threading.Event(), threading.Event()

    def interrupted(future):
        assert begun.wait(10)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(background_thread, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            background_thread.wait_in_worker(lambda: (begun.set(), end.wait(30)))
    try:
        assert background_thread.wait_in_worker(lambda: "there") == "there"
    finally:
        end.set()


def test_an_error_is_raised_where_it_is_waited_for():
    with pytest.raises(ZeroDivisionError):
        background_thread.wait_in_worker(lambda: 1 // 0)
    assert background_thread.wait_in_worker(lambda: 1) == 1


class Late(Exception):
    """What the handler of an alarm raises."""


@pytest.fixture
def alarm():
    """Sets an alarm, whose handler raises."""

    def late(*_):
        raise Late

    before = signal.signal(signal.SIGALRM, late)
    yield lambda: signal.setitimer(signal.ITIMER_REAL, 0.3)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_what_a_handler_raises_ends_a_wait(alarm):
    end = threading.Event()
    alarm()
    began = time.monotonic()
    with pytest.raises(Late) as raised:
        background_thread.wait_in_worker(lambda: end.wait(30))
    assert time.monotonic() - began < 10 and background_thread.is_interrupt(raised.value)
    end.set()
    assert not background_thread.is_interrupt(ValueError()) and background_thread.is_interrupt(
        KeyboardInterrupt()
    )


@pytest.mark.parametrize("part", ["_compile", "lower"])
def test_what_a_handler_raises_ends_the_making_of_a_program_and_loses_nothing(
    part, alarm, clean, monkeypatch
):
    """It is no error of the program, whose parts would be tried one by one."""
    attempts, plain = [], getattr(trace_executable, part)

    def slow(*args, **kwargs):
        attempts.append(part)
        until = time.monotonic() + 20
        while time.monotonic() < until and len(attempts) == 1:
            time.sleep(0.01)
        return plain(*args, **kwargs)

    monkeypatch.setattr(trace_executable, part, slow)
    with lazynb.lazy():
        x = jnp.arange(3.0) + 1
        y, z = x * 2, x * 3
        alarm()
        began = time.monotonic()
        with pytest.raises(Late) as raised:
            float(y.sum())
        assert time.monotonic() - began < 10 and len(attempts) == 1
        assert not getattr(raised.value, "__notes__", None) and y.is_pending and z.is_pending
        assert float(y.sum()) == 12 and z.tolist() == [3, 6, 9]
