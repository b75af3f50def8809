"""Differences inside calls of library functions that both programs make.

If such a call records other operations, its arguments differ: no operation was added or removed.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from lazynb import jax_compat as jc
from lazynb.compare.misses.program_sides import (
    ProgramChange,
    ProgramPair,
    ProgramSide,
    is_derivative,
    shape_change,
)
from lazynb.compare.program_graph import ProgramStep, Value, is_number
from lazynb.running.record_table import plural

Call = list[ProgramStep]
"""The operations of one call of a library function."""


class CallPairs:
    """Pairs the calls of two programs, and adds how they differ to the ``changes`` of ``sides``."""

    def __init__(self, sides: ProgramPair):
        self._sides = sides
        self._pairs: list[tuple[Call, Call]] = []
        calls = [_calls_of(side) for side in sides.both]
        self._by_step = tuple({step.number: call for call in each for step in call} for each in calls)
        self._pair(*calls)

    def result(self, side: int, step: ProgramStep) -> ProgramStep:
        """The last operation of the call of ``step``; ``step`` itself without a call."""
        return self._by_step[side].get(step.number, [step])[-1]

    def follows(self, old: ProgramStep, new: ProgramStep) -> bool:
        """Whether two operations are of calls that read arrays of other types."""
        before, now = self._by_step[0].get(old.number), self._by_step[1].get(new.number)
        return before is not None and now is not None and self._types(before, now)

    def compare_arrays(self) -> None:
        """Explains the calls that take other arrays: another number of them, or inputs of other types."""
        for before, now in self._pairs:
            if self._is_loop(before, now):
                continue
            old, new = _arrays_into(self._sides.before, before), _arrays_into(self._sides.now, now)
            if len(old) == len(new):
                self._compare_inputs(before, now, list(zip(old, new, strict=True)))
            elif _starts_vary(before, now):
                self._add("slice_start", {"operation": f"`{_name(now)}`"}, before, now)
            elif self._is_unpaired(before, now):
                fields: dict[str, object] = {"operation": f"`{_name(now)}`", "counts": (len(old), len(new))}
                fields.update(now=plural(len(new), "array"), before=str(len(old)))
                self._add("operand", fields, before, now)

    def _compare_inputs(self, before: Call, now: Call, arrays: Sequence[tuple[Value, Value]]) -> None:
        """Reports inputs at equal positions in the call that have no partner, if their types differ."""
        first, second = self._sides.before.program, self._sides.now.program
        for a, b in arrays:
            old, new = first.steps[a[0]], second.steps[b[0]]
            if old.is_operation or new.is_operation or self._sides.alignment.same_value(a, b):
                continue
            change = shape_change(old.avals[0], new.avals[0], a, new, now[0])
            if change is not None:
                self._sides.changes.append(change)
                self._explain(before, now)

    def compare_rest(self) -> None:
        """Explains the calls that record other operations though their arrays have the same types."""
        told = {number for change in self._sides.changes for number in change.now}
        for before, now in self._pairs:
            if self._is_loop(before, now) or not self._is_unpaired(before, now):
                continue
            is_told = any(step.number in told or step.call in self._sides.explained_calls for step in now)
            if is_told or self._sides.settings or self._types(before, now):
                self._explain(before, now)
                continue
            gave, gives = before[-1].avals[0].str_short(), now[-1].avals[0].str_short()
            text = f": it gives {gives}, gave {gave}" if gives != gave else ""
            self._add("argument", {"operation": f"`{_name(now)}`", "gives": text}, before, now)

    # ---- Pairs of calls ------------------------------------------------------------------------------------

    def _pair(self, before: list[Call], now: list[Call]) -> None:
        """Pairs calls with paired operations; then calls of one function on corresponding lines, in order."""
        by_step = self._by_step[1]
        taken: set[int] = set()
        left: dict[Hashable, list[Call]] = {}
        for old in before:
            partners = [self._sides.before.partner.get(step.number) for step in old]
            found = {id(call): call for number in partners if (call := by_step.get(number or -1)) is not None}
            same = [call for key, call in found.items() if key not in taken and _name(call) == _name(old)]
            if len(same) == 1:
                taken.add(id(same[0]))
                self._pairs.append((old, same[0]))
            elif partners.count(None) == len(partners):
                left.setdefault(self._key(0, old), []).append(old)
        for new in now:
            same = left.get(self._key(1, new), [])
            if (
                id(new) not in taken
                and same
                and not any(step.number in self._sides.now.partner for step in new)
            ):
                self._pairs.append((same.pop(0), new))

    def _key(self, side: int, call: Call) -> Hashable:
        return _name(call), self._sides.alignment.key(side, call[0])

    # ---- One pair ------------------------------------------------------------------------------------------

    def _is_loop(self, before: Call, now: Call) -> bool:
        """Whether the two calls are in loops of different lengths."""
        first = self._sides.before.program.instruction(before[0])
        second = self._sides.now.program.instruction(now[0])
        return first in self._sides.loops or second in self._sides.loops

    def _is_unpaired(self, before: Call, now: Call) -> bool:
        """Whether one of the two calls has an operation without partner that no change explains."""
        return any(
            step.number not in side.partner and step.number not in side.explained
            for side, steps in zip(self._sides.both, (before, now), strict=True)
            for step in steps
        )

    def _types(self, before: Call, now: Call) -> bool:
        """Whether the arrays that the two calls read differ in type."""
        both = zip(self._sides.both, (before, now), strict=True)
        old, new = ([side.program.aval(value) for value in _arrays_into(side, call)] for side, call in both)
        return old != new

    def _add(self, kind: str, fields: dict[str, object], before: Call, now: Call) -> None:
        numbers = tuple(step.number for step in now), tuple(step.number for step in before)
        self._sides.changes.append(ProgramChange(kind, fields, *numbers, now[0]))
        self._explain(before, now)

    def _explain(self, before: Call, now: Call) -> None:
        self._sides.before.explained.update(step.number for step in before)
        self._sides.now.explained.update(step.number for step in now)


def _calls_of(side: ProgramSide) -> list[Call]:
    """The needed operations of each call. The numbers of calls divide a function that calls jitted ones, so
    neighbours from one expression are taken for one call."""
    calls: list[Call] = []
    last: Hashable = None
    skip = side.outside | side.explained
    for step in side.program.operations:
        if not step.needed:
            continue
        is_call = step.call is not None and step.number not in skip and not is_derivative(step)
        key = (step.call[0], side.program.instruction(step)) if is_call and step.call is not None else None
        if key is not None and key == last:
            calls[-1].append(step)
        elif key is not None:
            calls.append([step])
        last = key
    return calls


def _name(call: Call) -> str:
    assert call[0].call is not None
    return call[0].call[0]


def _arrays_into(side: ProgramSide, steps: Sequence[ProgramStep]) -> list[Value]:
    """The arrays that the operations of a call read from outside it, each once, without numbers."""
    own = {step.number for step in steps}
    values = dict.fromkeys(value for step in steps for value in step.operands if value[0] not in own)
    return [value for value in values if not _is_number(side.program.steps[value[0]])]


def _is_number(step: ProgramStep) -> bool:
    """Whether a step is a number, also one that JAX made an array of."""
    if step.is_operation:
        return False
    return step.scalar is not None or is_number(step) or not (step.name or step.avals[0].shape)


def _starts_vary(before: Call, now: Call) -> bool:
    """Whether a static slice became one with operands, see :mod:`lazynb.recording.varying_slices`."""
    is_static = any([step.primitive.name == "slice" for step in before])
    return is_static and any(
        [step.primitive is jc.jit_primitive and step.params.get("name") == "dynamic_slice" for step in now]
    )
