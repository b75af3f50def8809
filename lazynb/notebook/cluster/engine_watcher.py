"""A separate process that kills the processes of a cluster when the kernel ends.

Engines run in their own sessions, so that SIGINT to the kernel does not reach them; they would survive the
kernel. The watcher waits until its standard input closes, which happens however the kernel ends. Then it
kills every process with the cluster's mark in its environment, including processes that the user's code
started and engines that are still starting. It runs as a script, without lazynb and JAX.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import threading
import time

MARK = "LAZYNB_CLUSTER"
"""Environment variable of all processes of a cluster; its value is unique to the cluster."""

_TIMES = 50  # attempts, a tenth of a second apart: killing a large process may take time


def main(mark: str, folder: str, cluster_file: str) -> None:
    """Waits until the kernel ends, then kills the cluster.

    Arguments:
      mark: value of :data:`MARK`.
      folder: folder to remove afterwards; empty for none.
      cluster_file: ipyparallel's cluster file, to cancel jobs of a batch system; empty without a profile.
    """
    kernel, let_go = os.getppid(), threading.Event()
    threading.Thread(target=_read, args=(let_go,), daemon=True).start()
    # Processes forked from the kernel also hold the pipe open, so this checks the parent process too.
    while not let_go.wait(0.5) and os.getppid() == kernel:
        pass
    if cluster_file and os.path.exists(cluster_file):
        _cancel(cluster_file)
    for _ in range(_TIMES):  # a process may have started a child in the meantime
        if not _kill(mark, kernel):
            break
        time.sleep(0.1)
    if folder:
        shutil.rmtree(folder, ignore_errors=True)


def _read(let_go: threading.Event) -> None:
    sys.stdin.buffer.read()
    let_go.set()


def _cancel(cluster_file: str) -> None:
    """Ends a cluster by its launchers' command, such as ``scancel``."""
    import ipyparallel

    logging.disable(logging.ERROR)  # ipyparallel warns about jobs that have already ended
    try:
        ipyparallel.Cluster.from_file(cluster_file).stop_cluster_sync()
    except Exception as error:  # the processes of this machine are killed anyway
        print(f"lazynb: the cluster's jobs could not be cancelled: {error}", file=sys.stderr)


def _kill(mark: str, kernel: int) -> int:
    import psutil

    found = 0
    for process in psutil.process_iter():
        try:
            marked = process.pid not in (kernel, os.getpid()) and process.environ().get(MARK) == mark
            if marked and process.status() != psutil.STATUS_ZOMBIE:  # ended, but not yet reaped by the kernel
                process.kill()
                found += 1
        except (psutil.Error, OSError):  # it ended, or belongs to another user
            continue
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
