"""Presence: where each host is, which a thread of its own says once a second.

So the others can tell a host that is late from one that is gone, and name the line at which it stays.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import jax

from lazynb import jax_compat as jc
from lazynb.running.hosts import coordination_store
from lazynb.user_code.call_stack import PACKAGE_ROOT, is_user_code, line_of, place

_PERIOD = 0.5
"""Seconds between two reports; longer where there are very many hosts, because one of them serves all."""

_ON_DEVICE = {"_wait_for", "block_until_ready", "_value", "backend_compile", "start"}
"""Functions of lazynb's and JAX's in which a host that uses no processor time is still at work: the device
computes."""

_FOLDERS = (PACKAGE_ROOT, os.path.join(os.path.dirname(jax.__file__), ""))


class Presence:
    """What this host says of itself.

    Attributes:
      thread: the thread whose line is told: the one that is lazy.
      left: how this host left the program; None while it has not.
      done: whether this host needs the coordination service no more.
      turns: number of programs to which this host came so far, by group of hosts.
      waits: the group of hosts, with its turn, for which this host waits; None while it does not.
      missing: hosts that did not come to the last program.
      begun: called when reporting begins.
      at_exit: called when the interpreter ends.
    """

    def __init__(self) -> None:
        self.thread = threading.main_thread().ident
        self.left: str | None = None
        self.done = False
        self.turns: dict[str, int] = {}
        self.waits: tuple[str, int] | None = None
        self.missing: set[int] = set()
        self.at_exit: Callable[[], None] = lambda: None
        self.begun: Callable[[], None] = lambda: None
        self._beats = 0
        self._reporter: threading.Thread | None = None
        self._saying = threading.Lock()
        self._over = threading.Event()

    def begin(self) -> None:
        """Reports from now on, if the program runs on several hosts."""
        if jc.coordination() is None:
            return
        self.thread = threading.get_ident()
        if self._reporter is None:
            atexit.register(self.at_exit)  # after JAX's handlers, and so before them
            self.begun()
            self._reporter = threading.Thread(target=self._report, name="lazynb-hosts", daemon=True)
            self._reporter.start()

    def leave(self, how: str) -> None:
        """Says that this host runs nothing more."""
        self.left = how
        self._over.set()
        if self._reporter is not None:
            self._reporter.join()  # a call of the service must not be open when the interpreter ends
        self.say()

    def say(self) -> None:
        """Reports once."""
        with self._saying, contextlib.suppress(jc.RpcError):
            self._beats += 1
            line, on_device = self._doing()
            used = time.process_time()
            coordination_store.publish(
                {
                    "beat": self._beats,
                    "line": line,
                    "used": used,
                    "device": on_device,
                    "left": self.left,
                    "done": self.done,
                    "turns": dict(self.turns),
                    "waits": self.waits,
                    "missing": sorted(self.missing),
                }
            )

    def _doing(self) -> tuple[str, bool]:
        """The user's line at which the thread is, and whether it waits there for a device."""
        frame = sys._current_frames().get(self.thread or 0)
        on_device = False
        while frame is not None and not is_user_code(frame.f_code):
            on_device |= _is_on_device(frame.f_code)
            frame = frame.f_back
        return line_at(frame), on_device

    def _report(self) -> None:
        pause = max(_PERIOD, jc.host_count() / 200)
        while self.left is None and jc.coordination() is not None:
            self.say()
            self._over.wait(pause)


def _is_on_device(code: CodeType) -> bool:
    """Whether a function is one of :data:`_ON_DEVICE`. Others have such names too: a kernel that waits for
    its next cell is in ``start`` of its event loop."""
    return code.co_name in _ON_DEVICE and code.co_filename.startswith(_FOLDERS)


def line_at(frame: FrameType | None) -> str:
    """The line that runs in ``frame``, with its text; empty without a frame."""
    if frame is None:
        return ""
    found = place(frame.f_code.co_filename, line_of(frame.f_code, frame.f_lasti))
    return found.in_full


presence = Presence()


class Watch:
    """Looks at other hosts while this one waits for them.

    Arguments:
      patience: seconds for which a host may do nothing. One that works may take :data:`_AT_WORK` times as
        long.
    """

    def __init__(self, patience: float):
        self._patience = patience
        self._began = time.monotonic()
        self._seen: dict[int, tuple[float, Any]] = {}  # the last change of each host, and what it was

    def trouble(self, hosts: list[int]) -> dict[int, str]:
        """What is wrong with each of ``hosts`` that will not come, as words that follow its name.

        Empty as long as all of them may come.
        """
        told, now = coordination_store.published(), time.monotonic()
        found = {}
        for host in hosts:
            words = self._of(host, told.get(host), now)
            if words:
                found[host] = words
        return found

    @staticmethod
    def left(hosts: list[int], group: str, turn: int) -> bool:
        """Whether one of ``hosts`` has left for good before a turn of a group."""
        told = coordination_store.published()
        return any(
            told[host]["left"] and told[host]["turns"].get(group, 0) < turn for host in hosts if host in told
        )

    def silent(self, hosts: list[int]) -> list[int]:
        """Those of ``hosts`` that have not reported for a while."""
        told, now = coordination_store.published(), time.monotonic()
        return [
            host
            for host in hosts
            if host in told and self._since((host, "beat"), told[host]["beat"], now) > _SILENCE
        ]

    def _of(self, host: int, report: dict[str, Any] | None, now: float) -> str:
        if report is None:
            return self._silent(now)
        if report["left"]:
            return str(report["left"])
        if _crosses(report, presence.waits):
            return f"waits at {report['line']}, to run another program with other hosts"
        beat = self._since((host, "beat"), report["beat"], now)
        if beat > min(_SILENCE, self._patience):
            last = report["line"] or "no line of yours"
            return f"has not answered for {beat:.0f} s; its last report came from {last}"
        waited = now - self._began
        idle = self._since((host, "line"), (report["line"], report["device"], _spent(report)), now)
        if idle < self._patience and waited < self._patience * _AT_WORK:
            return ""
        doing = "computing" if report["device"] else "doing nothing" if idle >= self._patience else "at work"
        if report["device"] and waited < self._patience * _AT_WORK:
            return ""
        return f"has not come for {waited:.0f} s; it is {doing} at {report['line'] or 'no line of yours'}"

    def _silent(self, now: float) -> str:
        waited = now - self._began
        if waited < self._patience:
            return ""
        return f"has not come for {waited:.0f} s; it has run nothing lazily so far"

    def _since(self, what: Any, value: Any, now: float) -> float:
        """Seconds for which ``what`` has had ``value``."""
        last = self._seen.get(what)
        if last is None or last[1] != value:
            self._seen[what] = (now, value)
            return 0.0
        return now - last[0]


def _crosses(report: dict[str, Any], waits: tuple[str, int] | None) -> bool:
    """Whether a host for which this one waits waits for this one, with another group of hosts."""
    theirs = report.get("waits")
    if waits is None or not theirs or theirs[0] == waits[0]:
        return False
    return presence.turns.get(theirs[0], 0) < theirs[1] and _is_in(theirs[0])


def _is_in(group: str) -> bool:
    return group == coordination_store.EVERYONE or str(jc.host_index()) in group.split("-")


def _spent(report: dict[str, Any]) -> int:
    """The processor time of a host in steps that one that sleeps does not reach while others are patient."""
    return int(report["used"] / _STEP)


_SILENCE = 5.0  # seconds without a report after which a host counts as gone
_AT_WORK = 20
_STEP = 0.5  # seconds of processor time
