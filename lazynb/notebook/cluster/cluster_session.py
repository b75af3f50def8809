"""A cluster of processes for the notebook's cells: start, run, stop, and the command ``%lazy cluster``."""

from __future__ import annotations

import atexit
import functools
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from IPython.core.error import UsageError
from IPython.display import display

from lazynb.notebook.cluster import rank_process
from lazynb.notebook.cluster.cluster_engines import (
    ClusterError,
    ClusterRequest,
    Engines,
    start_engines,
    wait_until,
)
from lazynb.notebook.cluster.cluster_routing import code_lines
from lazynb.notebook.cluster.rank_differences import ranks_named
from lazynb.notebook.cluster.rank_execution import ClusterCellRun
from lazynb.notebook.cluster.rank_outputs import NotebookScreen
from lazynb.notebook.shell_changes import ShellChanges
from lazynb.running.record_table import plural
from lazynb.version import __version__

_JOINING = 120.0  # seconds for the processes to connect to each other


class Cluster:
    """Processes in which the notebook's cells run. Each process is one host.

    Attributes:
      engines: the processes.
      hosts: by rank, the :class:`~lazynb.notebook.cluster.rank_process.ProcessInfo` of each process.
      devices: number of devices of all processes together.
    """

    def __init__(
        self,
        shell: Any,
        engines: Engines,
        hosts: Sequence[rank_process.ProcessInfo],
        devices: int,
        profile: str,
        changes: ShellChanges,
    ):
        self._shell = shell
        self.engines = engines
        self.hosts = list(hosts)
        self.devices = devices
        self._profile = profile
        self._changes = changes
        _running.add(self)
        _stop_at_exit()

    @classmethod
    def start(cls, shell: Any, wish: ClusterRequest, tell: Callable[[str], None]) -> Cluster:
        """Starts a cluster. An interrupt ends the processes started so far.

        Arguments:
          tell: called with progress messages.

        Raises:
          ClusterError: the cluster does not start; the text gives the reason and a remedy.
        """
        changes, engines = ShellChanges(shell), None
        try:
            with changes.magics():  # the first client registers ``%%px`` by itself
                engines = start_engines(wish, tell)
                engines.client.activate()
            hosts = _answers(engines, rank_process.process_info, [() for _ in engines.ids], "answer")
            _check(hosts)
            tell(f"{plural(len(hosts), 'process')} join each other")
            devices = _join(engines, hosts)
            return cls(shell, engines, hosts, devices, wish.profile or "", changes)
        except BaseException:
            changes.undo()
            if engines is not None:
                engines.stop()
            raise

    def run(self, text: str, number: int) -> None:
        """Runs a cell on all ranks and shows their outputs.

        Arguments:
          text: source of the cell, as typed.
          number: execution count of the cell.

        Raises:
          RanksError: the cell raised on some ranks.
          RanksInterrupted: the cell was interrupted.
          ClusterError: a process has ended.
        """
        __tracebackhide__ = True
        gone = [place for place, engine in enumerate(self.engines.ids) if not self._is_there(engine)]
        if gone:
            verb = "has" if len(gone) == 1 else "have"
            raise ClusterError(
                f"{ranks_named(gone)} {verb} ended, so no cell can run on all: %lazy cluster off, then "
                f"{self._again} starts new ones"
            )
        for engine in self.engines.ids:
            self.engines.client[engine].apply_async(rank_process.begin, number)
        ClusterCellRun(self.engines, [host.identity for host in self.hosts], NotebookScreen(self._shell)).run(
            text
        )

    def _is_there(self, engine: int) -> bool:
        return engine in self.engines.client.ids

    @property
    def _again(self) -> str:
        return f"%lazy cluster {len(self.hosts)}" + (f" --profile {self._profile}" if self._profile else "")

    def __repr__(self) -> str:
        machines = dict.fromkeys(host.host for host in self.hosts)
        where = f"on {len(machines)} machines" if len(machines) > 1 else "on one machine"
        own = "%lazy cluster off ends them" if self.engines.owned else "%lazy cluster off leaves them running"
        pids = ", ".join(str(host.pid) for host in self.hosts)
        return (
            f"Cells run on {plural(len(self.hosts), 'process')} (pid {pids}) {where}, with "
            f"{plural(self.devices, 'device')} in all; {own}."
        )

    def stop(self) -> None:
        """Ends the processes that it started. Engines of a running profile stay, without lazynb."""
        _running.discard(self)
        self._changes.undo()
        if not self.engines.owned:
            there = filter(self._is_there, self.engines.ids)
            calls = [self.engines.client[engine].apply_async(rank_process.leave) for engine in there]
            wait_until(lambda: all(call.ready() for call in calls), 10)
        self.engines.stop()


_running: set[Cluster] = set()


@functools.cache
def _stop_at_exit() -> None:
    """Stops the clusters that run when Python exits, before the libraries that they use."""

    @atexit.register
    def stop() -> None:
        for cluster in [*_running]:
            cluster.stop()


def _check(hosts: Sequence[rank_process.ProcessInfo]) -> None:
    """Raises :class:`ClusterError` if versions differ or processes belong to another program."""
    import jax

    versions = {host.versions for host in hosts}
    if versions != {(jax.__version__, __version__)}:
        found = "; ".join(f"JAX {one} with lazynb {other}" for one, other in sorted(versions))
        raise ClusterError(
            f"the processes have {found}, and this notebook has JAX {jax.__version__} with lazynb "
            f"{__version__}: install the same versions everywhere"
        )
    joined = [host.joined for host in hosts]
    if any(joined) and joined != [(number, len(hosts)) for number in range(len(hosts))]:
        raise ClusterError(
            "some of the processes are hosts of another program already, which JAX allows once: restart the "
            "engines, then run this again"
        )


def _join(engines: Engines, hosts: Sequence[rank_process.ProcessInfo]) -> int:
    """Connects the processes with ``jax.distributed``. Returns the number of devices of all."""
    alone = len({host.host for host in hosts}) == 1
    coordinator = f"{'127.0.0.1' if alone else hosts[0].address}:{hosts[0].port}"
    path = list(sys.path) if engines.owned and alone else None
    given = [(coordinator, len(hosts), number, path) for number in range(len(hosts))]
    return _answers(engines, rank_process.join, given, "join the others")[0][1]


def _answers(engines: Engines, function: Callable[..., Any], given: Sequence[tuple], what: str) -> list[Any]:
    """Calls a function on each rank with the arguments ``given`` and returns the results. Raises
    :class:`ClusterError` if it raises on a rank or a rank does not answer."""
    calls = [engines.client[one].apply_async(function, *args) for one, args in zip(engines.ids, given)]
    if not wait_until(lambda: all(call.ready() for call in calls), _JOINING):
        late = [number for number, call in enumerate(calls) if not call.ready()]
        raise ClusterError(f"{ranks_named(late)} did not {what} within {_JOINING:.0f} s; run this again")
    try:
        return [call.get() for call in calls]
    except Exception as error:
        raise ClusterError(f"the processes could not {what}: {error}") from error


# ---- The command ``%lazy cluster`` -------------------------------------------------------------------------

_USE = "%lazy cluster N (processes), %lazy cluster --profile NAME, %lazy cluster off"


def command(extension: Any, size: str | None, profile: str | None) -> None:
    """Starts a cluster, ends it, or prints its state.

    Arguments:
      extension: lazynb in this shell; its ``cluster`` is set.
      size: number of processes, or ``off``.
      profile: name of an ipyparallel profile.
    """
    if rank_process.joined_cluster:
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
            "%lazy cluster: the line that starts a cluster stands alone in its cell, because other lines "
            "would run in this process"
        )
    else:
        extension.cluster = _start(extension.shell, ClusterRequest(_count(size), profile))


def _count(size: str | None) -> int | None:
    if size is None:
        return None
    if not size.isdecimal() or int(size) < 1:
        raise UsageError(f"%lazy cluster: {size!r} is no number of processes; {_USE}")
    return int(size)


def _start(shell: Any, wish: ClusterRequest) -> Cluster:
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
