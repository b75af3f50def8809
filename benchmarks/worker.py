"""The process of one peer: reads commands, one line of JSON each, and answers each with a line.

    python -m benchmarks.worker PEER

Needs, beside the peer's own packages, NumPy and the standard library.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from importlib import metadata
from typing import Any, TextIO

from benchmarks.peers import PEERS
from benchmarks.rows import ROWS


class Server:
    """What one peer's process can do; each public method is a command."""

    def __init__(self, peer: str) -> None:
        from benchmarks.case import way

        self._peer = PEERS[peer]
        self._way = way(self._peer)
        self._cases: dict[str, Any] = {}

    def versions(self) -> dict[str, str]:
        """Of Python and of the packages that matter."""
        found = {"Python": platform.python_version()}
        for package in self._peer.packages:
            try:
                found[package] = metadata.version(package)
            except metadata.PackageNotFoundError:
                found[package] = "unknown"
        return found

    def prepare(self, row: str) -> list[float]:
        """Makes a row ready to be timed, all compiled; what it computes, in a few numbers."""
        from benchmarks import case

        self._cases[row] = case.Case(ROWS[row], self._way)
        return self._cases[row].warm()

    def time(self, row: str, budget: float) -> float:
        """Median seconds a step, of as many runs as fit into ``budget`` seconds."""
        return self._cases[row].time(budget)

    def drop(self, row: str) -> None:
        """Forgets the row, with its arrays."""
        del self._cases[row]

    def first(self, row: str) -> dict[str, Any]:
        """Seconds of the first steps, which only a fresh process can tell, and what they compute."""
        from benchmarks import case

        seconds, values = case.Case(ROWS[row], self._way).first()
        return {"found": seconds, "values": values}

    def programs(self, row: str) -> dict[str, Any]:
        """How many programs XLA compiles in the first steps, which only a fresh process can tell, and what
        they compute."""
        import jax

        from benchmarks import case

        one, found = case.Case(ROWS[row], self._way), []
        jax.monitoring.register_event_duration_secs_listener(lambda event, *_, **__: found.append(event))
        _, values = one.first()
        return {"found": found.count(case.COMPILING), "values": values}

    def memory(self, row: str) -> dict[str, Any]:
        """By how many bytes a run raises this fresh process's peak memory, and what it computes."""
        from benchmarks import memory

        grown, values = memory.growth(ROWS[row], self._way)
        return {"found": grown, "values": values}


def serve(server: Server, commands: TextIO, answers: TextIO) -> None:
    """Answers until the commands end."""
    for line in commands:
        command = json.loads(line)
        try:
            answer = {"answer": getattr(server, command.pop("do"))(**command)}
        except Exception as error:  # whatever it is, it belongs into the table
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


def main(arguments: list[str]) -> None:
    """Keeps the real standard output for the answers: libraries may print."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        server = Server(arguments[0])
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), file=answers, flush=True)
        return
    print(json.dumps({"answer": server.versions()}), file=answers, flush=True)
    serve(server, sys.stdin, answers)


if __name__ == "__main__":
    main(sys.argv[1:])
