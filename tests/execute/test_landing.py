"""An interrupt, wherever it comes, takes nothing: inputs are given away only when their results are safely
held."""

import contextlib
import logging
import random
import signal
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from endurance.interrupts import Aim, Interrupter
from interrupts import everywhere

import lazynb
from lazynb.jax_compat import jax_config, xla_executables
from lazynb.recording.trace_registry import trie
from lazynb.running.executable_cache import executables

LARGE = 1 << 18  # 1 MB of float32: what is donated


@pytest.fixture
def lazily():
    with lazynb.lazy():
        yield


def state():
    w = jnp.full(LARGE, 2.0)
    lazynb.sync(w)
    return w


@pytest.mark.parametrize(
    "within, step",
    [
        ("", 7),
        ("running/run_delivery.py", 1),
        ("running/flush.py", 1),
        ("running/trace_launch.py", 1),
        ("running/trace_executable.py", 1),
        ("recording/trace_inputs.py", 2),
    ],
)
def test_no_interrupt_of_a_flush_loses_a_donated_value(lazily, within, step):
    names = {}

    def prepare():
        names["w"] = state()
        names["w"] = names["w"] * 0.5 + 1.0
        return lambda: float(names["w"][0])

    prepare()()
    donated = [one for one in executables.order if one.donated]
    assert donated  # else nothing is tried here
    for at in everywhere(prepare, within, step):
        assert float(names["w"][0]) == 2.0, at
        assert np.all(np.asarray(names["w"] + 1) == 3.0), at
    assert at > 10


@pytest.mark.full
def test_no_interrupt_of_a_first_run_loses_a_donated_value(lazily):
    names, number = {}, iter(range(10**6))

    def prepare():
        executables.clear()
        names["w"] = state()
        names["w"] = names["w"] * 0.5 + 1.0
        return lambda: float(names["w"][0])

    for at in everywhere(prepare, "", 211, random.randrange(1, 211)):
        assert float(names["w"][0]) == 2.0, at
        next(number)
    assert next(number) > 10


def test_results_survive_an_interrupt_before_their_arrays_are_made(lazily, monkeypatch):
    """JAX's Python runs between the two where its C++ dispatch does not know the arguments."""
    executables.clear()
    w = state()
    w = w * 0.25 + 1.0
    consume = xla_executables._CapturingResults.consume_with_handlers

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(xla_executables._CapturingResults, "consume_with_handlers", interrupt)
    with pytest.raises(KeyboardInterrupt):
        float(w[0])
    monkeypatch.setattr(xla_executables._CapturingResults, "consume_with_handlers", consume)
    runs = len(lazynb.events())
    assert float(w[0]) == 1.5
    assert len(lazynb.events()) == runs + 2  # the run that was interrupted, and the indexing


@pytest.mark.parametrize(
    "within",
    ["running/run_delivery.py", "running/flush.py", "running/trace_launch.py", "running/run_failure.py"],
)
def test_no_interrupt_while_running_the_independent_operations_loses_a_value(lazily, within, monkeypatch):
    """Where an operation of a trace has failed, what does not depend on it runs for its own sake."""
    monkeypatch.setattr(
        logging.getLogger("jax._src.callback"), "disabled", True
    )  # pytest's records of it hold what failed
    names = {}

    def fail(_):
        raise ValueError("the host function fails")

    def prepare():
        names["x"] = jnp.arange(3.0) * 2
        bad = jax.pure_callback(fail, jax.ShapeDtypeStruct((), jnp.float32), names["x"][0])
        with pytest.raises(Exception, match="host function"):
            float(bad)
        names["x"], names["y"] = names["x"] + 1, names["x"] + 2
        return lambda: np.asarray(names["x"])

    for at in everywhere(prepare, within, 1 if within == "running/run_delivery.py" else 7):
        assert names["x"].tolist() == [1.0, 3.0, 5.0], at
        assert names["y"].tolist() == [2.0, 4.0, 6.0], at
    assert at > 10


@pytest.mark.parametrize("within", ["running/flush.py", "running/trace_launch.py"])
def test_an_interrupted_run_is_counted_once(lazily, within):
    names = {}

    def prepare():
        names["w"] = state()
        names["w"] = names["w"] + 1.0
        names["runs"] = len(lazynb.events())
        return lambda: lazynb.sync(names["w"])

    prepare()()
    for at in everywhere(prepare, within, 5):
        lazynb.sync(names["w"])
        assert len(lazynb.events()) - names["runs"] in (0, 1), at  # lost at one line, never twice
        assert not names["w"].is_pending


def test_random_signals_lose_no_value(lazily, monkeypatch):
    """The program of a user who stops a loop. The alarm comes again: JAX's hook of the collector may swallow
    one."""
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # the second one may come upon pytest's
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    random.seed(5)
    stopped = 0
    for _ in range(60):
        w = jnp.zeros(1 << 20)
        lazynb.sync(w)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.001 + random.random() * 0.03, 0.1)
            for _ in range(2000):
                w = w * 0.999 + 1
                float(w[0])
        except KeyboardInterrupt:
            stopped += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        assert float(w[0]) >= 0
    assert stopped > 50


@pytest.mark.parametrize("function", ["Settings.__enter__", "Settings.__exit__", "lower"])
@pytest.mark.parametrize("x64", [False, True])
def test_no_interrupt_of_a_first_run_leaves_its_settings_in_force(lazily, function, x64):
    """Settings that a compilation needs: no source lines, or the 64-bit mode of a recorded trace."""

    def run():
        executables.clear()
        with jax.enable_x64(x64):
            x = jnp.ones(4) * 3
        return float(x[0])

    before = settings()
    with Interrupter(lazynb.__file__).armed(Aim("", function, 1_000_000)):
        run()  # 3.13 tells the instructions of a function from its next call on
    for count in [*range(1, 70), *random.sample(range(70, 4000), 10)]:
        armed = Interrupter(lazynb.__file__).armed(Aim("", function, count))
        with contextlib.suppress(KeyboardInterrupt), armed as shot:
            run()
        assert settings() == before, count
        assert shot.fired is not None or count > 10


@pytest.mark.full
@pytest.mark.parametrize("function", ["make", "_compiled", "_bind", "_use", "bound", "_forget"])
def test_no_interrupt_leaves_the_cache_inconsistent(lazily, function, monkeypatch):
    """What is found can be used, and is among what the limits bound."""
    monkeypatch.setattr(lazynb.config, "max_executables", 2)

    def run(number):
        x = jnp.ones(4)
        for _ in range(number):
            x = x * 3
        return float(x[0])

    fired = 0
    for count in range(1, 40):
        armed = Interrupter(lazynb.__file__).armed(Aim("", f"ExecutableCache.{function}", count))
        with contextlib.suppress(KeyboardInterrupt), armed as shot:
            for number in (1, 2, 3):
                run(number)
        fired += shot.fired is not None
        for number in (1, 2, 3):
            assert run(number) == run(number) == 3**number
        bound = {binding.executable for state in states() for binding in state.executables.values()}
        assert bound <= set(executables.order), count
        assert len(bound) <= 2
    assert fired > 3


def states():
    """All states of the recorded traces."""
    waiting = list(trie.roots.values())
    while waiting:
        state = waiting.pop()
        yield state
        waiting.extend(state.children.values())


def settings():
    """The settings of this thread alone, by name."""
    return {getattr(state, "name", str(state)): state.get_local() for state in jax_config._ALL}
