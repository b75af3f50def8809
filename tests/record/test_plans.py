"""A long trace that comes the same way again: how it is divided is remembered, and its pieces begin at once."""

from __future__ import annotations

import collections
import contextlib
import gc
import linecache
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from lazynb.config import config
from lazynb.recording import (
    lazy_trace as trace_module,
    open_traces,
    operation_step,
    pending_trace as pending_module,
    trace_inputs,
)
from lazynb.recording.lazy_trace import LazyTrace, thread_trace
from lazynb.recording.loops import division_plan, trace_division, trace_growth
from lazynb.recording.pending_trace import PendingTrace
from lazynb.recording.replay import call_replay, replay_edge
from lazynb.recording.trace_registry import trie

X = np.linspace(0.1, 0.9, 16, dtype=np.float32)

LOOPS = {
    "operators": "y = x\nfor i in range(300):\n    y = y * 0.5 + x",
    "functions": "y = x\nfor i in range(200):\n    y = jnp.sin(y) + x\n    y = jnp.tanh(y)",
    "calls of several operations": "y = x\nfor i in range(120):\n    y = jax.nn.softmax(jnp.clip(y, -1, 1)) + x",
    "several results": "y = x\nfor i in range(150):\n    a, b = jnp.split(y, 2)\n    y = jnp.concatenate([b, a + 0.5])",
    "collected": "y, kept = x, []\nfor i in range(150):\n    y = jnp.sin(y) + x\n    if i % 10 == 0:\n        kept.append(y)\n"
    "y = y + kept[3] + kept[-1]",
    "helper": "def step(y):\n    return jnp.sin(y) + x\ny = x\nfor i in range(150):\n    y = step(y)",
    "gradients": "y = x\nfor i in range(40):\n    y = y - 0.1 * jax.grad(lambda y: jnp.sum(jnp.sin(y) ** 2))(y)",
    "no period": "y = x\nfor i in range(1, 25):\n    y = jnp.sin(y)\n    for k in range(i):\n        y = y + x",
}


@pytest.fixture
def short(clean, monkeypatch):
    monkeypatch.setattr(config, "max_program", 120)
    monkeypatch.setattr(trace_division, "MAX_PIECE_WEIGHT", 40)
    lazynb.clear_cache()  # the next trace is begun under the setting
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def program(name):
    """The code of a loop, which has its text."""
    text, file = LOOPS[name], f"<plans {name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    return compile(text, file, "exec")


def record(code, x):
    """What the loop ``code`` computes, pending."""
    names = {"jnp": jnp, "jax": jax, "x": x}
    exec(code, names)
    return names["y"]


def counted(monkeypatch, *functions):
    """How often each of the functions, as (owner, name), is called from here on."""
    counts = collections.Counter()
    for owner, name in functions:
        plain = getattr(owner, name)

        def call(*args, _plain=plain, _name=name, **kwargs):
            counts[_name] += 1
            return _plain(*args, **kwargs)

        monkeypatch.setattr(owner, name, call)
    return counts


def pending_traces():
    trace = thread_trace()
    return [one for one in (*trace.sealed, trace.pending) if one is not None and len(one)]


EXAMINED = (
    (trace_growth, "repetition"),
    (trace_growth, "cuts_of"),
    (trace_growth, "plan_of"),
    (division_plan, "content_of"),
    (call_replay, "_record_edge"),
    (LazyTrace, "_record"),
)


@pytest.mark.parametrize("name", ["operators", "functions", "several results", "helper", "collected"])
def test_a_repeated_loop_is_not_examined_again(name, short, monkeypatch):
    code, x = program(name), jnp.asarray(X)
    with lazynb.lazy():
        for _ in range(3):
            first = np.asarray(record(code, x))
        misses = lazynb.cache_info().misses
        counts = counted(monkeypatch, *EXAMINED, (PendingTrace, "origins"), (trace_growth, "_divide"))
        again = record(code, x)
        assert len(pending_traces()) > 3
        assert counts == {"_divide": 1}, counts
        assert np.asarray(again).tobytes() == first.tobytes()
    assert lazynb.cache_info().misses == misses


def test_a_trace_that_does_not_repeat_is_not_searched_again(short, monkeypatch):
    code, x = program("no period"), jnp.asarray(X)
    with lazynb.lazy():
        for _ in range(3):
            first = np.asarray(record(code, x))
        counts = counted(monkeypatch, *EXAMINED)
        again = record(code, x)
        assert not counts, counts
        assert np.asarray(again).tobytes() == first.tobytes()


@pytest.mark.parametrize("name", LOOPS)
def test_pieces_show_the_same_lines_each_time(name, short):
    code, x = program(name), jnp.asarray(X)
    seen = []
    with lazynb.lazy():
        for _ in range(4):
            y = record(code, x)
            traces = pending_traces()
            lines = [[origin.line for origin in one.origins() if origin is not None] for one in traces]
            names = [[str(step.operation) for step in one.state.path() if step.operation] for one in traces]
            calls = [shape(one) for one in traces]
            seen.append((lines, names, calls, lazynb.graph(y).to_json(), np.asarray(y).tobytes()))
            assert [one.trie for one in traces] == [trie] * len(traces)
    for part in range(2):
        assert all(one[part] == seen[0][part] for one in seen)
    assert len({one[4] for one in seen}) == 1
    assert len(seen[0][0]) > 1


@pytest.mark.parametrize("shift", [3, 5])
def test_a_cut_within_a_call_gives_the_same_values_and_lines(short, monkeypatch, shift):
    """The call has a tensor for each operation then, with its line; others are as before."""
    code, x, torn = program("calls of several operations"), jnp.asarray(X), []

    def cuts_of(path, part):
        cuts = trace_division.cuts_of(path, part)
        return cuts._replace(places=[place + shift for place in cuts.places if place + shift <= part.end])

    def plan_of(*args):
        made = division_plan.plan_of(*args)
        torn.append(len(made.split_calls))
        return made

    monkeypatch.setattr(trace_growth, "cuts_of", cuts_of)
    monkeypatch.setattr(trace_growth, "plan_of", plan_of)
    seen = []
    with lazynb.lazy():
        for _ in range(4):
            y = record(code, x)
            traces = pending_traces()
            lines = [[origin.line for origin in one.origins() if origin is not None] for one in traces]
            assert all(len(found) == len(one) for found, one in zip(lines, traces, strict=True))
            seen.append((lines, [shape(one) for one in traces], np.asarray(y).tobytes()))
    # Recorded by JAX, each operation has a tensor; recalled, each call.
    assert torn[0] == 0 and torn[1] > 1 and len(torn) == 2
    assert seen[1:] == seen[:-1]


def shape(pending):
    """Which operations belong to one call, by a number that counts the calls."""
    numbers: dict[int, int] = {}
    return [
        numbers.setdefault(origin.call_id, len(numbers)) for origin in pending.origins() if origin is not None
    ]


@pytest.mark.parametrize("name", LOOPS)
def test_repeated_and_reordered_reads_give_the_same_bits(name, short):
    """Two at once, read in the other order."""
    code, x = program(name), jnp.asarray(X)
    with lazynb.lazy():
        first = np.asarray(record(code, x)).tobytes()
        for _ in range(3):
            one, other = record(code, x), record(code, x)
            assert np.asarray(other).tobytes() == first
            assert np.asarray(one).tobytes() == first


def test_pieces_depend_on_the_pieces_that_give_their_inputs(short):
    code, x = program("operators"), jnp.asarray(X)
    with lazynb.lazy():
        for _ in range(3):
            y = record(code, x)
            traces = pending_traces()
            for before, after in zip(traces, traces[1:], strict=False):
                assert after.needs(before) and not before.needs(after)
                assert before in after.sources
            del traces, before, after
            np.asarray(y)


def test_a_program_that_was_forgotten_is_planned_again(short, monkeypatch):
    code, x = program("operators"), jnp.asarray(X)
    with lazynb.lazy():
        for _ in range(3):
            first = np.asarray(record(code, x))
        monkeypatch.setattr(config, "max_executables", 1)
        np.asarray(jnp.cos(x) * 3)  # the others are forgotten, and their paths pruned
        monkeypatch.undo()
        monkeypatch.setattr(config, "max_program", 120)
        monkeypatch.setattr(trace_division, "MAX_PIECE_WEIGHT", 40)
        again = record(code, x)
        for one in pending_traces():
            for step in one.state.path():
                assert step.parent.children.get(step.key) is step  # what is recorded is in the trie
        assert np.asarray(again).tobytes() == first.tobytes()


def test_the_number_of_remembered_plans_is_bounded(short):
    x = jnp.asarray(X)
    with lazynb.lazy():
        for number in range(40):
            y = x
            for _ in range(150):
                y = (y + x) if number % 2 else jnp.sin(y)
                for _ in range(number // 2):
                    y = jnp.cos(y)
            float(y[0])
        assert len(trie.divided) <= 16
    lazynb.clear_cache()
    gc.collect()
    assert not trie.divided


def test_a_deleted_tensor_of_the_loop_changes_nothing(short):
    x = jnp.asarray(X)
    with lazynb.lazy():
        found = []
        for _ in range(4):
            y, kept = x, None
            for i in range(150):
                y = y + x
                if i == 10:
                    kept = jnp.sin(y)
                    kept.delete()
            found.append(np.asarray(y).tobytes())
            with pytest.raises(RuntimeError, match="deleted"):
                np.asarray(kept)
    assert len(set(found)) == 1


def test_an_interrupt_of_the_division_loses_nothing(short, monkeypatch):
    code, x = program("operators"), jnp.asarray(X)
    plain = trace_division.Division.move_tensors

    class Interrupting(list):
        """Slots, of which reading the tenth is interrupted once."""

        left = 1

        def __iter__(self):
            for number, item in enumerate(list.__iter__(self)):
                if number == 10 and Interrupting.left:
                    Interrupting.left = 0
                    raise KeyboardInterrupt
                yield item

    def move(self):
        self._planned = [piece._replace(slots=Interrupting(piece.slots)) for piece in self._planned]
        plain(self)

    with lazynb.lazy():
        for _ in range(3):
            first = np.asarray(record(code, x))
        monkeypatch.setattr(trace_division.Division, "move_tensors", move)
        y = x
        interrupted = 0
        for _ in range(300):
            try:
                y = y * 0.5 + x
            except KeyboardInterrupt:
                interrupted += 1
                y = thread_trace().pending.records[-1]  # of the sum, at which the trace was full
        assert interrupted == 1
        assert np.asarray(y).tobytes() == first.tobytes()


def test_an_interrupt_anywhere_in_the_recorder_loses_nothing(short):
    code, x = program("operators"), jnp.asarray(X)
    files = {
        module.__file__
        for module in (
            trace_division,
            trace_growth,
            division_plan,
            call_replay,
            replay_edge,
            pending_module,
            trace_inputs,
            operation_step,
            open_traces,
            trace_module,
        )
    }

    def turns(at):
        """Makes the turns of the loop, with an interrupt before line ``at`` of the recorder's."""
        lines, y, done = 0, x, 0

        def line(frame, event, _):
            nonlocal lines
            lines += event == "line"
            if lines == at and event == "line":
                raise KeyboardInterrupt
            return line

        sys.settrace(lambda frame, event, _: line if frame.f_code.co_filename in files else None)
        try:
            while done < 300:
                with contextlib.suppress(KeyboardInterrupt):
                    y = y * 0.5 + x
                    done += 1
        finally:
            sys.settrace(None)
        return np.asarray(y)

    with lazynb.lazy():
        for _ in range(3):
            first = np.asarray(record(code, x))
        for at in range(1, 2000, 67):
            np.testing.assert_allclose(turns(at), first, rtol=1e-6)
        np.testing.assert_array_equal(record(code, x), first)


def test_a_repeated_loop_respects_max_pending(short, monkeypatch):
    monkeypatch.setattr(config, "max_pending", 200)
    code, x = program("operators"), jnp.asarray(X)
    with lazynb.lazy():
        for _ in range(3):
            y = record(code, x)
            assert sum(map(len, pending_traces())) < 400
            np.asarray(y)
    assert {one.kind for one in lazynb.breaks()} == {"limit", "asarray"}
