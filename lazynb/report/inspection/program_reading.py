"""Reads program files (HLO, StableHLO) in a worker process with limits of time and memory: XLA's and MLIR's
parsers crash or do not end on some texts. Only plain data of the inspection comes back.

The first file starts the worker, later ones find it ready; it ends after a minute without a request.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import jax

from lazynb.report.inspection.inspection_file import Entry, entry_from_json
from lazynb.running.compiler_dump import quickest_folder
from lazynb.user_code.text_format import escape_invisible, parse_size, size
from lazynb.xla.external.external_programs import NotInspectable

SECONDS = 120.0
MEMORY = 4 << 30
"""Default limits: seconds that one file may take, and bytes that the worker may hold."""

_START_SECONDS = 120.0  # allowed for importing JAX
_POLL_SECONDS = 0.005


class LimitPassed(NotInspectable):
    """Reading a file took more than a limit, or crashed the worker; the message says which."""


@dataclasses.dataclass(frozen=True)
class Reading:
    """How to read a program file.

    Attributes:
      source: folder from which the source text of its lines is read; None for the current one.
      seconds: limit of time; None for the default.
      memory: limit of the worker's memory, in bytes or such as ``8GiB``; None for the default.
      reproducer: file for the reproducer; None for none.
      question: at the top of the reproducer.
    """

    source: str | os.PathLike[str] | None = None
    seconds: float | None = None
    memory: int | str | None = None
    reproducer: str | None = None
    question: str = ""

    @property
    def limit_seconds(self) -> float:
        return SECONDS if self.seconds is None else float(self.seconds)

    @property
    def limit_memory(self) -> int:
        """Raises ValueError if it is no size."""
        if self.memory is None:
            return MEMORY
        return parse_size(self.memory) if isinstance(self.memory, str) else self.memory


def read_program(path: str | os.PathLike[str], reading: Reading | None = None) -> Entry:
    """The inspection of a program file, with the changes of each pass.

    Raises:
      OSError: the file or the source folder cannot be read.
      NotInspectable: it holds no program, or passes a limit.
    """
    reading = reading or Reading()
    name = os.fspath(path)
    found = os.stat(name)
    if os.path.isdir(name):
        raise IsADirectoryError(21, "Is a directory", name)
    if not os.path.isfile(name):
        raise NotInspectable(f"{os.path.basename(name)} is no regular file")
    source = os.path.abspath(reading.source or ".")
    if not os.path.isdir(source):
        raise NotADirectoryError(20, "Not a directory", source)
    if found.st_size > reading.limit_memory:
        raise LimitPassed(_memory_message(name, reading))
    with open(name, "rb"):
        pass
    written = _worker.ask(name, source, reading)
    if "error" in written:
        raise NotInspectable(escape_invisible(written["error"]))
    return entry_from_json(written["entry"])


def _memory_message(name: str, reading: Reading) -> str:
    return (
        f"{os.path.basename(name)} needs more memory than {size(reading.limit_memory)}, the limit: raise it "
        "with --limit-memory, such as 16GiB (in Python limit_memory=)"
    )


class _Worker:
    """The worker process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._environment: dict[str, str] = {}

    def ask(self, name: str, source: str, reading: Reading) -> dict[str, Any]:
        """Sends a request and waits for the result. An interrupt ends the process.

        Raises:
          LimitPassed: the file passed a limit, or the process crashed.
        """
        with self._lock, _directory() as folder:
            self._start()
            request = {
                "path": os.path.abspath(name),
                "folder": str(folder),
                "source": source,
                "seconds": reading.limit_seconds,
                "memory": reading.limit_memory,
                "reproducer": None if reading.reproducer is None else os.path.abspath(reading.reproducer),
                "question": reading.question,
            }
            try:
                assert self._process is not None and self._process.stdin is not None
                with contextlib.suppress(OSError):  # it has just ended, which waiting finds
                    self._process.stdin.write(json.dumps(request).encode() + b"\n")
                    self._process.stdin.flush()
                self._wait(folder, name, reading)
                answer: dict[str, Any] = json.loads((folder / "result").read_bytes())
                return answer
            except BaseException:
                self.close()
                raise

    def _wait(self, folder: Path, name: str, reading: Reading) -> None:
        assert self._process is not None
        begun, results = folder / "begun", folder / "result"
        started = now = time.monotonic()
        limit, is_begun = _START_SECONDS, False
        while not results.exists():
            if self._process.poll() is not None:
                if results.exists():
                    return
                raise LimitPassed(self._crash(name, reading))
            now = time.monotonic()
            if not is_begun and begun.exists():
                started, limit, is_begun = now, reading.limit_seconds, True
            if now - started > limit:
                if not is_begun:
                    raise LimitPassed(f"the process that reads {os.path.basename(name)} did not start")
                raise LimitPassed(
                    f"{os.path.basename(name)} takes longer than {limit:g} s, the limit: raise it with "
                    "--limit-seconds (in Python limit_seconds=)"
                )
            if is_begun and _resident(self._process.pid) > reading.limit_memory:
                raise LimitPassed(_memory_message(name, reading))
            time.sleep(_POLL_SECONDS)

    def _crash(self, name: str, reading: Reading) -> str:
        assert self._process is not None and self._log is not None
        self._log.seek(0)
        log = self._log.read().decode("utf-8", "replace")
        if "bad_alloc" in log or "MemoryError" in log or "ut of memory" in log:
            return _memory_message(name, reading)
        status = self._process.returncode
        how = signal.Signals(-status).name if status < 0 else f"status {status}"
        return (
            f"{os.path.basename(name)} cannot be read: XLA crashed on it, in a process of its own ({how}). "
            "Its text may be nested too deeply, or not valid"
        )

    def _start(self) -> None:
        """Starts the process, unless one with the same environment is there."""
        environment = _environment()
        if self._process is not None and self._process.poll() is None and environment == self._environment:
            return
        self.close()
        self._environment = environment
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - close() closes it
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "lazynb.report.inspection.program_worker"],
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            env=environment,
            cwd=Path(sys.executable).parent,
            start_new_session=True,  # Ctrl-C in the terminal goes to the user's process only
        )

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdin is not None:
                with contextlib.suppress(OSError):
                    self._process.stdin.close()
        if self._log is not None:
            self._log.close()
        self._process = self._log = None


def _environment() -> dict[str, str]:
    """The environment of the worker: JAX's devices are those of this process."""
    own = {
        "PYTHONPATH": os.pathsep.join([os.path.abspath(path) for path in sys.path if path]),
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # this process may hold the memory of the GPU
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
    if platforms := jax.config.jax_platforms:
        own["JAX_PLATFORMS"] = platforms
    if (devices := getattr(jax.config, "jax_num_cpu_devices", -1)) > 0:
        own["JAX_NUM_CPU_DEVICES"] = str(devices)
    return {**os.environ, **own}


@contextlib.contextmanager
def _directory() -> Iterator[Path]:
    """A folder for the result and XLA's dump, which is removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="lazynb-", dir=quickest_folder()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _resident(process: int) -> int:
    """The bytes in memory of a process; 0 where the system does not tell."""
    try:
        with open(f"/proc/{process}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


_worker = _Worker()
atexit.register(_worker.close)
