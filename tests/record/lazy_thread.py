"""A thread beside this one that is in a lazy block."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import lazynb


@contextlib.contextmanager
def lazy_thread(ask: Callable[[], Any]) -> Iterator[Callable[[], Any]]:
    """In its body another thread is in a lazy block. What is given lets that thread go on: it calls ``ask`` in
    its block, whose answer is returned when it has left."""
    inside, leave = threading.Event(), threading.Event()

    def work() -> Any:
        with lazynb.lazy():
            inside.set()
            leave.wait(10)
            return ask()

    def ended() -> Any:
        leave.set()
        return future.result()

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        inside.wait(10)
        yield ended
