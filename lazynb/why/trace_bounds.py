"""Where two traces begin and end: a trace break more or less makes other programs of the same lines."""

from __future__ import annotations

import dataclasses
import linecache
from collections.abc import Sequence

from lazynb.execute.misses import Miss
from lazynb.source import Place, Spot, cell_source, line_of
from lazynb.why.alignment import Alignment
from lazynb.why.comparable import Comparable, Step


@dataclasses.dataclass(frozen=True, slots=True)
class Bound:
    """A trace break that one of two traces has and the other has not.

    Attributes:
      kind: ``broke``, ``goes_on``, ``begins_later`` or ``begins_earlier``.
      reason: kind of the trace break.
      place: its line.
      now, before: steps of the two programs that are there because of it.
    """

    kind: str
    reason: str
    place: Place
    now: tuple[int, ...]
    before: tuple[int, ...]


class TraceBounds:
    """How the trace of ``now`` lies to that of ``before``, found in ``bounds``.

    What is on one side only counts as cut off where its lines still stand in the source of the other side;
    otherwise the user has added or removed it.
    """

    def __init__(self, before: Miss, now: Miss, forms: tuple[Comparable, Comparable]):
        self._misses = before, now
        self._forms = forms
        self.bounds: list[Bound] = []
        self.sources = self._source(0), self._source(1)

    def outside(self, alignment: Alignment) -> tuple[set[int], set[int], bool]:
        """The steps of both programs that the bounds explain, and whether the traces end elsewhere."""
        heads, tails = self._ends(alignment)
        before, now = self._misses
        follows = [
            _asked(one) != _asked(other)
            and one.cut is not None
            and (one.cut.kind, one.cut.spot.place.text) == _asked(other)
            for one, other in ((before, now), (now, before))
        ]
        if any(follows):
            return set(), set(), False  # one begins where the other ends: they are two parts of one program
        if _asked(before) != _asked(now):
            if tails[0] and not self._off_line(tails[1], 1) and self._written(tails[0], 0):
                self._add("broke", now.kind, now.spot, tails)
            elif tails[1] and not self._off_line(tails[0], 0) and self._written(tails[1], 1):
                self._add("goes_on", before.kind, before.spot, tails)
        cuts = [
            (miss.cut.kind, miss.cut.spot.place.text) if miss.cut is not None else None
            for miss in (before, now)
        ]
        if cuts[0] != cuts[1]:
            if heads[0] and not heads[1] and now.cut is not None and self._written(heads[0], 0):
                self._add("begins_later", now.cut.kind, now.cut.spot, heads)
            elif heads[1] and not heads[0] and before.cut is not None and self._written(heads[1], 1):
                self._add("begins_earlier", before.cut.kind, before.cut.spot, heads)
        old = {number for bound in self.bounds for number in bound.before}
        new = {number for bound in self.bounds for number in bound.now}
        return old, new, any(bound.kind in ("broke", "goes_on") for bound in self.bounds)

    def _add(self, kind: str, reason: str, spot: Spot, steps: Sequence[Sequence[Step]]) -> None:
        before, now = (tuple(step.number for step in side) for side in steps)
        self.bounds.append(Bound(kind, reason, spot.place, now, before))

    def _ends(self, alignment: Alignment) -> tuple[list[list[Step]], list[list[Step]]]:
        """By side, what is left over before the first pair and after the last."""
        heads, tails = [], []
        for form, match in zip(self._forms, (alignment.new, alignment.old), strict=True):
            paired = [step.number for step in form.operations if step.number in match]
            left = [step for step in form.operations if step.needed and step.number not in match]
            heads.append([step for step in left if paired and step.number < paired[0]])
            tails.append([step for step in left if paired and step.number > paired[-1]])
        return heads, tails

    def _off_line(self, steps: Sequence[Step], side: int) -> bool:
        """Whether some of ``steps`` do not stand on the line of the side's own trace break."""
        spot = self._misses[side].spot
        line = (spot.code.co_filename, line_of(spot.code, spot.lasti))
        return any(step.line != line for step in steps)

    def _written(self, steps: Sequence[Step], side: int) -> bool:
        """Whether the lines of ``steps``, left over on ``side``, stand in the source of the other side: most
        of them, as others may have been edited at the same time."""
        form = self._forms[side]
        lines = {form.text(step) for step in steps} - {""}
        return bool(lines) and 2 * len(lines & self.sources[1 - side]) > len(lines)

    def _source(self, side: int) -> set[str]:
        """Lines of the code behind one side."""
        spot = self._misses[side].spot
        files = {
            step.line[0]
            for form in self._forms
            for step in form.operations
            if step.line is not None and (form is self._forms[side] or cell_source(step.line[0]) is None)
        }
        texts = [spot.cell[1]] if spot.cell is not None else []
        for file in {*files, spot.code.co_filename}:
            known = cell_source(file)
            if known is not None:
                texts.append(known)
            elif file != spot.code.co_filename or spot.cell is None:
                texts.append("".join(linecache.getlines(file)))
        return {line.strip() for text in texts for line in text.splitlines()}


def _asked(miss: Miss) -> tuple[str, str]:
    return miss.kind, miss.spot.place.text
