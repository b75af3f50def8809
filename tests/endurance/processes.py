"""The campaign's side of the worlds' processes: starting them, asking them, and what is known when one is
gone."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]


class Gone(Exception):
    """A world crashed or hung; the text says which, and what it wrote last."""


class Peer:
    """A world in a process of its own."""

    def __init__(self, name: str, address: str, log: Path):
        self.name = name
        self._log = log
        self._connection = Client(address, "AF_UNIX")
        self._connection.send(str(log))
        self.pid = self._connection.recv()

    def ask(self, *request: Any, patience: float = 60.0) -> Any:
        """The answer to a request.

        Raises:
          Gone: there is none within ``patience`` seconds, or ever.
        """
        try:
            self._connection.send(request)
            if not self._connection.poll(patience):
                self._signal(signal.SIGABRT)  # faulthandler then writes where it stands
                time.sleep(0.5)
                raise Gone(f"the {self.name} world hangs\n{self._tail()}")
            return self._connection.recv()
        except (EOFError, OSError) as error:
            time.sleep(0.2)
            raise Gone(f"the {self.name} world crashed\n{self._tail()}") from error

    def _tail(self) -> str:
        with contextlib.suppress(OSError):
            text = self._log.read_text(errors="replace")
            start = max(text.find("Fatal Python error"), 0)
            return text[start : start + 1500] if start else text[-1500:]
        return ""

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def close(self) -> None:
        """Ends it."""
        self._connection.close()
        self._signal(signal.SIGKILL)


class Zygote:
    """A process that forks worlds of one kind, see ``zygote.py``."""

    def __init__(self, name: str, folder: Path, environment: dict[str, str] | None = None):
        self.name, self.folder, self._number = name, folder, 0
        self._address = str(folder / f"{name}.socket")
        paths = [str(TESTS), str(TESTS.parent), os.environ.get("PYTHONPATH", "")]
        settings = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "LAZYNB_PERSISTENT_CACHE": "0",
            "JAX_PLATFORMS": "cpu",
            **(environment or {}),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.zygote", name, self._address],
            env=settings,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self._out = self._process.stdout

    def wait(self) -> None:
        """Waits until it has imported its world."""
        if self._out.readline().strip() != "ready":
            raise RuntimeError(f"the {self.name} world cannot be imported")

    def fork(self) -> Peer:
        """A new world."""
        self._number += 1
        return Peer(self.name, self._address, self.folder / f"{self.name}-{self._number}.log")

    def close(self) -> None:
        """Ends it; its worlds are ended one by one before."""
        self._process.kill()
        self._process.wait()
        self._out.close()


class Worlds:
    """Both kinds of worlds, one of each at a time.

    Arguments:
      environment: variables for the lazy world's process.
    """

    def __init__(self, environment: dict[str, str] | None = None):
        self._folder = tempfile.TemporaryDirectory(prefix="endurance-")
        folder = Path(self._folder.name)
        self._zygotes = [Zygote("eager", folder), Zygote("lazy", folder, environment)]
        for zygote in self._zygotes:
            zygote.wait()
        self._peers: dict[str, Peer] = {}

    def __enter__(self) -> Worlds:
        return self

    def __exit__(self, *_: Any) -> None:
        self.renew()
        for zygote in self._zygotes:
            zygote.close()
        self._folder.cleanup()

    def renew(self) -> None:
        """The next program gets new processes."""
        while self._peers:
            self._peers.popitem()[1].close()

    def pair(self) -> tuple[Peer, Peer]:
        """The eager and the lazy world."""
        for zygote in self._zygotes:
            if zygote.name not in self._peers:
                self._peers[zygote.name] = zygote.fork()
        return self._peers["eager"], self._peers["lazy"]
