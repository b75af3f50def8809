"""What a lazy block costs around what it records, and what eager calls cost between two blocks.

    python -m benchmarks.entering

The first table has microseconds of this thread's work to enter and to leave. The second has those of an
eager call: with JAX's own functions, with the substitutes at rest (:mod:`lazynb.jax_compat.substitutes`) and
no end to that, and how much more this is. Each figure is the least of many rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import lazynb
from lazynb.recording.lazy_blocks import blocks, patches

ROUNDS = 40
TIMES = 150


def microseconds(function: Callable[[], Any]) -> float:
    """Work of this thread in one call, in one round."""
    start = time.thread_time_ns()
    for _ in range(TIMES):
        function()
    return (time.thread_time_ns() - start) / TIMES / 1e3


def least(function: Callable[[], Any]) -> float:
    """The least of many rounds."""
    function()
    return min(microseconds(function) for _ in range(ROUNDS))


def lazily() -> None:
    """Enters a lazy block and leaves it."""
    with lazynb.lazy():
        pass


def eagerly() -> None:
    """Enters an eager block and leaves it."""
    with lazynb.eager():
        pass


def first() -> None:
    """The same where nothing rests."""
    blocks.put_back()
    lazily()
    blocks.put_back()


@lazynb.lazy()
def decorated() -> None:
    """Does nothing."""


def entering() -> list[tuple[str, float]]:
    """What is entered and left, and the time it takes."""
    found = [
        ("lazy", least(lazily)),
        ("eager", least(eagerly)),
        ("a decorated function", least(decorated)),
        ("lazy, where nothing rests", least(first)),
    ]
    with lazynb.lazy():
        found += [("lazy in lazy", least(lazily)), ("eager in lazy", least(eagerly))]
    return found


def eager_calls() -> list[tuple[str, float, float]]:
    """Eager calls: JAX's own, and at rest."""
    x = jnp.ones((8, 8))
    jitted = jax.jit(lambda x: x * 2)
    calls: dict[str, Callable[[], Any]] = {
        "jnp.sin": lambda: jnp.sin(x),
        "x + x": lambda: x + x,
        "jnp.add": lambda: jnp.add(x, x),
        "x[0]": lambda: x[0],
        "x.sum": lambda: x.sum(),
        "jnp.where": lambda: jnp.where(x, x, x),
        "jit": lambda: jitted(x),
    }
    times: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in calls}
    for name, call in calls.items():
        call()
        for _ in range(ROUNDS):
            blocks.put_back()
            times[name][0].append(microseconds(call))
            lazily()
            patches.rest.left = 10**9
            times[name][1].append(microseconds(call))
    return [(name, min(own), min(at_rest)) for name, (own, at_rest) in times.items()]


def main() -> None:
    """Prints both tables."""
    for name, each in entering():
        print(f"{name:28s} {each:8.1f}")
    for name, own, at_rest in eager_calls():
        print(f"{name:28s} {own:8.2f} {at_rest:8.2f} {at_rest / own - 1:+8.0%}")


if __name__ == "__main__":
    jax.config.update("jax_platforms", "cpu")
    main()
