"""``lazynb run --events``: what is in the stream, that it follows its schema, and that it is whole however the
program ends."""

from __future__ import annotations

import inspect
import json
import re
import threading
import typing

import jax
import jax.numpy as jnp
import pytest

import lazynb
from lazynb.compare.misses import event_stream
from lazynb.compare.misses.event_stream import EventStream
from lazynb.running import trace_executable
from lazynb.running.observers import process_observers

PROGRAM = """
    import os, sys
    import jax.numpy as jnp

    x = jnp.ones(3)
    for turn in range(3):
        if (x * 2).sum() > 3:  # a branch
            x = x + 1
    print(float(x.sum()))
    if sys.argv[1:] == ["die"]:
        os.kill(os.getpid(), 9)
    if sys.argv[1:] == ["fail"]:
        raise KeyError("mine")
"""


def read(path):
    """The events of a file, each held against the schema."""
    text = path.read_text(encoding="utf-8")
    assert text.endswith("\n")
    events = [json.loads(line) for line in text.splitlines()]
    for event in events:
        shape = event_stream.EVENTS[event["event"]]
        assert fits(event, shape), event
    times = [event["at"] for event in events]
    assert times == sorted(times) and events[0]["event"] == "start"
    return events


def fits(value, type_):
    """Whether JSON data are what a type of the schema says."""
    if typing.is_typeddict(type_):
        hints = typing.get_type_hints(type_)
        return value.keys() == hints.keys() and all(fits(value[name], one) for name, one in hints.items())
    if typing.get_origin(type_) is list:
        return all(fits(one, typing.get_args(type_)[0]) for one in value)
    options = typing.get_args(type_) or (type_,)
    kinds = tuple(float if option is int and isinstance(value, float) else option for option in options)
    return type(value) in kinds or (float in options and type(value) is int)


def kinds(events):
    return [event["event"] for event in events]


@pytest.fixture
def stream(tmp_path, clean):
    """Opens a stream; when it is closed, gives its events."""
    path = tmp_path / "events.jsonl"
    opened = EventStream(path, "test")
    opened.open()

    def closed():
        opened.close(0, "")
        assert not process_observers
        return read(path)

    return closed


def test_the_events_of_a_script_follow_its_flushes_compilations_and_breaks(write, lazynb_run, tmp_path):
    write("train.py", PROGRAM)
    done = lazynb_run("train.py", "--events", "out.jsonl", "one")
    assert done.returncode == 0 and done.stdout == "12.0\n"
    events = read(tmp_path / "out.jsonl")
    assert f"lazynb: {len(events)} events written to" in done.stderr
    start, end = events[0], events[-1]
    assert (start["version"], start["program"], start["arguments"]) == (1, "train.py", ["one"])
    assert (end["event"], end["status"], end["error"]) == ("end", 0, "")
    first = ["flush", "compiling", "compile", "run", "break"]
    own = [kind for kind in kinds(events[1:-1]) if kind != "jax_compile"]
    assert own == [*first, *first, "flush", "run", "break", *first]
    breaks = [event for event in events if event["event"] == "break"]
    assert [event["code"] for event in breaks] == ["LNB101"] * 3 + ["LNB103"]
    assert breaks[0]["line"]["text"] == "if (x * 2).sum() > 3:  # a branch" and breaks[0]["line"]["line"] == 7
    assert not any(event["asked"] for event in breaks)
    made = [event for event in events if event["event"] == "compile"]
    assert made[0]["reason"] == "nothing like it was compiled before" and made[1]["cure"]
    assert [event["cache"] for event in events if event["event"] == "run"] == [
        "compiled",
        "compiled",
        "hit",
        "compiled",
    ]


def test_a_program_that_is_killed_leaves_whole_lines(write, lazynb_run, tmp_path):
    write("train.py", PROGRAM)
    assert lazynb_run("--events=out.jsonl", "train.py", "die").returncode == -9
    events = read(tmp_path / "out.jsonl")
    assert kinds(events)[-1] == "break" and kinds(events).count("run") == 4


def test_a_failing_notebook_ends_the_stream_with_its_status_and_error(notebook, lazynb_run, tmp_path):
    notebook("work.ipynb", "import jax.numpy as jnp\nx = jnp.ones(3) + 1\nfloat(x.sum())", "1 / 0")
    done = lazynb_run("work.ipynb", "--events", "out.jsonl")
    assert done.returncode == 1
    *_, broke, end = read(tmp_path / "out.jsonl")
    assert broke["event"] == "break" and broke["line"]["cell"] == 1 and broke["line"]["line"] == 3
    assert end["status"] == 1 and end["error"] == "ZeroDivisionError: division by zero"


def test_events_cover_other_threads_barriers_and_ahead_of_time_compilations(stream):
    def work():
        with lazynb.lazy():
            lazynb.sync(jnp.ones(7) * 3)

    with lazynb.lazy():
        x = jnp.ones(5) * 2
        lazynb.compile(x)
        x.block_until_ready()
        thread = threading.Thread(target=work, name="worker")
        thread.start()
        thread.join()
    jax.jit(lambda a: a - 0.123)(jnp.ones(11))
    events = stream()
    [ahead, other] = [event for event in events if event["event"] == "compile"]
    assert (ahead["thread"], other["thread"]) == ("MainThread", "worker")
    assert kinds(events).index("compiling") < kinds(events).index("flush")  # it was made ahead
    assert [event["asked"] for event in events if event["event"] == "break"] == [True, True]
    assert any(event["event"] == "jax_compile" for event in events)


def test_a_compilation_that_fails_was_begun(stream, monkeypatch):
    def fail(*arguments):
        raise RuntimeError("the compiler fails")

    with lazynb.lazy(), pytest.raises(RuntimeError, match="the compiler fails"):
        x = jnp.ones(3) * 2
        monkeypatch.setattr(trace_executable, "_compile", fail)
        float(x.sum())
    found = kinds(stream())
    assert found.count("compiling") >= 1 and "compile" not in found and "run" not in found


def test_an_explanation_over_the_size_limit_is_null(stream, monkeypatch):
    monkeypatch.setattr(lazynb.config, "max_explained", 1)
    with lazynb.lazy():
        lazynb.sync(jnp.ones(3) * 2)
    [made] = [event for event in stream() if event["event"] == "compile"]
    assert made["reason"] is None and made["cure"] is None


def test_a_disk_that_is_full_ends_the_stream_alone(tmp_path, clean):
    try:
        full = EventStream(typing.cast("typing.Any", "/dev/full"), "test")
    except OSError:
        pytest.skip("no /dev/full here")
    full.open()
    with lazynb.lazy():
        assert float(jnp.ones(3).sum()) == 3.0
    full.close(0, "")
    assert full.error == "No space left on device" and full.written == 0


def test_a_stream_path_that_is_the_program_or_not_writable_is_refused(write, lazynb_run):
    write("train.py", "print('ran')")
    assert "would write over the program" in lazynb_run("train.py", "--events", "train.py").stderr
    gone = lazynb_run("train.py", "--events", "no/such/folder.jsonl")
    assert gone.returncode == 2 and "the event stream cannot be written" in gone.stderr and not gone.stdout


def test_each_field_is_documented():
    for shape in (event_stream.Event, event_stream.Line, *event_stream.EVENTS.values()):
        own = set(typing.get_type_hints(shape))
        if shape in event_stream.EVENTS.values():
            own -= set(typing.get_type_hints(event_stream.Event))
        text = inspect.cleandoc(shape.__doc__).partition("Attributes:")[2]
        fields = re.findall(r"^  ([\w, ]+): ", text, re.MULTILINE)
        assert {name for one in fields for name in one.split(", ")} == own, shape
