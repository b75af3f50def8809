"""Seeing inside of the compiled program: which values it has, and how far looking changed it.

A value inside of a kernel is never written to memory. To see it, it is made a result too, and that is another
program: XLA may fuse other operations in it. So all values are made results of one program first. If its
results are those of the compiled program to the bit, its values count as those inside of it. If not, some
values at a time are made results, those of neighbouring operations in different programs, and at last one
operation at a time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lazynb.numerics.compiled import CompiledProgram, Ran, same_bits
from lazynb.numerics.equations import Equation

RESULT, KEPT, CHANGED = "result", "seen", "changed"
"""How a value is known: it is a result of the compiled program; it was seen in a program that gives the same
results to the bit; or in one that gives others."""

_TOGETHER = 10
"""Programs that take some operations each."""

_SINGLY = 16
"""Programs that take one operation each."""


@dataclasses.dataclass
class Seen:
    """The values of a compiled program.

    Attributes:
      ran: the program itself.
      values: by number.
      how: by number, how a value is known.
    """

    ran: Ran
    values: dict[int, Any]
    how: dict[int, str]


def seen(compiled: CompiledProgram, taken: Mapping[int, Any]) -> Seen:
    """All values of the compiled program."""
    program = compiled.program
    ran = compiled.run()
    found = Seen(ran, {**taken, **ran.values}, dict.fromkeys(program.wanted, RESULT))
    inside = [each for each in program.equations if set(each.results) - set(program.wanted)]
    if inside and not _look(compiled, inside, found):
        changed = [group for group in _strided(inside) if not _look(compiled, group, found)]
        left = [[equation] for group in changed for equation in group if len(group) > 1]
        for one in left[:_SINGLY]:
            _look(compiled, one, found)
    return found


def _strided(equations: Sequence[Equation]) -> Iterator[Sequence[Equation]]:
    """The equations in groups in which no two are neighbours."""
    for first in range(min(_TOGETHER, len(equations))):
        yield equations[first::_TOGETHER]


def _look(compiled: CompiledProgram, equations: Sequence[Equation], found: Seen) -> bool:
    """Notes what ``equations`` give. Returns whether the results stayed the same to the bit."""
    shown = [value for each in equations for value in each.results]
    ran = compiled.run(shown)
    kept = all(same_bits(ran.values[value], found.ran.values[value]) for value in compiled.program.wanted)
    for value in shown:
        if found.how.get(value) != RESULT and (kept or found.how.get(value) != KEPT):
            found.values[value] = ran.values[value]
            found.how[value] = KEPT if kept else CHANGED
    return kept
