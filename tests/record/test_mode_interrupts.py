"""An interrupt at any instruction of entering and leaving a block."""

from __future__ import annotations

import random
import signal
import sys
import threading
import time

import jax
import jax.numpy as jnp
import pytest
from endurance.interrupts import Aim, Interrupter
from record.ownership import assert_own, changed

import lazynb
from lazynb import jax_compat as jc
from lazynb.recording.lazy_blocks import blocks, patches
from lazynb.recording.lazy_mode import Region
from lazynb.recording.lazy_tensor import LazyTensor

# Of what runs in between, not the recorder: an interrupt before the instructions that leave its lock, where
# no signal is delivered, would leave it locked.
MODULES = (
    "lazynb.recording.lazy_mode",
    "lazynb.recording.lazy_blocks",
    "lazynb.jax_compat.jax_config",
    "lazynb.jax_compat.substitutes",
    "lazynb.jax_compat.jax_patches",
    "lazynb.jax_compat.tracers",
)
DENSE, STEP = 150, 151
"""An interrupt comes before each of the first instructions, then before every so manyth: most of a body's
substitute names, where none rests."""


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


OURS = {lazy.__code__, nested.__code__, waiting.__code__, waiting_body.__code__}


def interrupted(body, number):
    """Runs ``body``, with an interrupt before instruction ``number`` of what is not the test's own; whether
    there is such."""
    count = 0

    def tracer(frame, event, _):
        nonlocal count
        if frame.f_code in OURS or frame.f_globals.get("__name__", "") not in MODULES:
            return tracer if frame.f_code in OURS else None
        frame.f_trace = tracer  # 3.13 counts the instructions of a frame that has a hook already
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            count += 1
            if count == number:
                sys.settrace(None)
                raise KeyboardInterrupt
        return tracer

    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # 3.12 looks for it when tracing begins
    sys.settrace(tracer)
    try:
        body()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return count >= number


@pytest.mark.parametrize("rests, least", [(False, 3000), (True, 600)], ids=["put back", "at rest"])
@pytest.mark.parametrize("body", [lazy, nested, waiting])
def test_an_interrupt_at_any_instruction_restores_the_mode(body, rests, least):
    """Where the substitutes rest, there are few instructions, and an interrupt comes before each."""
    assert_own()
    number = 1
    while True:
        blocks.put_back()
        if rests:
            lazy()
        if not interrupted(body, number):
            break
        assert not changed(), (number, changed()[:3])
        number += 1 if number < DENSE or rests else STEP
    assert number > least
    lazy()
    other = threading.Thread(target=lazy, daemon=True)  # no lock is left locked
    other.start()
    other.join(20)
    assert not other.is_alive()
    assert_own()


def test_an_interrupt_as_the_substitutes_first_come_to_rest_leaves_none_in_numpy(monkeypatch):
    """NumPy's names do not rest: which they are is noted the first time."""
    interrupter, function = Interrupter(lazynb.__file__), type(patches)._make_dormant.__qualname__
    for at in range(1, 10_000, 5):
        blocks.put_back()
        monkeypatch.setattr(patches, "_guards", None)
        monkeypatch.setattr(patches, "_never_dormant", [])
        try:
            with interrupter.armed(Aim("jax_compat/jax_patches.py", function, at)) as shot:
                lazy()
        except KeyboardInterrupt:
            pass
        lazy()
        assert not changed(), (at, shot)
        blocks.put_back()  # with the guards of this turn
        if shot.fired is None:
            break
    assert at > 50


def test_the_mode_is_restored_while_the_interrupt_is_handled():
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


def test_interrupts_by_signals_restore_the_mode(clean):
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


def _add(x):
    return x + 1.0


@pytest.mark.parametrize(
    "then, pending",
    [
        (lambda x: jnp.sin(x), True),
        (_add, True),
        (lambda x: x[0], True),
        (lambda x: jax.lax.cos(x), True),
        (_add, False),
        (lambda x: x.sum(), False),
    ],
)
def test_an_operation_of_jax_that_is_interrupted_does_not_end_recording(then, pending):
    """``Primitive.bind`` takes the current trace away one line before it begins what puts it back.

    JAX 0.12 leaves none there: the next operation makes the right one current. With 0.10 it is JAX's own, as in
    ``lazynb.eager()``: the rest of the block runs at once.
    """
    bind = Interrupter(jax.lax.sin_p.bind.__code__.co_filename)
    expected, interrupts, at = then(jnp.arange(3.0) * 2.0).tolist(), 0, 0
    while True:
        at += 1
        with lazynb.lazy():
            recorder = jc.current_trace()
            x = jnp.arange(3.0) * 2.0
            if not pending:
                lazynb.sync(x)
                x = x._value
            try:
                with bind.armed(Aim("core.py", "Primitive.bind", at)) as shot:
                    jax.lax.sin_p.bind(x, accuracy=None)
            except KeyboardInterrupt:
                interrupts += 1
            left = jc.current_trace()
            y = then(x)
            if left is not jc.eval_trace:
                assert isinstance(y, LazyTensor) and y._pending is not None, (at, shot)
                assert jc.current_trace() is recorder
            assert y.tolist() == expected
        if shot.fired is None:
            break
    assert interrupts > 20
