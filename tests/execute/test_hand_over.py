"""A trace that ran before is handed over in C: as Python hands it over, and wherever an interrupt comes."""

import functools
import gc
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from interrupts import everywhere

import lazynb
from lazynb.recording.lazy_trace import thread_trace
from lazynb.recording.replay import native_replay
from lazynb.running import executable_lookup, step_log, trace_launch
from lazynb.running.break_log import break_log
from lazynb.running.executable_cache import executables
from lazynb.running.miss_log import jax_compile_log
from lazynb.running.trace_executable import Executable
from lazynb.user_code import call_stack

pytestmark = pytest.mark.skipif(trace_launch._hand_over is None, reason=native_replay.describe())


@pytest.fixture(autouse=True)
def lazily():
    with lazynb.lazy():
        yield


def chain(x, y):
    a = x + y
    b, c = jnp.sin(a) * 2, a.sum(0)
    return a, b, c, c * 0.5


def deleted_input(x, y):
    z = jax.device_put(np.full((2, 2), 3.0, np.float32)) + 0
    lazynb.sync(z)
    concrete = z._force("asarray")
    total = x + concrete
    concrete.delete()
    return total, total * y


def derivative(x, y):
    value, (dx, dy) = jax.value_and_grad(lambda x, y: jnp.vdot(jnp.tanh(x @ y), y), (0, 1))(x, y)
    return value, dy, dx


def dead_results(x, y):
    for _ in range(3):
        x = jnp.cos(x) + y
    return x, (x * y).astype(jnp.int32)


def loop(x, y):
    """Divided into pieces that wait for each other."""
    for _ in range(3_000):
        x = x * 0.5 + y
    return (x,)


def numbers(x, y):
    step = float(np.float32(x[0, 0]))
    return x * step + 2, y + int(step)


def seen(program):
    """What ``program`` gives and what is noted of its runs, from its second time on."""
    found = []
    for number in range(4):
        x, y = jnp.arange(4.0).reshape(2, 2) + number, jnp.ones((2, 2))
        lazynb.sync(x, y)
        events, breaks = len(lazynb.events()), lazynb.breaks().total
        results = program(x, y)
        values = [np.asarray(one).tolist() for one in results]
        kinds = [
            (each.kind, each.computed, each.cache, each.location) for each in list(lazynb.events())[events:]
        ]
        found.append((values, kinds, lazynb.breaks().total - breaks))
        assert not any(one.is_pending for one in results)
        pending = thread_trace().pending
        assert pending.closed and not pending.records and not pending.inputs and not pending.guards
    return found[2:]


def test_a_handed_over_trace_is_closed_as_in_python():
    x = jnp.arange(4.0)
    for _ in range(3):
        float(jnp.sin(x).sum())
    pending = thread_trace().pending
    assert pending.closed and pending.sources == set()
    assert pending.append.__self__ is pending.records


def test_a_hand_over_leaves_no_object_behind():
    x = jnp.arange(4.0)

    def objects():
        for _ in range(20):
            float((jnp.sin(x) * 2).sum())
        for log in (jax_compile_log, step_log.log, break_log):
            log.clear()
        gc.collect()
        return len(gc.get_objects())

    for _ in range(3):
        objects()
    before = objects()
    assert objects() - before < 10


@pytest.mark.filterwarnings("ignore:.*this loop has recorded")
@pytest.mark.parametrize("program", [chain, deleted_input, derivative, dead_results, loop, numbers])
def test_the_c_hand_over_equals_the_python_hand_over(program, monkeypatch):
    in_c = seen(program)
    monkeypatch.setattr(trace_launch, "_hand_over", None)
    assert in_c == seen(program)


def test_a_repeated_trace_does_not_look_up_its_program_in_python(monkeypatch):
    x = jnp.ones(3)
    lazynb.sync(x)
    for _ in range(2):
        np.asarray(x + 1)

    def asked(*_):
        raise AssertionError("Python looks for the program")

    monkeypatch.setattr(executable_lookup, "_find_or_collect", asked)
    assert np.asarray(x + 1).tolist() == [2, 2, 2]


def test_the_c_hand_over_donates_only_unreferenced_memory(monkeypatch):
    """Only that of the array that no name holds any more."""
    state, kept = jnp.zeros(1 << 18), jnp.ones(1 << 18)
    lazynb.sync(state, kept)
    for _ in range(3):
        state = state * 0.5 + kept
        lazynb.sync(state)
    monkeypatch.setattr(executable_lookup, "_find_or_collect", None)  # Python does not look for the program
    address = state._value.unsafe_buffer_pointer()
    state = state * 0.5 + kept
    lazynb.sync(state)
    assert state._value.unsafe_buffer_pointer() == address
    assert next(reversed(executables.order)).donated
    monkeypatch.undo()
    assert not kept.is_deleted() and float(kept[0]) == 1.0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a generator that is freed
@pytest.mark.parametrize(
    "within",
    [
        "",
        "running/flush.py",
        "running/trace_launch.py",
        "running/trace_executable.py",
        "running/run_delivery.py",
    ],
)
def test_no_interrupt_of_a_hand_over_loses_a_value_or_counts_a_run_twice(within):
    names = {}

    def prepare():
        names["x"] = jnp.arange(3.0)
        lazynb.sync(names["x"])
        names["y"] = names["x"] + 1
        names["z"] = names["y"] * 2
        names["runs"] = len(lazynb.events())
        return lambda: np.asarray(names["z"])

    prepare()()
    for at in everywhere(prepare, within, 5 if not within else 1):
        assert names["z"].tolist() == [2.0, 4.0, 6.0], at
        assert names["y"].tolist() == [1.0, 2.0, 3.0], at
        assert len(lazynb.events()) - names["runs"] in (0, 1), at
        assert not names["y"].is_pending
    assert at > 10


def test_an_error_of_the_run_leaves_the_trace_pending(monkeypatch):
    x = jnp.ones(3)
    lazynb.sync(x)
    for _ in range(2):
        np.asarray(x + 1)
    start = Executable.start

    def fails(*_):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: no memory")

    y = x + 1
    monkeypatch.setattr(Executable, "start", fails)
    with pytest.raises(jax.errors.JaxRuntimeError, match="no memory"):
        np.asarray(y)
    assert y.is_pending
    monkeypatch.setattr(Executable, "start", start)
    assert (y * 2).tolist() == [4, 4, 4]


def test_a_run_moves_its_executable_to_the_most_recently_used_place():
    x = jnp.ones(3)
    for _ in range(2):
        np.asarray(x + 1), np.asarray(x + 2)
    first = next(reversed(executables.order))
    np.asarray(x + 1)
    assert next(reversed(executables.order)) is not first
    np.asarray(x + 2)
    assert next(reversed(executables.order)) is first


# ---- places ------------------------------------------------------------------------------------------------


def both(depth=2):
    """The place of the caller, as the accelerator and as Python tells it."""
    return native_replay.here(depth), call_stack.current_position(depth)


class Library:
    """A function as if it were installed: neither the user's nor lazynb's."""

    namespace: dict = {"both": both}  # noqa: RUF012
    exec(
        compile(
            "def ask(f=both): return f(3)\ndef call(f): return f()",
            f"{sys.prefix}/lib/site-packages/lib.py",
            "exec",
        ),
        namespace,
    )


def test_c_and_python_find_the_same_source_line():
    def inner():
        return both()

    ask, call = Library.namespace["ask"], Library.namespace["call"]
    asks = [
        both,
        inner,
        functools.partial(call, inner),
        ask,
        lambda: ask(),
        lambda: [inner() for _ in "a"][0],
    ]
    for one in asks:
        for _ in range(3):
            in_c, in_python = one()
            assert in_c == in_python
            assert in_c.callers == in_python.callers and in_c.library == in_python.library


def test_c_and_python_find_the_same_lines_in_cells_scripts_and_doctests():
    for name, file in [
        ("__main__", "script.py"),
        ("cell", "<cell>"),
        ("__main__", "<doctest x[0]>"),
        ("mod", "mod.py"),
    ]:
        code = compile("def f():\n    return both()\nfound = [both(), f(), (lambda: f())()]", file, "exec")
        for _ in range(2):
            space = {"both": both, "__name__": name}
            exec(code, space)
            for in_c, in_python in space["found"]:
                assert in_c == in_python, file


def test_source_lines_of_a_rerun_cell_have_its_new_number():
    space = {"both": both, "__name__": "__main__"}
    code = compile("found = both()", "<numbered cell>", "exec")
    for number in (3, 7):
        call_stack.register_cell("<numbered cell>", number, "found = both()")
        exec(code, space)
        in_c, in_python = space["found"]
        assert in_c.place.cell == in_python.place.cell == number


def test_c_and_python_find_the_same_line_in_a_deep_stack():
    def deep(left):
        return deep(left - 1) if left else both()

    in_c, in_python = deep(100)
    assert in_c == in_python
