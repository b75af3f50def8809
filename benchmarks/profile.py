"""Where the time of a row goes: what is recorded; what is handed over, and what Python waits for.

    python -m benchmarks.profile [ROW ...]            lazynb's parts of one step, and the whole of jax.jit's
    python -m benchmarks.profile [ROW ...] --write    the same, put into benchmarks/TIME.md

Each row is measured in a process of its own.

A figure is the time that a tenth of the steps stays below: what else the machine does adds to the others.
Beside it stands the work of this thread alone, which other processes change less. Of a row that is measured
in fresh processes, the parts of the first step are timed, for lazynb and for jax.jit.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import metadata
from typing import Any

import jax

from benchmarks import machine
from benchmarks.case import COMPILING, Case, way
from benchmarks.environments import ROOT, last_line
from benchmarks.peers import PEERS
from benchmarks.report import quantity, table
from benchmarks.rows import ROWS, Row

SECONDS = 2.0
WARM = 80  # more runs than a program has before lazynb takes it to be one that is often waited for
PAGE = ROOT / "benchmarks" / "TIME.md"
MARK = "<!-- written by python -m benchmarks.profile --write -->"
UNMET = (
    "adds",
    "torchy-8-100",
    "torchy-8-1000",
    "torchy-32-1000",
    "mlp-jit",
    "transformer",
    "cartpole",
    "first-adds",
    "first-transformer",
    "first-cartpole",
)


def tenth(seconds: list[float]) -> float:
    """What a tenth of the figures stays below."""
    return statistics.quantiles(seconds, n=10)[0] if len(seconds) > 1 else seconds[0]


def parts_of(row: Row) -> list[tuple[str, float, float]]:
    """Of one step: part, seconds, seconds of this thread's own work."""
    case = Case(row, way(PEERS[row.peers[0]]))
    found: dict[str, list[tuple[float, float]]] = {}

    def timed(part: str, work: Callable[[], Any]) -> Any:
        wall, own = time.perf_counter(), time.thread_time()
        result = work()
        found.setdefault(part, []).append((time.perf_counter() - wall, time.thread_time() - own))
        return result

    with case.how.ambient():
        for _ in range(WARM):
            _step(case, lambda part, work: work())
        until = time.perf_counter() + SECONDS
        while time.perf_counter() < until:
            _step(case, timed)
    return [
        (part, tenth([wall for wall, _ in all_]), tenth([own for _, own in all_]))
        for part, all_ in found.items()
    ]


def _step(case: Case, timed: Callable[[str, Callable[[], Any]], Any]) -> None:
    """One step from the start, barrier and waiting included."""
    state = timed("recording", lambda: case.program(case.start, *case.each[0]))

    def rest() -> None:  # one part: the device begins at once in the one or goes on in the other, as it comes
        if case.row.barrier:
            case.how.barrier(state)
        case.how.wait(state)

    timed("handing over and waiting", rest)


def whole(row: Row, peer: str) -> float:
    """Seconds of one step of a peer, waiting included."""
    case = Case(row, way(PEERS[peer]))
    found = []
    with case.how.ambient():
        for _ in range(WARM):
            case.how.wait(case.program(case.start, *case.each[0]))
        until = time.perf_counter() + SECONDS
        while time.perf_counter() < until:
            began = time.perf_counter()
            case.how.wait(case.program(case.start, *case.each[0]))
            found.append(time.perf_counter() - began)
    return tenth(found)


def first_parts(row: Row, peer: str) -> list[tuple[str, str]]:
    """Of the first step in this process, with lazynb or ``jax.jit``: each part, and the kernels of the
    program."""
    from lazynb.xla.hlo.clusters import find_clusters
    from lazynb.xla.hlo.module import parse

    case = Case(row, way(PEERS[peer]))
    xla: list[float] = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: xla.append(seconds) if event == COMPILING else None
    )
    recording, making, running, text = (_first_lazily if peer == "lazynb" else _first_jitted)(case)
    seconds = recording, making - xla[0], xla[0], running, recording + making + running
    names = "recording, or tracing", "lowering", "compiling, in XLA", "running, the rest", "together"
    found = [(name, quantity(one, "time")) for name, one in zip(names, seconds, strict=True)]
    kernels = [one for one in find_clusters(parse(text)) if one.kind != "control"]
    return [*found, ("kernels", str(len(kernels)))]


def _first_lazily(case: Case) -> tuple[float, float, float, str]:
    """Seconds of recording, of lowering and compiling, of the rest; the optimised HLO."""
    import lazynb

    with case.how.ambient():
        began = time.perf_counter()
        state = case.program(case.start, *case.each[0])
        recorded = time.perf_counter()
        case.how.wait(state)
        ended = time.perf_counter()
        made = sum(event.compile_seconds for event in lazynb.events())
        again = lazynb.compile(case.program(case.start, *case.each[0]))
        return recorded - began, made, ended - recorded - made, again.hlo.after


def _first_jitted(case: Case) -> tuple[float, float, float, str]:
    """Likewise; tracing instead of recording."""
    began = time.perf_counter()
    traced = case.program.trace(case.start, *case.each[0])
    recorded = time.perf_counter()
    compiled = traced.lower().compile()
    made = time.perf_counter()
    case.how.wait(compiled(case.start, *case.each[0]))
    return recorded - began, made - recorded, time.perf_counter() - made, compiled.as_text()


def profile(row: Row) -> str:
    """The parts of a row that is measured step after step, as a table."""
    parts = parts_of(row)
    lines = [(part, quantity(wall, "time"), quantity(own, "time")) for part, wall, own in parts]
    lines.append(("together", quantity(sum(wall for _, wall, _ in parts), "time"), ""))
    if "jit" in row.peers:
        lines.append(("jax.jit", quantity(whole(row, "jit"), "time"), ""))
    return table(("part of a step", "time", "work of this thread"), lines)


def alone(row: str) -> str:
    """The parts of a row, measured in a process of its own; where a first step is, in one each for lazynb and
    ``jax.jit``."""
    if ROWS[row].measure != "first":
        return _here(row, "lazynb")
    answers = [_here(row, peer) for peer in ("lazynb", "jit")]
    if failed := [answer for answer in answers if answer.startswith("failed")]:
        return failed[0]
    ours, theirs = map(json.loads, answers)
    lines = [(*one, other) for one, (_, other) in zip(ours, theirs, strict=True)]
    return table(("part of the first step", "lazynb", "jax.jit"), lines)


def _here(row: str, peer: str) -> str:
    caches = {"LAZYNB_PERSISTENT_CACHE": "0", "JAX_ENABLE_COMPILATION_CACHE": "false"}
    command = [sys.executable, "-m", "benchmarks.profile", row, "--here", peer]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **caches}, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else f"failed: {last_line(done.stderr)}"


def write(text: str) -> None:
    """Puts ``text`` behind the mark in the page."""
    page = PAGE.read_text()
    PAGE.write_text(page[: page.index(MARK) + len(MARK)] + f"\n\n{text}\n")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = [
        row.name
        for row in ROWS.values()
        if row.peers[0].startswith("lazynb") and row.measure in ("time", "first") and row.steps == 1
    ]
    parser.add_argument(
        "rows", nargs="*", metavar="ROW", help=f"of {', '.join(known)}; without any: {', '.join(UNMET)}"
    )
    parser.add_argument("--write", action="store_true", help="into benchmarks/TIME.md")
    parser.add_argument(
        "--here", choices=("lazynb", "jit"), help="one row, in this process, what it comes to alone"
    )
    options = parser.parse_args(arguments)
    if unknown := [row for row in options.rows if row not in known]:
        parser.error(f"no such row: {', '.join(unknown)}")
    if options.here:
        row = ROWS[options.rows[0]]
        print(json.dumps(first_parts(row, options.here)) if row.measure == "first" else profile(row))
        return
    facts = "\n".join(f"- {name}: {text}" for name, text in machine.facts().items())
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("jax", "jaxlib", "numpy"))
    text = "\n\n".join(
        [f"{facts}\n- with: {versions}", *(f"### {row}\n\n{alone(row)}" for row in options.rows or UNMET)]
    )
    if options.write:
        write(text)
    else:
        print(text)


if __name__ == "__main__":
    main(sys.argv[1:])
