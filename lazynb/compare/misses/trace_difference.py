"""Comparison of two programs: finds the differences and drops those that follow from another difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lazynb.compare.matching import Alignment
from lazynb.compare.misses.call_pairs import CallPairs
from lazynb.compare.misses.converted_types import drop_converted, is_converted
from lazynb.compare.misses.insertions_deletions import (
    InsertionsDeletions,
    SameFunction,
    find_jitted,
    is_same_position,
)
from lazynb.compare.misses.operation_pairs import OperationPairs
from lazynb.compare.misses.program_sides import (
    ProgramChange,
    ProgramPair,
    ProgramSide,
    called_name,
    input_name,
)
from lazynb.compare.misses.source_syntax import found, signature_of
from lazynb.compare.program_graph import ProgramGraph, ProgramStep, is_constant, is_number

_KINDS = {"b": "bool", "i": "int", "u": "int", "f": "float", "c": "complex"}
"""NumPy kind of a dtype → Python number type."""

_SHOWN_DEVICES = 4

_OF_EMPTY = frozenset(("shape", "dtype", "device", "out_sharding"))
"""Parameters of ``jnp.zeros`` and its like: only one of them gives another type."""


class TraceDifference:
    """The differences between the programs ``before`` and ``now``, in ``changes``.

    This class compares inputs and results, and delegates the comparison of operations.

    Arguments:
      functions: whether the two are functions that JAX called, whose argument types are explained elsewhere.
      settings_explained: whether JAX's configuration differs, so that types and parameters may differ too.
      outside: takes the alignment; returns the steps of both programs that another reason explains (where the
        traces begin and end), and whether the traces end elsewhere, so that different values are alive at the
        end.
      sources: lines of the source code of both.
      key: see :class:`lazynb.compare.matching.Alignment`.
      is_same_function: whether a function of one program may be an edit of one of the other.
    """

    def __init__(
        self,
        before: ProgramGraph,
        now: ProgramGraph,
        *,
        functions: bool = False,
        settings_explained: bool = False,
        outside: Callable[[Alignment], tuple[set[int], set[int], bool]] | None = None,
        sources: tuple[set[str], set[str]] | None = None,
        key: Callable[[int, ProgramStep], str] | None = None,
        is_same_function: SameFunction = is_same_position,
    ):
        self._is_same_function = is_same_function
        self.alignment = Alignment(before, now, by_position=functions, sources=sources, key=key)
        outside_before: set[int] = set()
        outside_now: set[int] = set()
        self._ends_elsewhere = False
        if outside is not None:
            outside_before, outside_now, self._ends_elsewhere = outside(self.alignment)
        steps_outside = outside_before, outside_now
        self._sides = ProgramPair(
            self.alignment, steps_outside, functions=functions, settings=settings_explained
        )
        self.changes = self._sides.changes
        self._calls = CallPairs(self._sides)
        self._users = now.users()
        self._find()

    def different(self) -> list[tuple[ProgramStep, ProgramStep]]:
        """Pairs of corresponding needed operations that differ."""
        return [(old, new) for old, new in self._sides.needed_pairs() if not old.same_operation(new)]

    def _find(self) -> None:
        sides = self._sides
        self._inputs()
        find_jitted(sides, self._is_same_function)
        self._calls.compare_arrays()
        pairs = OperationPairs(sides, self._calls, self._inside)
        pairs.compare_all()
        self._calls.compare_rest()
        InsertionsDeletions(sides, pairs).compare_all()
        self._drop_told_constants()
        drop_converted(sides)
        self._results()
        if not self.changes:
            self._order()

    def _drop_told_constants(self) -> None:
        """Drops constants on lines with a reported edit: an exponent is also a number in a derivative. Drops
        constants of the same value if anything else differs."""
        told = {change.at.place for change in self.changes if change.at is not None}
        others = any(change.kind != "constant" for change in self.changes)

        def is_told(change: ProgramChange) -> bool:
            fields = change.fields
            return (fields["both"] and fields["place"] in told) or (others and fields["is_same"])

        self.changes[:] = [
            change for change in self.changes if change.kind != "constant" or not is_told(change)
        ]

    def _inside(self, before: ProgramGraph, now: ProgramGraph) -> Sequence[ProgramChange]:
        return TraceDifference(before, now, functions=True, settings_explained=self._sides.settings).changes

    # ---- Inputs --------------------------------------------------------------------------------------------

    def _inputs(self) -> None:
        """Compares corresponding inputs; for functions, only the literals."""
        side = self._sides.now
        for new in side.program.inputs:
            old = side.partner_of(new)
            if old is None or not new.needed or not old.needed:
                continue
            if not self._sides.functions:
                self._input(old, new)
            elif old.operation is not None or new.operation is not None:
                self._literal(old, new)

    def _input(self, old: ProgramStep, new: ProgramStep) -> None:
        if is_number(old) or is_number(new):
            self._number(old, new)
            return
        a, b = old.avals[0], new.avals[0]
        if len(a.shape) != len(b.shape):
            self._add_input("rank", old, new, str(a.shape), str(b.shape))
        elif a.shape != b.shape:
            self._sides.dimensions.update(zip(a.shape, b.shape, strict=True))
            self._add_input("shape", old, new, str(a.shape), str(b.shape))
        if not self._sides.settings:
            self._dtype(old, new)
        if old.held != new.held:
            self._add_input("sharding", old, new, _held(old), _held(new))

    def _number(self, old: ProgramStep, new: ProgramStep) -> None:
        """Compares two inputs of which at least one is a number from Python."""
        a, b = old.avals[0], new.avals[0]
        if is_number(old) != is_number(new):
            self._add_input("scalar", old, new, _kind_of(old), _kind_of(new))
        elif (a.dtype, a.weak_type) != (b.dtype, b.weak_type):
            if not self._sides.settings and not self._made_for_call(old, new):
                self._add_input("number", old, new, _kind_of(old), _kind_of(new))
        elif old.held != new.held:
            self._constant(old, new)

    def _made_for_call(self, old: ProgramStep, new: ProgramStep) -> bool:
        """Whether a library function converted the number to the type of its result; reports its argument."""
        user = self._user(new)
        partner = self._sides.now.partner_of(user) if user is not None else None
        if user is None or partner is None or user.call is None or not is_converted(old, new):
            return False
        results = self._calls.result(0, partner), self._calls.result(1, user)
        types = [result.avals[0] for result in results]
        if [each.dtype for each in types] != [old.avals[0].dtype, new.avals[0].dtype]:
            return False
        signature = signature_of(found(f"jax.numpy.{user.call[0]}"))
        fields = {"operation": called_name(user), "before": str(types[0].dtype), "now": str(types[1].dtype)}
        if signature is not None and "dtype" in signature.parameters.keys() <= _OF_EMPTY:
            self._sides.add_pair("parameter", partner, user, name="`dtype`", **fields)
        else:
            gives = f": it gives {types[1].str_short()}, gave {types[0].str_short()}"
            self._sides.add_pair("argument", partner, user, operation=fields["operation"], gives=gives)
        self._sides.explained_calls.add(user.call)
        return True

    def _constant(self, old: ProgramStep, new: ProgramStep) -> None:
        """Reports two numbers of one type of which at least one is a constant of its program."""
        user = self._user(new)
        place = user.place if user is not None else None
        if place is None or (is_constant(old) and is_constant(new) and (old.held.is_own or new.held.is_own)):
            return  # constants that JAX adds follow from the requested operation
        now, then = new.scalar, "a constant of this program"
        if not is_constant(new):
            then = "from here on an input"
        if old.scalar == new.scalar:
            now = "written in the code" if is_constant(new) else "held by a variable"
        fields: dict[str, Any] = {
            "before": old.scalar,
            "now": now,
            "then": then,
            "at": place.label,
            "place": place,
        }
        fields["both"] = is_constant(old) and is_constant(new)
        fields["is_same"] = old.scalar == new.scalar
        self.changes.append(ProgramChange("constant", fields, (new.number,), (old.number,)))

    def _dtype(self, old: ProgramStep, new: ProgramStep) -> None:
        a, b = old.avals[0], new.avals[0]
        if a.dtype != b.dtype:
            self._add_input("dtype", old, new, str(a.dtype), str(b.dtype))
        elif a.weak_type != b.weak_type:
            self._add_input("weak_type", old, new, _dtype_of(a), _dtype_of(b))

    def _add_input(self, kind: str, old: ProgramStep, new: ProgramStep, before: str, now: str) -> None:
        user = self._user(new)
        if old.name and new.name != old.name:
            before = f"{before} (`{old.name}`)"
        fields = {
            "name": input_name(new, user),
            "it": new.label if new.name else "it",
            "now": now,
            "before": before,
        }
        self.changes.append(ProgramChange(kind, fields, (new.number,), (old.number,), user))

    def _user(self, given: ProgramStep) -> ProgramStep | None:
        """The first operation that reads an input; None if there is none."""
        return next(iter(self._users.get((given.number, 0), ())), None)

    def _literal(self, old: ProgramStep, new: ProgramStep) -> None:
        """Compares two function inputs of which at least one is a literal in its function."""
        if old.operation == new.operation:
            return
        user = self._user(new)
        if user is None:
            return
        before, now = _literal_text(old), _literal_text(new)
        if before == now and old.scalar is not None:
            return  # its type follows from the other operand
        partner = self._sides.now.partner_of(user)
        if partner is not None:
            fields: dict[str, Any] = {"operation": user.label, "now": now, "before": before}
            if is_converted(old, new):
                fields["types"] = str(old.avals[0].dtype), str(new.avals[0].dtype)
            self._sides.add_pair("literal", partner, user, **fields)

    # ---- Results -------------------------------------------------------------------------------------------

    def _results(self) -> None:
        before, now = self._sides.both
        if self._sides.functions:
            if not self.changes and not self.alignment.same_values(before.program.wanted, now.program.wanted):
                self._returns()
        elif not self._ends_elsewhere:
            self._alive("alive", now)
            self._alive("not_alive", before)

    def _returns(self) -> None:
        before, now = _result_count(self._sides.before.program), _result_count(self._sides.now.program)
        if before == now:
            now = "others, or the same in another order"
        self.changes.append(ProgramChange("returns", {"before": before, "now": now}))

    def _alive(self, kind: str, side: ProgramSide) -> None:
        """Reports values that both programs compute but only one returns.

        Variables that hold an added value, or held a removed one, are left out.
        """
        wanted_there = set(side.other.wanted)
        reused = _names_without_partner(side)
        for value in side.program.wanted:
            number, result = value
            partner, step = side.partner.get(number), side.program.steps[number]
            if partner is None or (partner, result) in wanted_there:
                continue
            if side.program.instruction(step) in self._sides.loops:
                continue
            names = side.program.names.get(value, ())
            if reused.isdisjoint(names):
                name = f"the variable `{names[0]}`" if names else f"the result of {step.label}"
                self.changes.append(side.change(kind, {"name": name}, (number,), step))

    def _order(self) -> None:
        """Reports the same steps in another order."""
        before = self._sides.before
        furthest = -1
        for old, new in self._sides.needed_pairs():
            if old.number < furthest:
                after = self._sides.now.program.steps[before.partner[furthest]]
                self._sides.add_pair("moved", old, new, operation=new.label, after=after.label)
            furthest = max(furthest, old.number)


def _names_without_partner(side: ProgramSide) -> set[str]:
    """The variables that hold results of the other program without partner."""
    names: set[str] = set()
    for value in side.other.wanted:
        if value[0] not in side.back:
            names.update(side.other.names.get(value, ()))
    return names


def _result_count(program: ProgramGraph) -> str:
    count = len(program.wanted)
    return f"{count} result{'s' * (count != 1)}"


def _literal_text(step: ProgramStep) -> str:
    return step.scalar if step.scalar is not None else "an array"


def _dtype_of(aval: Any) -> str:
    return f"weakly typed {aval.dtype}" if aval.weak_type else str(aval.dtype)


def _kind_of(step: ProgramStep) -> str:
    """A phrase for an input: a number with its Python type, or an array with its shape."""
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


def _held(step: ProgramStep) -> str:
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
