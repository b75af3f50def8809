"""``lazynb diff``: two saved files or programs as text, compared; with an exit status for CI."""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys

from lazynb.cli.arguments import Unusable
from lazynb.compare.limit import BadLimit, Limit, parse_limit
from lazynb.compare.side import Side
from lazynb.errors import LazynbError
from lazynb.view.inspection.saved import NOT_WHOLE
from lazynb.view.reports.comparison import Diff
from lazynb.view.reports.side import side_of
from lazynb.xla.given.given import SUFFIXES

FOUND = 1


def diff(options: argparse.Namespace) -> int:
    """Prints what differs, writes it, and holds it against the conditions. Returns the exit status.

    Raises:
      Unusable: a file cannot be read or written, or a condition cannot be meant; the text says why.
    """
    try:
        limits = [parse_limit(text) for text in options.fail_if]
    except BadLimit as error:
        raise Unusable(f"lazynb diff: --fail-if: {error}") from None
    found = Diff(*_named(_side(options.before), _side(options.now), options))
    try:
        text = repr(found)
    except NOT_WHOLE as error:
        raise Unusable("lazynb diff: one of the files holds an inspection that is not whole") from error
    print(text)
    _write(found, options)
    return _held(found, limits)


def _side(path: str) -> Side:
    """
    Raises:
      Unusable: it cannot be read.
    """
    if not path.endswith((".json", *SUFFIXES)):
        raise Unusable(
            f"lazynb diff: {path} is neither a file that lazynb run --save or lazynb inspect --json wrote "
            "(.json), nor HLO (.hlo, .txt) nor StableHLO (.mlir)"
        )
    try:
        return side_of(path, path, {})
    except OSError as error:
        raise Unusable(f"lazynb diff: {path} cannot be read: {error.strerror}") from None
    except (ValueError, LazynbError) as error:
        raise Unusable(f"lazynb diff: {error}") from None


def _named(before: Side, now: Side, options: argparse.Namespace) -> tuple[Side, Side]:
    """Both sides, with their folders if the files are called the same."""
    if before.name != now.name:
        return before, now
    return (
        dataclasses.replace(before, name=os.path.normpath(options.before)),
        dataclasses.replace(now, name=os.path.normpath(options.now)),
    )


def _write(found: Diff, options: argparse.Namespace) -> None:
    try:
        if options.html is not None:
            print(f"written to {found.save_html(options.html)}", file=sys.stderr)
        if options.json is not None:
            with open(options.json, "w", encoding="utf-8") as file:
                file.write(found.to_json())
            print(f"written to {options.json}", file=sys.stderr)
    except OSError as error:
        raise Unusable(f"lazynb diff: it cannot be written to {error.filename}: {error.strerror}") from None


def _held(found: Diff, limits: list[Limit]) -> int:
    """The exit status; what the conditions say goes to stderr."""
    try:
        said = [limit.met(found.before, found.now) for limit in limits]
    except BadLimit as error:
        raise Unusable(f"lazynb diff: --fail-if: {error}") from None
    for sentence in filter(None, said):
        print(f"lazynb: {sentence}", file=sys.stderr)
    return FOUND if any(said) else 0
