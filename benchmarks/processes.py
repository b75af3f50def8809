"""The driver's side of a peer's process."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any

from benchmarks.environments import ROOT, last_line

# Long enough for the slowest of rows to compile and run; what takes longer hangs.
PATIENCE = 300.0


class PeerFailed(Exception):
    """A peer answered with an error, or not at all; the text says which."""


class Process:
    """A worker of one peer, running until it is closed.

    Attributes:
      versions: of Python and of its packages.
    """

    def __init__(self, peer: str, python: Path) -> None:
        # Nothing that another process compiled may help this one.
        caches = {"LAZYNB_PERSISTENT_CACHE": "0", "JAX_ENABLE_COMPILATION_CACHE": "false"}
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed with the process)
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.worker", peer],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            env={**os.environ, **caches},
        )
        try:
            self.versions: dict[str, str] = self._answer()
        except PeerFailed:
            self.close()
            raise

    def ask(self, do: str, **arguments: Any) -> Any:
        """The answer to a command of :class:`benchmarks.worker.Server`.

        Raises:
          PeerFailed: with the peer's own message.
        """
        assert self._process.stdin
        try:
            print(json.dumps({"do": do, **arguments}), file=self._process.stdin, flush=True)
        except OSError as error:
            raise PeerFailed(self._last_words()) from error
        return self._answer()

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.communicate()
        self._said.close()

    def _answer(self) -> Any:
        assert self._process.stdout
        timer = threading.Timer(PATIENCE, self._process.kill)
        timer.start()
        try:
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
        if not line:
            raise PeerFailed(self._last_words())
        answer = json.loads(line)
        if "error" in answer:
            raise PeerFailed(last_line(answer["error"].splitlines()[0]))
        return answer["answer"]

    def _last_words(self) -> str:
        status = self._process.wait()
        self._said.seek(0)
        return f"ended with status {status}: {last_line(self._said.read()) or 'no message'}"
