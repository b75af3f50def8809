"""The comparison of two programs: what differs, and which of it only follows from another difference."""

from __future__ import annotations

import bisect
import dataclasses
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

from lazynb import _jax as jc
from lazynb._jax.names import DERIVATIVE_FUNCTIONS, GLUE, UNNAMED_PARAMETERS
from lazynb.why.alignment import Alignment
from lazynb.why.comparable import Comparable, Step, Value, comparable_of_jaxpr, is_number
from lazynb.why.parameters import (
    Parameter,
    Types,
    calls_users_function,
    contexts_differ,
    holds_new_object,
    joined,
    library_parameters,
    types_between,
)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Change:
    """One difference.

    Attributes:
      kind: see ``lazynb.why.causes.CAUSES``.
      fields: what its text is filled in with.
      now, before: steps of the two programs that it is about.
      at: the step of either whose line tells it; None if there is none.
    """

    kind: str
    fields: dict[str, Any]
    now: tuple[int, ...] = ()
    before: tuple[int, ...] = ()
    at: Step | None = None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """One of the two programs, as it is compared with the other.

    Attributes:
      number: 0 before, 1 now.
      program: its steps.
      partner: by number of a step, that of the other program's which corresponds.
      other: the other program.
      back: the reverse of ``partner``.
      outside: steps that are there because of where the traces begin and end.
      lines: the source lines of its operations.
      explained: operations without partner that a change is about already.
    """

    number: int
    program: Comparable
    partner: dict[int, int]
    other: Comparable
    back: dict[int, int]
    outside: set[int]
    lines: set[str]
    explained: set[int] = dataclasses.field(default_factory=set)

    def steps_of(self, change: Change) -> tuple[int, ...]:
        """The steps of this program that a change is about."""
        return change.now if self.number else change.before

    def change(self, kind: str, fields: dict[str, Any], numbers: tuple[int, ...], at: Step) -> Change:
        """A change that is about steps of this program alone."""
        if self.number:
            return Change(kind, fields, now=numbers, at=at)
        return Change(kind, fields, before=numbers, at=at)

    def without_partner(self) -> list[Step]:
        """The needed operations that nothing corresponds to, and that no change explains yet."""
        skip = self.outside | self.explained
        return [
            step
            for step in self.program.operations
            if step.needed and step.number not in self.partner and step.number not in skip
        ]

    def gap(self, step: Step) -> tuple[int, int]:
        """The operations with a partner before and after ``step``; -1 if there is none."""
        paired = [other.number for other in self.program.operations if other.number in self.partner]
        at = bisect.bisect(paired, step.number)
        return paired[at - 1] if at else -1, paired[at] if at < len(paired) else -1

    def called(self, step: Step) -> list[int]:
        """The operations of one call, if nothing but ``step`` corresponds to something of the other
        program."""
        if step.call is None:
            return [step.number]
        call = [other for other in self.program.operations if other.needed and other.call == step.call]
        group = [other.number for other in call]
        if not group or any(number in self.partner and number != step.number for number in group):
            return [step.number]
        return group

    def reached(self) -> set[int]:
        """The steps that take a value which has another type in the other program."""
        changed: set[int] = set()
        for step in self.program.steps:
            partner = self.partner.get(step.number)
            if partner is not None and step.avals != self.other.steps[partner].avals:
                changed.add(step.number)
        reached: set[int] = set()
        for step in self.program.operations:
            if any(source in changed or source in reached for source, _ in step.operands):
                reached.add(step.number)
        return reached


class Comparison:
    """The differences of the program ``now`` to the program ``before``, in ``changes``.

    Arguments:
      types_explained: what types the inputs have is explained elsewhere (the two are functions, and inputs
        their arguments).
      settings_explained: JAX's configuration differs, so that types and parameters may differ too.
      outside: gives, of the alignment, the steps of both programs that are there for another reason (where
        the traces begin and end), and whether the traces end elsewhere, so that what is alive then differs
        too.
      sources: lines of the code behind the two.

    Attributes:
      changes: the differences.
      alignment: which step is which.
    """

    def __init__(
        self,
        before: Comparable,
        now: Comparable,
        *,
        types_explained: bool = False,
        settings_explained: bool = False,
        outside: Callable[[Alignment], tuple[set[int], set[int], bool]] | None = None,
        sources: tuple[set[str], set[str]] | None = None,
    ):
        self.before, self.now = before, now
        self.alignment = Alignment(before, now, by_position=types_explained, sources=sources)
        self.changes: list[Change] = []
        self._silent_types = types_explained or settings_explained
        self._settings = settings_explained
        self._nested = types_explained
        self._dimensions: set[tuple[int, int]] = set()
        self._users_functions: dict[int, bool] = {}
        self._explained_calls: set[tuple[str, int]] = set()
        self._users = now.users()
        self._ends_elsewhere = False
        outside_before: set[int] = set()
        outside_now: set[int] = set()
        if outside is not None:
            outside_before, outside_now, self._ends_elsewhere = outside(self.alignment)
        old, new = self.alignment.old, self.alignment.new
        self._side_before = _Side(0, before, new, now, old, outside_before, _lines(before))
        self._side_now = _Side(1, now, old, before, new, outside_now, _lines(now))
        self._sides = self._side_before, self._side_now
        self._loops = self._repeated()
        self._find()

    def _find(self) -> None:
        self._inputs()
        self._affected = self._side_before.reached(), self._side_now.reached()
        self._jitted()
        self._pairs()
        self._unmatched()
        self._results()
        if not self.changes:
            self._order()

    # ---- what flows in -------------------------------------------------------------------------------------

    def _inputs(self) -> None:
        for step in self.now.steps:
            match = self.alignment.old.get(step.number)
            if step.is_operation or match is None or not step.needed:
                continue
            old = self.before.steps[match]
            if old.needed:
                self._input(old, step)

    def _input(self, old: Step, new: Step) -> None:
        if self._nested:
            if old.operation is not None or new.operation is not None:
                self._literal(old, new)
            return
        if is_number(old) or is_number(new):
            self._number(old, new)
            return
        a, b = old.avals[0], new.avals[0]
        if len(a.shape) != len(b.shape):
            self._add_input("rank", old, new, str(a.shape), str(b.shape))
        elif a.shape != b.shape:
            self._dimensions.update(zip(a.shape, b.shape, strict=True))
            self._add_input("shape", old, new, str(a.shape), str(b.shape))
        if not self._settings:
            self._dtype(old, new)
        if old.held != new.held:
            self._add_input("sharding", old, new, _held(old), _held(new))

    def _number(self, old: Step, new: Step) -> None:
        """Compares two inputs of which one is a number from Python at least."""
        a, b = old.avals[0], new.avals[0]
        if is_number(old) != is_number(new):
            self._add_input("scalar", old, new, _kind_of(old), _kind_of(new))
        elif (a.dtype, a.weak_type) != (b.dtype, b.weak_type) and not self._settings:
            self._add_input("number", old, new, _kind_of(old), _kind_of(new))

    def _dtype(self, old: Step, new: Step) -> None:
        a, b = old.avals[0], new.avals[0]
        if a.dtype != b.dtype:
            self._add_input("dtype", old, new, str(a.dtype), str(b.dtype))
        elif a.weak_type != b.weak_type:
            self._add_input("weak_type", old, new, _dtype_of(a), _dtype_of(b))

    def _add_input(self, kind: str, old: Step, new: Step, before: str, now: str) -> None:
        user = self._user(new)
        if kind == "number" or (is_number(new) and not new.name):
            name = "a number" if user is None else f"the number that {user.label} takes"
        elif new.name:
            name = new.label
        else:
            name = "an input" if user is None else f"an array that {user.label} takes"
        if old.name and new.name != old.name:
            before = f"{before} (`{old.name}`)"
        fields = {"name": name, "it": new.label if new.name else "it", "now": now, "before": before}
        self.changes.append(Change(kind, fields, (new.number,), (old.number,), user))

    def _user(self, given: Step) -> Step | None:
        """The first operation that takes an input; returns None if none does."""
        return next(iter(self._users.get((given.number, 0), ())), None)

    def _literal(self, old: Step, new: Step) -> None:
        if old.operation == new.operation:
            return
        user = self._user(new)
        if user is None:
            return
        before, now = _literal_text(old), _literal_text(new)
        if before == now and self._silent_types and old.scalar is not None:
            return  # its type follows from the other operand's
        matched = self.alignment.old.get(user.number)
        if matched is not None:
            fields = {"operation": user.label, "now": now, "before": before}
            self.changes.append(Change("literal", fields, (user.number,), (matched,), user))

    # ---- operations that correspond ------------------------------------------------------------------------

    def _pairs(self) -> None:
        pairs: list[tuple[Step, Step]] = []
        derivatives: list[tuple[Step, Step]] = []
        for old, step in self._needed_pairs():
            if old.number in self._side_before.explained or step.number in self._side_now.explained:
                continue
            (derivatives if _is_derivative(step) else pairs).append((old, step))
        self._compare(pairs)
        if not self.changes:
            self._compare(derivatives)

    def _needed_pairs(self) -> Iterator[tuple[Step, Step]]:
        """The operations that correspond and are both needed, in the order of the present program."""
        for step in self.now.operations:
            match = self.alignment.old.get(step.number)
            if match is not None and step.needed and self.before.steps[match].needed:
                yield self.before.steps[match], step

    def _compare(self, pairs: Sequence[tuple[Step, Step]]) -> None:
        contexts = not (self._nested or self._settings)
        for old, step in pairs:
            if not old.same_operation(step):
                self._operation(old, step)
            elif contexts and old.operation is not step.operation:
                self._add_pair("context", old, step, name=step.label)
            if old.name == step.name:
                self._operands(old, step)

    def _operation(self, old: Step, new: Step) -> None:
        types = self._types(old, new)
        follows = types != Types() or self._settings
        if old.name != new.name:
            if not (follows and self._same_line(old, new)):
                self._replaced(old, new)
        elif calls_users_function(new) and calls_users_function(old):
            self._function(old, new, follows)
        else:
            self._library(old, new, types, follows)

    def _replaced(self, old: Step, new: Step) -> None:
        """One operation stands for another, or one function of several operations that the user called."""
        before, now = self._side_before.called(old), self._side_now.called(new)
        self._side_before.explained.update(before)
        self._side_now.explained.update(now)
        fields = {"now": _call_name(new, now), "before": _call_name(old, before)}
        self.changes.append(Change("replaced", fields, tuple(now), tuple(before), new))

    def _types(self, old: Step, new: Step) -> Types:
        types = []
        for a, b in zip(old.operands, new.operands, strict=False):
            before, now = self.before.aval(a), self.now.aval(b)
            if hasattr(before, "shape") and hasattr(now, "shape"):
                types.append(types_between(before, now))
        return joined(types)

    def _function(self, old: Step, new: Step, follows: bool) -> None:
        """A function of the user's that JAX called differs: says where in it."""
        before, now = jc.jaxprs_in(old.params), jc.jaxprs_in(new.params)
        if len(before) != len(now):
            self._argument(old, new)
            return
        changes: list[Change] = []
        for a, b in zip(before, now, strict=True):
            changes += self._inside(comparable_of_jaxpr(a), comparable_of_jaxpr(b))
        if not changes:
            self._library(old, new, self._types(old, new), follows)
        numbers = (new.number,), (old.number,)
        for change in changes:
            if change.kind == "nested" and change.fields["function"] == new.label:
                nested = change.fields
            else:
                nested = {"function": new.label, "change": change}
            self.changes.append(Change("nested", nested, *numbers, change.at or new))

    def _inside(self, before: Comparable, now: Comparable) -> Sequence[Change]:
        """The differences of two functions that JAX called."""
        settings = self._settings
        return Comparison(before, now, types_explained=True, settings_explained=settings).changes

    def _library(self, old: Step, new: Step, types: Types, follows: bool) -> None:
        parameters = library_parameters(old, new, types)
        if not parameters and not follows:
            self._unexplained(old, new, built_alike=parameters is not None)
        for parameter in parameters or ():
            if not self._follows(parameter):
                self._dimensions.update(parameter.numbers or ())
                self._add_parameter(old, new, parameter)

    def _unexplained(self, old: Step, new: Step, *, built_alike: bool) -> None:
        """A library function differs, and no parameter or type of its operands tells why."""
        if built_alike and holds_new_object(old, new):
            self._add_pair("identity", old, new, operation=new.label)
        elif contexts_differ(old, new):
            self._add_pair("context", old, new, name=new.label)
        else:
            self._argument(old, new)

    def _argument(self, old: Step, new: Step) -> None:
        """An argument of a library function differs, which does not stand as it is among an operation's
        parameters."""
        before, now = (", ".join(aval.str_short() for aval in step.avals) for step in (old, new))
        gives = f": it gives {now}, gave {before}" if now != before else ""
        self._add_pair("argument", old, new, operation=_called_name(new), gives=gives)

    def _follows(self, parameter: Parameter) -> bool:
        """Whether a parameter differs as the sizes do that were told already."""
        if self._settings:
            return True
        return bool(parameter.numbers) and self._dimensions.issuperset(parameter.numbers or ())

    def _add_parameter(self, old: Step, new: Step, parameter: Parameter) -> None:
        if new.call is not None:
            if new.call in self._explained_calls:
                return  # one argument of a function makes several of its operations differ
            self._explained_calls.add(new.call)
        if parameter.name in UNNAMED_PARAMETERS:
            self._argument(old, new)
            return
        fields = {
            "name": f"`{parameter.name}`",
            "operation": _called_name(new),
            "before": parameter.before,
            "now": parameter.now,
        }
        self._add_pair("parameter", old, new, **fields)

    def _operands(self, old: Step, new: Step) -> None:
        """What a pair takes, where that is not told by the steps that give it."""
        if self.now.instruction(new) in self._loops:
            return  # which turn is which is not known
        if len(old.operands) != len(new.operands):
            if not self._silent(new, self._side_now):
                count = len(new.operands)
                now, before = f"{count} operand{'s' * (count != 1)}", str(len(old.operands))
                self._add_pair("operand", old, new, operation=new.label, now=now, before=before)
            return
        for a, b in zip(old.operands, new.operands, strict=True):
            first, second = self.before.steps[a[0]], self.now.steps[b[0]]
            if self.alignment.same_value(a, b):
                continue
            if first.is_operation and first.number not in self.alignment.new:
                continue  # removed
            if second.is_operation and second.number not in self.alignment.old:
                continue  # added
            now, before = self._described(self.now, b), self._described(self.before, a)
            if now == before and not second.is_operation:
                now = f"another {now.removeprefix('an ')}"
            kind = _operand_kind(first, second)
            self._add_pair(kind, old, new, operation=new.label, now=now, before=before)
            return

    @staticmethod
    def _described(comparable: Comparable, value: Value) -> str:
        step = comparable.steps[value[0]]
        if step.is_operation:
            names = comparable.names.get(value, ())
            return f"`{names[0]}`" if names else f"the result of {step.label}"
        if step.scalar is not None:
            return f"the number {step.scalar}"
        return step.label if step.name else "an array"

    def _add_pair(self, kind: str, old: Step, new: Step, **fields: Any) -> None:
        self.changes.append(Change(kind, fields, (new.number,), (old.number,), new))

    # ---- operations that do not ----------------------------------------------------------------------------

    def _same_line(self, old: Step, new: Step) -> bool:
        return self.before.text(old) == self.now.text(new)

    def _silent(self, step: Step, side: _Side) -> bool:
        """Whether an operation is there or not because what it takes has another type: its line is in both
        programs."""
        if side.program.text(step) not in self._sides[1 - side.number].lines:
            return False
        return self._settings or step.number in self._affected[side.number]

    def _unmatched(self) -> None:
        """Tells of the operations that only one of the programs has."""
        unmatched = [side.without_partner() for side in self._sides]
        self._turns(unmatched)
        changed = [self._changed_instructions(side) for side in self._sides]
        groups, derivatives = [], []
        for side, steps in zip(self._sides, unmatched, strict=True):
            rest = [step for step in steps if not self._is_explained(step, side, changed[side.number])]
            groups.append(_by_line(side.program, [step for step in rest if not _is_derivative(step)]))
            derivatives.append(_by_line(side.program, [step for step in rest if _is_derivative(step)]))
        self._substituted(*groups)
        self._one_sided(groups)
        if not self.changes:
            # A derivative differs with what it is of, which would be told; so something was asked of it.
            self._one_sided(derivatives)

    def _is_explained(self, step: Step, side: _Side, changed: set[Hashable]) -> bool:
        """Whether an operation without partner follows from a known difference.

        Arguments:
          changed: the instructions of the operations that differ.
        """
        instruction = side.program.instruction(step)
        if instruction in self._loops or instruction in changed:
            return True
        return self._silent(step, side) or self._follows_dead(step, side)

    def _substituted(self, removed: list[list[Step]], added: list[list[Step]]) -> None:
        """Tells of the groups that stand at the same place of both programs, between the same two that
        correspond, and takes them out of ``removed`` and ``added``."""
        for old in list(removed):
            gap = self._side_before.gap(old[0])
            new = next((group for group in added if self._gap_before(group) == gap), None)
            if new is None:
                continue
            removed.remove(old)
            added.remove(new)
            fields = {"before": _listed(self.before, old), "now": _listed(self.now, new)}
            self.changes.append(Change("replaced", fields, _numbers(new), _numbers(old), new[0]))

    def _gap_before(self, added: Sequence[Step]) -> tuple[int, ...]:
        """Where a group of operations would stand in the earlier program."""
        return tuple(self.alignment.old.get(number, number) for number in self._side_now.gap(added[0]))

    def _one_sided(self, groups: Sequence[Sequence[Sequence[Step]]]) -> None:
        """Tells of groups of operations that only one of the programs has, by side."""
        for side, kind in zip(self._sides, ("removed", "added"), strict=True):
            for group in groups[side.number]:
                names = _listed(side.program, group)
                fields = {"operation": names, "was": "was", "it": "it was"}
                if " and " in names:
                    fields.update(was="were", it="they were")
                self.changes.append(side.change(kind, fields, _numbers(group), group[0]))

    def _changed_instructions(self, side: _Side) -> set[Hashable]:
        """The instructions of the operations that are known to differ."""
        instructions: set[Hashable] = set()
        for change in self.changes:
            if change.kind in _OPERATIONS:
                steps = [side.program.steps[number] for number in side.steps_of(change)]
                instructions.update(map(side.program.instruction, steps))
        return instructions - {None}

    def _follows_dead(self, step: Step, side: _Side) -> bool:
        """Whether an operation that only a derivative needs is there because a dead operation differs, the
        one that the derivative is of."""
        instruction = side.program.instruction(step)
        if instruction is None:
            return False
        for other in side.program.operations:
            if other.needed or other.number not in side.partner:
                continue
            if side.program.instruction(other) != instruction:
                continue
            old, new = other, side.other.steps[side.partner[other.number]]
            if side.number:
                old, new = new, old
            if not old.same_operation(new):
                count = len(self.changes)
                self._operation(old, new)
                return len(self.changes) > count or new.call in self._explained_calls
        return False

    # ---- loops and jitted functions ------------------------------------------------------------------------

    def _calls_users(self, step: Step) -> bool:
        known = self._users_functions.get(id(step.operation))
        if known is None:
            known = self._users_functions[id(step.operation)] = calls_users_function(step)
        return known

    def _turn_counts(self, side: _Side) -> dict[Hashable, Counter[str]]:
        """By instruction, how often it recorded each operation. Derivatives are left out: one call records
        many."""
        calls: dict[Hashable, Counter[str]] = {}
        for step in side.program.operations:
            if step.number in side.outside or _is_derivative(step):
                continue
            instruction = side.program.instruction(step)
            if instruction is not None:
                calls.setdefault(instruction, Counter())[step.name] += 1
        return calls

    def _repeated(self) -> dict[Hashable, tuple[int, int]]:
        """The instructions that ran another number of times: by that of either program, how often before and
        now."""
        if len(self.before.operations) == len(self.now.operations):
            return {}
        counts_before, counts_now = self._turn_counts(self._side_before), self._turn_counts(self._side_now)
        repeated: dict[Hashable, tuple[int, int]] = {}
        for step in self.now.operations:
            match = self.alignment.old.get(step.number)
            if match is None:
                continue
            old, new = self.before.instruction(self.before.steps[match]), self.now.instruction(step)
            names_before, names_now = counts_before.get(old), counts_now.get(new)
            if not names_before or not names_now or names_before.keys() != names_now.keys():
                continue
            before, now = min(names_before.values()), min(names_now.values())
            if before != now:
                repeated[old] = repeated[new] = before, now
        return repeated

    def _turns(self, unmatched: Sequence[Sequence[Step]]) -> None:
        """Tells what a loop did more or less often."""
        loops: dict[tuple[int, int, int], list[Step]] = {}
        for side in self._sides:
            for step in unmatched[side.number]:
                turns = self._loops.get(side.program.instruction(step))
                if turns is not None:
                    loops.setdefault((side.number, *turns), []).append(step)
        for (number, before, now), steps in loops.items():
            side = self._sides[number]
            names = _listed(side.program, steps)
            runs = "run" if " and " in names else "runs"
            fields = {"operation": names, "runs": runs, "now": _times(now), "before": _times(before)}
            self.changes.append(side.change("repeats", fields, _numbers(steps), steps[0]))

    def _jitted(self) -> None:
        """A function that is jitted in one program alone: one operation stands for those that it consists
        of."""
        for side, kind in zip(self._sides, ("unjitted", "jitted"), strict=True):
            for step in side.program.operations:
                if not step.needed or "name" not in step.params or not self._calls_users(step):
                    continue
                partner = side.partner.get(step.number)
                if partner is not None and side.other.steps[partner].name == step.name:
                    continue
                body = _body(side, step)
                if body:
                    self._add_jitted(kind, side, step, body)

    def _add_jitted(self, kind: str, side: _Side, step: Step, body: Sequence[Step]) -> None:
        """Tells that ``step`` of one program is ``body`` in the other."""
        numbers = _numbers(body)
        side.explained.add(step.number)
        self._sides[1 - side.number].explained.update(numbers)
        fields = {"function": step.label}
        if side.number:
            self.changes.append(Change(kind, fields, (step.number,), numbers, step))
        else:
            self.changes.append(Change(kind, fields, numbers, (step.number,), body[0]))

    # ---- what comes out ------------------------------------------------------------------------------------

    def _results(self) -> None:
        if self._nested:
            if not self.changes and not self.alignment.same_values(self.before.wanted, self.now.wanted):
                self._returns()
        elif not self._ends_elsewhere:
            self._alive("alive", self._side_now)
            self._alive("not_alive", self._side_before)

    def _returns(self) -> None:
        """Tells that two functions return other values."""
        before, now = _result_count(self.before), _result_count(self.now)
        if before == now:
            now = "others, or the same in another order"
        self.changes.append(Change("returns", {"before": before, "now": now}))

    def _alive(self, kind: str, side: _Side) -> None:
        """Tells of the values that only one of the programs returns, though both have them.

        A variable that holds what was added, or held what was removed, is not among them.
        """
        known = set(side.other.wanted)
        reused: set[str] = set()
        for value in side.other.wanted:
            if value[0] not in side.back:
                reused.update(side.other.names.get(value, ()))
        for value in side.program.wanted:
            number, result = value
            partner, step = side.partner.get(number), side.program.steps[number]
            if partner is None or (partner, result) in known:
                continue
            if side.program.instruction(step) in self._loops:
                continue
            names = side.program.names.get(value, ())
            if reused.isdisjoint(names):
                name = f"the variable `{names[0]}`" if names else f"the result of {step.label}"
                self.changes.append(side.change(kind, {"name": name}, (number,), step))

    def _order(self) -> None:
        """The same steps in another order."""
        furthest = -1
        for old, step in self._needed_pairs():
            if old.number < furthest:
                after = self.now.steps[self.alignment.new[furthest]]
                fields = {"operation": step.label, "after": after.label}
                self.changes.append(Change("moved", fields, (step.number,), (old.number,), step))
            furthest = max(furthest, old.number)


def _lines(program: Comparable) -> set[str]:
    """The source lines of a program's operations."""
    return {program.text(step) for step in program.operations} - {""}


def _numbers(steps: Sequence[Step]) -> tuple[int, ...]:
    return tuple(step.number for step in steps)


def _result_count(program: Comparable) -> str:
    count = len(program.wanted)
    return f"{count} result{'s' * (count != 1)}"


def _body(side: _Side, step: Step) -> list[Step]:
    """The operations of the other program that the function stands for which ``step`` calls as a jitted
    one."""
    name = step.params["name"]
    body = []
    for other in side.other.operations:
        if not other.needed or other.origin is None or other.origin.code.co_name != name:
            continue
        if side.back.get(other.number) in (None, step.number):
            body.append(other)
    return body


def _called_name(step: Step) -> str:
    """The library function that the user called, quoted; else the operation."""
    return f"`{step.call[0]}`" if step.call is not None else step.label


def _call_name(step: Step, group: Sequence[int]) -> str:
    """What stands for a group of operations of one call."""
    return _called_name(step) if len(group) > 1 else step.label


def _operand_kind(before: Step, now: Step) -> str:
    """The kind of change if a pair takes ``now`` instead of ``before``."""
    if before.is_operation == now.is_operation:
        return "operand"
    return "input_added" if before.is_operation else "input_removed"


def _literal_text(step: Step) -> str:
    return step.scalar if step.scalar is not None else "an array"


def _dtype_of(aval: Any) -> str:
    return f"weakly typed {aval.dtype}" if aval.weak_type else str(aval.dtype)


_KINDS = {"b": "bool", "i": "int", "u": "int", "f": "float", "c": "complex"}


def _kind_of(step: Step) -> str:
    """An input in words: a number with its Python type, an array with its shape."""
    aval = step.avals[0]
    if not is_number(step):
        return f"an array, {aval.str_short()}"
    dtype = aval.dtype
    text, kind = step.scalar, str(dtype)
    if dtype.kind == "f" and str(text).lstrip("-").isdigit():
        text = f"{text}.0"
    if aval.weak_type or dtype.kind == "b":
        kind = _KINDS.get(dtype.kind, kind)
    return f"{text} ({kind})"


_SHOWN_DEVICES = 4


def _held(step: Step) -> str:
    """The devices that hold an input, in words."""
    sharding = step.held
    if sharding is None:
        return "not bound to a device"
    devices = sorted(sharding.device_set, key=lambda device: device.id)
    where = ", ".join(f"{device.platform}:{device.id}" for device in devices[:_SHOWN_DEVICES])
    if len(devices) == 1:
        return f"on {where}"
    if len(devices) > _SHOWN_DEVICES:
        where += ", ..."
    spec = getattr(sharding, "spec", None)
    if spec is None:
        return f"sharded over {where}"
    return f"sharded over {where} as {tuple(spec)}"


def _by_line(comparable: Comparable, steps: Sequence[Step]) -> list[list[Step]]:
    """Neighbours of one line, in order."""
    groups: list[list[Step]] = []
    for step in steps:
        if groups and step.line is not None and groups[-1][0].line == step.line:
            groups[-1].append(step)
        else:
            groups.append([step])
    return groups


def _listed(comparable: Comparable, group: Sequence[Step]) -> str:
    """The operations in words: by call, the function that the user called, else the operation that says
    most."""
    units: dict[Any, list[Step]] = {}
    for step in group:
        units.setdefault(comparable.instruction(step) or step.number, []).append(step)
    names = list(dict.fromkeys(_unit_name(steps) for steps in units.values()))
    words = [f"`{name}`" for name in names[:_SHOWN_NAMES]]
    if len(names) > len(words):
        return f"{', '.join(words)} and {len(names) - len(words)} more"
    if len(words) == 1:
        return words[0]
    return f"{', '.join(words[:-1])} and {words[-1]}"


_SHOWN_NAMES = 4


def _is_derivative(step: Step) -> bool:
    """Whether an operation belongs to a function that JAX made of another one, as the backward pass of
    ``grad`` does."""
    if step.origin is None or step.origin.callee is None:
        return False
    return step.origin.callee.co_name in DERIVATIVE_FUNCTIONS


_OPERATIONS = frozenset("replaced parameter argument nested identity".split())


def _unit_name(steps: Sequence[Step]) -> str:
    if steps[0].call is not None:
        return steps[0].call[0]
    return next((step.name for step in steps if step.name not in GLUE), steps[0].name)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
