"""The tables of executables and trace breaks, as rows of text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lazynb.execute.records import Records
from lazynb.source import Place
from lazynb.view.inspection.schema import Spot, Table
from lazynb.view.words import clip, plain, plural

EMPTY: Table = {"columns": [], "rows": [], "nodes": [], "places": [], "text": ""}
ROWS = 60
"""Of a table, at most."""
LETTERS = 1000
"""Of a cell, at most: what has a sentence for each of many lines ends somewhere."""


def table(
    records: Records[Any],
    noun: str,
    nodes_of: Callable[[Any], Sequence[int]] | None = None,
    placed: Callable[[Place], Spot] | None = None,
) -> Table:
    """The newest records, a row each, in the columns that say anything; ``noun`` is what one is called.

    Arguments:
      nodes_of: the nodes that a record is about.
      placed: the location of a record as plain data.
    """
    rows = []
    for row in records.rows(ROWS):
        rows.append({name: clip(plain(cell), LETTERS) for name, cell in row.items()})
    names = [name for name in rows[0] if any(row[name] for row in rows)] if rows else []
    # a line may have broken a thousand times: breaks say themselves how often
    phrases = [getattr(records, "summary", "") or plural(len(records), noun)]
    for name, one in (("hits", "hit"), ("misses", "miss")):
        if hasattr(records, name):
            phrases.append(plural(getattr(records, name), one))
    if len(records) > len(rows):
        phrases.append(f"{len(rows)} of them are shown")
    return {
        "columns": names,
        "rows": [[row[name] for name in names] for row in rows],
        "nodes": [list(nodes_of(one)) for one in records.shown(ROWS)] if nodes_of is not None else [],
        "places": [placed(one.location) for one in records.shown(ROWS)] if placed is not None else [],
        "text": ", ".join(phrases),
    }
