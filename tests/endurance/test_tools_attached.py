"""Programs with a profiler, a tracer or a debugger attached have the results of eager JAX."""

import bdb
import cProfile
import faulthandler
import sys
import tracemalloc

import jax.numpy as jnp
import numpy as np
import pytest

import lazynb

from .attacks.tools_attached import TOOLS, Tool, attack, program, values, wrong_with


@pytest.mark.parametrize("often", [0.002, 0.01])
@pytest.mark.parametrize("way", TOOLS)
def test_a_hook_that_uses_jax_changes_no_result(way, often):
    for seed in range(2):
        wrong = wrong_with(way, seed, often, read_inside=seed == 0)
        assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("way", ["profile", "trace"])
def test_the_operations_of_a_hook_run_at_once_and_are_no_part_of_the_program(way):
    class Recorder(Tool):
        def use(self):
            self.made.append((jnp.ones(3) * 2, [2.0, 2, 2]))

    with lazynb.lazy():
        x = jnp.arange(3.0)
        plain = x * 2 + 1
        recorder = Recorder(1, 1.0)
        with recorder.attached(way):
            hooked = x * 2 + 1
        assert recorder.made and not any(isinstance(made, lazynb.LazyTensor) for made, _ in recorder.made)
        assert plain.is_pending and hooked.is_pending
        assert len(hooked._pending) == 5  # with ``arange``
    assert hooked.tolist() == plain.tolist() == [1, 3, 5]


def test_a_hook_that_reads_a_value_within_a_step_of_the_recorder_gets_an_error_or_the_value():
    kept, read, refused = [], [], []

    def hook(frame, event, argument):
        if event == "call" and kept and "lazynb" in frame.f_code.co_filename:
            try:
                read.append(np.asarray(kept[0]).tolist())
            except lazynb.LazynbError as error:
                refused.append(str(error))
        return hook

    with lazynb.lazy():
        kept.append(jnp.arange(4.0) * 3)
        sys.settrace(hook)
        try:
            y = jnp.cumsum(kept[0]) * 2
        finally:
            sys.settrace(None)
        assert y.tolist() == [0, 6, 18, 36] and kept[0].tolist() == [0, 3, 6, 9]
    assert all(one == [0, 3, 6, 9] for one in read)
    assert all("line of your own code" in text for text in refused) and (read or refused)


class Debugger(bdb.Bdb):
    """Stops at each line of a function and evaluates what a user would type."""

    def __init__(self):
        super().__init__()
        self.shown = []

    def user_line(self, frame):
        if frame.f_code.co_name == "debugged":
            names = frame.f_locals
            self.shown.append(repr(names))
            if "y" in names:
                self.shown.append(eval("(y * 2 + 1).tolist()", frame.f_globals, names))
        self.set_step()


def debugged():
    x = jnp.arange(3.0)
    y = jnp.tanh(x) * 0 + x
    z = y + 1
    return z


def test_a_debugger_evaluates_expressions_of_pending_values_at_each_line():
    debugger = Debugger()
    with lazynb.lazy():
        z = debugger.runcall(debugged)
        assert z.tolist() == [1, 2, 3]
    assert debugger.shown.count([1, 3, 5]) >= 2


def test_profilers_of_the_standard_library_change_no_result():
    expected = values(program(2))
    profiler = cProfile.Profile()
    tracemalloc.start(5)
    faulthandler.enable()
    try:
        with lazynb.lazy():
            profiler.enable()
            found = values(program(2))
            profiler.disable()
    finally:
        profiler.disable()
        tracemalloc.stop()
    assert found == expected and any("program" in str(entry.code) for entry in profiler.getstats())
    assert np.asarray(program(2)[0]).tolist() == expected[0]


def test_a_short_attack_finds_nothing():
    figures = attack(4, 1)
    assert figures["tries"] and not (figures["wrong"] or figures["lost"] or figures["hung"])
