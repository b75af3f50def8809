"""The worker process from outside: started when it is first asked, kept warm, ended by an interrupt."""

from __future__ import annotations

import atexit
import os
import secrets
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import IO, Any

from lazynb.errors import LazynbError
from lazynb.targets.compilers import Compiler, compiler_of
from lazynb.targets.result import Answer, Question, Refused

_LOOK = 0.1  # seconds between looks whether the process lives; an interrupt comes through between two
_START = 120.0  # seconds that it may take to import JAX


class CompilerCrashed(LazynbError):
    """The process that compiles for another chip ended. The message has its last words; nothing is lost."""


class Worker:
    """The process of one compiler."""

    def __init__(self, compiler: Compiler):
        self._compiler = compiler
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._connection: Connection | None = None
        self._log: IO[bytes] | None = None

    def ask(self, question: Question) -> Answer | Refused:
        """What the compiler answers. An interrupt ends the process; the next question starts another.

        Raises:
          CompilerMissing: it is not installed.
          CompilerCrashed: the process ended.
        """
        with self._lock, self._ends_if_unfinished():
            connection = self._connected()
            connection.send(question)
            while not connection.poll(_LOOK):
                self._check()
            answer = connection.recv()
            assert isinstance(answer, (Answer, Refused))
            return answer

    @contextmanager
    def _ends_if_unfinished(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, OSError):
            words = self._last_words()
            self.close()
            raise CompilerCrashed(
                f"The compiler for {self._compiler.name.upper()}s ended while it compiled. Its last words: "
                f"{words or 'none'}"
            ) from None
        except BaseException:
            self.close()
            raise

    def _check(self) -> None:
        if self._process is not None and self._process.poll() is not None:
            raise EOFError

    def _connected(self) -> Connection:
        if self._connection is None or self._process is None or self._process.poll() is not None:
            self.close()
            self._start()
        assert self._connection is not None
        return self._connection

    def _start(self) -> None:
        directory = self._compiler.required()
        key = secrets.token_bytes(32)
        with Listener(authkey=key) as listener:
            self._log = tempfile.TemporaryFile()  # noqa: SIM115 - close() closes it
            self._process = subprocess.Popen(
                [sys.executable, "-m", "lazynb.targets.worker", str(listener.address)],
                stdin=subprocess.PIPE,
                stdout=self._log,
                stderr=self._log,
                env=_environment(directory),
                text=True,
                start_new_session=True,  # a Ctrl-C in the terminal is the user's own process's
            )
            assert self._process.stdin is not None
            self._process.stdin.write(key.hex() + "\n")
            self._process.stdin.flush()
            self._connection = _accepted(listener, self._check)

    def _last_words(self) -> str:
        if self._log is None:
            return ""
        self._log.seek(0)
        lines = self._log.read().decode("utf-8", "replace").strip().splitlines()
        return " / ".join(line.strip() for line in lines[-3:])

    def close(self) -> None:
        """Ends the process, if there is one."""
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._log is not None:
            self._log.close()
        self._connection = self._process = self._log = None


def _environment(directory: Path) -> dict[str, str]:
    """The worker's: it alone sees the compiler, and looks for no cloud and no device."""
    own = {
        "PYTHONPATH": os.pathsep.join([str(directory), *filter(None, sys.path)]),
        "JAX_PLATFORMS": "cpu",
        "TPU_SKIP_MDS_QUERY": "1",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # it compiles only: another process may have it too
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
    return {**os.environ, **own}


def _accepted(listener: Listener, check: Any) -> Connection:
    """The worker's end of the pipe. ``accept`` cannot be interrupted everywhere, so a thread waits in it."""
    got: list[Connection] = []
    waiting = threading.Thread(target=lambda: got.append(listener.accept()), daemon=True)
    waiting.start()
    waited = 0.0
    while not got:
        waiting.join(_LOOK)
        waited += _LOOK
        check()
        if waited > _START:
            raise EOFError
    return got[0]


_workers: dict[str, Worker] = {}


def worker_of(platform: str) -> Worker:
    """The process that compiles for a platform."""
    if platform not in _workers:
        _workers[platform] = Worker(compiler_of(platform))
    return _workers[platform]


@atexit.register
def _close_all() -> None:
    for worker in _workers.values():
        worker.close()
