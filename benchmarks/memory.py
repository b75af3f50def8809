"""By how much a run raises a process's peak memory."""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from typing import Any

from benchmarks.case import Case, values
from benchmarks.rows import Row


def growth(row: Row, how: Any) -> tuple[int, list[float]]:
    """Bytes between what a fresh process has before it makes the row's arrays and its peak; and what the row
    computes."""
    before = resident()
    case = Case(row, how)
    with how.ambient():
        _, state = case.run(case.take())
    return peak() - before, values(how.leaves(state))


def peak() -> int:
    """The most bytes of memory that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def resident() -> int:
    """The bytes of memory that this process has now; its peak so far where the system does not say."""
    pages = Path("/proc/self/statm")
    return int(pages.read_text().split()[1]) * resource.getpagesize() if pages.exists() else peak()
