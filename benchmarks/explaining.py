"""What explaining costs: recording and running a cached trace when nobody asks, and while somebody watches.

    python -m benchmarks.explaining [PAIRS]                    with and without an observer, in one process
    python -m benchmarks.explaining [PAIRS] --against FOLDER   nobody asks: this lazynb and the one in another
    checkout, in
                                                               processes of their own, each first in turn

A step records 50 operations on 8x8 and reads a number, for which nothing is compiled. Each figure is the time
that a tenth of the steps stays below: what else the machine does adds to the others.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent
STEPS = 2_000
OPERATIONS = 50

WORKLOAD = f"""
import statistics, time
import jax, jax.numpy as jnp, lazynb

def steps(count):
    found = []
    x = jnp.ones((8, 8)).block_until_ready()
    with lazynb.lazy():
        for _ in range(count):
            start = time.perf_counter()
            y = x
            for _ in range({OPERATIONS - 1}):
                y = y + x
            float(y.sum())
            found.append(time.perf_counter() - start)
    return found

def tenth(seconds):
    return statistics.quantiles(seconds, n=10)[0]

steps(200)
"""


def seconds_in(folder: Path) -> float:
    """Seconds of a step with the lazynb in ``folder``, in a process of its own."""
    code = f"{WORKLOAD}\nprint(tenth(steps({STEPS})))"
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "LAZYNB_PERSISTENT_CACHE": "0",
        "JAX_PLATFORMS": "cpu",
    }
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def against(folder: Path, pairs: int) -> str:
    """This checkout and another one, in pairs."""
    ours, theirs = [], []
    for number in range(pairs):
        for mine in (number % 2 == 0, number % 2 == 1):
            (ours if mine else theirs).append(seconds_in(HERE if mine else folder))
    return _compared("this checkout", ours, "the other one", theirs)


def watched(pairs: int) -> list[str]:
    """With nobody watching, and with a recorder of runs, in pairs in this process."""
    from lazynb.running.observers import observing
    from lazynb.running.run_recorder import RunRecorder

    names: dict[str, Any] = {}
    exec(WORKLOAD, names)
    steps, tenth = names["steps"], names["tenth"]
    alone, seen = [], []
    for number in range(2 * pairs):
        watch = number % 4 in (1, 2)
        with observing(RunRecorder()) if watch else contextlib.nullcontext():
            (seen if watch else alone).append(tenth(steps(STEPS // 4)))
    return [
        _compared("watched", seen, "nobody asks", alone),
        f"asking whether somebody watches: {_look() * 1e9:.0f} ns a run",
    ]


def _look() -> float:
    """Seconds of the two looks for observers that a run takes."""
    from lazynb.running.flush import execution
    from lazynb.running.observers import process_observers

    recorder = execution.local
    count = 200_000
    start = time.perf_counter()
    for _ in range(count):
        if process_observers or recorder.observers:
            raise AssertionError
        if process_observers or recorder.observers:
            raise AssertionError
    return (time.perf_counter() - start) / count


def _compared(one: str, first: list[float], other: str, second: list[float]) -> str:
    ratios = [mine / theirs for mine, theirs in zip(first, second, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return (
        f"{one}: {statistics.median(first) * 1e6:.1f} us a step, {other}: "
        f"{statistics.median(second) * 1e6:.1f} us, "
        f"ratio of pairs {middle:.3f} ({low:.3f} to {high:.3f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pairs", nargs="?", type=int, default=20)
    parser.add_argument("--against", type=Path, help="another checkout")
    options = parser.parse_args()
    if options.against is not None:
        print(against(options.against.resolve(), options.pairs))
    else:
        print("\n".join(watched(options.pairs)))


if __name__ == "__main__":
    main()
