"""Hosts agree before a program that spans them is launched; each process here is one host."""

from __future__ import annotations

import signal
import sysconfig
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import ranks

import lazynb
from lazynb.recording.break_reasons import REASONS
from lazynb.recording.fingerprint import fingerprint, prefix_fingerprints
from lazynb.recording.lazy_trace import thread_trace
from lazynb.running.hosts.coordination_store import GO
from lazynb.running.hosts.host_agreement import HostGroup
from lazynb.running.hosts.host_interrupts import DeferredInterrupts
from lazynb.running.hosts.host_presence import Presence, Watch
from lazynb.running.hosts.host_proposal import (
    Proposal,
    differ_in_constants_only,
    first_difference,
    other_number,
    with_common_constants,
)

FAULTS = Path(__file__).parent / "faults.py"
DIFFERENT = {
    # what the first step that differs is, on the host at fault and on the others
    "reads": ("nothing more", "matmul (float32[8])"),
    "reads_once": ("nothing more", "matmul (float32[8])"),
    "other_operation": ("sin (float32[8])", "cos (float32[8])"),
    "scales": ("the number 1.5, which is written in the code, for multiply", "matmul (float32[8])"),
    "other_collective": ("_reduce_max (float32[])", "_reduce_sum (float32[])"),
    "other_shape": ("broadcast_in_dim (float32[6,4])", "broadcast_in_dim (float32[4,4])"),
    "other_order": ("sin (float32[8,4])", "cos (float32[8,4])"),
    "other_number": ("the number 3, which is written in the code", "the number 4, which is written"),
    "one_more_later": ("the number 0.0, which is written in the code, for subtract", "nothing more"),
    "other_type": (
        "an input int32[8,4], sharded as P('data',)",
        "an input float32[8,4], sharded as P('data',)",
    ),
    "other_inside": ("<lambda> (float32[4]) at", "<lambda> (float32[4]) at"),
    "prints": ("nothing more", "matmul (float32[8])"),
    "once_more": ("the number 1, which is written in the code", "multiply (float32[8,4])"),
}
"""Cases in which one host records something else; afterwards all go on."""

SOON = 9
"""Seconds within which hosts know, on a loaded machine and without a time-out; 0.1 on an idle one."""
TIMEOUT = lazynb.config.hosts_timeout

LEGAL = (
    "keeps",
    "unused",
    "prints_after",
    "late",
    "own",
    "other_memory",
    "interrupted",
    "profiles",
    "never_reads",
)
"""Cases in which hosts do not do quite the same, and may."""


def results(ended: list[ranks.Rank]) -> list[dict[str, dict]]:
    """What each rank reported, by case; all ranks ended by themselves."""
    for rank in ended:
        assert rank.status == 0, rank.text
    return [{one["case"]: one for one in rank.results if one["case"] != "same"} for rank in ended]


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.full)])
def test_differing_hosts_get_an_error_and_run_the_next_program_together(count):
    cases = ["same", *DIFFERENT, "cannot_make", *LEGAL]
    ended = ranks.run(FAULTS, count, *cases, seconds=60)
    told = results(ended)
    check_that_all_must_have_the_program(ended)
    assert any("own" in one for one in ended[0].results if one["case"] == "interrupted")
    for rank in ended:
        assert {"case": "profiles", "own": "OneHostOnlyError"} in rank.results
    for rank in ended:  # after each fault all hosts run a program together
        assert [one["error"] for one in rank.results if one["case"] == "same"] == [None] * len(cases)
    for case, (odd, others) in DIFFERENT.items():
        for number, host in enumerate(told):
            error = host[case]
            assert error["error"] == "HostsDifferError", (case, number, error)
            assert error["seconds"] < SOON, (case, error["seconds"])
            assert f"this is host {number}" in error["said"]
            recorded = [error["recorded"][str(each)] for each in range(count)]
            assert recorded[-1].startswith(odd), (case, recorded)
            assert len(set(recorded[:-1])) == 1 and recorded[0] != recorded[-1], (case, recorded)
            assert recorded[0].startswith(others), (case, recorded)
            assert "faults.py:" in error["lines"]["0"]
    first, last = (
        told[0]["other_inside"]["recorded"]["0"],
        told[0]["other_inside"]["recorded"][str(count - 1)],
    )
    assert first.endswith("length=2") and last.endswith("length=3")
    assert "format at faults.py:" in told[0]["prints"]["lines"][str(count - 1)]
    for case in LEGAL:
        assert [host[case]["error"] for host in told] == [None] * count, case


def check_that_all_must_have_the_program(ended: list[ranks.Rank]) -> None:
    *others, (own, odd) = [[one for one in rank.results if one["case"] == "cannot_make"] for rank in ended]
    assert own["own"] == "no room to compile" and odd["error"] is None
    for (told,) in others:
        last = told["recorded"][str(len(others))]
        assert told["error"] == "HostsDifferError" and told["seconds"] < SOON
        assert last == "could not make the program (MemoryError: no room to compile)"
        assert told["recorded"]["0"] == "has made the program"


def test_the_host_that_is_not_alike_to_most_is_marked():
    said = str(
        lazynb.HostsDifferError(0, dict.fromkeys(range(3), "float"), 1, {0: "sin", 1: "cos", 2: "sin"})
    )
    assert "\n  hosts 0, 1, 2: float\n" in said and "\n  hosts 0, 2: sin\n→ host 1: cos\n" in said
    said = str(lazynb.HostsDifferError(0, dict.fromkeys(range(2), "float"), 1, {0: "sin", 1: "cos"}))
    assert "\n  host 0: sin\n  host 1: cos\n" in said


def test_hosts_that_differ_are_a_trace_break_with_the_lines_of_both():
    reason = REASONS["hosts_differ"]
    for rank in ranks.run(FAULTS.with_name("examples.py"), 2, "hosts_differ", seconds=60):
        assert rank.status == 0, rank.text
        (told,) = rank.results
        assert told["example"]["error"] == "HostsDifferError" and told["cure"]["error"] is None
        [(code, text, hint, ops)] = [
            rest for kind, *rest in told["example"]["breaks"] if kind == "hosts_differ"
        ]
        assert (code, hint, ops) == (reason.code, reason.hint, 0)
        assert text.startswith(f"{reason.text} (host 0: float at <example>:8: print(float(loss)), ")
        assert "; host 1: float at <example>:9: out = " in text
        assert told["cure"]["out"] == 24 and not [
            one for one in told["cure"]["breaks"] if one[0] == "hosts_differ"
        ]


def left(case: str, count: int = 2) -> list[ranks.Rank]:
    """The ranks after a case in which the last one goes; all others have ended by themselves in time."""
    ended = ranks.run(FAULTS, count, case, seconds=30)
    for rank in ended[:-1]:
        assert rank.status == 1, rank.text
        (told,) = rank.results
        assert told["error"] == "HostMissingError" and told["seconds"] < TIMEOUT + SOON
        assert "faults.py" in told["line"] and "float(loss)" in told["line"]
    ends = [rank.seconds for rank in ended[:-1]]
    assert max(ends) - min(ends) < SOON
    return ended


def what(rank: ranks.Rank, missing: int) -> str:
    return rank.results[0]["missing"][str(missing)]


def test_a_host_that_raises_is_named_with_its_error_and_line():
    first, last = left("raises")
    assert what(first, 1).startswith("has ended with ValueError: no such file, at faults.py:")
    assert first.results[0]["seconds"] < SOON and last.status == 1 and "no such file" in last.text


@pytest.mark.full
@pytest.mark.parametrize("count", [2, 4])
def test_missing_hosts_are_reported_with_the_line_where_they_stopped(count):
    *others, last = left("exits", count)
    assert what(others[0], count - 1) == "has ended, without an error" and last.status == 0
    *others, last = left("stops", count)
    assert what(others[0], count - 1).startswith("has ended with KeyboardInterrupt, at faults.py:")
    *others, last = left("killed", count)
    assert "has not answered for 5 s; its last report came from faults.py:" in what(others[0], count - 1)
    *others, last = left("sleeps", count)
    assert "it is doing nothing at faults.py:" in what(others[0], count - 1)
    assert "time.sleep(1000)" in what(others[0], count - 1)


@pytest.mark.full
def test_hosts_waiting_for_each_other_with_different_groups_get_an_error():
    ended = ranks.run(FAULTS, 4, "crosses", seconds=40)
    told = [rank.results[0] for rank in ended]
    assert [one["error"] for one in told] == ["HostMissingError"] * 4
    assert told[0]["seconds"] < 2 * SOON and told[3]["seconds"] < 2 * SOON
    words = [what(ended[0], 3), what(ended[3], 0)]  # the second to notice may find that the first has ended
    assert any(
        "waits at faults.py:" in one and "to run another program with other hosts" in one for one in words
    )
    assert all("waits at" in one or "because it waited for host" in one for one in words)


class LateStore:
    """A store in which the other host speaks, and decides, just after it was looked for."""

    def __init__(self, mine: Proposal, verdict: str):
        self._words = [{0: mine.plain()}, {0: mine.plain(), 1: mine.plain()}]
        self._verdict = verdict
        self.name = "0-1"

    def say(self, turn, part, what):
        pass

    def said(self, turn, part):
        return self._words.pop(0) if len(self._words) > 1 else self._words[0]

    def verdict(self, turn):
        return self._verdict

    def decide(self, turn, verdict):
        return self._verdict


@pytest.mark.parametrize("verdict, hosts", [(GO, [0, 1]), ("host 1 gave up", None)])
def test_the_recorded_verdict_of_another_host_decides(monkeypatch, verdict, hosts):
    monkeypatch.setattr(Watch, "trouble", lambda self, hosts: {})
    mine = Proposal("a", "b", (0,), (), 1, "float", "train.py:1")
    group = HostGroup([0, 1])
    group._store = LateStore(mine, verdict)
    found = group._proposals(mine, None, Watch(7))
    assert (found if found is None else sorted(found)) == hosts


def proposal(*numbers: tuple[int, str, bool], alike: str = "a") -> Proposal:
    return Proposal("p", "t", (0,), (), 1, "float", "train.py:1", alike, numbers)


def test_a_kernel_that_waits_for_a_cell_does_not_wait_for_a_device():
    """Its event loop is in a function named ``start``, as is what launches a program in lazynb."""
    presence, told = Presence(), []

    def loop_in(file):
        code = "def start():\n    told.append(presence._doing()[1])\nstart()"
        exec(compile(code, str(file), "exec"), {"told": told, "presence": presence})

    loop_in(Path(sysconfig.get_paths()["purelib"]) / "tornado" / "platform" / "asyncio.py")
    loop_in(Path(lazynb.__file__).parent / "execute" / "executable.py")
    assert told == [False, True]


def test_a_number_is_an_input_on_all_hosts_if_it_is_one_on_any():
    one = proposal((1, "3", True), (4, "5", True), (6, "7", False))
    other = proposal((1, "3", False), (4, "5", True), (6, "8", False))
    assert differ_in_constants_only([one, other]) and other_number([one, other]) is None
    assert with_common_constants(one, [one, other]) == ((1, "3", False), (4, "5", True), (6, "7", False))
    edited = proposal((1, "3", True), (4, "6", False), (6, "7", False))
    assert not differ_in_constants_only([one, edited]) and other_number([one, edited]) == 4
    assert not differ_in_constants_only([one, proposal(*one.numbers, alike="b")])


def test_an_interrupt_during_the_agreement_is_raised_after_it():
    interrupts, holder = DeferredInterrupts(), object()
    before = signal.getsignal(signal.SIGINT)
    interrupts.defer(holder)
    signal.raise_signal(signal.SIGINT)
    assert interrupts.noted
    interrupts.defer(object())  # a run inside of the other
    interrupts.release(object())
    with pytest.raises(KeyboardInterrupt):
        interrupts.release(holder)
    assert signal.getsignal(signal.SIGINT) is before
    interrupts.release(holder)
    interrupts.defer(holder)
    with pytest.raises(KeyboardInterrupt), interrupts.raised():
        signal.raise_signal(signal.SIGINT)
    interrupts.release(holder)
    assert signal.getsignal(signal.SIGINT) is before


# ---- one process -------------------------------------------------------------------------------------------


def test_the_first_difference_is_found_wherever_it_is():
    for length in range(1, 12):
        for place in range(length + 1):
            one = [f"{step}" for step in range(length)]
            other = [step if number < place else f"other {step}" for number, step in enumerate(one)]
            assert first_difference([one, other, one]) == place
            assert first_difference([one, one[:place]]) == place


def recorded(body) -> list[bytes]:
    """The rolling fingerprints of what ``body`` records."""
    with lazynb.lazy():
        kept = body()
        found = prefix_fingerprints(thread_trace().pending.state)
        assert found[-1] == fingerprint(thread_trace().pending.state)
    del kept
    return found


def test_fingerprints_depend_on_the_content_of_the_program(clean):
    x = np.arange(4.0, dtype=np.float32)

    def one():
        f = jax.jit(lambda a: jnp.sin(a) * 2)
        return f(jnp.asarray(x)) + 1

    first = recorded(one)
    lazynb.clear_cache()  # other states, other operations, another function
    assert recorded(one) == first

    def other():
        f = jax.jit(lambda a: jnp.sin(a) * 3)
        return f(jnp.asarray(x)) + 1

    second = recorded(other)
    place = first_difference([[step.hex() for step in first], [step.hex() for step in second]])
    assert 0 < place < len(first) and not set(first[place:]) & set(second[place:])


def test_one_process_makes_no_fingerprints(clean):
    with lazynb.lazy():
        y = jnp.sin(jnp.arange(3.0)) + 1
        state = thread_trace().pending.state
        float(y.sum())
    assert not hasattr(state, "fingerprint")
