"""All that differs between two compilations."""

from __future__ import annotations

from functools import cached_property

from lazynb.compare.change import Change, Reason
from lazynb.compare.donation_changes import donation_changes
from lazynb.compare.flags import FlagDifference, flag_differences
from lazynb.compare.groups import groups
from lazynb.compare.kernel_changes import kernel_changes
from lazynb.compare.lowering_changes import lowering_changes
from lazynb.compare.matching import LinePair, Matching
from lazynb.compare.memory_changes import memory_changes
from lazynb.compare.passes import PassDifference, pass_differences
from lazynb.compare.program_changes import operation_changes
from lazynb.compare.regrouping import Regrouping
from lazynb.compare.side import Side
from lazynb.execute.records import Records
from lazynb.units import listed_lines, number, size

_FINDINGS = 3


class Difference:
    """What differs between two sides. Worked out when it is asked for.

    Attributes:
      before, now: the sides.
    """

    def __init__(self, before: Side, now: Side):
        self.before, self.now = before, now

    @cached_property
    def matching(self) -> Matching:
        """Which operation and line of one side is which of the other."""
        return Matching(self.before, self.now)

    @cached_property
    def changes(self) -> Records[Change]:
        """The differences, the one that matters most first; empty if there are none."""
        matching = self.matching
        regrouping = Regrouping(matching)
        found = [
            *kernel_changes(groups(matching, regrouping), matching),
            *memory_changes(matching),
            *donation_changes(matching),
            *operation_changes(matching, regrouping),
            *lowering_changes(matching),
        ]
        return Records(sorted(found, key=lambda change: change.rank), "no difference", self._row, ranked=True)

    @cached_property
    def flags(self) -> Records[FlagDifference]:
        """The flags of XLA's with which one side was compiled and the other was not."""
        return flag_differences(self.before, self.now)

    @cached_property
    def passes(self) -> Records[PassDifference]:
        """The passes of XLA that acted differently on a line that both have. They can, and give the same
        program."""
        return pass_differences(self.matching)

    @cached_property
    def rewritten(self) -> tuple[LinePair, ...]:
        """The lines that are written otherwise on both sides, and of which no difference is known. Their
        operations are the same; values that come from outside of the program, such as a seed, may differ."""
        told = {pair for change in self.changes for pair in change.lines}
        lines = dict.fromkeys(line for line in self.now.lines if line is not None)
        pairs = [self.matching.of_now(line) for line in lines]
        return tuple(pair for pair in pairs if pair.is_rewritten and pair not in told)

    @property
    def headline(self) -> list[str]:
        """Up to three findings, the largest first, each a sentence."""
        return [self.sentence(change) for change in self.changes[:_FINDINGS]]

    def sentence(self, change: Change) -> str:
        """A change with its lines and the likeliest of its reasons."""
        where = f"{listed(change.lines)}: " if change.lines else ""
        if change.now is not None and not change.lines:
            where = "on no line: "
        why = f", {self.why(change.reasons[0])}" if change.reasons else ""
        return f"{where}{change.text}{why}"

    def why(self, reason: Reason) -> str:
        """A reason, with the side of which it is said and how it is known."""
        if reason.is_now:
            return f"because {reason.text} ({reason.label})"
        return f"because in {self.before.name} {reason.text} ({reason.label})"

    def _row(self, change: Change) -> dict[str, str]:
        before, now = change.before, change.now
        nowhere = "none" if change.now is not None else "the whole program"
        row = {"lines": listed(change.lines) or nowhere, "difference": change.text}
        if before is None or now is None:
            return {**row, "kernels": "", "written": "", "FLOPs": "", "why": ""}
        return {
            **row,
            "kernels": _both(str(before.kernels), str(now.kernels)),
            "written": _both(size(before.written), size(now.written)),
            "FLOPs": _both(number(before.flops), number(now.flops)),
            "why": "; ".join(map(self.why, change.reasons)),
        }


def _both(before: str, now: str) -> str:
    return now if before == now else f"{before or '?'} → {now or '?'}"


def listed(pairs: tuple[LinePair, ...]) -> str:
    """The lines in a phrase, as they are now; as they were where they are gone."""
    return listed_lines((pair.shown.cell, pair.shown.label, pair.shown.number) for pair in pairs)
