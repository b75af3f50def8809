"""A process that outlives the kernel by a moment, and ends what the kernel started.

The processes of a cluster have sessions of their own, so that an interrupt does not reach them unasked.
So they would stay when the kernel dies. This one waits until the kernel lets go of its standard input, which
happens however the kernel ends, and then kills every process whose environment has the cluster's mark: also
what the user's code started there, and what is still starting. It runs as a file, without lazynb and JAX.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import threading
import time

MARK = "LAZYNB_CLUSTER"
"""Environment variable of all processes of a cluster; the value is the cluster's own."""

_TIMES = 50  # looks, a tenth of a second apart: the system may take its time with a large process


def main(mark: str, folder: str, cluster_file: str) -> None:
    """Waits for the kernel's end.

    Arguments:
      mark: value of :data:`MARK`.
      folder: what is removed then; empty for nothing.
      cluster_file: ipyparallel's description of a cluster that a batch system runs; empty if none does.
    """
    kernel, let_go = os.getppid(), threading.Event()
    threading.Thread(target=_read, args=(let_go,), daemon=True).start()
    # What the kernel forked holds the other end of the pipe too, so the end of the kernel itself counts.
    while not let_go.wait(0.5) and os.getppid() == kernel:
        pass
    if cluster_file and os.path.exists(cluster_file):
        _cancel(cluster_file)
    for _ in range(_TIMES):  # one that was just starting another may have had a child meanwhile
        if not _kill(mark, kernel):
            break
        time.sleep(0.1)
    if folder:
        shutil.rmtree(folder, ignore_errors=True)


def _read(let_go: threading.Event) -> None:
    sys.stdin.buffer.read()
    let_go.set()


def _cancel(cluster_file: str) -> None:
    """Ends a cluster as its launchers do, such as with ``scancel``."""
    import ipyparallel

    logging.disable(logging.ERROR)  # ipyparallel warns of jobs that have ended already
    try:
        ipyparallel.Cluster.from_file(cluster_file).stop_cluster_sync()
    except Exception as error:  # the processes of this machine are killed all the same
        print(f"lazynb: the cluster's jobs could not be cancelled: {error}", file=sys.stderr)


def _kill(mark: str, kernel: int) -> int:
    """Kills what has the mark; the number of processes."""
    import psutil

    found = 0
    for process in psutil.process_iter():
        try:
            marked = process.pid not in (kernel, os.getpid()) and process.environ().get(MARK) == mark
            if marked and process.status() != psutil.STATUS_ZOMBIE:  # ended, and the kernel has not looked
                process.kill()
                found += 1
        except (psutil.Error, OSError):  # gone, or another user's
            continue
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
