"""The tables of executables and trace breaks, as rows of text."""

from __future__ import annotations

from typing import Any

from lazynb.execute.records import Records
from lazynb.view.inspection.schema import Table
from lazynb.view.words import clip, plain, plural

EMPTY: Table = {"columns": [], "rows": [], "text": ""}
_ROWS = 60


def table(records: Records[Any], noun: str) -> Table:
    """The newest records, a row each, in the columns that say anything; ``noun`` is what one is called."""
    rows = []
    for row in records.rows(_ROWS):
        rows.append({name: clip(plain(cell), 160) for name, cell in row.items()})
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
        "text": ", ".join(phrases),
    }
