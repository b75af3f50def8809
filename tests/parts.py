"""Which tests run where: `make test` takes a quarter of an hour, `.ci/run` takes all.

``LAZYNB_SHARE="0/3"``, which ``scripts/test_matrix.py`` sets, takes the first third of the tests, those of one
``xdist_group`` together; those marked ``once`` or ``interpreter`` belong to every share, those marked ``long``
to none.
``LAZYNB_REST=1`` takes just those that the share leaves out.
"""

from __future__ import annotations

import os
import zlib
from typing import Any


def taken(item: Any) -> bool:
    """Whether this run, as the environment describes it, has ``item``."""
    share = os.environ.get("LAZYNB_SHARE")
    if not share:
        return True
    return in_share(item, share) != bool(os.environ.get("LAZYNB_REST"))


def in_share(item: Any, share: str) -> bool:
    """Whether ``item`` is in the share, ``"0/3"``, of the tests that are not long."""
    if item.get_closest_marker("long"):
        return False
    number, shares = map(int, share.split("/"))
    group = item.get_closest_marker("xdist_group")
    name = group.args[0] if group else item.nodeid
    everywhere = item.get_closest_marker("once") or item.get_closest_marker("interpreter")
    return bool(everywhere) or zlib.crc32(name.encode()) % shares == number
