"""In whose code the recording of a training step is spent: ``python -m benchmarks.libraries [--rounds N]``.

The step is that of the row ``mlp``: unmodified Flax and Optax code with ``jax.value_and_grad``. A signal
looks once in a millisecond of the thread's work which function runs, so that nothing is made slower.
"""

from __future__ import annotations

import argparse
import collections
import signal
import time
from types import FrameType
from typing import Any

from benchmarks.programs import mlp

SIZE = {"hidden": (128, 64), "read": True}
LIBRARIES = ("lazynb", "flax", "optax", "jax")
INSIDE = {
    "Flax's check of the shapes of parameters": ("flax/core/scope.py", "param"),
    "tracing in `jax.eval_shape`": ("jax/_src/api.py", "eval_shape"),
    "`linearize`, the user's function in it": ("jax/_src/interpreters/ad.py", "linearize"),
    "functions with a custom derivative": ("jax/_src/interpreters/ad.py", "process_custom_jvp_call"),
    "the backward pass": ("jax/_src/interpreters/ad.py", "backward_pass"),
    "the backward pass, recorded": ("lazynb/recording/replay/transpose_cache.py", ""),
    "derivatives that are remembered": ("lazynb/recording/replay/linearize_cache.py", ""),
    "operations through JAX, recorded": ("lazynb/recording/lazy_trace.py", "process_primitive"),
    "Optax's update": ("optax/_src/base.py", "update"),
}
"""Parts of a step, by the file and the function that are in the stack; any function if it has no name."""


class Samples:
    """What was seen to run: by library, and by part."""

    def __init__(self) -> None:
        self.count = 0
        self.libraries: collections.Counter[str] = collections.Counter()
        self.parts: collections.Counter[str] = collections.Counter()

    def take(self, _: int, frame: FrameType | None) -> None:
        """Looks at the stack."""
        self.count += 1
        stack = []
        while frame is not None:
            stack.append((frame.f_code.co_filename, frame.f_code.co_name))
            frame = frame.f_back
        self.libraries[next((name for file, _ in stack if (name := _library(file))), "others")] += 1
        for part, (file, function) in INSIDE.items():
            if any(where.endswith(file) and function in ("", name) for where, name in stack):
                self.parts[part] += 1


def _library(file: str) -> str | None:
    """The library that a file is of; None for one that works for whoever calls it."""
    return next((name for name in LIBRARIES if f"/{name}/" in file), None)


def record(rounds: int) -> tuple[Samples, float]:
    """Samples of the recording of steps, and the least time of one in milliseconds of the thread's work."""
    import lazynb

    samples, step = Samples(), mlp.in_jax(**SIZE)
    batches = mlp.each(**SIZE)
    state: Any = mlp.start(**SIZE)
    least = float("inf")
    signal.signal(signal.SIGVTALRM, samples.take)
    with lazynb.lazy():
        for number in range(rounds + 60):
            batch = batches[number % len(batches)]
            before = time.thread_time_ns()
            if number >= 60:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0.001, 0.001)
            state = step(state, *batch)
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            least = min(least, (time.thread_time_ns() - before) / 1e6)
            mlp.look(state, **SIZE)
    return samples, least


def table(title: str, counts: collections.Counter[str], of: int) -> str:
    """Shares as a table."""
    rows = [f"| {name} | {100 * count / of:.0f} % |" for name, count in counts.most_common()]
    return "\n".join([f"| {title} | share |", "|---|---|", *rows])


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=300, help="steps that are looked at")
    samples, least = record(parser.parse_args().rounds)
    print(f"A step is recorded in {least:.1f} ms; {samples.count} samples.\n")
    print(table("in the code of", samples.libraries, samples.count), end="\n\n")
    print(table("part of a step (they contain each other)", samples.parts, samples.count))


if __name__ == "__main__":
    main()
