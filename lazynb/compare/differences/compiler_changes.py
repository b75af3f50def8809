"""Differences in the compiler: XLA flags, and passes that acted differently on operations of both sides."""

from __future__ import annotations

import dataclasses
from collections import defaultdict

from lazynb.compare.differences.compilation_match import CompilationMatch, LinePair
from lazynb.compare.differences.compilation_side import CompilationSide
from lazynb.running.record_table import Records
from lazynb.xla.xla_flags import flags_phrase

# ---- XLA flags --------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class FlagDifference:
    """A flag whose value differs between the sides.

    Attributes:
      before, now: its values as written; None if the flag is not set or the flags of that side are unknown.
    """

    name: str
    before: str | None
    now: str | None


def flag_differences(before: CompilationSide, now: CompilationSide) -> Records[FlagDifference]:
    """Lists the flags that differ."""
    old, new = before.flags or {}, now.flags or {}
    found = [
        FlagDifference(name, old.get(name), new.get(name))
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    ]
    return Records(found, "no flag differs", _flag_row)


def own_flags(side: CompilationSide, other: CompilationSide) -> str:
    """A phrase with the flags of a side that the other side lacks or sets differently; empty if none."""
    theirs = other.flags or {}
    return flags_phrase(
        {name: value for name, value in (side.flags or {}).items() if theirs.get(name) != value}
    )


def sentence(before: CompilationSide, now: CompilationSide) -> str:
    """A sentence with the flags of each side that differ; empty if none differ."""
    both = ((before, now), (now, before))
    said = [f"{side.name} {own}" for side, other in both if (own := own_flags(side, other))]
    if not said:
        return ""
    said += [f"the flags of {side.name} are not known" for side, _ in both if side.flags is None]
    return f"Compiled with other flags: {'; '.join(said)}."


def _flag_row(one: FlagDifference) -> dict[str, str]:
    return {"flag": one.name, "before": _value(one.before), "now": _value(one.now)}


def _value(value: str | None) -> str:
    return "" if value is None else value or "(empty)"


@dataclasses.dataclass(frozen=True)
class PassDifference:
    """A pass that changed a line's instructions on one side more than on the other.

    Attributes:
      before, now: kind of change (``added``, ``removed``, ``rewritten``, ``fused``) → instructions.
    """

    name: str
    pair: LinePair
    before: dict[str, int]
    now: dict[str, int]


_Counts = dict[tuple[LinePair, str], dict[str, int]]


def pass_differences(matching: CompilationMatch) -> Records[PassDifference]:
    """Lists the passes that acted differently, in line order.

    Empty if one side has no record of its passes, or if the chips' compilers run different passes.
    """
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


def _counts(matching: CompilationMatch, side: CompilationSide) -> _Counts:
    """Changes by each pass to the instructions of each line."""
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
