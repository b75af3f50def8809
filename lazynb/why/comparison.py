"""Two programs compared: what differs in them, and what of that only follows from another difference."""

from __future__ import annotations

import bisect
import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
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
      at: the step of either whose line tells it; None where it has none.
    """

    kind: str
    fields: dict[str, Any]
    now: tuple[int, ...] = ()
    before: tuple[int, ...] = ()
    at: Step | None = None


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
        self._told: tuple[set[int], set[int]] = (
            set(),
            set(),
        )  # steps without partner that were told, by program
        self._users_functions: dict[int, bool] = {}
        self._told_calls: set[tuple[str, int]] = set()
        self._users = now.users()
        none: tuple[set[int], set[int], bool] = (set(), set(), False)
        *self._outside, self._ends_elsewhere = outside(self.alignment) if outside is not None else none
        self._lines = [{form.text(step) for step in form.operations} - {""} for form in (before, now)]
        self._loops = self._repeated()
        self._inputs()
        self._affected = [
            self._reached(before, self.alignment.new, now),
            self._reached(now, self.alignment.old, before),
        ]
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
        a, b = old.avals[0], new.avals[0]
        if is_number(old) or is_number(new):
            if is_number(old) != is_number(new):
                self._add_input("scalar", old, new, _kind_of(old), _kind_of(new))
            elif (a.dtype, a.weak_type) != (b.dtype, b.weak_type) and not self._settings:
                self._add_input("number", old, new, _kind_of(old), _kind_of(new))
            return
        if len(a.shape) != len(b.shape):
            self._add_input("rank", old, new, str(a.shape), str(b.shape))
        elif a.shape != b.shape:
            self._dimensions.update(zip(a.shape, b.shape, strict=True))
            self._add_input("shape", old, new, str(a.shape), str(b.shape))
        if not self._settings:
            if a.dtype != b.dtype:
                self._add_input("dtype", old, new, str(a.dtype), str(b.dtype))
            elif a.weak_type != b.weak_type:
                words = [f"{'weakly typed ' if aval.weak_type else ''}{aval.dtype}" for aval in (a, b)]
                self._add_input("weak_type", old, new, *words)
        if old.held != new.held:
            self._add_input("sharding", old, new, _held(old), _held(new))

    def _add_input(self, kind: str, old: Step, new: Step, before: str, now: str) -> None:
        user = next(iter(self._users.get((new.number, 0), ())), None)
        name = (
            new.label if new.name else f"an array that {user.label} takes" if user is not None else "an input"
        )
        if kind == "number" or (is_number(new) and not new.name):
            name = f"the number that {user.label} takes" if user is not None else "a number"
        if old.name and new.name != old.name:
            before = f"{before} (`{old.name}`)"
        fields = {"name": name, "it": new.label if new.name else "it", "now": now, "before": before}
        self.changes.append(Change(kind, fields, (new.number,), (old.number,), user))

    def _literal(self, old: Step, new: Step) -> None:
        if old.operation == new.operation:
            return
        user = next(iter(self._users.get((new.number, 0), ())), None)
        if user is None:
            return
        texts = [step.scalar if step.scalar is not None else "an array" for step in (old, new)]
        if texts[0] == texts[1] and self._silent_types and old.scalar is not None:
            return  # its type follows from the other operand's
        matched = self.alignment.old.get(user.number)
        if matched is not None:
            self.changes.append(
                Change(
                    "literal",
                    {"operation": user.label, "now": texts[1], "before": texts[0]},
                    (user.number,),
                    (matched,),
                    user,
                )
            )

    def _reached(self, form: Comparable, match: dict[int, int], other: Comparable) -> set[int]:
        """The steps that take a value which has another type in the other program."""
        changed: set[int] = set()
        for step in form.steps:
            partner = match.get(step.number)
            if partner is not None and step.avals != other.steps[partner].avals:
                changed.add(step.number)
        reached: set[int] = set()
        for step in form.operations:
            if any(source in changed or source in reached for source, _ in step.operands):
                reached.add(step.number)
        return reached

    # ---- operations that correspond ------------------------------------------------------------------------

    def _pairs(self) -> None:
        pairs = [
            (self.before.steps[match], step)
            for step in self.now.operations
            if step.needed
            and (match := self.alignment.old.get(step.number)) is not None
            and self.before.steps[match].needed
            and match not in self._told[0]
            and step.number not in self._told[1]
        ]
        self._compare([pair for pair in pairs if not _is_derivative(pair[1])])
        if not self.changes:
            self._compare([pair for pair in pairs if _is_derivative(pair[1])])

    def _compare(self, pairs: Sequence[tuple[Step, Step]]) -> None:
        for old, step in pairs:
            if not old.same_operation(step):
                self._operation(old, step)
            elif old.operation is not step.operation and not self._nested and not self._settings:
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
        groups = [
            self._called(form, match, step)
            for form, match, step in (
                (self.before, self.alignment.new, old),
                (self.now, self.alignment.old, new),
            )
        ]
        for told, group in zip(self._told, groups, strict=True):
            told.update(group)
        before, now = (
            f"`{step.call[0]}`" if len(group) > 1 and step.call is not None else step.label
            for step, group in zip((old, new), groups, strict=True)
        )
        self.changes.append(
            Change("replaced", {"now": now, "before": before}, tuple(groups[1]), tuple(groups[0]), new)
        )

    @staticmethod
    def _called(form: Comparable, match: dict[int, int], step: Step) -> list[int]:
        """The operations of one call, if nothing but ``step`` corresponds to something of the other
        program."""
        group = [
            one.number
            for one in form.operations
            if one.needed and one.call == step.call and step.call is not None
        ]
        return (
            group
            if all(number == step.number or number not in match for number in group) and group
            else [step.number]
        )

    def _types(self, old: Step, new: Step) -> Types:
        avals = [
            (self.before.aval(a), self.now.aval(b)) for a, b in zip(old.operands, new.operands, strict=False)
        ]
        return joined([types_between(a, b) for a, b in avals if hasattr(a, "shape") and hasattr(b, "shape")])

    def _function(self, old: Step, new: Step, follows: bool) -> None:
        """A function of the user's that JAX called differs: says where in it."""
        before, now = jc.jaxprs_in(old.params), jc.jaxprs_in(new.params)
        found: list[Change] = []
        if len(before) == len(now):
            for a, b in zip(before, now, strict=True):
                inside = Comparison(
                    comparable_of_jaxpr(a),
                    comparable_of_jaxpr(b),
                    types_explained=True,
                    settings_explained=self._settings,
                )
                found += [
                    dataclasses.replace(change, now=(new.number,), before=(old.number,))
                    for change in inside.changes
                ]
        if found:
            self.changes += [
                change
                if change.kind == "nested" and change.fields["function"] == new.label
                else Change(
                    "nested",
                    {"function": new.label, "change": change},
                    (new.number,),
                    (old.number,),
                    change.at or new,
                )
                for change in found
            ]
        elif len(before) != len(now):
            self._argument(old, new)
        else:
            self._library(old, new, self._types(old, new), follows)

    def _library(self, old: Step, new: Step, types: Types, follows: bool) -> None:
        found = library_parameters(old, new, types)
        if found is None or (not found and not follows and not holds_new_object(old, new)):
            if not follows and contexts_differ(old, new):
                self._add_pair("context", old, new, name=new.label)
            elif not follows:
                self._argument(old, new)
            return
        if not found and not follows:
            self._add_pair("identity", old, new, operation=new.label)
        for parameter in found:
            if not self._follows(parameter):
                self._dimensions.update(parameter.numbers or ())
                self._add_parameter(old, new, parameter)

    def _argument(self, old: Step, new: Step) -> None:
        """An argument of a library function differs, which does not stand as it is among an operation's
        parameters."""
        before, now = (", ".join(aval.str_short() for aval in step.avals) for step in (old, new))
        operation = f"`{new.call[0]}`" if new.call is not None else new.label
        gives = f": it gives {now}, gave {before}" if now != before else ""
        self._add_pair("argument", old, new, operation=operation, gives=gives)

    def _follows(self, parameter: Parameter) -> bool:
        """Whether a parameter differs as the sizes do that were told already."""
        return self._settings or (
            bool(parameter.numbers) and self._dimensions.issuperset(parameter.numbers or ())
        )

    def _add_parameter(self, old: Step, new: Step, parameter: Parameter) -> None:
        if new.call is not None:
            if new.call in self._told_calls:
                return  # one argument of a function makes several of its operations differ
            self._told_calls.add(new.call)
        if parameter.name in UNNAMED_PARAMETERS:
            self._argument(old, new)
            return
        operation = f"`{new.call[0]}`" if new.call is not None else new.label
        fields = {
            "name": f"`{parameter.name}`",
            "operation": operation,
            "before": parameter.before,
            "now": parameter.now,
        }
        self.changes.append(Change("parameter", fields, (new.number,), (old.number,), new))

    def _operands(self, old: Step, new: Step) -> None:
        """What a pair takes, where that is not told by the steps that give it."""
        if self.now.instruction(new) in self._loops:
            return  # which turn is which is not known
        if len(old.operands) != len(new.operands):
            if not self._silent(new, 1):
                count = len(new.operands)
                self._add_pair(
                    "operand",
                    old,
                    new,
                    operation=new.label,
                    now=f"{count} operand{'s' * (count != 1)}",
                    before=str(len(old.operands)),
                )
            return
        for a, b in zip(old.operands, new.operands, strict=True):
            if self.alignment.same_value(a, b):
                continue
            first, second = self.before.steps[a[0]], self.now.steps[b[0]]
            if (first.is_operation and first.number not in self.alignment.new) or (
                second.is_operation and second.number not in self.alignment.old
            ):
                continue  # removed or added
            kind = (
                "operand"
                if first.is_operation == second.is_operation
                else "input_added"
                if first.is_operation
                else "input_removed"
            )
            now, before = self._described(self.now, b), self._described(self.before, a)
            if now == before and not second.is_operation:
                now = f"another {now.removeprefix('an ')}"
            self._add_pair(kind, old, new, operation=new.label, now=now, before=before)
            return

    @staticmethod
    def _described(form: Comparable, value: Value) -> str:
        step = form.steps[value[0]]
        if step.is_operation:
            names = form.names.get(value, ())
            return f"`{names[0]}`" if names else f"the result of {step.label}"
        if step.scalar is not None:
            return f"the number {step.scalar}"
        return step.label if step.name else "an array"

    def _add_pair(self, kind: str, old: Step, new: Step, **fields: Any) -> None:
        self.changes.append(Change(kind, fields, (new.number,), (old.number,), new))

    # ---- operations that do not ----------------------------------------------------------------------------

    def _same_line(self, old: Step, new: Step) -> bool:
        return self.before.text(old) == self.now.text(new)

    def _silent(self, step: Step, side: int) -> bool:
        """Whether an operation is there or not because what it takes has another type: its line is in both
        programs."""
        form = (self.before, self.now)[side]
        other = self._lines[1 - side]
        return form.text(step) in other and (step.number in self._affected[side] or self._settings)

    def _unmatched(self) -> None:
        sides = (self.before, self.alignment.new), (self.now, self.alignment.old)
        left = [
            [
                step
                for step in form.operations
                if step.needed
                and step.number not in match
                and step.number not in self._outside[side] | self._told[side]
            ]
            for side, (form, match) in enumerate(sides)
        ]
        self._turns(left)
        told = [
            {form.instruction(step) for step in self._changed_steps(side)} - {None}
            for side, (form, _) in enumerate(sides)
        ]
        groups: list[list[list[Step]]] = [[], []]
        for side, steps in enumerate(left):
            form = sides[side][0]
            rest = [
                step
                for step in steps
                if (where := form.instruction(step)) not in self._loops
                and where not in told[side]
                and not self._silent(step, side)
                and not self._told_by_dead(step, side)
            ]
            left[side] = [step for step in rest if _is_derivative(step)]
            groups[side] = _by_line(form, [step for step in rest if not _is_derivative(step)])
        for old, new in self._substituted(*groups):
            names = {"before": _listed(self.before, old), "now": _listed(self.now, new)}
            self.changes.append(
                Change(
                    "replaced",
                    names,
                    tuple(step.number for step in new),
                    tuple(step.number for step in old),
                    new[0],
                )
            )
        for side in (0, 1):
            for group in groups[side]:
                self._one_sided(side, group)
        if (
            not self.changes
        ):  # a derivative differs with what it is of, which is told; else something was asked of it
            for side, steps in enumerate(left):
                for group in _by_line(sides[side][0], steps):
                    self._one_sided(side, group)

    def _substituted(
        self, removed: list[list[Step]], added: list[list[Step]]
    ) -> list[tuple[list[Step], list[Step]]]:
        """Takes out the groups that stand at the same place of both programs, between the same two that
        correspond."""
        found = []
        for old in list(removed):
            place = self._gap(self.before, self.alignment.new, old[0])
            new = next(
                (
                    group
                    for group in added
                    if place
                    == tuple(
                        self.alignment.old.get(number, number)
                        for number in self._gap(self.now, self.alignment.old, group[0])
                    )
                ),
                None,
            )
            if new is not None:
                removed.remove(old)
                added.remove(new)
                found.append((old, new))
        return found

    @staticmethod
    def _gap(form: Comparable, match: dict[int, int], step: Step) -> tuple[int, int]:
        """The operations with a partner before and after ``step``; -1 where there is none."""
        paired = [one.number for one in form.operations if one.number in match]
        at = bisect.bisect(paired, step.number)
        return paired[at - 1] if at else -1, paired[at] if at < len(paired) else -1

    def _one_sided(self, side: int, group: Sequence[Step]) -> None:
        """Tells of operations that only one of the programs has."""
        numbers = tuple(step.number for step in group)
        names = _listed((self.before, self.now)[side], group)
        several = " and " in names
        fields = {
            "operation": names,
            "was": "were" if several else "was",
            "it": "they were" if several else "it was",
        }
        which = {"now": numbers} if side else {"before": numbers}
        self.changes.append(Change(("removed", "added")[side], fields, **which, at=group[0]))

    def _changed_steps(self, side: int) -> list[Step]:
        """The steps of the pairs that were told."""
        form = (self.before, self.now)[side]
        numbers = [
            number
            for change in self.changes
            if change.kind in _OPERATIONS
            for number in (change.now if side else change.before)
        ]
        return [form.steps[number] for number in numbers]

    def _told_by_dead(self, step: Step, side: int) -> bool:
        """Whether an operation that only a derivative needs is there because the operation itself differs,
        which is dead."""
        form, match = ((self.before, self.alignment.new), (self.now, self.alignment.old))[side]
        where = form.instruction(step)
        if where is None:
            return False
        for other in form.operations:
            if not other.needed and other.number in match and form.instruction(other) == where:
                pair = other.number, match[other.number]
                old, new = self.before.steps[pair[side]], self.now.steps[pair[1 - side]]
                if not old.same_operation(new):
                    count = len(self.changes)
                    self._operation(old, new)
                    return len(self.changes) > count or new.call in self._told_calls
        return False

    # ---- loops and jitted functions ------------------------------------------------------------------------

    def _calls_users(self, step: Step) -> bool:
        known = self._users_functions.get(id(step.operation))
        if known is None:
            known = self._users_functions[id(step.operation)] = calls_users_function(step)
        return known

    def _turn_counts(self, form: Comparable, side: int) -> dict[Any, Counter[str]]:
        """By instruction, how often it recorded each operation. Derivatives are left out: one call records
        many."""
        calls: dict[Any, Counter[str]] = {}
        for step in form.operations:
            where = form.instruction(step)
            if where is not None and step.number not in self._outside[side] and not _is_derivative(step):
                calls.setdefault(where, Counter())[step.name] += 1
        return calls

    def _repeated(self) -> dict[Any, tuple[int, int]]:
        """The instructions that ran another number of times: by that of either program, how often before and
        now."""
        if len(self.before.operations) == len(self.now.operations):
            return {}
        counts = self._turn_counts(self.before, 0), self._turn_counts(self.now, 1)
        found: dict[Any, tuple[int, int]] = {}
        for step in self.now.operations:
            match = self.alignment.old.get(step.number)
            if match is None:
                continue
            places = self.before.instruction(self.before.steps[match]), self.now.instruction(step)
            names = counts[0].get(places[0]), counts[1].get(places[1])
            if names[0] and names[1] and names[0].keys() == names[1].keys():
                before, now = min(names[0].values()), min(names[1].values())
                if before != now:
                    found[places[0]] = found[places[1]] = before, now
        return found

    def _turns(self, left: Sequence[Sequence[Step]]) -> None:
        """Tells what a loop did more or less often."""
        loops: dict[tuple[int, int, int], list[Step]] = {}
        for side, (form, steps) in enumerate(zip((self.before, self.now), left, strict=True)):
            for step in steps:
                often = self._loops.get(form.instruction(step))
                if often is not None:
                    loops.setdefault((side, *often), []).append(step)
        for (side, before, now), steps in loops.items():
            numbers = tuple(step.number for step in steps)
            names = _listed((self.before, self.now)[side], steps)
            runs = "run" if " and " in names else "runs"
            fields = {"operation": names, "runs": runs, "now": _times(now), "before": _times(before)}
            self.changes.append(
                Change("repeats", fields, **({"now": numbers} if side else {"before": numbers}), at=steps[0])
            )

    def _jitted(self) -> None:
        """A function that is jitted in one program alone: one operation stands for those that it consists
        of."""
        for side, kind in ((0, "unjitted"), (1, "jitted")):
            form, match = ((self.before, self.alignment.new), (self.now, self.alignment.old))[side]
            other, back = ((self.now, self.alignment.old), (self.before, self.alignment.new))[side]
            for step in form.operations:
                if not step.needed or "name" not in step.params or not self._calls_users(step):
                    continue
                partner = match.get(step.number)
                if partner is not None and other.steps[partner].name == step.name:
                    continue
                inside = [
                    one
                    for one in other.operations
                    if one.needed
                    and one.origin is not None
                    and one.origin.code.co_name == step.params["name"]
                    and back.get(one.number) in (None, step.number)
                ]
                if inside:
                    numbers = tuple(one.number for one in inside)
                    self._told[side].add(step.number)
                    self._told[1 - side].update(numbers)
                    steps = ((step.number,), numbers)
                    self.changes.append(
                        Change(
                            kind,
                            {"function": step.label},
                            steps[1 - side],
                            steps[side],
                            inside[0] if side == 0 else step,
                        )
                    )

    # ---- what comes out ------------------------------------------------------------------------------------

    def _results(self) -> None:
        if self._nested:
            if not self.changes and (
                len(self.before.wanted) != len(self.now.wanted)
                or not all(map(self.alignment.same_value, self.before.wanted, self.now.wanted))
            ):
                sizes = [
                    f"{len(form.wanted)} result{'s' * (len(form.wanted) != 1)}"
                    for form in (self.before, self.now)
                ]
                sizes = sizes if sizes[0] != sizes[1] else [sizes[0], "others, or the same in another order"]
                self.changes.append(Change("returns", {"before": sizes[0], "now": sizes[1]}))
            return
        if self._ends_elsewhere:
            return
        for kind, form, match, other, back in (
            ("alive", self.now, self.alignment.old, self.before, self.alignment.new),
            ("not_alive", self.before, self.alignment.new, self.now, self.alignment.old),
        ):
            known = set(other.wanted)
            given = {
                name for value in other.wanted if value[0] not in back for name in other.names.get(value, ())
            }
            for value in form.wanted:
                partner = match.get(value[0])
                if form.instruction(form.steps[value[0]]) in self._loops:
                    continue
                if (
                    partner is not None
                    and (partner, value[1]) not in known
                    and given.isdisjoint(form.names.get(value, ()))
                ):
                    self._alive(
                        kind, form, value
                    )  # unless the variable holds what was added, or held what was removed

    def _alive(self, kind: str, form: Comparable, value: Value) -> None:
        names = form.names.get(value, ())
        step = form.steps[value[0]]
        name = f"the variable `{names[0]}`" if names else f"the result of {step.label}"
        numbers = {"now": (value[0],)} if kind == "alive" else {"before": (value[0],)}
        self.changes.append(Change(kind, {"name": name}, **numbers, at=step))

    def _order(self) -> None:
        """The same steps in another order."""
        furthest = -1
        for step in self.now.operations:
            match = self.alignment.old.get(step.number)
            if match is None or not step.needed or not self.before.steps[match].needed:
                continue
            if match < furthest:
                after = self.now.steps[self.alignment.new[furthest]]
                fields = {"operation": step.label, "after": after.label}
                self.changes.append(Change("moved", fields, (step.number,), (match,), step))
            furthest = max(furthest, match)


def _kind_of(step: Step) -> str:
    """An input in words: a number with its Python type, an array with its shape."""
    aval = step.avals[0]
    if not is_number(step):
        return f"an array, {aval.str_short()}"
    text = (
        f"{step.scalar}.0"
        if aval.dtype.kind == "f" and str(step.scalar).lstrip("-").isdigit()
        else step.scalar
    )
    kinds = {"b": "bool", "i": "int", "u": "int", "f": "float", "c": "complex"}
    kind = (
        kinds.get(aval.dtype.kind, str(aval.dtype))
        if aval.weak_type or aval.dtype.kind == "b"
        else str(aval.dtype)
    )
    return f"{text} ({kind})"


def _held(step: Step) -> str:
    sharding = step.held
    if sharding is None:
        return "not bound to a device"
    devices = sorted(sharding.device_set, key=lambda device: device.id)
    where = ", ".join(f"{device.platform}:{device.id}" for device in devices[:4]) + (
        ", ..." if len(devices) > 4 else ""
    )
    spec = getattr(sharding, "spec", None)
    return (
        f"on {where}"
        if len(devices) == 1
        else f"sharded over {where}" + (f" as {tuple(spec)}" if spec is not None else "")
    )


def _by_line(form: Comparable, steps: Sequence[Step]) -> list[list[Step]]:
    """Neighbours of one line, in order."""
    groups: list[list[Step]] = []
    for step in steps:
        if groups and step.line is not None and groups[-1][0].line == step.line:
            groups[-1].append(step)
        else:
            groups.append([step])
    return groups


def _listed(form: Comparable, group: Sequence[Step]) -> str:
    """The operations in words: by call, the function that the user called, else the operation that says
    most."""
    units: dict[Any, list[Step]] = {}
    for step in group:
        units.setdefault(form.instruction(step) or step.number, []).append(step)
    names = list(dict.fromkeys(_unit_name(steps) for steps in units.values()))
    words = [f"`{name}`" for name in names[:4]]
    rest = len(names) - len(words)
    if rest:
        return ", ".join(words) + f" and {rest} more"
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _is_derivative(step: Step) -> bool:
    """Whether an operation belongs to a function that JAX made of another one, as the backward pass of
    ``grad`` does."""
    return (
        step.origin is not None
        and step.origin.callee is not None
        and step.origin.callee.co_name in DERIVATIVE_FUNCTIONS
    )


_OPERATIONS = frozenset("replaced parameter argument nested identity".split())


def _unit_name(steps: Sequence[Step]) -> str:
    if steps[0].call is not None:
        return steps[0].call[0]
    return next((step.name for step in steps if step.name not in GLUE), steps[0].name)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
