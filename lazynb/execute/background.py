"""Work in another thread, for which Python waits in a way that lets an interrupt through at once."""

from __future__ import annotations

import concurrent.futures
import os
import queue
import threading
from collections.abc import Callable
from typing import Any

from lazynb.execute.leaving import leaving


def in_background(work: Callable[[], Any]) -> concurrent.futures.Future[Any]:
    """Runs ``work`` in a thread that does not keep the process alive."""
    future: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="lazynb", daemon=True).start()
    return future


class Worker:
    """A thread that is kept for work which comes often: it takes a part of the time to start one."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[tuple[Callable[[], Any], concurrent.futures.Future[Any]] | None]
        self._waiting = queue.SimpleQueue()
        threading.Thread(target=self._run, name="lazynb", daemon=True).start()

    def do(self, work: Callable[[], Any]) -> concurrent.futures.Future[Any]:
        """Does ``work`` after the work that was given before."""
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self._waiting.put((work, future))
        return future

    def end(self) -> None:
        """Ends the thread after its work."""
        self._waiting.put(None)

    def _run(self) -> None:
        while (given := self._waiting.get()) is not None:
            work, future = given
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)
            del given, work, future  # nothing that it worked on is kept while it waits


_idle: list[Worker] = []
os.register_at_fork(after_in_child=_idle.clear)


def wait_apart(work: Callable[[], Any]) -> Any:
    """The result of ``work``, which does nothing but wait for XLA. A thread that waited before does it: to
    start one while XLA computes took 30 ms of a step of 730 ms (eight virtual devices on two cores)."""
    try:
        worker = _idle.pop()
    except IndexError:
        worker = Worker()
    future = worker.do(work)
    future.add_done_callback(lambda _: _idle.append(worker))  # after an interrupt too, once it has waited
    return wait(future)


def wait(future: concurrent.futures.Future[Any]) -> Any:
    """The future's result. After an interrupt the work continues, and its result is dropped: what was
    interrupted is the user's line, and not the locks of the standard library that it waits for."""
    try:
        return future.result()
    except KeyboardInterrupt as interrupt:
        if future.done() and future.exception() is interrupt:  # it is the work's own
            raise
        leaving.abandoned(future)
        raise interrupt.with_traceback(None) from None
