"""The end of a program on several hosts: what is pending runs on all of them, and none waits for one that is
gone.

Eager JAX would have run all of it. A host that leaves operations pending, because it alone never reads the
value, would let the others wait.
"""

from __future__ import annotations

import os
import sys
import time
from traceback import walk_tb
from types import TracebackType

from lazynb import _jax as jc
from lazynb.errors import HostMissingError, HostsError
from lazynb.execute.hosts import store
from lazynb.execute.hosts.agreement import end_groups, group_of
from lazynb.execute.hosts.presence import Watch, presence
from lazynb.record.runtime import runtime
from lazynb.record.trace import thread_trace
from lazynb.source import is_user_file, place

KIND = "sync"
"""What the flush at the end of a program is, among the trace breaks."""


def run_shared() -> None:
    """Runs what is pending in this thread on several hosts, as one barrier.

    Raises:
      HostsError: the hosts do not agree.
    """
    thread_trace().close_dead()
    waiting = [
        pending
        for pending in thread_trace().all_pending()
        if pending.state.program and group_of(pending.state.program) is not None
    ]
    if waiting:
        runtime().flush(waiting, KIND)


def end() -> None:
    """Ends this host's part of the program: runs what is pending, unless an error ended it, and says so."""
    error = getattr(sys, "last_value", None)
    if error is None:
        try:
            run_shared()
        except Exception as failed:
            error = failed
            print(f"{type(failed).__name__}: {failed}", file=sys.stderr)
    gone = set(error.missing) if isinstance(error, HostMissingError) else set()
    presence.leave("has ended" if error is None else _ended_with(error))
    end_groups()
    jc.instead_of_waiting(lambda: _leave(gone, 1 if error is not None else 0))


def _ended_with(error: BaseException) -> str:
    """How an error ended this host, in words."""
    first = str(error).partition("\n")[0]
    line = _last_line(error.__traceback__)
    if isinstance(error, HostsError):
        return f"has ended, because {first[0].lower()}{first[1:]}"
    text = f": {first}" if first else ""
    return f"has ended with {type(error).__name__}{text}{f', at {line}' if line else ''}"


def _last_line(traceback: TracebackType | None) -> str:
    """The user's line at which an error came up."""
    found = [(frame, line) for frame, line in walk_tb(traceback) if is_user_file(frame.f_code.co_filename)]
    if not found:
        return ""
    frame, line = found[-1]
    where = place(frame.f_code.co_filename, line)
    return f"{where.label}: {where.text}" if where.text else where.label


def _leave(gone: set[int], status: int) -> None:
    """Waits for the other hosts as JAX does, but not for one that is gone.

    Arguments:
      gone: hosts that are known to be.
      status: the process's exit status if it ends here.
    """
    if not _all_leave(gone):
        sys.stdout.flush()
        sys.stderr.flush()
        if jc.host_number() == 0:
            time.sleep(_FAREWELL)  # the service ends with this process, and JAX ends others that still use it
        os._exit(status)
    jc.shut_down()


def _all_leave(gone: set[int]) -> bool:
    """Waits until each other host has left, and returns True; False if one of them never will."""
    watch = Watch(float("inf"))
    while True:
        try:
            told = store.published()
            gone = {host for host in gone if not told.get(host, {}).get("left")}
            late = [host for host, report in told.items() if not report["left"] and host not in gone]
            if not late:
                return not gone
            gone.update(watch.silent(late))
        except jc.RpcError:
            return False
        time.sleep(0.05)


_FAREWELL = 0.5  # seconds
