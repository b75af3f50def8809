"""A condition on how much a compilation may differ from another: ``kernels > +10%``."""

from __future__ import annotations

import dataclasses
import operator
import re
from fractions import Fraction

from lazynb.compare.memory_changes import peak
from lazynb.compare.side import Side
from lazynb.units import apart, number, size

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
"""What can be limited: kernels; bytes through memory and at the peak; operations."""


class BadLimit(ValueError):
    """A condition that cannot be meant, or a figure that is not known; the text says why."""


@dataclasses.dataclass(frozen=True)
class Limit:
    """A condition that a comparison must not meet.

    Attributes:
      text: as it was written.
      figure: one of :data:`FIGURES`.
      comparison: ``>``, ``>=``, ``<`` or ``<=``.
      bound: what is compared with, exactly: a share of the figure before, or its unit.
      is_growth: whether the difference counts; else the figure now.
      is_share: whether the difference counts as a share of the figure before.
    """

    text: str
    figure: str
    comparison: str
    bound: Fraction
    is_growth: bool
    is_share: bool

    def met(self, before: Side, now: Side) -> str:
        """A sentence that says by what the condition is met; empty if it is not.

        Raises:
          BadLimit: the figure is not known of one of them.
        """
        old, new = figure(before, self.figure), figure(now, self.figure)
        value = new - old if self.is_growth else new
        bound = self.bound * Fraction(old) if self.is_share else self.bound
        if not _COMPARISONS[self.comparison](Fraction(value), bound):
            return ""
        return f"{self.figure} {_went(self.figure, old, new)}{_share(old, new)}: {self.text}"


def parse_limit(text: str) -> Limit:
    """``kernels > +10%``, ``bytes > +64MiB``, ``peak_memory > 2GiB``.

    With a sign it is about the difference, without about the figure now. A percentage needs a sign.

    Raises:
      BadLimit: it is no such condition.
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


def figure(side: Side, name: str) -> float:
    """A figure of a side.

    Raises:
      BadLimit: it is not known.
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
        raise BadLimit(f"{name} is not known of {side.name}: it has none from XLA")
    return known


def _units(name: str) -> str:
    return "%, KiB, MiB, GiB, TiB, KB, MB, GB and TB" if name in _IN_BYTES else "%, k, M, G and T"


def _went(name: str, old: float, new: float) -> str:
    written = {"kernels": "{:,.0f}".format, "flops": number}.get(name, size)
    if old == new:
        return f"is {written(new)}, as before"
    if written(old) != written(new):
        return f"went from {written(old)} to {written(new)}"
    return f"is {apart(old, new)}" if name in _IN_BYTES else f"went from {old:,.0f} to {new:,.0f}"


def _share(old: float, new: float) -> str:
    return f" ({100 * (new - old) / old:+.3g}%)" if old and new != old else ""
