"""Which tests run where: `make test` takes a quarter of an hour, `.ci/run` less than an hour.

``LAZYNB_SHARE="0/14"``, which ``scripts/test_matrix.py`` sets, takes the first fourteenth of the tests, those of
one ``xdist_group`` together; those marked ``once`` or ``interpreter`` belong to every share, those marked
``long`` to none.
``LAZYNB_REST=1`` takes those that the share leaves out, but for those that only the other JAX takes: about
half on each, and half of the long tests that are marked ``sample``. So each test is
run on one JAX at least. ``LAZYNB_TURN="0/3"``, which ``scripts/test_matrix.py`` sets by the commit, takes the
first third of these.
"""

from __future__ import annotations

import os
import zlib
from typing import Any

SHARES = 14
OTHERS = {0: range(1, SHARES, 2), 1: range(0, SHARES, 2)}
"""By the share that a JAX takes in `make test`, those that only the other JAX takes."""


def taken(item: Any) -> bool:
    """Whether this run, as the environment describes it, has ``item``."""
    share = os.environ.get("LAZYNB_SHARE")
    if not share:
        return True
    if not os.environ.get("LAZYNB_REST"):
        return in_share(item, share)
    return not in_share(item, share) and not _is_others(item, share) and _has_its_turn(item)


def in_share(item: Any, share: str) -> bool:
    """Whether ``item`` is in the share, ``"0/14"``, of the tests that are not long."""
    if item.get_closest_marker("long"):
        return False
    number, shares = map(int, share.split("/"))
    everywhere = item.get_closest_marker("once") or item.get_closest_marker("interpreter")
    return bool(everywhere) or _draw(item) % shares == number


def _is_others(item: Any, share: str) -> bool:
    """Whether only the other JAX has ``item``."""
    number, shares = map(int, share.split("/"))
    if shares != SHARES:
        return False
    if item.get_closest_marker("long"):
        return bool(item.get_closest_marker("sample")) and zlib.crc32(item.nodeid.encode()) % 2 != number
    return _draw(item) % shares in OTHERS.get(number, ())


def _has_its_turn(item: Any) -> bool:
    turn, turns = map(int, os.environ.get("LAZYNB_TURN", "0/1").split("/"))
    return _draw(item) // SHARES % turns == turn


def _draw(item: Any) -> int:
    """A number that is the same for all tests of one group, and on every machine."""
    group = item.get_closest_marker("xdist_group")
    return zlib.crc32((group.args[0] if group else item.nodeid).encode())
