"""How long something takes, whatever else the machine and this process are doing."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any


def cpu_seconds(work: Callable[[], Any], runs: int = 3) -> float:
    """The least CPU time of several runs: other tests take the clock on the wall, and their garbage takes the
    collector."""
    found = []
    gc.disable()
    try:
        for _ in range(runs):
            start = time.process_time()
            work()
            found.append(time.process_time() - start)
    finally:
        gc.enable()
    return min(found)
