"""Goes through the rows, round by round, each peer in turn."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks import machine
from benchmarks.environments import NoEnvironment, python_of
from benchmarks.peers import PEERS
from benchmarks.processes import PeerFailed, Process
from benchmarks.results import Result
from benchmarks.rows import Row

# A machine is quiet where others keep less than this much of a core busy. A row waits so many seconds for
# that, no longer.
QUIET = 0.3
PATIENCE = 15.0


class Driver:
    """Asks the peers' processes; use it as a context manager.

    Attributes:
      skipped: the peers that cannot be had here, each with the reason.
      versions: of what each peer has.
    """

    def __init__(self, peers: Sequence[str], rounds: int, budget: float) -> None:
        self.skipped: dict[str, str] = {}
        self.versions: dict[str, dict[str, str]] = {}
        self._rounds = rounds
        self._budget = budget
        self._pythons: dict[str, Path] = {}
        self._missing: dict[str, NoEnvironment] = {}
        self._processes: dict[str, Process] = {}
        for peer in peers:
            self._find(peer)

    def __enter__(self) -> Driver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes.values():
            process.close()

    def measure(self, row: Row, rounds: int | None = None) -> Result:
        """The row's figures; a peer that fails is an error in them."""
        began = time.monotonic()
        result = Result(row)
        peers = [peer for peer in row.peers if peer in self._pythons]
        rounds = min(row.rounds, rounds or self._rounds) if peers else 0
        if row.needs > machine.available():
            for peer in peers:
                result.fail(
                    peer,
                    f"needs {row.needs / 1e9:.0f} GB of memory, {machine.available() / 1e9:.0f} GB are free",
                )
        elif row.measure == "time":
            self._time(result, peers, rounds)
        else:
            self._fresh(result, peers, rounds)
        result.compare_values()
        say(f"{row.name}: {rounds} rounds of {len(peers)} peers in {time.monotonic() - began:.0f} s")
        if result.disturbed:
            say(f"  other processes were busy in {result.disturbed} of {rounds} rounds")
        for peer, why in result.errors.items():
            say(f"  {peer}: {why}")
        return result

    def _find(self, peer: str) -> None:
        """Where the peer's Python is; tries whether it works."""
        environment = PEERS[peer].environment
        try:
            if environment in self._missing:
                raise self._missing[environment]
            self._pythons[peer] = python_of(environment)
            self.versions[peer] = self._process(peer).versions
        except (NoEnvironment, PeerFailed) as error:
            if isinstance(error, NoEnvironment):
                self._missing[environment] = error
            self.skipped[peer] = str(error)
            self._pythons.pop(peer, None)
            say(f"{peer} is skipped: {error}")

    def _process(self, peer: str) -> Process:
        """The peer's process, begun anew when it has ended."""
        process = self._processes.get(peer)
        if process is None or not process.alive:
            process = self._processes[peer] = Process(peer, self._pythons[peer])
        return process

    def _time(self, result: Result, peers: list[str], rounds: int) -> None:
        """In processes that stay. A row that needs much memory is made ready and dropped again by one after
        the other."""
        alone = result.row.needs > 0
        if not alone:
            for peer in peers:
                with _failing(result, peer):
                    self._prepare(result, peer)
        for number in _rounds(result, rounds):
            for peer in _turn(peers, number):
                if peer in result.errors:
                    continue
                with _failing(result, peer):
                    if alone:
                        self._prepare(result, peer)
                    result.add(
                        peer, self._process(peer).ask("time", row=result.row.name, budget=self._budget)
                    )
                if alone:
                    self._drop(result, peer)
        if not alone:
            for peer in peers:
                self._drop(result, peer)

    def _prepare(self, result: Result, peer: str) -> None:
        if result.row.made == "before" and peer in self._processes:
            self._processes.pop(peer).close()  # it may have imported lazynb
        result.values[peer] = self._process(peer).ask("prepare", row=result.row.name)

    def _drop(self, result: Result, peer: str) -> None:
        """Frees the row's arrays; whatever failed before, the process may go on with other rows."""
        try:
            self._process(peer).ask("drop", row=result.row.name)
        except PeerFailed as error:
            if peer not in result.errors:
                result.fail(peer, str(error))

    def _fresh(self, result: Result, peers: list[str], rounds: int) -> None:
        """In processes of their own, one a round."""
        for number in _rounds(result, rounds):
            for peer in _turn(peers, number):
                if peer in result.errors:
                    continue
                with _failing(result, peer):
                    answer = _ask_once(peer, self._pythons[peer], result.row)
                    result.values[peer] = answer["values"]
                    result.add(peer, answer["found"])


@contextlib.contextmanager
def _failing(result: Result, peer: str) -> Iterator[None]:
    """What a peer fails with in the body is put into the result."""
    try:
        yield
    except PeerFailed as error:
        result.fail(peer, str(error))


def _ask_once(peer: str, python: Path, row: Row) -> dict[str, Any]:
    process = Process(peer, python)
    try:
        return process.ask(row.measure, row=row.name)
    finally:
        process.close()


def _rounds(result: Result, rounds: int) -> Iterator[int]:
    """Numbers the rounds. Waits a while, once a row, for others to leave the machine alone; counts the rounds
    where they do not.

    A library that shares its work among all cores and waits for the last looks many times slower than it is
    on a busy machine.
    """
    until = time.monotonic() + PATIENCE
    for number in range(rounds):
        while (others := machine.busy()) > QUIET and time.monotonic() < until:
            pass
        result.disturbed += others > QUIET
        yield number


def _turn(peers: list[str], number: int) -> Iterator[str]:
    """Another peer begins each round, so that none always follows the same one."""
    at = number % len(peers) if peers else 0
    yield from peers[at:] + peers[:at]


def say(text: str) -> None:
    """Progress."""
    print(text, file=sys.stderr, flush=True)
