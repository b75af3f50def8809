"""The differences between two compilations, and limits on them such as ``kernels > +10%``."""

from __future__ import annotations

import dataclasses
import operator
import re
from fractions import Fraction
from functools import cached_property

from lazynb.compare.differences.compilation_match import CompilationChange, CompilationMatch, LinePair, Reason
from lazynb.compare.differences.compilation_side import CompilationSide
from lazynb.compare.differences.compiler_changes import (
    FlagDifference,
    PassDifference,
    flag_differences,
    pass_differences,
)
from lazynb.compare.differences.kernel_changes import kernel_changes
from lazynb.compare.differences.kernel_groups import kernel_groups
from lazynb.compare.differences.memory_changes import donation_changes, memory_changes, peak
from lazynb.compare.differences.operation_changes import lowering_changes, operation_changes
from lazynb.compare.differences.operation_equivalence import OperationEquivalence
from lazynb.running.record_table import Records
from lazynb.user_code.text_format import listed_lines, number, size, size_difference

_FINDINGS = 3


class CompilationDifference:
    """The differences between two sides, ``before`` and ``now``, computed on first access."""

    def __init__(self, before: CompilationSide, now: CompilationSide):
        self.before, self.now = before, now

    @cached_property
    def matching(self) -> CompilationMatch:
        """The pairing of operations and lines of both sides."""
        return CompilationMatch(self.before, self.now)

    @cached_property
    def changes(self) -> Records[CompilationChange]:
        """The differences, most important first; empty if there are none."""
        matching = self.matching
        regrouping = OperationEquivalence(matching)
        found = [
            *kernel_changes(kernel_groups(matching, regrouping), matching),
            *memory_changes(matching),
            *donation_changes(matching),
            *operation_changes(matching, regrouping),
            *lowering_changes(matching),
        ]
        return Records(sorted(found, key=lambda change: change.rank), "no difference", self._row, ranked=True)

    @cached_property
    def flags(self) -> Records[FlagDifference]:
        """The XLA flags that differ between the sides."""
        return flag_differences(self.before, self.now)

    @cached_property
    def passes(self) -> Records[PassDifference]:
        """The XLA passes that acted differently on a common line. The final programs may still be equal."""
        return pass_differences(self.matching)

    @cached_property
    def rewritten(self) -> tuple[LinePair, ...]:
        """The lines whose text differs between the sides, without a known difference in the program. The
        operations are the same; values from outside the program, such as a seed, may differ."""
        told = {pair for change in self.changes for pair in change.lines}
        lines = dict.fromkeys(line for line in self.now.lines if line is not None)
        pairs = [self.matching.of_now(line) for line in lines]
        return tuple(pair for pair in pairs if pair.is_rewritten and pair not in told)

    @property
    def headline(self) -> list[str]:
        """Up to three findings, each a sentence, the largest first."""
        return [self.sentence(change) for change in self.changes[:_FINDINGS]]

    def sentence(self, change: CompilationChange) -> str:
        """A change as text, with its lines and the likeliest reason."""
        where = f"{listed(change.lines)}: " if change.lines else ""
        if change.now is not None and not change.lines:
            where = "on no line: "
        why = f", {self.why(change.reasons[0])}" if change.reasons else ""
        return f"{where}{change.text}{why}"

    def why(self, reason: Reason) -> str:
        """A reason as text, with the side that it applies to and its evidence label."""
        if reason.is_now:
            return f"because {reason.text} ({reason.label})"
        return f"because in {self.before.name} {reason.text} ({reason.label})"

    def _row(self, change: CompilationChange) -> dict[str, str]:
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
    """The lines as a phrase: the current line, or the old line if it no longer exists."""
    return listed_lines((pair.shown.cell, pair.shown.label, pair.shown.number) for pair in pairs)


# ---- Limits on a difference, such as ``kernels > +10%`` ---------------------------------------------------

_NUMBER = r"[0-9]+(?:_[0-9]+)*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_EXPRESSION = re.compile(rf"\s*(\w+)\s*(>=|<=|>|<)\s*([+-]?)\s*({_NUMBER})\s*(%|[A-Za-z]*)\s*")
_COMPARISONS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_COUNTS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_SIZES = {
    **_COUNTS,
    "b": 1,
    **{f"{letter}b": factor for letter, factor in _COUNTS.items() if letter},
    **{f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", 1)},
}
_IN_BYTES = ("bytes", "peak_memory")
FIGURES = ("kernels", "bytes", "peak_memory", "flops")
"""Figures that can be limited: kernels, bytes moved, bytes at the memory peak, floating-point operations."""


class BadLimit(ValueError):
    """An invalid condition, or a figure that is unknown; the text says why."""


@dataclasses.dataclass(frozen=True)
class Limit:
    """A condition that a comparison must not meet.

    Attributes:
      text: the condition as the user wrote it.
      figure: one of :data:`FIGURES`.
      comparison: ``>``, ``>=``, ``<`` or ``<=``.
      bound: the exact bound, in the figure's unit or as a share of the figure before.
      is_growth: whether the condition limits the difference; otherwise it limits the figure now.
      is_share: whether the difference is measured as a share of the figure before.
    """

    text: str
    figure: str
    comparison: str
    bound: Fraction
    is_growth: bool
    is_share: bool

    def violation(self, before: CompilationSide, now: CompilationSide) -> str:
        """A sentence that says how the condition is met; empty if it is not met.

        Raises:
          BadLimit: one side does not have the figure.
        """
        old, new = figure(before, self.figure), figure(now, self.figure)
        value = new - old if self.is_growth else new
        bound = self.bound * Fraction(old) if self.is_share else self.bound
        if not _COMPARISONS[self.comparison](Fraction(value), bound):
            return ""
        return f"{self.figure} {_went(self.figure, old, new)}{_share(old, new)}: {self.text}"


def parse_limit(text: str) -> Limit:
    """Parses ``kernels > +10%``, ``bytes > +64MiB`` or ``peak_memory > 2GiB``.

    A bound with a sign limits the difference; without a sign it limits the figure now. A percentage needs a
    sign.

    Raises:
      BadLimit: the text is not a valid condition.
    """
    match = _EXPRESSION.fullmatch(text)
    if match is None:
        raise BadLimit(f"{text!r} is no condition: write a figure and a bound, such as {EXAMPLES}")
    name, comparison, sign, digits, unit = match.groups()
    if name not in FIGURES:
        raise BadLimit(f"{text!r}: there is no figure {name}; there are {', '.join(FIGURES)}")
    if unit == "%":
        if not sign:
            raise BadLimit(f"{text!r}: a percentage is of the figure before, and needs a sign: {name} > +10%")
        factor = Fraction(1, 100)
    else:
        units = _SIZES if name in _IN_BYTES else _COUNTS
        if unit.lower() not in units:
            raise BadLimit(f"{text!r}: {unit} is no unit of {name}; there are {_units(name)}")
        factor = Fraction(units[unit.lower()])
    bound = Fraction(digits.replace("_", "")) * factor * (-1 if sign == "-" else 1)
    return Limit(text.strip(), name, comparison, bound, bool(sign), unit == "%")


EXAMPLES = '"kernels > +10%", "bytes > +64MiB" or "peak_memory > 2GiB"'


def figure(side: CompilationSide, name: str) -> float:
    """One figure of a side.

    Raises:
      BadLimit: the figure is unknown.
    """
    if name == "kernels":
        return side.figures.kernels
    if name == "bytes":
        return side.figures.moved
    if name == "flops":
        known = side.figures.flops
    else:
        memory = peak(side)
        known = memory["peak_bytes"] if memory is not None else None
    if known is None:
        raise BadLimit(f"{name} is not known of {side.name}: XLA gives no figure")
    return known


def _units(name: str) -> str:
    return "%, KiB, MiB, GiB, TiB, KB, MB, GB and TB" if name in _IN_BYTES else "%, k, M, G and T"


def _went(name: str, old: float, new: float) -> str:
    written = {"kernels": "{:,.0f}".format, "flops": number}.get(name, size)
    if old == new:
        return f"is {written(new)}, as before"
    if written(old) != written(new):
        return f"went from {written(old)} to {written(new)}"
    return f"is {size_difference(old, new)}" if name in _IN_BYTES else f"went from {old:,.0f} to {new:,.0f}"


def _share(old: float, new: float) -> str:
    return f" ({100 * (new - old) / old:+.3g}%)" if old and new != old else ""
