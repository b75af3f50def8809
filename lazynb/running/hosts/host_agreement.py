"""The agreement of all hosts of a program on the program to run next.

If one host launched another program than the others, the devices would wait for each other forever, or give
wrong values. So all hosts meet at a barrier of JAX's coordination service whose *name* is the fingerprint of
the program: hosts that meet there agree. That is one call of the service, a fraction of a millisecond. One
agreement for each executable would not be enough: the hosts could still run two programs in another order, or
one of them once more.

If they do not meet in time, each host sends a :class:`Proposal` of what it is about to run, and waits for
those of the others. Then all hosts draw the same conclusion from the same proposals: a common program, or an
error. A host that gives up and a host that continues both ask the service for the verdict, and the first one
counts.
"""

from __future__ import annotations

import dataclasses
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import Any, NamedTuple

from lazynb import jax_compat as jc
from lazynb.config import config
from lazynb.errors import HostMissingError, HostsError
from lazynb.running.background_thread import Worker
from lazynb.running.hosts.coordination_store import GO, Store
from lazynb.running.hosts.host_interrupts import interrupts
from lazynb.running.hosts.host_presence import Watch, presence
from lazynb.running.hosts.host_proposal import (
    Describe,
    Proposal,
    Recorded,
    differ_in_constants_only,
    differing,
    with_common_constants,
)

_SHORTLY = 0.05  # seconds after which a host that waits at the barrier starts to query the other hosts

_MEETING = 0.25  # seconds after which the service ends a barrier for all hosts; it checks once a second

_END = 3.0  # seconds

_SAME_CALL = 0.5  # seconds within which two requests count as one call


class _FailedAgreement(NamedTuple):
    program: bytes = b""
    line: str = ""
    error: HostsError | None = None
    when: float = 0.0
    what: Callable[[], Any] = lambda: None


def _weakly(what: Any) -> Callable[[], Any]:
    return weakref.ref(what) if what is not None else lambda: None


class HostGroup:
    """Hosts that run programs together.

    Attributes:
      hosts: their numbers.
      turn: number of programs on which they agreed or disagreed so far.
    """

    def __init__(self, hosts: Sequence[int]):
        self.hosts = list(hosts)
        self.turn = 0
        self._store = Store(hosts)
        self._series = 0  # the last turn without a barrier; barrier names after it start with it
        self._refused = _FailedAgreement()
        self._worker = Worker()
        self._staying: list[Future[bool]] = []
        self._lock = threading.Lock()

    def agree(
        self, program: bytes, describe: Describe, what: Any = None, made: bool = True
    ) -> Proposal | None:
        """Agrees with the other hosts on the program with a fingerprint.

        Arguments:
          what: the pending trace that runs.
          made: whether this host has the program.

        Returns: None if all hosts are about to run the same program, and all or none of them have it;
          otherwise the proposal that all hosts run instead, which is the same trace with more results or
          inputs.

        Raises:
          HostsDifferError: another host is about to run something else.
          HostMissingError: another host does not come.
        """
        with self._lock:
            presence.missing = set()
            if program == self._refused.program and what is not None and what is self._refused.what():
                self._refuse_again(describe)
            self.turn += 1
            name = f"{self._series}/{program.hex()}{'' if made else '/new'}"
            presence.turns[self._store.name] = self.turn
            meeting = self._worker.do(lambda: self._store.meet(name, _MEETING))
            try:
                if meeting.result(_SHORTLY):
                    return None
            except TimeoutError:
                self._worker.end()  # it still waits at the barrier
                self._worker = Worker()
                self._staying = [one for one in self._staying if not one.done()] + [meeting]
            mine, steps = describe()
            try:
                return self._by_word(mine, steps, meeting)
            except HostsError as error:
                self._refused = _FailedAgreement(
                    program, mine.line, error.again(), time.monotonic(), _weakly(what)
                )
                raise

    def end(self) -> None:
        """Waits for the threads at a barrier. A thread in a C++ call at the end of the interpreter would end
        the process with an error."""
        wait(self._staying, _END)

    def _refuse_again(self, describe: Describe) -> None:
        """Raises the last error again if one call asks twice, because the other hosts would not take part:
        NumPy asks for the buffer of an array first and then for the array."""
        refused = self._refused
        if time.monotonic() - refused.when < _SAME_CALL and describe()[0].line == refused.line:
            assert refused.error is not None
            raise refused.error.again()

    def _by_word(
        self, mine: Proposal, steps: Callable[[], Recorded], meeting: Future[bool] | None
    ) -> Proposal | None:
        """As :meth:`agree`, by messages. ``meeting``: the barrier, at which the hosts may still meet."""
        watch = Watch(config.hosts_timeout)
        while (said := self._proposals(mine, meeting, watch)) is None:
            meeting = None
            self.turn += 1  # the others gave that turn up
        if not said:
            return None
        self._next_series()
        return self._conclusion(mine, said, steps)

    def _next_series(self) -> None:
        """Renames later barriers after a turn that all hosts have left, as a host may have missed one."""
        before, self._series = self._series, self.turn
        if before:
            self._store.forget(before)

    def _proposals(
        self, mine: Proposal, meeting: Future[bool] | None, watch: Watch
    ) -> dict[int, Proposal] | None:
        """The proposals of all hosts; empty if they met at the barrier; None if a host gave up this turn."""
        turn = self.turn
        self._store.say(turn, "run", mine.plain())
        presence.waits = (self._store.name, turn)
        pause = 0.005
        try:
            while True:
                if interrupts.noted and meeting is None:
                    self._interrupt(turn)
                if meeting is not None and meeting.done():
                    if meeting.result():
                        return {}
                    meeting = None
                said = self._store.said(turn, "run")
                missing = [host for host in self.hosts if host not in said]
                if not missing:
                    verdict = self._store.decide(turn, GO)
                    return {host: Proposal.of(said[host]) for host in self.hosts} if verdict == GO else None
                if self._store.verdict(turn) not in (None, GO):  # GO: the last host came meanwhile
                    return None
                trouble = watch.trouble(missing)
                # A host at the barrier may still meet the others there, unless it left before this turn.
                if trouble and (meeting is None or watch.left(missing, self._store.name, turn)):
                    self._give_up(turn, mine, trouble)
                time.sleep(pause)
                pause = min(2 * pause, 0.1)
        finally:
            presence.waits = None

    def _interrupt(self, turn: int) -> None:
        if self._store.decide(turn, "interrupted") != GO:
            self._series = turn
            interrupts.take()
            raise KeyboardInterrupt

    def _give_up(self, turn: int, mine: Proposal, trouble: dict[int, str]) -> None:
        if self._store.decide(turn, f"host {jc.host_index()} gave up") == GO:
            return
        self._series = turn
        presence.missing = set(trouble)
        raise HostMissingError(jc.host_index(), mine.line, mine.operations, trouble)

    def _conclusion(
        self, mine: Proposal, said: dict[int, Proposal], steps: Callable[[], Recorded]
    ) -> Proposal | None:
        all_ = list(said.values())
        if len({one.program for one in all_}) == 1:
            same = len({one.made for one in all_}) == 1
            return None if same else dataclasses.replace(mine, made=False)
        if len({one.trace for one in all_}) == 1 or differ_in_constants_only(all_):
            return _together(mine, all_)
        raise differing(self._store, self.turn, said, steps())


def _together(mine: Proposal, all_: Sequence[Proposal]) -> Proposal:
    """The program of a trace that all hosts have recorded, with the results that any of them wants. An array
    is freed on one host sooner than on another (by the garbage collector), or only one of them keeps a value.
    A number is a constant if it is a constant on all hosts."""
    wanted = sorted({slot for one in all_ for slot in one.wanted})
    donated = set(mine.donated).intersection(*[one.donated for one in all_])
    return dataclasses.replace(
        mine,
        wanted=tuple(wanted),
        donated=tuple(sorted(donated)),
        numbers=with_common_constants(mine, all_),
        made=False,
    )


_groups: dict[tuple[int, ...], HostGroup] = {}


def end_groups() -> None:
    """Ends the background work of all groups, before the interpreter ends."""
    for group in _groups.values():
        group.end()


def group_of(devices: Sequence[object] | None) -> HostGroup | None:
    """The group of the hosts of ``devices``; None if all of them belong to this host."""
    if jc.coordination() is None or devices is None or not jc.spans_hosts(devices):
        return None
    hosts = tuple(sorted({device.process_index for device in devices}))  # type: ignore[attr-defined]
    if hosts not in _groups:
        _groups[hosts] = HostGroup(hosts)
    return _groups[hosts]
