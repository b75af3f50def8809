"""Where the time of handing a trace over goes: ``python -m benchmarks.handing``.

A trace of one operation on 8x8 is recorded, run and waited for, again and again. One part after the other
is timed, alone, by a function around it whose own time is taken off. Each figure is this thread's work,
the least of several rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp

import lazynb
from lazynb.recording import lazy_trace
from lazynb.recording.replay.native_replay import describe
from lazynb.running import flush, trace_executable

STEPS, ROUNDS = 1_500, 8
X = jnp.ones((8, 8))

PARTS: dict[str, tuple[Any, str]] = {
    "opening the trace": (lazy_trace.LazyTrace, "open"),
    "finding the user's line": (flush, "here"),
    "the run": (flush, "run_trace"),
    "of that, calling XLA's program": (trace_executable.Executable, "start"),
    "waiting": (flush, "_wait_for"),
    "noting the trace break": (flush, "note_break"),
}


class Clock:
    """Nanoseconds spent in a function, and how often it was called."""

    def __init__(self) -> None:
        self.spent = self.calls = 0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``function``, timed."""

        def timed(*args: Any) -> Any:
            began = time.thread_time_ns()
            try:
                return function(*args)
            finally:
                self.spent += time.thread_time_ns() - began
                self.calls += 1

        return timed

    def least(self, step: Callable[[], Any]) -> float:
        """Microseconds of one ``step`` that are spent in the function."""
        times = []
        for _ in range(ROUNDS):
            self.spent = self.calls = 0
            for _ in range(STEPS):
                step()
            times.append(self.spent / STEPS / 1e3)
        return min(times)


@contextmanager
def replaced(owner: Any, name: str, clock: Clock) -> Iterator[None]:
    """Times ``owner.name`` by ``clock``."""
    plain = getattr(owner, name)
    setattr(owner, name, clock.around(plain))
    try:
        yield
    finally:
        setattr(owner, name, plain)


def parts(step: Callable[[], Any]) -> dict[str, float]:
    """Microseconds of each part of ``step``."""
    empty = Clock()
    nothing = empty.around(lambda *_: None)
    own = empty.least(lambda: nothing(1))
    whole = Clock()
    found = {"a step": whole.least(whole.around(step)) - own}
    for name, (owner, attribute) in PARTS.items():
        clock = Clock()
        with replaced(owner, attribute, clock):
            took = clock.least(step)
        found[name] = took - own * clock.calls / STEPS
    return found


def main() -> None:
    """Prints the table."""
    with lazynb.lazy():
        for _ in range(200):  # many short waits: from then on it runs in this thread
            (X + X).block_until_ready()
        found = parts(lambda: (X + X).block_until_ready())
    jitted = jax.jit(lambda x: x + x)
    jitted(X)
    clock = Clock()
    found["`jax.jit`, a step"] = clock.least(clock.around(lambda: jitted(X).block_until_ready()))
    print(f"JAX {jax.__version__}, {describe()}\n\n| part | time |\n|---|---|")
    for name, took in found.items():
        print(f"| {name} | {took:.1f} µs |")


if __name__ == "__main__":
    main()
