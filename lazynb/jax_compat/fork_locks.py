"""Locks that are free after a fork.

A forked process has only the thread that forked. A lock that another thread held stays locked there for ever,
and what it protects is as that thread left it: an interrupt may leave it so too, so all code allows for that.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def lock() -> threading.Lock:
    """Returns a lock that is free in a forked process."""
    return _known(threading.Lock())


def reentrant_lock() -> Any:
    """Returns a reentrant lock that is free in a forked process, unless the forking thread holds it."""
    return _known(threading.RLock())


def _known(made: Any) -> Any:
    _locks.add(made)
    return made


def _free() -> None:
    for each in list(_locks):
        owned = getattr(each, "_is_owned", None)
        if owned is None or not owned():
            each._at_fork_reinit()  # as ``threading`` and ``logging`` do with their locks


def after_fork(work: Callable[[], object]) -> None:
    """Lets ``work`` be called in each forked process."""
    if hasattr(os, "register_at_fork"):  # not on Windows
        os.register_at_fork(after_in_child=work)


after_fork(_free)
