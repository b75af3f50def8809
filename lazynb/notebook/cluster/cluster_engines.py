"""Starts, finds and ends the processes of a cluster, which are ipyparallel engines."""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import importlib.util
import logging
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from lazynb.errors import LazynbError
from lazynb.notebook.cluster import engine_watcher
from lazynb.notebook.cluster.engine_watcher import MARK

_SHUTDOWN_SECONDS = 3.0  # seconds for the processes to shut down by themselves
_STARTING = 120.0  # seconds for local processes to start, on a busy machine
_BATCH_QUEUE_SECONDS = 600.0  # seconds to wait in the queue of a batch system
_ANSWER = 10.0  # seconds for a running controller to answer


class ClusterError(LazynbError):
    """A cluster cannot start or cannot run a cell; the text gives a remedy."""


@dataclasses.dataclass(frozen=True)
class ClusterRequest:
    """The arguments of ``%lazy cluster``.

    Attributes:
      count: number of processes; None for the number in the profile.
      profile: name of an ipyparallel profile; None for processes on this machine.
    """

    count: int | None
    profile: str | None = None


class Engines:
    """Running engines.

    Attributes:
      client: the ipyparallel client.
      ids: ipyparallel's engine ids, by rank.
      owned: whether this process started the engines and ends them.
    """

    def __init__(self, client: Any, ids: list[int], keeper: subprocess.Popen[bytes] | None):
        self.client = client
        self.ids = ids
        self.owned = keeper is not None
        self._keeper = keeper

    def stop(self) -> None:
        """Ends the engines if they are owned, and waits until all have ended; otherwise disconnects."""
        try:
            if self._keeper is not None:
                with contextlib.suppress(Exception):
                    self.client.shutdown(block=False)  # runs their atexit functions
                    wait_until(lambda: not self.client.ids, _SHUTDOWN_SECONDS)
            self.client.close()
        finally:
            if self._keeper is not None:
                _stop_watcher(self._keeper)


def start_engines(wish: ClusterRequest, tell: Callable[[str], None]) -> Engines:
    """Starts the processes, or connects to a running cluster of the profile.

    Arguments:
      tell: called with progress messages.

    Raises:
      ClusterError: ipyparallel or the profile is missing, or the processes do not start in time.
    """
    if importlib.util.find_spec("ipyparallel") is None:
        raise ClusterError(
            'a cluster needs ipyparallel: pip install ipyparallel (or "lazynb[cluster]"), then run this again'
        )
    running = _running(wish.profile) if wish.profile is not None else None
    return _new_engines(wish, tell) if running is None else _existing_engines(running, wish, tell)


def wait_until(holds: Callable[[], bool], seconds: float) -> bool:
    """Waits until ``holds()`` is true, for at most ``seconds``. Returns whether it became true."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


# ---- Running cluster of a profile --------------------------------------------------------------------------


def _running(profile: str) -> str | None:
    """The connection file of the running cluster of a profile; None without one."""
    found = glob.glob(os.path.join(_profile_folder(profile), "security", "ipcontroller*-client.json"))
    return max(found, key=os.path.getmtime) if found else None


def _profile_folder(profile: str) -> str:
    from IPython.core.profiledir import ProfileDir, ProfileDirError
    from IPython.paths import get_ipython_dir

    try:
        return str(ProfileDir.find_profile_dir_by_name(get_ipython_dir(), profile).location)
    except ProfileDirError:
        raise ClusterError(
            f"there is no profile {profile!r}; this makes one: "
            f"ipython profile create --parallel --profile={profile}"
        ) from None


def _existing_engines(connection_file: str, wish: ClusterRequest, tell: Callable[[str], None]) -> Engines:
    import ipyparallel

    try:
        client = ipyparallel.Client(connection_file, timeout=_ANSWER)
    except Exception as error:
        raise ClusterError(
            f"{connection_file} names a controller that does not answer ({type(error).__name__}: {error}); "
            "remove that file if its cluster has ended"
        ) from error
    try:
        return Engines(
            client, _arrived(client, wish.count or max(1, len(client.ids)), _BATCH_QUEUE_SECONDS, tell), None
        )
    except BaseException:
        client.close()
        raise


# ---- New cluster -------------------------------------------------------------------------------------------


def _new_engines(wish: ClusterRequest, tell: Callable[[str], None]) -> Engines:
    mark = secrets.token_hex(16)
    folder = "" if wish.profile is not None else tempfile.mkdtemp(prefix="lazynb-cluster-")
    cluster = _described(wish, folder, mark)
    keeper = _start_watcher(mark, folder, cluster.cluster_file if wish.profile is not None else "")
    client = None
    try:
        tell("starting the controller")
        cluster.start_controller_sync()
        tell("starting the processes")
        cluster.start_engines_sync(wish.count)
        client = cluster.connect_client_sync()
        count = wish.count or sum(one.n for one in cluster.engines.values())
        ids = _arrived(client, count, _STARTING if wish.profile is None else _BATCH_QUEUE_SECONDS, tell)
    except BaseException as error:
        if client is not None:
            client.close()
        _stop_watcher(keeper)
        if isinstance(error, Exception) and not isinstance(error, ClusterError):
            raise ClusterError(f"the cluster did not start: {type(error).__name__}: {error}") from error
        raise
    return Engines(client, ids, keeper)


def _arrived(client: Any, count: int, seconds: float, tell: Callable[[str], None]) -> list[int]:
    """Waits until ``count`` engines have registered, and returns their ids."""
    before = -1

    def here() -> bool:
        nonlocal before
        now = len(client.ids)
        if now != before:
            tell(f"{now} of {count} processes are there")
        before = now
        return now >= count

    if not wait_until(here, seconds):
        raise ClusterError(
            f"{before} of {count} processes started within {seconds:.0f} s; ask for fewer of them"
        )
    return list(client.ids)[:count]


def _described(wish: ClusterRequest, folder: str, mark: str) -> Any:
    """The ``ipyparallel.Cluster``. Without a profile, its processes are local and no settings are read."""
    import ipyparallel
    from traitlets.config import Config

    environment = {MARK: mark}
    if wish.profile is None:  # several processes cannot share one accelerator
        environment["JAX_PLATFORMS"] = os.environ.get("JAX_PLATFORMS", "cpu")
    config = Config({"BaseLauncher": {"environment": environment}})
    options: dict[str, Any] = {"n": wish.count, "shutdown_atexit": False, "log": _log(), "config": config}
    if wish.profile is not None:
        return ipyparallel.Cluster(profile_dir=_profile_folder(wish.profile), **options)
    return ipyparallel.Cluster(
        profile_dir=folder,
        load_profile=False,
        controller="local",
        engines="local",
        delay=0.0,
        **options,
    )


def _log() -> logging.Logger:
    log = logging.getLogger("lazynb.cluster")
    log.setLevel(logging.ERROR)  # when processes end, ipyparallel logs their output as warnings
    return log


def _start_watcher(mark: str, folder: str, cluster_file: str) -> subprocess.Popen[bytes]:
    """Starts the watcher, which ends the cluster when this process closes the watcher's stdin."""
    command = [sys.executable, "-P", engine_watcher.__file__, mark, folder, cluster_file]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)


def _stop_watcher(keeper: subprocess.Popen[bytes]) -> None:
    assert keeper.stdin is not None
    keeper.stdin.close()
    keeper.wait(60)
