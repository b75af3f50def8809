"""Interrupts at chosen places: a KeyboardInterrupt at the n-th line that Python begins in some files, as a signal might give."""

import sys
from collections.abc import Callable, Iterator


def interrupted(work: Callable[[], object], at: int, within: tuple[str, ...]) -> bool:
    """Runs ``work`` with a KeyboardInterrupt at the line ``at`` of those begun in files with one of ``within`` in their path.

    Returns whether it came.
    """
    left, came = at, False

    def lines(frame, event, argument):
        nonlocal left, came
        if event == "line":
            left -= 1
            if left == 0:
                came = True
                raise KeyboardInterrupt
        return lines

    def calls(frame, event, argument):
        return lines if any(part in frame.f_code.co_filename for part in within) else None

    before = sys.gettrace()
    sys.settrace(calls)
    try:
        work()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return came


def everywhere(prepare: Callable[[], Callable[[], object]], within: tuple[str, ...], step: int = 1,
               first: int = 1) -> Iterator[int]:
    """Interrupts what ``prepare`` gives at line ``first``, ``first + step``, ... until it runs to its end; gives each place."""
    at = first
    while interrupted(prepare(), at, within):
        yield at
        at += step
