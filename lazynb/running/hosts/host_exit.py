"""The end of a program on several hosts: pending traces run on all hosts, and no host waits for a missing
one.

Eager JAX would have run all operations. A host that leaves operations pending, because it alone never reads
the value, would let the others wait.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from traceback import walk_tb
from types import TracebackType

from lazynb import jax_compat as jc
from lazynb.errors import HostMissingError, HostsError
from lazynb.recording.lazy_trace import thread_trace
from lazynb.recording.runtime_interface import runtime
from lazynb.running.hosts import coordination_store
from lazynb.running.hosts.host_agreement import end_groups, group_of
from lazynb.running.hosts.host_presence import Watch, presence
from lazynb.user_code.code_ownership import is_user_file
from lazynb.user_code.source_lines import place

KIND = "sync"
"""The kind of the flush at the end of a program."""


def run_shared() -> None:
    """Runs the pending traces of this thread that span several hosts, as one barrier.

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
        runtime().execution.flush(waiting, KIND)


def end() -> None:
    """Runs this host's pending traces, unless an error ended the program, and reports the end."""
    error = getattr(sys, "last_value", None)
    if error is None:
        try:
            run_shared()
        except Exception as failed:
            error = failed
            print(f"{type(failed).__name__}: {failed}", file=sys.stderr)
    gone = presence.missing
    presence.leave("has ended, without an error" if error is None else _ended_with(error))
    end_groups()
    status = 1 if error is not None or gone else 0  # the status of sys.exit is not available here
    jc.replace_exit_barrier(lambda: _leave(gone, status))


def _ended_with(error: BaseException) -> str:
    first = str(error).partition("\n")[0]
    line = _last_line(error.__traceback__)
    if isinstance(error, HostMissingError):
        hosts = ", ".join(map(str, sorted(error.missing)))
        return (
            f"has ended, because it waited for host{'s' * (len(error.missing) > 1)} {hosts} at {error.line}"
        )
    if isinstance(error, HostsError):
        return f"has ended, because {first[0].lower()}{first[1:]}"
    text = f": {first}" if first else ""
    return f"has ended with {type(error).__name__}{text}{f', at {line}' if line else ''}"


def _last_line(traceback: TracebackType | None) -> str:
    found = [(frame, line) for frame, line in walk_tb(traceback) if is_user_file(frame.f_code.co_filename)]
    if not found:
        return ""
    frame, line = found[-1]
    where = place(frame.f_code.co_filename, line)
    return where.in_full


def _leave(gone: set[int], status: int) -> None:
    """Waits for the other hosts as JAX does, except for missing ones. ``gone``: hosts that are known to be
    missing. ``status``: the exit status of the process if it ends here."""
    gone = _never_leave(gone)
    if gone:
        sys.stdout.flush()
        sys.stderr.flush()
        presence.done = True
        presence.say()
        if jc.host_index() == 0:
            _wait_for_the_done(gone)
        os._exit(status)
    jc.shut_down()


def _wait_for_the_done(gone: set[int]) -> None:
    """Waits for the hosts that still use the service: this process hosts it, and its end would end them."""
    end = time.monotonic() + _FAREWELL
    with contextlib.suppress(jc.RpcError):
        while time.monotonic() < end:
            told = coordination_store.published()
            if all(report["done"] for host, report in told.items() if host not in gone):
                time.sleep(_LAST)
                return
            time.sleep(0.05)


def _never_leave(gone: set[int]) -> set[int]:
    """Waits until each other host has left; returns those that never will. A host that another host missed
    counts as missing, because this host may have missed only the host that gave up first."""
    watch = Watch(float("inf"))
    while True:
        try:
            told = coordination_store.published()
            gone = gone.union(*[report["missing"] for report in told.values() if report["left"]])
            gone = {host for host in gone if not told.get(host, {}).get("left")}
            late = [host for host, report in told.items() if not report["left"] and host not in gone]
            if not late:
                return gone
            gone.update(watch.silent(late))
        except jc.RpcError:
            return set(range(jc.host_count()))  # the service has ended and cannot be queried
        time.sleep(0.05)


_FAREWELL = 5.0  # seconds
_LAST = 0.2  # seconds from a host's last call of the service to its end
