"""Which tests run when. A test belongs to the default tier unless it is marked, here or in its file:

``full``      only ``make full`` has it: one more of a kind that the default tier has already. ``tiers.toml``
              has the list of those that take seconds and run no line of lazynb that a quicker test does not run
``browser``   it drives a browser, runs a whole notebook, or builds the documentation or a wheel: ``.ci/run`` and
              ``make full`` have it. Everything in tests/ui is marked so, and what ``tiers.toml`` lists

``LAZYNB_TIER`` names the tier: ``default``, ``browser`` or ``full`` (everything). A test that is named by its
id (``pytest tests/record/test_trie.py::test_one``) runs in any tier. Nothing else decides: the same tests run
on every machine, Python and commit.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

TIER = os.environ.get("LAZYNB_TIER") or "default"
FULL = TIER == "full"
TABLE = Path(__file__).with_name("tiers.toml")
GROUP = re.compile(r"@[\w -]+$")  # what pytest-xdist appends to the names of the tests of a group


class Table:
    """What ``tiers.toml`` says of the tests.

    Attributes:
      full: ids of tests, of functions or of files that only ``make full`` has.
      browser: ids of functions that are marked ``browser``.
      every: by the id of a function ``n``: the default tier has its first case and each n-th after it.
      keep: by the id of a function the cases that the default tier has; those of ``every`` too, if it is there.
    """

    def __init__(self, text: str):
        read = tomllib.loads(text)
        self.full = frozenset(read.get("full", ()))
        self.browser = frozenset(read.get("browser", ()))
        self.every: dict[str, int] = read.get("every", {})
        self.keep: dict[str, list[str]] = read.get("keep", {})
        self._cases = Counter[str]()

    def is_full(self, test: str) -> bool:
        """Whether only ``make full`` has the next test, which has this id. The cases of a function are counted."""
        function, _, case = test.partition("[")
        turn = self._cases[function] % self.every.get(function, 1)
        self._cases[function] += 1
        if case.removesuffix("]") in self.keep.get(function, ()):
            return False
        if function in self.every:
            return bool(turn)
        return function in self.keep or bool({test, function, test.partition("::")[0]} & self.full)


def mark(items: Iterable[Any]) -> None:
    """Marks the tests of ``tiers.toml`` and those of tests/ui."""
    table = Table(TABLE.read_text())
    for item in items:
        test = GROUP.sub("", item.nodeid)
        if table.is_full(test):
            item.add_marker(pytest.mark.full)
        if "ui" in item.path.parts or test.partition("[")[0] in table.browser:
            item.add_marker(pytest.mark.browser)


def taken(item: Any) -> bool:
    """Whether the tier has ``item``, or the command line names it."""
    if FULL or _is_named(item):
        return True
    if item.get_closest_marker("full"):
        return False
    return bool(item.get_closest_marker("browser")) == (TIER == "browser")


def _is_named(item: Any) -> bool:
    named = [argument for argument in item.config.args if "::" in argument]
    return any(item.nodeid.startswith(argument.removeprefix("./")) for argument in named)
