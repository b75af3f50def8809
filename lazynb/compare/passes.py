"""XLA's passes that acted differently on operations that both sides have."""

from __future__ import annotations

import dataclasses
from collections import defaultdict

from lazynb.compare.matching import LinePair, Matching
from lazynb.compare.side import Side
from lazynb.execute.records import Records


@dataclasses.dataclass(frozen=True)
class PassDifference:
    """A pass that changed a line's instructions on one side more than on the other.

    Attributes:
      name: of the pass.
      pair: the line.
      before, now: by kind of change (``added``, ``removed``, ``rewritten``, ``fused``), how many instructions
        of that line.
    """

    name: str
    pair: LinePair
    before: dict[str, int]
    now: dict[str, int]


_Counts = dict[tuple[LinePair, str], dict[str, int]]


def pass_differences(matching: Matching) -> Records[PassDifference]:
    """The passes that acted differently, in the order of the lines; empty if what they did is not kept of
    both sides, or these are for chips of different kinds, which have passes of their own."""
    found: list[PassDifference] = []
    before, now = matching.before, matching.now
    if before.has_passes and now.has_passes and before.compilers == now.compilers:
        old, new = _counts(matching, matching.before), _counts(matching, matching.now)
        for pair, name in dict.fromkeys([*new, *old]):
            if pair.before is None or pair.now is None:
                continue
            first, second = old.get((pair, name), {}), new.get((pair, name), {})
            if first != second:
                found.append(PassDifference(name, pair, first, second))
    found.sort(key=lambda each: (each.pair.shown.cell or 0, each.pair.shown.number))
    return Records(found, "no pass acted differently", _row, ranked=True)


def _counts(matching: Matching, side: Side) -> _Counts:
    """By line and pass, what the pass did to instructions of the line."""
    counts: _Counts = defaultdict(lambda: defaultdict(int))
    is_now = side is matching.now
    for program in side.data["programs"]:
        for step in program["hlo"]["passes"]:
            for change in step["changes"] or ():
                lines = {side.lines[node] for node in change["nodes"]}
                for line in lines - {None}:
                    assert line is not None
                    pair = matching.of_now(line) if is_now else matching.of_before(line)
                    counts[pair, step["name"]][change["kind"]] += 1
    return {key: dict(sorted(kinds.items())) for key, kinds in counts.items()}


def _row(one: PassDifference) -> dict[str, str]:
    return {
        "line": one.pair.shown.label,
        "pass": one.name,
        "before": _said(one.before),
        "now": _said(one.now),
    }


def _said(kinds: dict[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "nothing"
