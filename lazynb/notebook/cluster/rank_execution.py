"""Runs one cell on all ranks: sends it, shows its outputs, and raises its errors and interrupts."""

from __future__ import annotations

import contextlib
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from lazynb.errors import HostMissingError, HostsDifferError, LazynbError
from lazynb.notebook.cluster.cluster_engines import Engines
from lazynb.notebook.cluster.rank_differences import ranks_named, without_process_details
from lazynb.notebook.cluster.rank_outputs import Outputs, Screen

# ---- Errors of a cell on several ranks ---------------------------------------------------------------------
# Each error is shown once, with the ranks that raised it.

_BY_KIND = (HostMissingError.__name__, HostsDifferError.__name__)
"""Errors that are grouped by name alone, because their text names the host."""


class Failure(NamedTuple):
    """An error in a process.

    Attributes:
      name: name of the exception class.
      text: message of the exception.
      traceback: lines of the traceback that the process formatted.
    """

    name: str
    text: str
    traceback: Sequence[str]


class RanksError(LazynbError):
    """A cell raised errors on ranks of the cluster. Displays the tracebacks of the ranks.

    Attributes:
      failures: by rank, its :class:`Failure`; ranks without an error are absent.
      count: number of ranks.
    """

    def __init__(self, failures: Mapping[int, Failure], count: int):
        self.failures, self.count = dict(failures), count
        super().__init__("; ".join(map(self._line, _groups(failures))))

    def _line(self, ranks: tuple[int, ...]) -> str:
        one = self.failures[ranks[0]]
        return f"{one.name} on {_named(ranks, self.count)}: {one.text}"

    def _render_traceback_(self) -> list[str]:
        return rendered(self.failures, self.count)


class RanksInterrupted(KeyboardInterrupt):
    """The cell was interrupted on the ranks of the cluster.

    Attributes:
      failures, count: as in :class:`RanksError`.
      silent: ranks that did not react to the interrupt.
    """

    def __init__(self, failures: Mapping[int, Failure], count: int, silent: Sequence[int] = ()):
        self.failures, self.count = dict(failures), count
        self.silent = tuple(silent)
        super().__init__(_unanswered(silent))

    def _render_traceback_(self) -> list[str]:
        lines = rendered(self.failures, self.count)
        return [*lines, *([_unanswered(self.silent)] if self.silent else [])]


def _unanswered(ranks: Sequence[int]) -> str:
    if not ranks:
        return "interrupted on all ranks"
    verb = "does" if len(ranks) == 1 else "do"
    return (
        f"{ranks_named(ranks)} {verb} not answer an interrupt and may still run the cell; "
        "%lazy cluster off ends all processes"
    )


def rendered(failures: Mapping[int, Failure], count: int) -> list[str]:
    """Lines of a traceback: each error once, with its ranks. Errors caused by other errors come last."""
    parts = []
    for number, ranks in enumerate(_groups(failures)):
        one = failures[ranks[0]]
        if number == 0:
            parts += [f"On {_named(ranks, count)}:", *one.traceback]
        else:
            parts.append(f"On {_named(ranks, count)}: {one.name}: {one.text}")
    return parts


def _named(ranks: Sequence[int], count: int) -> str:
    return f"all {count} ranks" if len(ranks) == count > 1 else f"{ranks_named(ranks)} of {count}"


def _groups(failures: Mapping[int, Failure]) -> list[tuple[int, ...]]:
    """Groups of ranks with the same error. Errors because of a missing rank come last."""
    groups: dict[Any, list[int]] = {}
    for rank, one in sorted(failures.items()):
        text = "" if one.name in _BY_KIND else without_process_details(one.text)
        groups.setdefault((one.name, text), []).append(rank)
    order = sorted(groups, key=lambda key: (_error_order(key[0]), groups[key]))
    return [tuple(groups[key]) for key in order]


def _error_order(name: str) -> int:
    return {HostMissingError.__name__: 1, "KeyboardInterrupt": 2}.get(name, 0)


_CHECK_INTERVAL = 0.1  # seconds between two checks that the processes exist
_END = "end"  # pseudo message: end of a rank's outputs
_ANSWER = 10.0  # seconds to wait for a process, such as after an interrupt


class _Message(NamedTuple):
    rank: int
    kind: str
    content: dict[str, Any]


@contextlib.contextmanager
def _interrupts_raise() -> Iterator[None]:
    """Inside the block, SIGINT raises KeyboardInterrupt. For a cell with ``await``, ipykernel's SIGINT
    handler cancels a task of its event loop instead, which this thread blocks."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class ClusterCellRun:
    """One run of a cell on all ranks.

    Arguments:
      engines: the processes.
      identities: by rank, the ZeroMQ identity by which ipyparallel addresses the engine.
      screen: shows the outputs.
    """

    def __init__(self, engines: Engines, identities: Sequence[str], screen: Screen):
        self._engines = engines
        self._identities = identities
        self._outputs = Outputs(len(identities), screen)
        self._messages: queue.SimpleQueue[_Message] = queue.SimpleQueue()
        self._failures: dict[int, Failure] = {}
        self._replies: list[Any] = []
        self._running: set[int] = set(range(len(identities)))

    def run(self, text: str) -> None:
        """Runs the cell ``text`` and returns when all ranks have finished.

        Raises:
          RanksError: the cell raised on some ranks.
          RanksInterrupted: the cell was interrupted.
        """
        __tracebackhide__ = True
        interrupted = False
        self._replies = [self._send(rank, text) for rank in range(len(self._identities))]
        with _interrupts_raise():
            try:
                self._show_until_done(lambda: False)
            except KeyboardInterrupt:
                interrupted = True
                self._interrupt()
        silent = sorted(self._running)
        self._outputs.close()
        if interrupted:
            raise RanksInterrupted(self._failures, len(self._identities), silent)
        if self._failures:
            raise RanksError(self._failures, len(self._identities))

    def _send(self, rank: int, text: str) -> Any:
        """Starts the cell on a rank and returns the future of its reply.

        The view's ``execute`` accepts output callbacks only after outputs may have arrived, so this makes the
        underlying call. IPython fires cell events, which make the cell lazy, only with ``silent=False``.
        """
        view = self._engines.client[self._engines.ids[rank]]

        def listen(future: Any) -> None:
            future.iopub_callbacks.append(lambda message: self._on_message(rank, message))
            # If the reply arrives before the idle message, ipyparallel has dropped the future and does not
            # call the callbacks for idle. The idle message also completes ``future.output``.
            future.output.add_done_callback(lambda _: self._messages.put(_Message(rank, _END, {})))

        return self._engines.client.send_execute_request(
            view._socket,
            text,
            silent=False,
            ident=self._identities[rank].encode(),
            message_future_hook=listen,
        )

    def _on_message(self, rank: int, message: dict[str, Any]) -> None:
        """Queues a message. Called in ipyparallel's thread."""
        self._messages.put(_Message(rank, message["header"]["msg_type"], message["content"]))

    def _show_until_done(self, is_enough: Callable[[], bool]) -> None:
        """Shows messages until no rank runs the cell any more or ``is_enough`` returns true."""
        while self._running and not is_enough():
            try:
                rank, kind, content = self._messages.get(timeout=_CHECK_INTERVAL)
            except queue.Empty:
                self._check_processes()
                continue
            if kind == _END:
                self._ended(rank)
            elif kind == "error":
                self._failures[rank] = Failure(content["ename"], content["evalue"], content["traceback"])
            else:
                self._outputs.take(rank, kind, content)

    def _ended(self, rank: int) -> None:
        """Records that a rank finished the cell. ipyparallel also reports the end for a process that died."""
        if rank not in self._running:
            return
        self._running.discard(rank)
        self._outputs.ended(rank)
        if self._is_gone(rank):
            self._fail(rank, "ProcessEnded", "the process has ended while it ran the cell")
        elif not self._replies[rank].wait(_ANSWER):
            self._fail(rank, "NoAnswer", "the process does not say how the cell ended")
        elif type(answer := self._replies[rank].result()).__name__ == "TaskAborted":
            self._fail(
                rank, "NotRun", "the previous cell raised while this one was queued: run this one again"
            )
        elif isinstance(answer, Exception) and rank not in self._failures:
            self._fail(rank, type(answer).__name__, str(answer))

    def _fail(self, rank: int, name: str, text: str) -> None:
        self._failures[rank] = Failure(name, text, [f"{name}: {text}"])

    def _is_gone(self, rank: int) -> bool:
        return self._engines.ids[rank] not in self._engines.client.ids

    def _check_processes(self) -> None:
        for rank in filter(self._is_gone, sorted(self._running)):
            self._ended(rank)

    def _interrupt(self) -> None:
        """Interrupts the ranks that run the cell, and waits for them. Another interrupt ends the wait."""
        end = time.monotonic() + _ANSWER
        try:
            still = [self._engines.ids[rank] for rank in sorted(self._running)]
            self._engines.client.send_signal("SIGINT", targets=still, block=False)
            self._show_until_done(lambda: time.monotonic() > end)
        except KeyboardInterrupt:
            pass
