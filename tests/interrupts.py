"""Interrupts at chosen places in lazynb: signals that CPython handles where it looks for them, as it does a
user's Ctrl-C."""

from collections.abc import Callable, Iterator

from endurance.interrupts import Aim, Interrupter

import lazynb


def interrupted(work: Callable[[], object], at: int, within: str = "") -> bool:
    """Runs ``work`` with a signal before instruction number ``at`` of those in files of lazynb's whose name
    ends with ``within``.

    Returns whether so many instructions were run.
    """
    with Interrupter(lazynb.__file__).armed(Aim(within, count=at)) as shot:
        try:
            work()
            for _ in range(2):  # CPython handles a signal of the last instruction here at the latest
                pass
        except KeyboardInterrupt:
            pass
    return shot.fired is not None


def everywhere(
    prepare: Callable[[], Callable[[], object]], within: str = "", step: int = 1, first: int = 1
) -> Iterator[int]:
    """Interrupts what ``prepare`` gives at instruction ``first``, ``first + step``, ... until it runs to its
    end.

    Gives each of them.
    """
    at = first
    while interrupted(prepare(), at, within):
        yield at
        at += step
    assert at > first, f"nothing of {within!r} ran"
