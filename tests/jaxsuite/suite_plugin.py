"""A pytest plugin: runs the tests that it is told of, lazily on demand, and writes down what became of each
at once.

What was written before a crash is there after it. The environment says what to do:

LAZYNB_SUITE_LOG   the file to append to, a JSON object a line: ``{"start": id}``, then
``{"test": id, "outcome": ..., ...}`` LAZYNB_SUITE_LAZY  whether each test runs within ``lazynb.lazy()``
LAZYNB_SUITE_ONLY  a file with the ids of the tests to run, a JSON list (ids have newlines); all where it is
not set LAZYNB_SUITE_MOST  of more tests than this, equally spaced ones are taken
"""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path

import pytest

LOG = Path(os.environ["LAZYNB_SUITE_LOG"])
LAZY = bool(os.environ.get("LAZYNB_SUITE_LAZY"))
ONLY = os.environ.get("LAZYNB_SUITE_ONLY")
MOST = int(os.environ.get("LAZYNB_SUITE_MOST", "0"))


class _Found:
    """What became of the test that runs."""

    outcome = "passed"
    error = ""
    seconds = 0.0


_found = _Found()


def pytest_collection_modifyitems(config, items):
    kept = _spaced(items, MOST)
    if ONLY is not None:
        wanted = set(json.loads(Path(ONLY).read_text()))
        kept = [item for item in items if item.nodeid in wanted]
    chosen = set(map(id, kept))
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in chosen])
    items[:] = kept


def _spaced(items, most):
    if not most or len(items) <= most:
        return list(items)
    return [items[number * len(items) // most] for number in range(most)]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    global _found
    _found = _Found()
    _write(start=item.nodeid)
    try:
        return (yield)
    finally:
        _write(test=item.nodeid, outcome=_found.outcome, seconds=round(_found.seconds, 2), error=_found.error)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    """The test alone is lazy: JAX's own set-up and tear-down insist that no trace is current."""
    if LAZY:
        item.obj = _lazily(item.obj)


def _lazily(test):
    import lazynb

    @functools.wraps(test)
    def call(*args, **kwargs):
        with lazynb.lazy():
            return test(*args, **kwargs)

    return call


def pytest_runtest_logreport(report):
    """The reports of set-up, call, tear-down and subtests: the worst of them counts."""
    _found.seconds += report.duration
    if report.failed:
        _found.outcome = "failed"
        crash = getattr(report.longrepr, "reprcrash", None)
        _found.error = _found.error or (crash.message if crash is not None else str(report.longrepr))[:600]
    elif report.skipped and _found.outcome == "passed":
        _found.outcome = "skipped"


def _write(**line):
    with LOG.open("a") as log:
        log.write(json.dumps(line) + "\n")
