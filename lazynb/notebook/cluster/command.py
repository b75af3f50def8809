"""What ``%lazy cluster`` does."""

from __future__ import annotations

import time
from typing import Any

from IPython.core.error import UsageError
from IPython.display import display

from lazynb.notebook.cluster import sent
from lazynb.notebook.cluster.cluster import Cluster
from lazynb.notebook.cluster.engines import ClusterError, Wish
from lazynb.notebook.cluster.px import code_lines

_USE = "%lazy cluster N (processes), %lazy cluster --profile NAME, %lazy cluster off"


def command(extension: Any, size: str | None, profile: str | None) -> None:
    """Starts a cluster, ends it, or says how it stands.

    Arguments:
      extension: lazynb in this shell, whose ``cluster`` it is.
      size: number of processes, or ``off``.
      profile: ipyparallel's.
    """
    if sent.joined:
        raise UsageError("%lazy cluster: this is a process of a cluster; begin the cell with %lazy cluster")
    if size == "off":
        extension.end_cluster()
        print("No cluster: cells run in this process.")
    elif size is None and profile is None:
        print(extension.cluster or f"No cluster: cells run in this process. {_USE}")
    elif extension.cluster is not None:
        raise UsageError("%lazy cluster: there is one already; %lazy cluster off ends it")
    elif len(code_lines(extension.routing.cell)) > 1:
        raise UsageError(
            "%lazy cluster: what starts a cluster stands alone in its cell, for the other lines would run in "
            "this process"
        )
    else:
        extension.cluster = _start(extension.shell, Wish(_count(size), profile))


def _count(size: str | None) -> int | None:
    if size is None:
        return None
    if not size.isdecimal() or int(size) < 1:
        raise UsageError(f"%lazy cluster: {size!r} is no number of processes; {_USE}")
    return int(size)


def _start(shell: Any, wish: Wish) -> Cluster:
    begun = time.monotonic()
    handle = display({"text/plain": "Starting a cluster"}, raw=True, display_id=True)

    def tell(text: str) -> None:
        line = f"Starting a cluster: {text} ({time.monotonic() - begun:.1f} s)"
        handle.update({"text/plain": line}, raw=True)

    try:
        cluster = Cluster.start(shell, wish, tell)
    except KeyboardInterrupt:
        handle.update({"text/plain": "The cluster was not started: an interrupt."}, raw=True)
        raise
    except ClusterError as error:
        handle.update({"text/plain": "The cluster was not started."}, raw=True)
        raise UsageError(f"%lazy cluster: {error}") from None
    taken = time.monotonic() - begun
    text = f"{cluster} They begin without the variables of this process. Started in {taken:.1f} s."
    handle.update({"text/plain": text}, raw=True)
    return cluster
