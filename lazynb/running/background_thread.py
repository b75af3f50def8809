"""Background threads for XLA's work, interruptible waits, and process exit with unfinished work."""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from lazynb.jax_compat import fork_locks

# ---- Process exit with unfinished work ------------------------------------------------------------------
# When the interpreter ends, it ends its other threads as they return from C++, through frames that do not
# allow it: the process aborts ("terminate called"), or waits forever for a lock that such a thread held.

WAITING = "lazynb: XLA still runs the interrupted work; the process exits after it, or at Ctrl-C"


class ProcessExit:
    """The work that was interrupted and has not ended, and the exit of a process with such work.

    Attributes:
      status: the exit status, if a command knows it before Python does.
    """

    def __init__(self) -> None:
        self.status: int | None = None
        self._undone: set[concurrent.futures.Future[Any]] = set()
        atexit.register(self._at_exit)
        fork_locks.after_fork(self._undone.clear)

    def add_unfinished(self, future: concurrent.futures.Future[Any]) -> None:
        """Notes that an interrupt ended the wait for ``future``, whose work goes on."""
        self._undone.add(future)
        future.add_done_callback(self._undone.discard)

    def _at_exit(self) -> None:
        """Runs after the exit handlers that the program registered later than the import of lazynb."""
        if not self._undone or hasattr(sys, "ps1"):  # an interactive Python writes its history
            return
        if self.status is not None:
            _flush()
            os._exit(self.status)
        if isinstance(getattr(sys, "last_value", None), KeyboardInterrupt):
            _interrupted()
        print(WAITING, file=sys.stderr, flush=True)
        try:
            concurrent.futures.wait(list(self._undone))
        except KeyboardInterrupt:
            _interrupted()


def _interrupted() -> NoReturn:
    """Ends the process as Python does after an uncaught KeyboardInterrupt."""
    _flush()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.raise_signal(signal.SIGINT)
    os._exit(128 + signal.SIGINT)  # if the signal is blocked


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):  # no stream, or a closed one
            pass


process_exit = ProcessExit()


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
    """A thread for frequent work, kept because starting a thread takes long."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[tuple[Callable[[], Any], concurrent.futures.Future[Any]] | None]
        self._waiting = queue.SimpleQueue()
        threading.Thread(target=self._run, name="lazynb", daemon=True).start()

    def do(self, work: Callable[[], Any]) -> concurrent.futures.Future[Any]:
        """Runs ``work`` after all earlier work."""
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
            del given, work, future  # an idle thread must keep nothing alive


_idle: list[Worker] = []
fork_locks.after_fork(_idle.clear)


def wait_in_worker(work: Callable[[], Any]) -> Any:
    """Runs ``work``, which only waits for XLA, in a thread that is kept, and returns its result. Starting a
    thread while XLA computed took 30 ms of a step of 730 ms (eight virtual devices on two cores)."""
    try:
        worker = _idle.pop()
    except IndexError:
        worker = Worker()
    future = worker.do(work)
    future.add_done_callback(lambda _: _idle.append(worker))  # also when an interrupt ended the wait
    return wait(future)


def wait(future: concurrent.futures.Future[Any]) -> Any:
    """Waits for the result of a future.

    After an interrupt the work continues and its result is dropped. The interrupt ends the user's line, and
    not the locks of the standard library for which the line waits. An interrupt is any error that the work
    itself did not raise: Ctrl-C, or an error that a signal handler raises.
    """
    try:
        return future.result()
    except BaseException as error:
        if future.done() and future.exception() is error:
            raise
        process_exit.add_unfinished(future)
        if isinstance(error, KeyboardInterrupt):
            raise error.with_traceback(None) from None
        with contextlib.suppress(AttributeError):  # an error without attributes
            setattr(error, _INTERRUPTS, True)
        raise


_INTERRUPTS = "_lazynb_interrupts"


def is_interrupt(error: BaseException) -> bool:
    """Whether ``error`` is an interrupt of XLA or JAX and not an error of the program: Ctrl-C, an error that
    ended a wait, or an error raised by a signal handler."""
    return isinstance(error, KeyboardInterrupt) or hasattr(error, _INTERRUPTS) or _is_of_a_handler(error)


def _is_of_a_handler(error: BaseException) -> bool:
    handlers = map(signal.getsignal, signal.valid_signals())
    codes = {getattr(getattr(one, "__func__", one), "__code__", None) for one in handlers} - {None}
    return any(frame.f_code in codes for frame, _ in traceback.walk_tb(error.__traceback__))
