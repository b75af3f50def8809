"""The processes of a cluster: ipyparallel's engines, started and ended."""

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

_SHUTDOWN_SECONDS = 3.0  # seconds that processes have for their own ends
_STARTING = 120.0  # seconds: a busy machine
_BATCH_QUEUE_SECONDS = 600.0  # seconds: a batch system's queue
_ANSWER = 10.0  # seconds in which a controller that runs says something


class ClusterError(LazynbError):
    """A cluster cannot be started, or cannot run a cell; the text says what to do."""


@dataclasses.dataclass(frozen=True)
class ClusterRequest:
    """What ``%lazy cluster`` is asked for.

    Attributes:
      count: number of processes; None for as many as the profile says.
      profile: name of an ipyparallel profile; None for processes of this machine.
    """

    count: int | None
    profile: str | None = None


class Engines:
    """Engines that are there.

    Attributes:
      client: ipyparallel's.
      ids: ipyparallel's numbers of the engines, in the order of their ranks.
      owned: whether they were started here, and end here.
    """

    def __init__(self, client: Any, ids: list[int], keeper: subprocess.Popen[bytes] | None):
        self.client = client
        self.ids = ids
        self.owned = keeper is not None
        self._keeper = keeper

    def stop(self) -> None:
        """Ends what was started here; returns when no process is left. Others stay, and are let go."""
        try:
            if self._keeper is not None:
                with contextlib.suppress(Exception):
                    self.client.shutdown(block=False)  # what was registered with atexit runs there
                    wait_until(lambda: not self.client.ids, _SHUTDOWN_SECONDS)
            self.client.close()
        finally:
            if self._keeper is not None:
                _stop_watcher(self._keeper)


def start_engines(wish: ClusterRequest, tell: Callable[[str], None]) -> Engines:
    """Starts the processes, or finds those of a profile that runs already.

    Arguments:
      tell: is told how far it has come.

    Raises:
      ClusterError: there is no ipyparallel, no such profile, or the processes do not come.
    """
    if importlib.util.find_spec("ipyparallel") is None:
        raise ClusterError(
            'a cluster needs ipyparallel: pip install ipyparallel (or "lazynb[cluster]"), then run this again'
        )
    running = _running(wish.profile) if wish.profile is not None else None
    return _new_engines(wish, tell) if running is None else _existing_engines(running, wish, tell)


def wait_until(holds: Callable[[], bool], seconds: float) -> bool:
    """Whether ``holds()`` became true in this time. An interrupt ends the wait."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


# ---- a profile's cluster that runs already


def _running(profile: str) -> str | None:
    """The connection file of a cluster that runs in this profile; None if none does."""
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


# ---- a new one


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
    """The engines, when all have registered."""
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
            f"{before} of {count} processes came within {seconds:.0f} s; ask for fewer of them"
        )
    return list(client.ids)[:count]


def _described(wish: ClusterRequest, folder: str, mark: str) -> Any:
    """ipyparallel's description. Without a profile nobody's settings count: the processes are local ones."""
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
    log.setLevel(logging.ERROR)  # ipyparallel writes what its processes wrote, as warnings, when they end
    return log


def _start_watcher(mark: str, folder: str, cluster_file: str) -> subprocess.Popen[bytes]:
    """The process that ends the cluster when this one lets go of it."""
    command = [sys.executable, "-P", engine_watcher.__file__, mark, folder, cluster_file]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)


def _stop_watcher(keeper: subprocess.Popen[bytes]) -> None:
    assert keeper.stdin is not None
    keeper.stdin.close()
    keeper.wait(60)
