"""The presence reports of each host, published about once a second by a background thread.

They tell a late host from a missing one, and name the line at which it stays.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from types import CodeType, FrameType
from typing import Any

import jax

from lazynb import jax_compat as jc
from lazynb.running.hosts import coordination_store
from lazynb.user_code.cell_magics import file_of
from lazynb.user_code.code_ownership import PACKAGE_ROOT, is_user_code
from lazynb.user_code.source_lines import line_of, place

_PERIOD = 0.5  # seconds between two reports; longer for very many hosts, because one of them serves all

_ON_DEVICE = {"_wait_for", "block_until_ready", "_value", "backend_compile", "start"}
"""Functions of lazynb and JAX that wait for the device: a host is at work in them without processor time."""

_FOLDERS = (PACKAGE_ROOT, os.path.join(os.path.dirname(jax.__file__), ""))


class Presence:
    """The reports of this host.

    Attributes:
      thread: the thread whose line is reported: the lazy one.
      left: how this host left the program; None while it runs.
      done: whether this host no longer needs the coordination service.
      turns: number of programs to which this host came so far, by group of hosts.
      waits: the group of hosts and turn for which this host waits; None if it does not wait.
      missing: hosts that did not come to the last program.
    """

    def __init__(self) -> None:
        self.thread = threading.main_thread().ident
        self.left: str | None = None
        self.done = False
        self.turns: dict[str, int] = {}
        self.waits: tuple[str, int] | None = None
        self.missing: set[int] = set()
        self._beats = 0
        self._reporter: threading.Thread | None = None
        self._saying = threading.Lock()
        self._over = threading.Event()

    @property
    def is_reported(self) -> bool:
        """Whether the reports have begun."""
        return self._reporter is not None

    def begin(self) -> None:
        """Reports the line of the calling thread from now on."""
        self.thread = threading.get_ident()
        if self._reporter is None:
            self._reporter = threading.Thread(target=self._report, name="lazynb-hosts", daemon=True)
            self._reporter.start()

    def leave(self, how: str) -> None:
        """Reports that this host runs nothing more."""
        self.left = how
        self._over.set()
        if self._reporter is not None:
            self._reporter.join()  # no call of the service may be open when the interpreter ends
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
    """Whether a function is one of :data:`_ON_DEVICE`. The file is checked too: a kernel that waits for its
    next cell is in ``start`` of its event loop."""
    return code.co_name in _ON_DEVICE and code.co_filename.startswith(_FOLDERS)


def line_at(frame: FrameType | None) -> str:
    """The line that runs in ``frame``, with its text; empty without a frame."""
    if frame is None:
        return ""
    found = place(file_of(frame.f_code), line_of(frame.f_code, frame.f_lasti))
    return found.in_full


presence = Presence()


class Watch:
    """Checks other hosts while this one waits for them.

    Arguments:
      patience: seconds for which a host may be idle. A working host may take :data:`_AT_WORK` times as long.
    """

    def __init__(self, patience: float):
        self._patience = patience
        self._began = time.monotonic()
        self._seen: dict[int, tuple[float, Any]] = {}  # time of the last change by host, and the value

    def trouble(self, hosts: list[int]) -> dict[int, str]:
        """For each of ``hosts`` that will not come the reason, as words that follow its name."""
        told, now = coordination_store.published(), time.monotonic()
        found = {}
        for host in hosts:
            words = self._of(host, told.get(host), now)
            if words:
                found[host] = words
        return found

    @staticmethod
    def left(hosts: list[int], group: str, turn: int) -> bool:
        """Whether one of ``hosts`` left the program before a turn of a group."""
        told = coordination_store.published()
        return any(
            told[host]["left"] and told[host]["turns"].get(group, 0) < turn for host in hosts if host in told
        )

    def silent(self, hosts: list[int]) -> list[int]:
        """The hosts that have not reported for a while."""
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
        last = self._seen.get(what)
        if last is None or last[1] != value:
            self._seen[what] = (now, value)
            return 0.0
        return now - last[0]


def _crosses(report: dict[str, Any], waits: tuple[str, int] | None) -> bool:
    """Whether the host of ``report`` waits for this host with another group, while this host waits for it."""
    theirs = report.get("waits")
    if waits is None or not theirs or theirs[0] == waits[0]:
        return False
    return presence.turns.get(theirs[0], 0) < theirs[1] and _is_in(theirs[0])


def _is_in(group: str) -> bool:
    return group == coordination_store.EVERYONE or str(jc.host_index()) in group.split("-")


def _spent(report: dict[str, Any]) -> int:
    """The processor time of a host in steps so large that a sleeping host stays within one."""
    return int(report["used"] / _STEP)


_SILENCE = 5.0  # seconds without a report after which a host counts as gone
_AT_WORK = 20
_STEP = 0.5  # seconds of processor time
