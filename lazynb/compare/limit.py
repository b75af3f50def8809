"""A condition on how much a compilation may differ from another: ``kernels > +10%``."""

from __future__ import annotations

import dataclasses
import operator
import re

from lazynb.compare.memory_changes import peak
from lazynb.compare.side import Side
from lazynb.units import number, size

_EXPRESSION = re.compile(r"\s*(\w+)\s*(>=|<=|>|<)\s*([+-]?)\s*([\d_]+(?:\.\d+)?)\s*(%|[A-Za-z]*)\s*")
_COMPARISONS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_UNITS = {
    "": 1,
    "b": 1,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "k": 1e3,
    "m": 1e6,
    "g": 1e9,
    "t": 1e12,
}
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
      bound: what is compared with: a share of the figure before, or its unit.
      is_growth: whether the difference counts; else the figure now.
      is_share: whether the difference counts as a share of the figure before.
    """

    text: str
    figure: str
    comparison: str
    bound: float
    is_growth: bool
    is_share: bool

    def met(self, before: Side, now: Side) -> str:
        """A sentence that says by what the condition is met; empty if it is not.

        Raises:
          BadLimit: the figure is not known of one of them.
        """
        old, new = figure(before, self.figure), figure(now, self.figure)
        value = new - old if self.is_growth else new
        bound = self.bound * old if self.is_share else self.bound
        if not _COMPARISONS[self.comparison](value, bound):
            return ""
        said = f"{self.figure} went from {_written(self.figure, old)} to {_written(self.figure, new)}"
        return f"{said}{_share(old, new)}: {self.text}"


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
        factor = 0.01
    elif unit.lower() in _UNITS:
        factor = _UNITS[unit.lower()]
    else:
        raise BadLimit(f"{text!r}: {unit} is no unit; there are %, KiB, MiB, GiB, k, M, G and T")
    bound = float(digits) * factor * (-1 if sign == "-" else 1)
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


def _written(name: str, value: float) -> str:
    if name == "kernels":
        return f"{value:,.0f}"
    return number(value) if name == "flops" else size(value)


def _share(old: float, new: float) -> str:
    return f" ({100 * (new - old) / old:+.3g}%)" if old else ""
