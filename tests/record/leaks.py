"""Looks for references that remembered calls do not give back: ``python tests/record/leaks.py``.

A line for each kind of call says what one repetition leaves behind. The exit status is 1 if one leaks.
CONTRIBUTING.md says how it is run with a debug build of Python, whose assertions find other errors too.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from typing import Any

os.environ.setdefault("LAZYNB_PERSISTENT_CACHE", "0")

import jax  # noqa: E402
from call_kinds import KINDS  # noqa: E402
from random_calls import FAST, PURE  # noqa: E402
from references import LEAST as LEAST, Growth, growth  # noqa: E402

import lazynb  # noqa: E402
from lazynb.recording.replay import native_replay  # noqa: E402
from lazynb.running.break_log import break_log  # noqa: E402
from lazynb.running.miss_log import (
    jax_compile_log as events,  # noqa: E402
    miss_log as misses,  # noqa: E402
)
from lazynb.running.step_log import log as steps  # noqa: E402


def left_behind(kinds: Iterable[str], calls: dict[str, Any], times: int) -> Growth:
    """What the programs of ``kinds`` leave behind with ``calls``, when all that they do was done before."""
    programs = [KINDS[name] for name in kinds]

    def forgotten() -> None:
        for program in programs:
            with lazynb.lazy():
                program(calls)

    for _ in range(3):
        for program in programs:
            with lazynb.lazy():
                jax.block_until_ready(program(calls))  # the paths of what has run stay in the trie
    for _ in range(30):
        forgotten()
    return growth(forgotten, times, _settle)


def _settle() -> None:
    """Forgets what was noted of runs, but not what was recorded."""
    lazynb.sync()
    for log in (events, break_log, misses, steps):
        log.clear()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", default=[*KINDS], help="all, if none is given")
    parser.add_argument("--times", type=int, default=30, help="repetitions between two counts")
    parser.add_argument("--pure", action="store_true", help="of the calls in Python, to compare with")
    options = parser.parse_args()
    calls = PURE if options.pure else FAST
    if not calls:
        parser.error(native_replay.describe())
    bad = 0
    for name in options.kinds:
        found = left_behind([name], calls, options.times)
        bad += found.leaks
        print(f"{'LEAK' if found.leaks else 'ok  '} {name}: {found}", flush=True)
    print(f"{bad} of {len(options.kinds)} kinds leave something behind")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
