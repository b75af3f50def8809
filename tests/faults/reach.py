"""A pytest plugin that notes the lines of lazynb that each test runs, and what it notes, read back.

``LAZYNB_REACH`` names a folder. Each worker appends its tests to a file there, each process that a test starts
its lines to another.
"""

from __future__ import annotations

import os
import pickle
import time
import zlib
from collections import defaultdict
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.faults.lines import Lines
from tests.tiers import GROUP

_lines: Any = None
_file: Any = None


def pytest_configure(config: pytest.Config) -> None:
    global _lines, _file
    if hasattr(config, "workerinput"):
        _file = open(Path(os.environ["LAZYNB_REACH"], f"worker-{os.getpid()}.pickles"), "ab")  # noqa: SIM115
        _lines = Lines()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: Any) -> Generator[None, Any, Any]:
    if _lines is None:
        return (yield)
    _lines.restart()
    item.reports = []
    began = time.perf_counter()
    result = yield
    seconds = time.perf_counter() - began
    passed = not any(outcome == "failed" for outcome in item.reports)
    lines = zlib.compress(pickle.dumps(frozenset(_lines.reached)), 1)
    pickle.dump((GROUP.sub("", item.nodeid), seconds, passed, lines), _file)
    _file.flush()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any) -> Generator[None, Any, Any]:
    report = yield
    if hasattr(item, "reports"):
        item.reports.append(report.outcome)
    return report


# ---- read back ---------------------------------------------------------------------------------------------


@dataclass
class Reach:
    """What the tests ran.

    Attributes:
      seconds: by test, those that passed.
      by_line: by file and line, the tests that run it.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    by_line: dict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))

    @classmethod
    def read(cls, folder: Path) -> Reach:
        found = cls()
        for file in sorted(folder.glob("worker-*.pickles")):
            for test, seconds, passed, lines in _pickles(file):
                if passed:
                    found.seconds[test] = seconds
                    for line in pickle.loads(zlib.decompress(lines)):
                        found.by_line[line].add(test)
        by_file: dict[str, set[str]] = defaultdict(set)
        for test in found.seconds:
            by_file[test.partition("::")[0]].add(test)
        for file in folder.glob("process-*.txt"):
            found._add_process(file, by_file)
        return found

    def _add_process(self, file: Path, by_file: dict[str, set[str]]) -> None:
        """The lines of a process: of the test that started it, or, as it may serve them all, of its file's."""
        test, *lines = file.read_text(errors="replace").splitlines()
        of = by_file.get(test.partition("::")[0], set())
        for line in lines:
            name, _, number = line.rpartition(":")
            if number.isdigit():
                self.by_line[name, int(number)] |= of

    def of(self, file: str, lines: range) -> list[str]:
        """The tests that run one of these lines, the quickest first."""
        tests = set().union(*(self.by_line.get((file, line), ()) for line in lines))
        return sorted(tests, key=lambda test: (self.seconds[test], test))


def _pickles(file: Path) -> Iterator[Any]:
    with file.open("rb") as opened:
        while True:
            try:
                yield pickle.load(opened)
            except (EOFError, pickle.UnpicklingError):
                return
