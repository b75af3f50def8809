"""Judges results: against the targets, and against what was stored when they were last published."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.results import Result, Spread
from benchmarks.rows import Row
from benchmarks.targets import TARGETS, Target

FIRST = "lazynb"
STORED = Path(__file__).parent / "ratios.json"
# Whom the check compares with: those that need no environment of their own.
CHECKED = (FIRST, "eager", "jit")
# How much worse than its limit a figure of the check's may be: few rounds, on a machine that does other
# things too. Memory and programs do not depend on those.
MARGINS = {"time": 0.25, "first": 0.25, "memory": 0.05, "programs": 0.0}


@dataclass(frozen=True)
class Verdict:
    """A target and what came out; ``found`` is None where nothing could be measured."""

    target: Target
    found: Spread | None

    @property
    def met(self) -> bool:
        """Whether the median is within the limit."""
        return self.found is not None and self.found.median <= self.target.limit


def figure(target: Target, result: Result) -> Spread | None:
    """What the target limits."""
    if target.figure == "ratio":
        return result.ratio(target.peer)
    if target.figure == "over":
        return result.over(target.peer)
    return result.own()


def verdicts(results: Iterable[Result], targets: Iterable[Target] = TARGETS) -> list[Verdict]:
    """One for each target whose row was measured with its peer."""
    measured = {result.row.name: result for result in results}
    found = []
    for target in targets:
        result = measured.get(target.row)
        if result and (target.peer in result.figures or target.peer in result.errors):
            found.append(Verdict(target, figure(target, result)))
    return found


def limits(
    row: Row, stored: Mapping[str, Mapping[str, float]], targets: Iterable[Target] = TARGETS
) -> list[Target]:
    """What the check allows in a row: its targets, or the stored figure where that is worse; and the margin
    on top.

    A figure that meets its target is held to the target, one that does not to where it stands.
    """
    mine = [target for target in targets if target.row == row.name and target.peer in CHECKED]
    ratios = {target.peer for target in mine if target.figure == "ratio"}
    mine += [
        Target(row.name, peer, 0.0) for peer in CHECKED if peer in row.peers and peer not in (FIRST, *ratios)
    ]
    known = stored.get(row.name, {})
    factor = 1 + MARGINS[row.measure]
    worst = [(target, max(target.limit, known.get(key(target), 0.0))) for target in mine]
    return [Target(row.name, target.peer, limit * factor, target.figure) for target, limit in worst if limit]


def regressions(results: Iterable[Result], stored: Mapping[str, Mapping[str, float]]) -> list[Verdict]:
    """What is over its limit, or could not be measured."""
    results = list(results)
    allowed = [limit for result in results for limit in limits(result.row, stored)]
    return [verdict for verdict in verdicts(results, allowed) if not verdict.met]


def to_store(results: Iterable[Result]) -> dict[str, dict[str, float]]:
    """The figures that the check may compare with later."""
    found: dict[str, dict[str, float]] = {}
    for result in results:
        wanted = {
            key(target): target
            for target in TARGETS
            if target.row == result.row.name and target.peer in CHECKED
        }
        wanted |= {
            peer: Target(result.row.name, peer, 0.0)
            for peer in CHECKED
            if peer in result.row.peers and peer != FIRST
        }
        figures = {name: figure(target, result) for name, target in wanted.items()}
        found[result.row.name] = {name: float(f"{one.median:.4g}") for name, one in figures.items() if one}
    return found


def key(target: Target) -> str:
    """What a figure is stored under."""
    return target.peer if target.figure == "ratio" else f"{target.peer} {target.figure}"


def stored() -> dict[str, dict[str, float]]:
    """What the last complete run found; nothing before the first."""
    return json.loads(STORED.read_text()) if STORED.exists() else {}
