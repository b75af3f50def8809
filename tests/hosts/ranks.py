"""Starts the processes (ranks) of one program on the loopback interface, and ends them whatever happens.

JAX's preemption notifier swallows SIGTERM, so a rank that hangs is killed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
MARK = "RESULT "


@dataclasses.dataclass(frozen=True)
class Rank:
    """How a rank ended.

    Attributes:
      status: its exit status, negative for a signal; None if it was killed because it hung.
      seconds: from the start of all ranks to its end.
      results: what it reported with :func:`report`.
      text: what it wrote.
    """

    number: int
    status: int | None
    seconds: float
    results: Sequence[dict]
    text: str


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def run(script: Path, count: int, *arguments: str, seconds: float = 40) -> list[Rank]:
    """Runs ``count`` ranks of ``script``, each with its number, their count, a port and ``arguments``.

    Arguments:
      seconds: after which those that still run are killed.
    """
    settings = {**os.environ, "PYTHONPATH": str(ROOT), "LAZYNB_PERSISTENT_CACHE": "0"}
    settings.pop("XLA_FLAGS", None)
    port, start = free_port(), time.monotonic()
    with contextlib.ExitStack() as files:
        started = []
        for number in range(count):
            command = [sys.executable, "-u", str(script), str(number), str(count), str(port), *arguments]
            started.append(
                subprocess.Popen(
                    command,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    env=settings,
                    cwd=ROOT,
                )
            )
            files.callback(_end, started[-1])
        return _ended(started, start, seconds)


def _ended(started: list[subprocess.Popen], start: float, seconds: float) -> list[Rank]:
    ended: dict[int, Rank] = {}
    while len(ended) < len(started):
        late = time.monotonic() - start > seconds
        for number, process in enumerate(started):
            if number not in ended and (late or process.poll() is not None):
                status = process.poll()
                _end(process)
                text = process.stdout.read()
                ended[number] = Rank(number, status, time.monotonic() - start, _results(text), text)
        time.sleep(0.02)
    return [ended[number] for number in range(len(started))]


def _end(process: subprocess.Popen) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
    process.wait()


def _results(text: str) -> list[dict]:
    lines = text.splitlines()
    return [json.loads(line.removeprefix(MARK)) for line in lines if line.startswith(MARK)]


def report(**result: object) -> None:
    """Reports a result from a rank."""
    print(MARK + json.dumps(result), flush=True)


def join() -> tuple[int, int, list[str]]:
    """Joins the other ranks, in a rank: its number, their count, and the arguments."""
    import jax

    number, count, port = map(int, sys.argv[1:4])
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", count, number)
    return number, count, sys.argv[4:]
