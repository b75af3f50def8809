"""All that the published report is made of, kept as data: a run of some rows replaces these rows alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.results import Result
from benchmarks.rows import ROWS

PUBLISHED = Path(__file__).parent / "results.json"


@dataclass(frozen=True)
class Run:
    """When, where and with what rows were measured.

    Attributes:
      facts: the machine and the moment.
      versions: of what each peer has.
      skipped: the peers that could not be had, each with the reason.
      rows: the names of those that stand in the report as this run found them.
    """

    facts: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    rows: tuple[str, ...] = ()


def merged(
    runs: Sequence[Run], results: Iterable[Result], run: Run, new: Sequence[Result]
) -> tuple[list[Run], list[Result]]:
    """The former ``runs`` and ``results`` with those of ``run`` in place of the same rows. Rows that no
    longer exist go, and so do runs of which no row is left."""
    found = {result.row.name: result for result in (*results, *new)}
    mine = {result.row.name for result in new}
    kept = [
        Run(
            one.facts,
            one.versions,
            one.skipped,
            tuple(row for row in one.rows if row in ROWS and row not in mine),
        )
        for one in runs
    ]
    now = Run(run.facts, run.versions, run.skipped, tuple(name for name in ROWS if name in mine))
    return [one for one in (*kept, now) if one.rows], [found[name] for name in ROWS if name in found]


def save(runs: Sequence[Run], results: Sequence[Result], place: Path | None = None) -> None:
    """Writes both."""
    rows = {
        one.row.name: {
            "figures": {peer: [float(f"{x:.4g}") for x in all_] for peer, all_ in one.figures.items()},
            "errors": one.errors,
            "disturbed": one.disturbed,
        }
        for one in results
    }
    data = {"runs": [asdict(run) for run in runs], "rows": rows}
    (place or PUBLISHED).write_text(json.dumps(data, indent=1) + "\n")


def load(place: Path | None = None) -> tuple[list[Run], list[Result]]:
    """What :func:`save` wrote; nothing before the first time."""
    place = place or PUBLISHED
    data: dict[str, Any] = json.loads(place.read_text()) if place.exists() else {"runs": [], "rows": {}}
    runs = [Run(**{**run, "rows": tuple(run["rows"])}) for run in data["runs"]]
    return runs, [Result(ROWS[name], **found) for name, found in data["rows"].items() if name in ROWS]
