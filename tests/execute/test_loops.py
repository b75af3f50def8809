"""Loops that nothing reads: what is told of them, and what is done. The truth stands beside each program."""

from __future__ import annotations

import contextlib
import functools
import linecache
import re
import time
import tracemalloc
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from lazynb.config import config
from lazynb.errors import LoopWarning
from lazynb.recording import trie
from lazynb.recording.loops import trace_division, trace_growth
from lazynb.running.executable_cache import executables

X = np.linspace(0.1, 0.9, 16, dtype=np.float32)


def run(name, text, **more):
    """The names after the program ``text``; its warnings are in ``warned``."""
    file = f"<loops {name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names = {"jnp": jnp, "jax": jax, "lazynb": lazynb, "np": np, "x": jnp.asarray(X), **more}
    trace_growth._warned_loops.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with lazynb.lazy():
            exec(compile(text, file, "exec"), names)
    names["warned"] = [one for one in caught if one.category is LoopWarning]
    return names


@pytest.fixture
def short(clean, monkeypatch):
    monkeypatch.setattr(config, "max_program", 120)
    lazynb.clear_cache()  # the next trace is begun under the setting


# ---- what is told: the line of the loop, by hand; None where nothing may be said ---------------------------

TOLD = {
    "for": ("y = 0.0\nfor i in range(60):\n    y = y + (x * i).sum()", 2),
    "one operator": ("y = x\nfor i in range(60):\n    y = y + x", 2),
    "one function": ("y = x\nfor i in range(60):\n    y = jnp.sin(y)", 2),
    "while": ("y = x\ni = 0\nwhile i < 60:\n    i += 1\n    y = jnp.sin(y) + x", 3),
    "inner loop": ("y = x\nfor a in range(6):\n    for i in range(20):\n        y = jnp.sin(y) + x", 3),
    "outer loop": (
        "y = x\nfor a in range(30):\n    y = y + 1\n    for i in range(2):\n        y = jnp.cos(y)",
        2,
    ),
    "comprehension": ("y = [jnp.sin(x) * i for i in range(60)]", 1),
    "helper": ("def step(y):\n    return jnp.sin(y) + x\ny = x\nfor i in range(60):\n    y = step(y)", 4),
    "loop in a helper": (
        "def steps(y):\n    for i in range(60):\n        y = jnp.sin(y) + x\n    return y\ny = steps(x)",
        2,
    ),
    "helper with a small loop": (
        "def step(y):\n    y = y + x\n    for k in range(2):\n        y = jnp.sin(y)\n    return y\n"
        "y = x\nfor i in range(60):\n    y = step(y)",
        7,
    ),
    "generator": (
        "def states(y):\n    while True:\n        y = jnp.sin(y) + x\n        yield y\n"
        "for i, y in enumerate(states(x)):\n    if i == 60:\n        break",
        2,
    ),
    "collected": ("kept = []\nfor i in range(60):\n    kept.append(jnp.sin(x) * i)", 2),
    "condition": ("y = x\nfor i in range(60):\n    if i >= 0:\n        y = jnp.sin(y) + x", 2),
    "with a block": (
        "y = x\nfor i in range(60):\n    with jax.named_scope('s'):\n        y = jnp.sin(y) + x",
        2,
    ),
    # nothing is certain, or there is no such loop
    "map": ("y = x\nfor a in range(2):\n    y = sum(map(jnp.sin, [x] * 60))", None),
    "reduce": (
        "import functools, operator\nfor a in range(2):\n    y = functools.reduce(operator.add, [x] * 60)",
        None,
    ),
    "sum": ("for a in range(2):\n    y = sum([x] * 90)", None),
    "unrolled": ("y = x\n" + "y = jnp.sin(y) + x\n" * 40, None),
    "short": ("y = x\nfor i in range(5):\n    y = jnp.sin(y) + x", None),
    "read": ("y = x\nfor i in range(60):\n    y = jnp.sin(y) + x\n    float(y[0])", None),
    "synced": (
        "y = x\nfor i in range(60):\n    y = jnp.sin(y) + x\n    if i % 5 == 4:\n        lazynb.sync()",
        None,
    ),
    "no period": (
        "y = x\nfor i in range(1, 40):\n    y = jnp.sin(y)\n    for k in range(i):\n        y = y + x",
        None,
    ),
}


@pytest.mark.parametrize("name", TOLD)
def test_a_growing_loop_is_warned_of_at_its_line(name, short):
    text, line = TOLD[name]
    warned = run(name, text)["warned"]
    if name == "no period":  # only the inner loop repeats, and late
        assert all(one.lineno in (2, 4) for one in warned)
    elif line is None:
        assert not warned, [str(one.message) for one in warned]
    else:
        assert [one.lineno for one in warned] == [line]
        assert "lazynb.sync()" in str(warned[0].message)


WORDS = {
    "a statement": (
        "y = x\nfor i in range(400):\n    y = jnp.sin(y) + x",
        "this loop has recorded the same 2 operations again and again, and nothing has read them",
        "Call lazynb.sync() in the loop, once every 100 repetitions of these operations. From 2,000 ",
    ),
    "one operation": (
        "y = x\nfor i in range(60):\n    y = jnp.sin(y)",
        "this loop has recorded the same operation again and again, and nothing has read it: ",
        "Call lazynb.sync() in the loop, once every 100 repetitions of this operation.",
    ),
    "a comprehension": (
        "y = [jnp.sin(x) * i for i in range(60)]",
        "this comprehension has recorded the same 2 operations ",
        "Make it a for statement, and call lazynb.sync() in that, once every 100 repetitions of these",
    ),
    "a generator": (
        "y = list(jnp.sin(x) * i for i in range(60))",
        "this comprehension has recorded the same 2 operations ",
        "Make it a for statement, and call lazynb.sync() in that, once every 100 repetitions of these",
    ),
    "100 operations": (
        "y = x\nfor i in range(60):\n" + "    y = jnp.sin(y) + x\n" * 49 + "    y = y * 2\n    y = y - x\n",
        "this loop has recorded the same 100 operations ",
        "once every 2 repetitions of these operations. From 4,000 operations on ",
    ),
    "200 operations": (
        "y = x\nfor i in range(60):\n"
        + "    y = jnp.sin(y) + x * y\n" * 66
        + "    y = y + 1\n    y = y + x\n",
        "this loop has recorded the same 200 operations ",
        "at each repetition of these operations. From 8,000 operations on ",
    ),
}


@pytest.mark.parametrize("name", WORDS)
def test_the_warning_names_the_recurrence_and_the_cure(name, clean, monkeypatch):
    text, what, cure = WORDS[name]
    limit = re.search(r"From ([\d,]+)", cure)
    monkeypatch.setattr(config, "max_program", int(limit[1].replace(",", "")) if limit else 120)
    lazynb.clear_cache()
    trace_growth._warned_loops.clear()
    (warned,) = run(f"words of {name}", text)["warned"]
    assert what in str(warned.message) and cure in str(warned.message), warned.message


def test_the_cured_comprehension_gives_no_warning(short):
    text = (
        "y = []\nfor i in range(60):\n    y.append(jnp.sin(x) * i)\n"
        "    if i % 20 == 19:\n        lazynb.sync()"
    )
    plain = run("not cured", "y = [jnp.sin(x) * i for i in range(60)]")
    cured = run("cured comprehension", text)
    assert plain["warned"] and not cured["warned"]
    np.testing.assert_array_equal(np.stack(cured["y"]), np.stack(plain["y"]))


def test_a_loop_is_warned_of_once(short):
    text = "for a in range(3):\n    y = x\n    for i in range(60):\n        y = jnp.sin(y) + x\n    lazynb.sync()"
    assert [one.lineno for one in run("once", text)["warned"]] == [3]


# ---- what is done: programs, and bits beside those of one program -------------------------------------------

CUT = {
    "sum": "y = 0.0\nfor i in range(100):\n    y = y + (x * i).sum()",
    "sines": "y = x\nfor i in range(300):\n    y = jnp.sin(y)",
    "sine and sum": "y = x\nfor i in range(150):\n    y = jnp.sin(y) + x",
    "tanh of a product": "y = x\nw = jnp.outer(x, x)\nlazynb.sync()\nfor i in range(150):\n    y = jnp.tanh(w @ y)",
    "clip": "y = x\nfor i in range(100):\n    y = jnp.clip(y * 1.3 - 0.2, -1, 1)",
    "affine": "y = x\nfor i in range(100):\n    y = y * 0.99 + 0.01",
    "integers": "y = jnp.arange(16)\nfor i in range(100):\n    y = (y * 3 + i) % 1009",
    "collected": "kept = []\ny = x\nfor i in range(150):\n    y = jnp.sin(y) + x\n    if i % 10 == 0:\n        kept.append(y)\n"
    "lazynb.sync()\ny = jnp.stack(kept)",
    "helper": "def step(y):\n    return jnp.sin(y) + x\ny = x\nfor i in range(150):\n    y = step(y)",
    "two carried": "y, z = x, x * 2\nlazynb.sync()\nfor i in range(100):\n    y, z = jnp.sin(z) + x, jnp.cos(y)",
    "list of inputs": "y = x\ndata = [x + k for k in range(5)]\nlazynb.sync()\nfor i in range(150):\n    y = jnp.sin(y) + data[i % 5]",
    "jitted": "step = jax.jit(lambda y: jnp.sin(y) + 1)\ny = x\nfor i in range(150):\n    y = step(y)",
}
"""Loops that are cut, and give the bits of one program."""


@pytest.mark.parametrize("name", CUT)
def test_a_loop_cut_into_pieces_gives_the_same_bits(name, short, monkeypatch):
    monkeypatch.setattr("lazynb.recording.loops.trace_division.MAX_PIECE_WEIGHT", 40)
    cut = np.asarray(run(name, CUT[name])["y"])
    events, misses = len(lazynb.events()), lazynb.cache_info().misses
    assert events >= 5 and misses <= events - 2
    monkeypatch.setattr(config, "max_program", 10**6)
    lazynb.clear_cache()
    whole = np.asarray(run(name, CUT[name])["y"])
    assert cut.tobytes() == whole.tobytes()


ROUNDED = {
    "a product that two read": "y = x\nfor i in range(100):\n    y = 3.7 * y * (1 - y)",
    "bfloat16": "y = x.astype(jnp.bfloat16)\nfor i in range(100):\n    y = y * 0.99 + 0.01",
    "two products in a sum": "y = z = x\nfor i in range(100):\n    z = z * 0.9 + y * 0.1\n    y = jnp.sin(z)",
    "quotients": "y = x\nfor i in range(200):\n    y = y / 1.01",
    "momentum": "y, m = x, x * 0\nlazynb.sync()\nfor i in range(60):\n    g = 2 * jnp.dot(y, x) / 16 * x\n    m = 0.9 * m + g\n"
    "    y = y - 0.01 * m",
    "adam": "y, m, v = x, x * 0, x * 0\nlazynb.sync()\nfor i in range(1, 61):\n    g = y * x\n    m = 0.9 * m + 0.1 * g\n"
    "    v = 0.999 * v + 0.001 * g * g\n    y = y - 0.01 * (m / (1 - 0.9**i)) / (jnp.sqrt(v / (1 - 0.999**i)) + 1e-8)",
    "jitted sums": "add = jax.jit(lambda a, b: a + b)\ny = z = x\nfor i in range(100):\n    z = add(z * 0.9, y * 0.1)\n    y = jnp.sin(z)",
}
"""Loops of which it is not certain that a cut keeps the bits. They are cut where they repeat all the same."""


@pytest.mark.parametrize("name", ROUNDED)
def test_a_cut_loop_that_may_round_differently_is_also_compiled_once(name, short, monkeypatch):
    found = []

    def cuts_of(path, part):
        found.append(trace_division.cuts_of(path, part))
        return found[-1]

    monkeypatch.setattr(trace_growth, "cuts_of", cuts_of)
    monkeypatch.setattr(trace_division, "MAX_PIECE_WEIGHT", 40)
    cut = np.asarray(run(name, ROUNDED[name])["y"].astype(np.float32))
    assert not found[-1].keeps_bits
    events, misses = len(lazynb.events()), lazynb.cache_info().misses
    assert events >= 4 and misses <= events - 1
    if name == "a product that two read":
        return  # it is chaotic
    monkeypatch.setattr(config, "max_program", 10**6)
    lazynb.clear_cache()
    whole = np.asarray(run(name, ROUNDED[name])["y"].astype(np.float32))
    np.testing.assert_allclose(cut, whole, rtol=0.05 if name == "bfloat16" else 1e-5)


def test_ten_times_the_iterations_take_no_longer_to_compile(clean, monkeypatch):
    def cold(turns):
        lazynb.clear_cache()
        big, start = jnp.arange(1000.0), time.perf_counter()
        with lazynb.lazy():
            total = 0.0
            for i in range(turns):
                total = total + (big * i).sum()
            value = float(total)
        return time.perf_counter() - start, value

    monkeypatch.setattr(config, "persistent_cache", False)
    cold(3)
    few, _ = cold(300)
    many, value = cold(3_000)
    assert many < 3 * few
    assert value == pytest.approx(999 * 500 * 3000 * 2999 / 2, rel=1e-4)
    assert lazynb.cache_info().misses <= 4


def test_the_memory_of_a_long_loop_is_bounded(clean):
    x = jnp.ones(8)

    def turns(count):
        total = 0.0
        for i in range(count):
            total = total + (x * i).sum()
        return float(total)

    with lazynb.lazy(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        turns(3_000)
        recorded, misses = lazynb.cache_info().recorded, lazynb.cache_info().misses
        tracemalloc.start()
        turns(30_000)
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert held < 20_000_000
    assert lazynb.cache_info().recorded < recorded + 2_000
    assert lazynb.cache_info().misses <= misses + 3


def test_the_cut_is_explained_as_a_decision_of_lazynb(short, monkeypatch):
    monkeypatch.setattr("lazynb.recording.loops.trace_division.MAX_PIECE_WEIGHT", 40)
    run("why", CUT["sum"] + "\nfloat(y)")
    reasons = [event.reason for event in lazynb.events() if event.reason]
    assert any("lazynb decided to cut" in reason and ":2" in reason for reason in reasons), reasons
    assert [one.kind for one in lazynb.breaks()] == ["float"]


# ---- recurrences -------------------------------------------------------------------------------------------


def test_a_loop_with_an_isnan_check_is_not_reported_as_a_recurrence(clean):
    """The issue's program: the trace does not grow at each step."""
    text = """
p = x * 2
lazynb.sync()
for s in range(5):
    loss, g = jax.value_and_grad(lambda p: ((p - 1) ** 2).sum())(p)
    if jnp.isnan(loss):
        break
    p = p - 0.1 * g
"""
    run("nan", text)
    assert not any("longer at each step" in (event.reason or "") for event in lazynb.events())


def large_step():
    """A jitted function with some 40 operations inside."""

    @jax.jit
    def step(state, x):
        w, total = state
        for number in range(10):
            w = jnp.tanh(w * 0.5 + x) + jnp.float32(number) * 1e-4
        return (w, total + w.sum()), w.mean()

    return step


@pytest.mark.parametrize("turns", [3, 12])
def test_a_loop_of_large_jitted_calls_compiles_the_same_for_any_number_of_turns(turns, clean, monkeypatch):
    monkeypatch.setattr(trie, "OWN_PROGRAM_WEIGHT", 30)
    step, x = large_step(), jnp.linspace(0.0, 1.0, 8)
    expected, state = [], (x, jnp.float32(0))
    for _ in range(turns):
        state, mean = step(state, x)
        expected.append(float(mean))
    with lazynb.lazy():
        state, found = (x, jnp.float32(0) * 1), []
        for _ in range(turns):
            state, mean = step(state, x)
            found.append(mean)
        assert not lazynb.breaks() and all(mean.is_pending for mean in found)
        lazynb.sync()
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert lazynb.cache_info().misses == 3  # what is before it, the first (of one array twice), all others


def test_a_large_jitted_call_is_compiled_once_whatever_comes_before_and_after_it(clean, monkeypatch):
    """Batches cut out of an array, a state made in the same cell, checks of the result: a step of training."""
    monkeypatch.setattr(trie, "OWN_PROGRAM_WEIGHT", 30)
    step = large_step()

    def cell():
        data, means = jnp.arange(40.0) / 40, []
        state = jnp.zeros(8) + 1, jnp.float32(0) * 1
        for turn in range(5):
            state, mean = step(state, data[8 * turn : 8 * turn + 8])
            means.append(mean * 2)
        return float(state[1]), [float(mean) for mean in means], bool(jnp.isfinite(state[0]).all())

    with lazynb.lazy():
        first = cell()
        programs = [one for one in executables.order if "step" in str(one.state.operation)]
        assert len(programs) <= 2  # in the last turn nothing else waits for its inputs
        misses = lazynb.cache_info().misses
        assert cell() == first and lazynb.cache_info().misses == misses
    # its miss is told as any other: a loop was not cut, and nothing is to be synchronised
    assert not any("decided to cut" in (event.reason or "") for event in lazynb.events())
    expected = cell()
    np.testing.assert_allclose(first[0], expected[0], rtol=1e-6)
    np.testing.assert_allclose(first[1], expected[1], rtol=1e-6)


def test_a_small_jitted_call_that_comes_again_stays_in_one_program(clean):
    step = jax.jit(lambda w: jnp.tanh(w * 0.5) + 1)
    with lazynb.lazy():
        w = jnp.ones(4)
        for _ in range(5):
            w = step(w)
        lazynb.sync()
    assert lazynb.cache_info().misses == 1


def test_what_is_inside_of_jitted_functions_counts_for_the_length_of_a_program(clean, monkeypatch):
    monkeypatch.setattr(config, "max_program", 200)
    step = jax.jit(lambda w: functools.reduce(lambda a, _: jnp.sin(a) + 1, range(10), w))  # 20 operations
    with lazynb.lazy():
        w = jnp.ones(4)
        for _ in range(40):
            w = step(w)
        lazynb.sync()
    assert 2 <= lazynb.cache_info().misses <= 4
    expected = jnp.ones(4)
    for _ in range(40):
        expected = step(expected)
    np.testing.assert_allclose(w, expected, rtol=1e-6)


def test_a_loop_of_large_turns_is_divided_as_soon_as_it_is_found_and_stays_divided(clean):
    """A variable of the first turn equals a literal of all: the number is an input there and a constant later."""

    def turn(w):
        for _ in range(50):
            w = jnp.tanh(w + 0.25) * 0.5
        return w

    def run(mode):
        with mode:
            rate = 0.25
            w = jnp.linspace(0.0, 1.0, 8) * rate
            for _ in range(20):
                w = turn(w)
            return np.asarray(w)

    lazily = run(lazynb.lazy())
    sizes = [one["operations"] for one in lazynb.cache_info().to_dicts()]
    assert max(sizes) < 2 * 150 + 10 and len(sizes) <= 4
    np.testing.assert_allclose(lazily, run(contextlib.nullcontext()), rtol=1e-5)


@pytest.mark.parametrize("same", [True, False])
def test_the_first_turn_is_a_piece_like_the_others(clean, same):
    """Unless the second one differs from the third, in what it reads from before the loop."""

    def run(mode):
        with mode:
            w = jnp.linspace(0.0, 1.0, 8) * 1.5
            lazynb.sync()
            extra = jnp.ones(8, jnp.float32 if same else jnp.float16)
            lazynb.sync()
            for _ in range(20):
                for _ in range(50):
                    w = jnp.tanh(w + 0.25) * 0.5
                w, extra = (w + extra).astype(jnp.float32), w
            return np.asarray(w)

    lazily = run(lazynb.lazy())
    sizes = sorted(one["operations"] for one in lazynb.cache_info().to_dicts())
    np.testing.assert_allclose(lazily, run(contextlib.nullcontext()), rtol=1e-5)
    if same:
        assert sizes[-1] < 2 * 150 and len([size for size in sizes if size > 100]) <= 2
    else:
        assert len([size for size in sizes if size > 100]) <= 4
