"""The compiler process as seen from the user's process: started by the first request, kept for later ones,
and killed by an interrupt."""

from __future__ import annotations

import atexit
import dataclasses
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from lazynb.errors import LazynbError
from lazynb.jax_compat import Figures, SerializedLowering
from lazynb.xla.targets.compiler_packages import Compiler, compiler_of

if TYPE_CHECKING:
    from multiprocessing.connection import Connection, Listener

# ---- Requests and results ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class CompileRequest:
    """A request to compile a program.

    Attributes:
      topology: JAX's name of the devices: ``v5e:4x4``; for GPUs ``1x1x8``: slices, hosts, devices per host.
      platform: ``tpu`` or ``cuda``.
      configuration: XLA's description of a GPU; empty for a TPU.
      is_single: whether the target is one chip; otherwise a TPU host has four.
      mesh: sizes of the axes of the program's mesh; empty for one device.
      lowering: the program.
      options: of the compiler.
    """

    topology: str
    platform: str
    configuration: str
    is_single: bool
    mesh: tuple[int, ...]
    lowering: SerializedLowering
    options: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class CompileResult:
    """A compiled program.

    Attributes:
      text: optimised HLO.
      memory: XLA's memory analysis by XLA's names, in bytes per device.
      cost: XLA's cost analysis by XLA's names; None if the compiler gives none.
      seconds: of the compilation alone.
    """

    text: str
    memory: dict[str, int]
    cost: dict[str, float] | None
    seconds: float


@dataclasses.dataclass(frozen=True)
class CostRequest:
    """A request for cost analysis. XLA's analysis of another chip's HLO may crash the process.

    Attributes:
      texts: HLO modules.
    """

    texts: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class CostResult:
    """The cost analysis of modules.

    Attributes:
      figures: of each module, by XLA's names; None if there is no analysis; a sentence if it cannot be read.
    """

    figures: tuple[dict[str, float] | str | None, ...]


@dataclasses.dataclass(frozen=True)
class CompileFailure:
    """The compiler raised an error.

    Attributes:
      kind: the class of the error.
      message: its text.
      at: ``topology``, ``mesh`` or ``compile``.
    """

    kind: str
    message: str
    at: str


_POLL_SECONDS = 0.1  # seconds between checks that the process lives; an interrupt is handled between two
_START_SECONDS = 120.0  # seconds allowed for importing JAX


class CompilerCrashed(LazynbError):
    """The compiler process ended. The message quotes its last error; the user's state is intact."""


class CompilerProcess:
    """The process of one compiler."""

    def __init__(self, compiler: Compiler):
        self._compiler = compiler
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._connection: Connection | None = None
        self._log: IO[bytes] | None = None
        self._log_position = 0  # size of the log at the start of the request

    def ask(self, question: CompileRequest) -> CompileResult | CompileFailure:
        """Compiles a program in the process. Raises like :meth:`_request`."""
        answer = self._request(question)
        assert isinstance(answer, (CompileResult, CompileFailure))
        return answer

    def costs(self, texts: Sequence[str]) -> list[Figures]:
        """XLA's cost analysis of HLO modules. A module that crashes the process gets a sentence in place of
        figures. Otherwise raises like :meth:`_request`."""
        if not texts:
            return []
        try:
            answer = self._request(CostRequest(tuple(texts)))
        except CompilerCrashed:
            half = len(texts) // 2
            if half == 0:
                return ["its analysis crashed the compiler process"]
            return self.costs(texts[:half]) + self.costs(texts[half:])
        assert isinstance(answer, CostResult)
        return list(answer.figures)

    def _request(self, question: CompileRequest | CostRequest) -> object:
        """Sends a request and waits for the result. An interrupt kills the process; the next request restarts
        it.

        Raises:
          CompilerMissing: it is not installed.
          CompilerCrashed: the process ended.
        """
        with self._lock, self._close_on_failure():
            connection = self._open_connection()
            self._log_position = self._log.seek(0, os.SEEK_END) if self._log is not None else 0
            connection.send(question)
            while not connection.poll(_POLL_SECONDS):
                self._check()
            answer: object = connection.recv()
            return answer

    @contextmanager
    def _close_on_failure(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, OSError):
            how = self._exit_description()
            self.close()
            raise CompilerCrashed(
                f"The compiler for {self._compiler.name.upper()}s ended while it compiled{how}. The next "
                "time another process is started."
            ) from None
        except BaseException:
            self.close()
            raise

    def _check(self) -> None:
        if self._process is not None and self._process.poll() is not None:
            raise EOFError

    def _open_connection(self) -> Connection:
        if self._connection is None or self._process is None or self._process.poll() is not None:
            self.close()
            self._start()
        assert self._connection is not None
        return self._connection

    def _start(self) -> None:
        from multiprocessing.connection import Listener  # imported only to compile for another chip

        directory = self._compiler.require()
        key = secrets.token_bytes(32)
        with Listener(authkey=key) as listener:
            self._log = tempfile.TemporaryFile()  # noqa: SIM115 - close() closes it
            self._process = subprocess.Popen(
                [sys.executable, "-m", "lazynb.xla.targets.compiler_worker", str(listener.address)],
                stdin=subprocess.PIPE,
                stdout=self._log,
                stderr=self._log,
                env=_environment(directory),
                text=True,
                start_new_session=True,  # Ctrl-C in the terminal goes to the user's process only
            )
            assert self._process.stdin is not None
            self._process.stdin.write(key.hex() + "\n")
            self._process.stdin.flush()
            self._connection = _accept_connection(listener, self._check)

    def _exit_description(self) -> str:
        """How the process ended, with its last error."""
        status = None
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                status = self._process.wait(_POLL_SECONDS)
        if status == -signal.SIGKILL:  # it left no message
            return ": it was killed, perhaps by the system for lack of memory"
        how = "" if status is None or status >= 0 else f" ({signal.Signals(-status).name})"
        words = last_error(self._log_since_request())
        return f"{how}: {words}" if words else how

    def _log_since_request(self) -> str:
        """The log since the start of the request."""
        if self._log is None:
            return ""
        self._log.seek(self._log_position)
        return self._log.read().decode("utf-8", "replace")

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._log is not None:
            self._log.close()
        self._connection = self._process = self._log = None


# Errors in the logs of Google's library, Python and LLVM; other lines are information or stack traces.
_ERROR = re.compile(r"^(?:F\d{4} [\d:.]+ +\d+ (?:\S+\] )?|(?=[\w.]*(?:Error|Exception|ERROR): ))(.*)")


def last_error(text: str) -> str:
    """The last error in the compiler's log; empty if there is none."""
    found = [match[1] for line in text.splitlines() if (match := _ERROR.match(line.strip()))]
    return found[-1].strip() if found else ""


def _environment(directory: Path) -> dict[str, str]:
    """The environment of the compiler process: it can import the compiler, and looks for no cloud or
    device."""
    own = {
        "PYTHONPATH": os.pathsep.join([str(directory), *filter(None, sys.path)]),
        "JAX_PLATFORMS": "cpu",
        "TPU_SKIP_MDS_QUERY": "1",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # no chip is used, so processes may compile in parallel
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
    return {**os.environ, **own}


def _accept_connection(listener: Listener, check: Any) -> Connection:
    """Accepts the connection, in a thread, because ``accept`` is not interruptible on every platform."""
    got: list[Connection] = []
    waiting = threading.Thread(target=lambda: got.append(listener.accept()), daemon=True)
    waiting.start()
    waited = 0.0
    while not got:
        waiting.join(_POLL_SECONDS)
        waited += _POLL_SECONDS
        check()
        if waited > _START_SECONDS:
            raise EOFError
    return got[0]


_workers: dict[str, CompilerProcess] = {}


def compiler_process(platform: str) -> CompilerProcess:
    """The process that compiles for a platform."""
    if platform not in _workers:
        _workers[platform] = CompilerProcess(compiler_of(platform))
    return _workers[platform]


@atexit.register
def _close_all() -> None:
    for worker in _workers.values():
        worker.close()
