"""A thread that is kept for waiting keeps nothing else, and one that still waits blocks nobody."""

from __future__ import annotations

import threading
import time
import weakref

import pytest

from lazynb.execute import background


class Held:
    """What work refers to."""


def test_a_finished_wait_releases_its_callable():
    held = Held()
    gone = weakref.ref(held)
    background.wait_apart(lambda held=held: None)
    del held
    until = time.monotonic() + 10
    while gone() is not None and time.monotonic() < until:  # the other thread lets go a moment later
        time.sleep(0.01)
    assert gone() is None


def test_waiting_threads_are_reused():
    seen = {background.wait_apart(threading.get_ident) for _ in range(20)}
    assert len(seen) <= 2 and threading.get_ident() not in seen


def test_a_wait_that_goes_on_does_not_block_the_next(monkeypatch):
    """As after an interrupt: the work continues, and another wait begins."""
    begun, end = threading.Event(), threading.Event()

    def interrupted(future):
        assert begun.wait(10)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(background, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            background.wait_apart(lambda: (begun.set(), end.wait(30)))
    try:
        assert background.wait_apart(lambda: "there") == "there"
    finally:
        end.set()


def test_an_error_is_raised_where_it_is_waited_for():
    with pytest.raises(ZeroDivisionError):
        background.wait_apart(lambda: 1 // 0)
    assert background.wait_apart(lambda: 1) == 1
