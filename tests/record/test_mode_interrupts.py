"""An interrupt at any instruction of entering and leaving a block."""

from __future__ import annotations

import random
import signal
import sys
import threading
import time

import pytest
from interrupts import interrupted
from record.ownership import assert_own, changed

import lazynb
from lazynb.record.blocks import blocks, patches
from lazynb.record.mode import Region

DENSE, STEP = 150, 151
"""An interrupt comes before each of the first instructions, then before every so manyth: most of a body's substitute names."""


def lazy():
    with lazynb.lazy(strict=True):
        pass


def nested():
    with lazynb.lazy(), lazynb.eager():
        pass


def waiting():
    one, other = waiting_body(lazynb.lazy()), waiting_body(lazynb.lazy())
    next(one), next(other)
    one.close()
    other.close()


def waiting_body(region):
    with region:
        yield


@pytest.mark.parametrize("body", [lazy, nested, waiting])
def test_at_any_instruction(body):
    assert_own()
    number = 1
    while interrupted(body, number):
        assert not changed(), (number, changed()[:3])
        number += 1 if number < DENSE else STEP
    assert number > 3000
    lazy()
    assert_own()


def test_while_the_interrupt_is_handled():
    """Its traceback keeps the body's manager alive."""
    def at_the_end(frame, event, _):
        if frame.f_code is not Region.__exit__.__code__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            sys.settrace(None)
            raise KeyboardInterrupt
        return at_the_end

    region, before = lazynb.lazy(strict=True), sys.gettrace()
    sys._getframe().f_trace_opcodes = True
    try:
        with region, region:
            sys.settrace(at_the_end)
    except KeyboardInterrupt:
        sys.settrace(before)
        assert not changed() or lazy() or not changed()
        with region:
            lazy()
            assert patches.on
        assert_own()
    finally:
        sys.settrace(before)
    assert_own()


def test_by_signals(clean):
    """Signals come where they come: between two instructions, and while one runs."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals reach the main thread only")
    choose = random.Random(1)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    came, found = 0, []
    end = time.monotonic() + 3
    try:
        while time.monotonic() < end:
            try:
                signal.setitimer(signal.ITIMER_REAL, choose.uniform(5e-6, 600e-6))
                for _ in range(10):
                    nested()
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                came += 1
                left = changed()
                if left:
                    lazy()  # the next touch mends
                    found.append((left[:3], changed()[:3]))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        blocks.end_all()
    assert came > 300
    assert not [after for _, after in found if after] and len(found) <= came // 100, found[:3]
    assert_own()
