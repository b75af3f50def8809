"""A cell that runs on all ranks, from its start to its end."""

from __future__ import annotations

import contextlib
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from lazynb.notebook.cluster.engines import Engines
from lazynb.notebook.cluster.failures import Failure, RanksError, RanksInterrupted
from lazynb.notebook.cluster.outputs import Outputs, Screen

_LOOK = 0.1  # seconds between two looks at whether the processes are there
_END = "end"  # of a rank's outputs
_ANSWER = 10.0  # seconds in which a process answers an interrupt


class _Message(NamedTuple):
    rank: int
    kind: str
    content: dict[str, Any]


@contextlib.contextmanager
def _interrupts_raise() -> Iterator[None]:
    """An interrupt raises KeyboardInterrupt. While a cell with ``await`` runs, ipykernel has it end a task of
    its event loop, which waits here."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class Following:
    """One run of a cell.

    Arguments:
      engines: the processes.
      identities: what ipyparallel addresses each by.
      screen: where outputs are shown.
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
        """Runs the cell ``text`` and returns when all ranks have.

        Raises:
          RanksError: it raised on some.
          RanksInterrupted: it was interrupted.
        """
        __tracebackhide__ = True
        interrupted = False
        self._replies = [self._send(rank, text) for rank in range(len(self._identities))]
        with _interrupts_raise():
            try:
                self._follow(lambda: False)
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
        """Starts the cell on a rank; the future of its reply.

        A view's ``execute`` cannot be told of outputs before some may have come, so this is the call that it
        makes itself. Only cells that are not silent are cells to IPython, and lazy.
        """
        view = self._engines.client[self._engines.ids[rank]]

        def listen(future: Any) -> None:
            future.iopub_callbacks.append(lambda message: self._heard(rank, message))
            # The callbacks are not told that the rank is idle if its reply came first: ipyparallel has
            # forgotten the future by then. The future of the outputs is done by that message.
            future.output.add_done_callback(lambda _: self._messages.put(_Message(rank, _END, {})))

        return self._engines.client.send_execute_request(
            view._socket,
            text,
            silent=False,
            ident=self._identities[rank].encode(),
            message_future_hook=listen,
        )

    def _heard(self, rank: int, message: dict[str, Any]) -> None:
        """A message has come. Called in ipyparallel's thread."""
        self._messages.put(_Message(rank, message["header"]["msg_type"], message["content"]))

    def _follow(self, is_enough: Callable[[], bool]) -> None:
        """Shows what comes, until no rank runs the cell any more."""
        while self._running and not is_enough():
            try:
                rank, kind, content = self._messages.get(timeout=_LOOK)
            except queue.Empty:
                self._look()
                continue
            if kind == _END:
                self._ended(rank)
            elif kind == "error":
                self._failures[rank] = Failure(content["ename"], content["evalue"], content["traceback"])
            else:
                self._outputs.take(rank, kind, content)

    def _ended(self, rank: int) -> None:
        """A rank runs the cell no more. ipyparallel says so of one that is gone, too."""
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
                rank, "NotRun", "the cell before raised only when this one was waiting: run this again"
            )
        elif isinstance(answer, Exception) and rank not in self._failures:
            self._fail(rank, type(answer).__name__, str(answer))

    def _fail(self, rank: int, name: str, text: str) -> None:
        self._failures[rank] = Failure(name, text, [f"{name}: {text}"])

    def _is_gone(self, rank: int) -> bool:
        return self._engines.ids[rank] not in self._engines.client.ids

    def _look(self) -> None:
        """Notes the processes that are gone. Of those nothing more comes."""
        for rank in filter(self._is_gone, sorted(self._running)):
            self._ended(rank)

    def _interrupt(self) -> None:
        """Interrupts the ranks that run the cell, and waits for them. Another interrupt ends the wait."""
        end = time.monotonic() + _ANSWER
        try:
            still = [self._engines.ids[rank] for rank in sorted(self._running)]
            self._engines.client.send_signal("SIGINT", targets=still, block=False)
            self._follow(lambda: time.monotonic() > end)
        except KeyboardInterrupt:
            pass
