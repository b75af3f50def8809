"""Differences between the two operations of each pair."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lazynb import jax_compat as jc
from lazynb.compare.misses.call_pairs import CallPairs
from lazynb.compare.misses.operation_parameters import (
    Parameter,
    Types,
    calls_users_function,
    contexts_differ,
    holds_new_object,
    joined,
    library_parameters,
    types_between,
)
from lazynb.compare.misses.program_sides import (
    ProgramChange,
    ProgramPair,
    argument_names,
    called_name,
    is_derivative,
    shape_change,
)
from lazynb.compare.misses.source_syntax import found, signature_of
from lazynb.compare.program_graph import ProgramGraph, ProgramStep, Value, graph_of_jaxpr, is_number
from lazynb.jax_compat.jax_names import UNNAMED_PARAMETERS
from lazynb.running.record_table import plural
from lazynb.user_code.text_format import join_words


class OperationPairs:
    """Finds how paired operations differ, and adds this to the ``changes`` of ``sides``.

    Arguments:
      calls: the calls of library functions in both.
      inside: returns the differences of two functions that JAX called.
    """

    def __init__(
        self,
        sides: ProgramPair,
        calls: CallPairs,
        inside: Callable[[ProgramGraph, ProgramGraph], Sequence[ProgramChange]],
    ):
        self._sides = sides
        self._calls = calls
        self._inside = inside
        self._reported: set[Value] = set()  # inputs whose shape is reported

    def compare_all(self) -> None:
        """Compares the pairs; pairs of derivatives only if the other pairs are equal."""
        sides = self._sides
        pairs: list[tuple[ProgramStep, ProgramStep]] = []
        derivatives: list[tuple[ProgramStep, ProgramStep]] = []
        for old, new in sides.needed_pairs():
            if old.number in sides.before.explained or new.number in sides.now.explained:
                continue
            if is_derivative(new):
                derivatives.append((old, new))
            else:
                pairs.append((old, new))
        self._compare(pairs)
        if not sides.changes:
            self._compare(derivatives)

    def _compare(self, pairs: Sequence[tuple[ProgramStep, ProgramStep]]) -> None:
        contexts = not (self._sides.functions or self._sides.settings)
        for old, new in pairs:
            if not old.same_operation(new):
                self.compare(old, new)
            elif contexts and old.operation is not new.operation:
                self._sides.add_pair("context", old, new, name=new.label)
            if old.name == new.name:
                self._operands(old, new)

    def compare(self, old: ProgramStep, new: ProgramStep) -> None:
        """Compares two operations without their operands."""
        types = self._types(old, new)
        follows = types != Types() or self._sides.settings
        if old.name != new.name and not _is_renamed(old, new):
            if not (follows and self._sides.same_line(old, new)):
                self._replaced(old, new)
        elif calls_users_function(new) and calls_users_function(old):
            self._function(old, new, follows)
        else:
            self._library(old, new, types, follows)

    def _types(self, old: ProgramStep, new: ProgramStep) -> Types:
        """How the types of the operands differ."""
        types = []
        for a, b in zip(old.operands, new.operands, strict=False):
            before, now = self._sides.before.program.aval(a), self._sides.now.program.aval(b)
            if hasattr(before, "shape") and hasattr(now, "shape"):
                types.append(types_between(before, now))
        return joined(types)

    # ---- Operations ----------------------------------------------------------------------------------------

    def _replaced(self, old: ProgramStep, new: ProgramStep) -> None:
        """Reports that an operation, or a called function of several operations, replaced another."""
        sides = self._sides
        before, now = sides.before.called(old), sides.now.called(new)
        sides.before.explained.update(before)
        sides.now.explained.update(now)
        fields = {"now": _call_name(new, now), "before": _call_name(old, before)}
        sides.changes.append(ProgramChange("replaced", fields, tuple(now), tuple(before), new))

    def _function(self, old: ProgramStep, new: ProgramStep, follows: bool) -> None:
        """Reports the differences inside a user function that JAX called."""
        before, now = jc.jaxprs_in(old.params), jc.jaxprs_in(new.params)
        if len(before) != len(now):
            self._argument(old, new)
            return
        if len(old.operands) != len(new.operands):
            return  # the operands are compared: what differs inside follows from them
        changes: list[ProgramChange] = []
        for a, b in zip(before, now, strict=True):
            changes += self._inside(graph_of_jaxpr(a), graph_of_jaxpr(b))
        if not changes:
            self._library(old, new, self._types(old, new), follows)
        numbers = (new.number,), (old.number,)
        for change in changes:
            if change.kind == "nested" and change.fields["function"] == new.label:
                nested = change.fields
            else:
                nested = {"function": new.label, "change": change}
            self._sides.changes.append(ProgramChange("nested", nested, *numbers, change.at or new))

    def _library(self, old: ProgramStep, new: ProgramStep, types: Types, follows: bool) -> None:
        """Reports the differing parameters of a library function."""
        parameters = library_parameters(old, new, types)
        if not parameters:
            if not follows:
                self._unexplained(old, new, built_alike=parameters is not None)
            return
        for parameter in parameters:
            if not self._follows(parameter):
                self._sides.dimensions.update(parameter.numbers or ())
                self._parameter(old, new, parameter)

    def _follows(self, parameter: Parameter) -> bool:
        """Whether a parameter differs only by sizes that are already reported."""
        if self._sides.settings:
            return True
        return bool(parameter.numbers) and self._sides.dimensions.issuperset(parameter.numbers or ())

    def _unexplained(self, old: ProgramStep, new: ProgramStep, *, built_alike: bool) -> None:
        """Reports a library function that differs in no parameter and no operand type."""
        if built_alike and holds_new_object(old, new):
            self._sides.add_pair("identity", old, new, operation=new.label)
        elif contexts_differ(old, new):
            self._sides.add_pair("context", old, new, name=new.label)
        else:
            self._argument(old, new)

    def _argument(self, old: ProgramStep, new: ProgramStep) -> None:
        """Reports a changed argument of a library function that no parameter of the operation shows."""
        first, second = self._calls.result(0, old), self._calls.result(1, new)
        before, now = _types_in_words(first), _types_in_words(second)
        fields = {"operation": called_name(new), "gives": ""}
        if now != before:
            fields["gives"] = f": it gives {now}, gave {before}"
            a, b = first.avals[0], second.avals[0]
            if len(first.avals) == len(second.avals) == 1 and a.shape != b.shape:
                fields.update(before=str(a.shape), now=str(b.shape))
        self._sides.add_pair("argument", old, new, **fields)

    def _parameter(self, old: ProgramStep, new: ProgramStep, parameter: Parameter) -> None:
        if new.call is not None:
            if new.call in self._sides.explained_calls:
                return  # one argument can change several operations of a function
            self._sides.explained_calls.add(new.call)
        is_named = _is_argument(new, parameter.name)
        if parameter.name in UNNAMED_PARAMETERS or not is_named:
            if is_named or not self._calls.follows(old, new):
                self._argument(old, new)
            return
        fields = {
            "name": f"`{parameter.name}`",
            "operation": called_name(new),
            "before": parameter.before,
            "now": parameter.now,
        }
        self._sides.add_pair("parameter", old, new, **fields)

    # ---- Operands ------------------------------------------------------------------------------------------

    def _operands(self, old: ProgramStep, new: ProgramStep) -> None:
        """Reports a changed operand, unless the steps that compute it explain the change."""
        sides = self._sides
        if sides.now.program.instruction(new) in sides.loops:
            return  # the pairing of iterations is unknown
        if len(old.operands) != len(new.operands):
            if not sides.follows_type_change(new, sides.now):
                counts = len(old.operands), len(new.operands)
                fields = _arguments_in_words(old, new)
                sides.add_pair("operand", old, new, operation=called_name(new), counts=counts, **fields)
            return
        for a, b in zip(old.operands, new.operands, strict=True):
            if sides.alignment.same_value(a, b):
                continue
            if not self._is_one_sided(a, b):
                self._operand(old, new, a, b)
                return
            given = sides.now.program.steps[b[0]]
            if b[0] not in sides.now.partner and not (given.is_operation or is_number(given)):
                self._handed_over(new, a, b)

    def _handed_over(self, new: ProgramStep, a: Value, b: Value) -> None:
        """Reports another shape of an array that only the earlier program computed itself."""
        if b in self._reported:
            return
        self._reported.add(b)
        before, now = self._sides.before.program.aval(a), self._sides.now.program.aval(b)
        change = shape_change(before, now, a, self._sides.now.program.steps[b[0]], new)
        if change is not None:
            self._sides.dimensions.update(zip(before.shape, now.shape, strict=False))
            self._sides.changes.append(change)

    def _is_one_sided(self, a: Value, b: Value) -> bool:
        """Whether the earlier program's result ``a`` was removed, or the present program's ``b`` added."""
        first, second = self._sides.before, self._sides.now
        removed = first.program.steps[a[0]].is_operation and a[0] not in first.partner
        added = second.program.steps[b[0]].is_operation and b[0] not in second.partner
        return removed or added

    def _operand(self, old: ProgramStep, new: ProgramStep, a: Value, b: Value) -> None:
        """Reports that ``new`` reads ``b`` where ``old`` read ``a``."""
        before, now = self._sides.before.program, self._sides.now.program
        first, second = before.steps[a[0]], now.steps[b[0]]
        text_before, text_now = _described(before, a), _described(now, b)
        if text_now == text_before and not second.is_operation:
            text_now = f"another {text_now.removeprefix('an ')}"
        kind = _operand_kind(first, second)
        self._sides.add_pair(kind, old, new, operation=new.label, now=text_now, before=text_before)


_SHOWN_ARGUMENTS = 4


def _arguments_in_words(old: ProgramStep, new: ProgramStep) -> dict[str, str]:
    """The arguments of two calls of a user's function, if they are few and known; otherwise their numbers."""
    before, now = argument_names(old), argument_names(new)
    if not before or None in before + now or max(len(before), len(now)) > _SHOWN_ARGUMENTS:
        return {"before": str(len(old.operands)), "now": plural(len(new.operands), "array")}
    words = [join_words([f"`{name}`" for name in names]) if names else "no array" for names in (before, now)]
    return {"before": words[0], "now": words[1]}


def _is_argument(step: ProgramStep, name: str) -> bool:
    """Whether a parameter is an argument of the library function that was called. A shape may be one of the
    primitive inside alone."""
    if step.call is None or name != "shape":
        return True
    signature = signature_of(found(f"jax.numpy.{step.call[0]}"))
    return signature is None or name in signature.parameters


def _is_renamed(old: ProgramStep, new: ProgramStep) -> bool:
    """Whether both call a jitted user function under two names; the difference is then inside."""
    both_jitted = old.primitive is new.primitive and "name" in old.params and "name" in new.params
    return both_jitted and calls_users_function(old) and calls_users_function(new)


def _described(comparable: ProgramGraph, value: Value) -> str:
    """A phrase for a value: the user's name, or the step that computes it."""
    step = comparable.steps[value[0]]
    if step.is_operation:
        names = comparable.names.get(value, ())
        return f"`{names[0]}`" if names else f"the result of {step.label}"
    if step.scalar is not None:
        return f"the number {step.scalar}"
    return step.label if step.name else "an array"


def _operand_kind(before: ProgramStep, now: ProgramStep) -> str:
    """The kind of change if a pair reads ``now`` instead of ``before``."""
    if before.is_operation == now.is_operation:
        return "operand"
    return "input_added" if before.is_operation else "input_removed"


def _call_name(step: ProgramStep, group: Sequence[int]) -> str:
    """A name for a group of operations of one call."""
    return called_name(step) if len(group) > 1 else step.label


def _types_in_words(step: ProgramStep) -> str:
    return ", ".join(aval.str_short() for aval in step.avals)
