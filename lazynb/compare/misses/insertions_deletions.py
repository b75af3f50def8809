"""Differences in unpaired operations: added, removed, replaced, repeated, jitted or no longer jitted."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from types import CodeType
from typing import Any

from lazynb import jax_compat as jc
from lazynb.compare.misses.operation_pairs import OperationPairs
from lazynb.compare.misses.operation_parameters import calls_users_function
from lazynb.compare.misses.program_sides import (
    ProgramChange,
    ProgramPair,
    ProgramSide,
    is_derivative,
    shape_change,
)
from lazynb.compare.program_graph import ProgramGraph, ProgramStep, Value, graph_of_jaxpr
from lazynb.jax_compat.jax_names import CONVERTING, MOVING, SHAPE_ADAPTERS
from lazynb.user_code.text_format import join_words

_OPERATIONS = frozenset("replaced parameter argument nested identity".split())
"""Kinds of changes in what operations compute."""

_SHOWN_NAMES = 4

OMITTABLE = MOVING | CONVERTING
"""Primitives that JAX omits if they would return their operand unchanged."""

Groups = list[list[ProgramStep]]
"""Operations of one program, grouped by line."""


SameFunction = Callable[[int, tuple[str, str, int], CodeType], bool]
"""Takes the number of a program; name, file and first line of a function in it; and the code of a function of
the other program. Returns whether one function may be an edit of the other."""


def is_same_position(side: int, function: tuple[str, str, int], code: CodeType) -> bool:
    """Whether both are the function of one name that begins at one line."""
    return function == (code.co_name, code.co_filename, code.co_firstlineno)


def find_jitted(sides: ProgramPair, is_same: SameFunction) -> None:
    """Finds functions that are jitted in one program only, where one operation replaces their body."""
    users_functions: dict[int, bool] = {}
    for side, kind in zip(sides.both, ("unjitted", "jitted"), strict=True):
        for step in side.program.operations:
            if not step.needed or "name" not in step.params:
                continue
            key = id(step.operation)
            if key not in users_functions:
                users_functions[key] = calls_users_function(step)
            if not users_functions[key]:
                continue
            partner = side.partner_of(step)
            if partner is not None and partner.name == step.name:
                continue
            body = _body(side, step, is_same)
            if body:
                _add_jitted(sides, kind, side, step, body)


def _body(side: ProgramSide, step: ProgramStep, is_same: SameFunction) -> list[ProgramStep]:
    """The operations of the other program that form the body of the jitted function that ``step`` calls."""
    params = (step.origin.inside if step.origin is not None else None) or step.params
    (jaxpr,) = jc.jaxprs_in(params)
    function = jc.traced_function(jaxpr)
    if function is None:
        return []
    body = []
    codes: dict[int, bool] = {}  # by id
    for other in side.other.operations:
        if not other.needed or other.origin is None:
            continue
        if side.back.get(other.number) not in (None, step.number):
            continue
        code = other.origin.code
        if id(code) not in codes:
            codes[id(code)] = is_same(side.number, function, code)
        if codes[id(code)]:
            body.append(other)
    # A statement may have several lambdas.
    is_lambda = function[0] == "<lambda>"
    return [] if is_lambda and not {each.name for each in body} <= _names_within(jaxpr) else body


def _names_within(jaxpr: Any) -> set[str]:
    """The names of the operations in a function and in those that it calls."""
    operations = graph_of_jaxpr(jaxpr).operations
    inner = [_names_within(each) for step in operations for each in jc.jaxprs_in(step.params)]
    return {step.name for step in operations}.union(*inner)


def _add_jitted(
    sides: ProgramPair, kind: str, side: ProgramSide, step: ProgramStep, body: Sequence[ProgramStep]
) -> None:
    """Adds the change that ``step`` of one program is ``body`` in the other."""
    numbers = _numbers(body)
    side.explained.add(step.number)
    sides.other(side).explained.update(numbers)
    fields = {"function": step.label}
    if side.number:
        sides.changes.append(ProgramChange(kind, fields, (step.number,), numbers, step))
    else:
        sides.changes.append(ProgramChange(kind, fields, numbers, (step.number,), body[0]))


class InsertionsDeletions:
    """Finds operations that only one of the programs has, and adds them to the ``changes`` of ``sides``.

    ``pairs`` compares the dead operations that a derivative depends on.
    """

    def __init__(self, sides: ProgramPair, pairs: OperationPairs):
        self._sides = sides
        self._pairs = pairs

    def compare_all(self) -> None:
        """Adds changes for the operations that neither a loop nor another difference explains."""
        both = self._sides.both
        unpaired = [side.without_partner() for side in both]
        self._turns(unpaired)
        changed = [self._changed_instructions(side) for side in both]
        groups: list[Groups] = []
        derivatives: list[Groups] = []
        for side in both:
            rest = self._unexplained(side, unpaired[side.number], changed[side.number])
            groups.append(_by_line([step for step in rest if not is_derivative(step)]))
            derivatives.append(_by_line([step for step in rest if is_derivative(step)]))
        self._substituted(*groups)
        self._one_sided(groups)
        if not self._sides.changes:
            # A difference of the primal would be in ``changes``, so the derivative itself was requested.
            self._one_sided(derivatives)

    # ---- Explained operations ------------------------------------------------------------------------------

    def _turns(self, unpaired: Sequence[Sequence[ProgramStep]]) -> None:
        """Adds changes for loops with a different number of iterations."""
        loops: dict[tuple[int, int, int], list[ProgramStep]] = {}
        for side in self._sides.both:
            for step in unpaired[side.number]:
                turns = self._sides.loops.get(side.program.instruction(step))
                if turns is not None:
                    loops.setdefault((side.number, *turns), []).append(step)
        for (number, before, now), steps in loops.items():
            side = self._sides.both[number]
            names = listed(side.program, steps)
            runs = "run" if " and " in names else "runs"
            fields = {"operation": names, "runs": runs, "now": _times(now), "before": _times(before)}
            at = steps[0] if number else self._turn_now(side, steps[0])
            self._sides.changes.append(side.change("repeats", fields, _numbers(steps), at))

    def _turn_now(self, side: ProgramSide, step: ProgramStep) -> ProgramStep:
        """The operation of the present program at the instruction of ``step`` of the earlier program."""
        instruction = side.program.instruction(step)
        for other in side.program.operations:
            partner = side.partner_of(other)
            if partner is not None and side.program.instruction(other) == instruction:
                return partner
        return step

    def _changed_instructions(self, side: ProgramSide) -> set[Hashable]:
        """The instructions of operations that are known to differ."""
        instructions: set[Hashable] = set()
        for change in self._sides.changes:
            if change.kind in _OPERATIONS:
                steps = [side.program.steps[number] for number in side.steps_of(change)]
                instructions.update(map(side.program.instruction, steps))
        return instructions - {None}

    def _unexplained(
        self, side: ProgramSide, steps: Sequence[ProgramStep], changed: set[Hashable]
    ) -> list[ProgramStep]:
        """The steps that do not follow from a known difference.

        Arguments:
          changed: the instructions of the operations that differ.
        """
        unexplained = []
        for step in steps:
            instruction = side.program.instruction(step)
            if instruction in self._sides.loops or instruction in changed:
                continue
            if not self._sides.follows_type_change(step, side) and not self._follows_dead(step, side):
                unexplained.append(step)
        return unexplained

    def _follows_dead(self, step: ProgramStep, side: ProgramSide) -> bool:
        """Whether an operation of a derivative exists because the dead primal operation differs."""
        instruction = side.program.instruction(step)
        if instruction is None:
            return False
        for other in side.program.operations:
            if other.needed or side.program.instruction(other) != instruction:
                continue
            partner = side.partner_of(other)
            if partner is not None and not other.same_operation(partner):
                if side.number:
                    return self._is_told(partner, other)
                return self._is_told(other, partner)
        return False

    def _is_told(self, old: ProgramStep, new: ProgramStep) -> bool:
        """Compares two operations and returns whether a change reports how they differ."""
        count = len(self._sides.changes)
        self._pairs.compare(old, new)
        return len(self._sides.changes) > count or new.call in self._sides.explained_calls

    # ---- Remaining operations ------------------------------------------------------------------------------

    def _substituted(self, removed: Groups, added: Groups) -> None:
        """Adds changes for groups in the same gap of both programs, and removes these from the arguments."""
        before, now = self._sides.before, self._sides.now
        for old in list(removed):
            gap = before.surrounding_matches(old[0])
            new = next((group for group in added if self._gap_before(group) == gap), None)
            if new is None:
                continue
            removed.remove(old)
            added.remove(new)
            fields = {"before": listed(before.program, old), "now": listed(now.program, new)}
            change = ProgramChange("replaced", fields, _numbers(new), _numbers(old), new[0])
            self._sides.changes.append(change)

    def _gap_before(self, added: Sequence[ProgramStep]) -> tuple[int, ...]:
        """The gap of the earlier program that corresponds to the gap around an added group."""
        now = self._sides.now
        return tuple(now.partner.get(number, number) for number in now.surrounding_matches(added[0]))

    def _one_sided(self, groups: Sequence[Groups]) -> None:
        """Adds changes for groups of operations that only one of the programs has, by side."""
        for side, kind in zip(self._sides.both, ("removed", "added"), strict=True):
            for group in groups[side.number]:
                change = self._left_out(side, group) or self._runs_again(side, group)
                if change is not None:
                    self._sides.changes.append(change)
                    continue
                names = listed(side.program, group)
                fields = {"operation": names, "was": "was", "it": "it was"}
                if " and " in names:
                    fields.update(was="were", it="they were")
                self._sides.changes.append(side.change(kind, fields, _numbers(group), group[0]))

    def _runs_again(self, side: ProgramSide, group: Sequence[ProgramStep]) -> ProgramChange | None:
        """``group`` as operations of a function that JAX called, if the same line recorded them in the other
        program too, another number of times; otherwise None."""
        key = side.program.text(group[0]), group[0].name
        if not self._sides.functions or not key[0]:
            return None
        before, now = [
            sum((each.program.text(step), step.name) == key for step in each.program.operations)
            for each in self._sides.both
        ]
        if not before or not now:
            return None
        fields = {"operation": group[0].label, "runs": "runs", "now": _times(now), "before": _times(before)}
        return side.change("repeats", fields, _numbers(group), group[0])

    def _left_out(self, side: ProgramSide, group: Sequence[ProgramStep]) -> ProgramChange | None:
        """``group`` as a call that JAX omits in the other program, where it is the identity.

        Examples are a slice of everything and a conversion to the same type. Returns None if ``group`` is not
        such a call. Whether the other program calls it can only be seen in the source.
        """
        if not all(step.primitive.name in OMITTABLE for step in group):
            return None
        if side.program.text(group[0]) not in self._sides.other(side).lines:
            return None
        taken = _taken(side.program, group)
        if taken is None:
            return None
        read = self._read_instead(side, group[-1])
        if read is None or not self._may_be_one(side, taken, read):
            return None
        if side.number and side.other.aval(read).shape != side.program.aval(taken).shape:
            given = side.program.steps[taken[0]]
            return shape_change(side.other.aval(read), side.program.aval(taken), read, given, group[0])
        types = [side.program.aval((group[-1].number, 0)), side.program.aval(taken)]
        now, before = types if side.number else reversed(types)
        gives = f": it gives {now.str_short()}, gave {before.str_short()}" if now != before else ""
        fields = {
            "operation": _call_name(group),
            "gives": gives,
            "now": str(now.shape),
            "before": str(before.shape),
            "types": (str(before.dtype), str(now.dtype)) if now.shape == before.shape else None,
        }
        return side.change(
            "argument", fields, _numbers(group), group[0] if side.number else self._at(group[0])
        )

    def _at(self, step: ProgramStep) -> ProgramStep:
        """An operation of the present program on the same line as ``step`` of the earlier program."""
        before, now = self._sides.before.program, self._sides.now.program
        return next(each for each in now.operations if now.text(each) == before.text(step))

    def _read_instead(self, side: ProgramSide, last: ProgramStep) -> Value | None:
        """What the other program reads in place of the result of ``last``."""
        users = [step for step in side.program.operations if (last.number, 0) in step.operands]
        for step in users:
            partner = side.partner_of(step)
            if step.needed and partner is not None and len(partner.operands) == len(step.operands):
                return partner.operands[step.operands.index((last.number, 0))]
        return None

    def _may_be_one(self, side: ProgramSide, own: Value, other: Value) -> bool:
        """Whether a value of ``side`` corresponds to one of the other program, or both are inputs without
        partner."""
        if other == (side.partner.get(own[0]), own[1]):
            return True
        first, second = side.program.steps[own[0]], side.other.steps[other[0]]
        is_input = not (first.is_operation or second.is_operation)
        return is_input and own[0] not in side.partner and other[0] not in side.back


def _taken(program: ProgramGraph, group: Sequence[ProgramStep]) -> Value | None:
    """The only array that ``group`` reads from outside; None if there are several."""
    own = {step.number for step in group}
    taken = {value for step in group for value in step.operands if value[0] not in own}
    arrays = [value for value in taken if program.steps[value[0]].scalar is None]
    return arrays[0] if len(arrays) == 1 else None


def _call_name(group: Sequence[ProgramStep]) -> str:
    return f"`{_name_of_call(group)}`"


def _by_line(steps: Sequence[ProgramStep]) -> Groups:
    """Groups neighbouring steps of one line, in order."""
    groups: Groups = []
    for step in steps:
        if groups and step.line is not None and groups[-1][0].line == step.line:
            groups[-1].append(step)
        else:
            groups.append([step])
    return groups


def listed(program: ProgramGraph, group: Sequence[ProgramStep]) -> str:
    """The operations as a phrase: the function that the user called, otherwise the main operation."""
    calls: dict[Hashable, list[ProgramStep]] = {}
    for step in group:
        calls.setdefault(program.instruction(step) or step.number, []).append(step)
    names = list(dict.fromkeys(map(_name_of_call, calls.values())))
    words = [f"`{name}`" for name in names[:_SHOWN_NAMES]]
    if len(names) > len(words):
        return f"{', '.join(words)} and {len(names) - len(words)} more"
    return join_words(words)


def _name_of_call(steps: Sequence[ProgramStep]) -> str:
    if steps[0].call is not None:
        return steps[0].call[0]
    return next((step.name for step in steps if step.name not in SHAPE_ADAPTERS), steps[0].name)


def _numbers(steps: Sequence[ProgramStep]) -> tuple[int, ...]:
    return tuple(step.number for step in steps)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
