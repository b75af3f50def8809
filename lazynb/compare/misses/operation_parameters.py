"""Differences in the parameters of two operations, with the parameter names that the user writes."""

from __future__ import annotations

import dataclasses
from typing import Any

from lazynb import jax_compat as jc
from lazynb.compare.program_graph import ProgramStep, graph_of_jaxpr, is_users
from lazynb.jax_compat.jax_names import (
    ADDED_PARAMETERS,
    DTYPE_PARAMETERS,
    PARAMETER_DISPLAY_NAMES,
    RANK_PARAMETERS,
    SIZE_PARAMETERS,
)
from lazynb.recording.jaxpr_structure import ByIdentity, structure

_SINGLE = frozenset("axis start end step size length".split())
"""Parameters shown without tuple brackets if they have one element."""


@dataclasses.dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter that differs.

    Attributes:
      name: as the user writes it, if known.
      before, now: text of its values.
      numbers: the pairs of integers that differ, if both values are integers; otherwise None.
    """

    name: str
    before: str
    now: str
    numbers: tuple[tuple[int, int], ...] | None


@dataclasses.dataclass(frozen=True, slots=True)
class Types:
    """Which properties of the operand types differ."""

    rank: bool = False
    shape: bool = False
    dtype: bool = False
    sharding: bool = False

    def explain(self, name: str) -> bool:
        """Whether a difference of the parameter ``name`` may follow from these."""
        if name in RANK_PARAMETERS:
            return self.rank
        if name in SIZE_PARAMETERS:
            return self.shape
        if name in DTYPE_PARAMETERS:
            return self.dtype
        return self.shape or self.dtype or self.sharding


def types_between(before: Any, now: Any) -> Types:
    """Compares the avals ``before`` and ``now``."""
    rank, shape = len(before.shape) != len(now.shape), before.shape != now.shape
    dtype = before.dtype != now.dtype or before.weak_type != now.weak_type
    sharding = not (shape or dtype) and before != now  # an explicit sharding is part of the type
    return Types(rank, shape, dtype, sharding)


def joined(types: list[Types]) -> Types:
    """The union of the differences of several values."""
    return Types(
        any(each.rank for each in types),
        any(each.shape for each in types),
        any(each.dtype for each in types),
        any(each.sharding for each in types),
    )


def is_plumbing(name: str, value: Any) -> bool:
    """Whether a parameter is internal, not written by the user."""
    return name in ADDED_PARAMETERS or bool(jc.jaxprs_of(value))


def plain_parameters(before: ProgramStep, now: ProgramStep, types: Types) -> list[Parameter]:
    """The user's parameters that differ and do not follow from ``types``, without functions."""
    parameters = []
    for name, value in now.params.items():
        old = before.params.get(name)
        if is_plumbing(name, value) or structure(old) == structure(value):
            continue
        if _is_opaque(old) and _is_opaque(value):
            continue
        if not types.explain(name):
            parameters.append(_parameter(now.name, name, old, value))
    return _as_index(before, now, parameters)


def _as_index(before: ProgramStep, now: ProgramStep, parameters: list[Parameter]) -> list[Parameter]:
    """Replaces start and end of a slice of one element along one axis by an index."""
    if [parameter.name for parameter in parameters] != ["start", "end"]:
        return parameters
    pairs = zip(_ranges(before), _ranges(now), strict=False)
    moved = [(old, new) for old, new in pairs if old != new]
    if len(moved) != 1:
        return parameters
    (old, old_end), (new, new_end) = moved[0]
    if old_end - old != 1 or new_end - new != 1:
        return parameters
    return [Parameter("index", str(old), str(new), ((old, new),))]


def _ranges(step: ProgramStep) -> list[tuple[int, int]]:
    """The start and end of a slice, by axis."""
    return list(zip(step.params["start_indices"], step.params["limit_indices"], strict=True))


def library_parameters(before: ProgramStep, now: ProgramStep, types: Types) -> list[Parameter] | None:
    """Like :func:`plain_parameters`, including JAX's own inner functions; None if their structures differ."""
    parameters = plain_parameters(before, now, types)
    old, new = jc.jaxprs_in(before.params), jc.jaxprs_in(now.params)
    if len(old) != len(new):
        return None
    for a, b in zip(old, new, strict=True):
        first, second = graph_of_jaxpr(a), graph_of_jaxpr(b)
        if [step.primitive for step in first.operations] != [step.primitive for step in second.operations]:
            return None
        for x, y in zip(first.operations, second.operations, strict=True):
            inside = library_parameters(x, y, types)
            if inside is None:
                return None
            parameters += [parameter for parameter in inside if parameter not in parameters]
    return parameters


def contexts_differ(before: ProgramStep, now: ProgramStep) -> bool:
    """Whether operations inside the called functions were traced under different JAX configurations."""
    for a, b in zip(jc.jaxprs_in(before.params), jc.jaxprs_in(now.params), strict=False):
        for x, y in zip(graph_of_jaxpr(a).operations, graph_of_jaxpr(b).operations, strict=False):
            if x.operation.ctx != y.operation.ctx or contexts_differ(x, y):
                return True
    return False


def calls_users_function(step: ProgramStep) -> bool:
    """Whether an operation contains a function that the user wrote."""
    return any(is_users(jaxpr) for jaxpr in jc.jaxprs_in(step.params))


def holds_new_object(before: ProgramStep, now: ProgramStep) -> bool:
    """Whether the two differ only in an object without comparable content, such as a recreated callback."""
    for name, value in now.params.items():
        if name in ADDED_PARAMETERS or not _is_opaque(value):
            continue
        old = before.params.get(name)
        if _is_opaque(old) and structure(old) != structure(value):
            return True
    return False


def _is_opaque(value: Any) -> bool:
    """Whether a value has no content to show, only its address."""
    if isinstance(value, str | bytes | bool | int | float | complex) or value is None or jc.is_jaxpr(value):
        return False
    if _is_named(value):
        return False
    return isinstance(structure(value), ByIdentity) or " at 0x" in repr(value)


def _is_named(value: Any) -> bool:
    return isinstance(getattr(value, "name", None), str)


def _parameter(operation: str, name: str, before: Any, now: Any) -> Parameter:
    word = PARAMETER_DISPLAY_NAMES.get(name, name)
    if operation == "arange" and name == "shape":
        word = "length"
    numbers = _numbers(before, now)
    if word in _SINGLE and numbers is not None and len(numbers) == 1:  # along one axis
        return Parameter(word, str(numbers[0][0]), str(numbers[0][1]), numbers)
    if word in _SINGLE:
        before, now = _without_brackets(before), _without_brackets(now)
    return Parameter(word, _text(before), _text(now), numbers)


def _without_brackets(value: Any) -> Any:
    if isinstance(value, tuple) and len(value) == 1:
        return value[0]
    return value


def _text(value: Any) -> str:
    if _is_named(value):  # an enumeration, or a random number generator
        return str(value.name)
    text = str(value)
    return text if len(text) <= 60 else text[:59] + "…"


def _numbers(before: Any, now: Any) -> tuple[tuple[int, int], ...] | None:
    """The pairs of integers that differ; None if some values are not integers, or the counts differ."""
    old, new = _integers(before), _integers(now)
    if old is None or new is None or len(old) != len(new):
        return None
    return tuple((a, b) for a, b in zip(old, new, strict=True) if a != b)


def _integers(value: Any) -> tuple[int, ...] | None:
    """The integers of a parameter; None if it has other values."""
    numbers = value if isinstance(value, tuple) else (value,)
    if all(type(number) is int for number in numbers):
        return numbers
    return None
