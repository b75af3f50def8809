"""Work that is handed to other threads, and the user's line that does so.

In a thread that runs ``float`` of a pending value no line of the user's runs. The break is placed at the line
that handed the work over: the one that started the thread, or gave the work to a pool.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from typing import Any

from lazynb.record.blocks import patches
from lazynb.source import STARTED, Spot, handed, here


class Work:
    """A function that a pool is to call, and the line that handed it over."""

    def __init__(self, function: Callable[..., Any], spot: Spot):
        self.function = function
        self.spot = spot

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        before, handed.spot = handed.spot, self.spot
        try:
            return self.function(*args, **kwargs)
        finally:
            handed.spot = before


def substitutes() -> list[tuple[Any, dict[str, Any]]]:
    """The substitutes for the methods that hand work to threads, while some thread is lazy."""
    of_pool = {name: _handing(getattr(ThreadPool, name)) for name in _OF_POOL}
    return [
        (threading.Thread, {"start": _starting(threading.Thread.start)}),
        (ThreadPoolExecutor, {"submit": _handing(ThreadPoolExecutor.submit)}),
        (ThreadPool, of_pool),
    ]


_OF_POOL = ("apply_async", "_map_async", "imap", "imap_unordered")


def _handing(plain: Callable[..., Any]) -> Callable[..., Any]:
    """The method ``plain`` of a pool, whose first argument is the function."""

    @functools.wraps(plain)
    def hand(pool: Any, /, *args: Any, **kwargs: Any) -> Any:
        if args and callable(args[0]) and not patches.rest.on:
            args = (Work(args[0], _without_library(here(2))), *args[1:])
        return plain(pool, *args, **kwargs)

    return hand


def _starting(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def start(thread: threading.Thread) -> None:
        if not patches.rest.on:
            spot = here(2)
            if spot.library is None:  # what a library's own thread will do is not told by who started it
                setattr(thread, STARTED, spot)
        plain(thread)

    return start


def _without_library(spot: Spot) -> Spot:
    return spot._replace(library=None)
