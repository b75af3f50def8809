"""How the parameters of two operations differ, named as the user writes them."""

from __future__ import annotations

import dataclasses
from typing import Any

from lazynb import _jax as jc
from lazynb._jax.names import (
    ADDED_PARAMETERS,
    DTYPE_PARAMETERS,
    PARAMETERS_IN_WORDS,
    RANK_PARAMETERS,
    SIZE_PARAMETERS,
)
from lazynb.record.structure import Pinned, structure
from lazynb.why.comparable import Step, comparable_of_jaxpr, is_users

_SINGLE = frozenset("axis start end step size length".split())
"""Shown without the brackets of a tuple where it has one element."""


@dataclasses.dataclass(frozen=True, slots=True)
class Parameter:
    """One that differs.

    Attributes:
      name: as the user writes it, where known.
      before, now: text of its values.
      numbers: pairs of integers of both, where they are integers at the same places; None else.
    """

    name: str
    before: str
    now: str
    numbers: tuple[tuple[int, int], ...] | None


@dataclasses.dataclass(frozen=True, slots=True)
class Types:
    """What of the operands' types differs."""

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
    """How the types (avals) ``before`` and ``now`` differ."""
    rank, shape = len(before.shape) != len(now.shape), before.shape != now.shape
    dtype = before.dtype != now.dtype or before.weak_type != now.weak_type
    return Types(
        rank, shape, dtype, not (shape or dtype) and before != now
    )  # an explicit sharding is part of the type


def joined(found: list[Types]) -> Types:
    """All differences of several values."""
    return Types(*(any(getattr(one, field.name) for one in found) for field in dataclasses.fields(Types)))


def is_plumbing(name: str, value: Any) -> bool:
    """Whether a parameter is none that the user writes."""
    return name in ADDED_PARAMETERS or bool(jc.jaxprs_of(value))


def plain_parameters(before: Step, now: Step, types: Types) -> list[Parameter]:
    """The parameters written by the user that differ and do not follow from ``types``. Functions are left
    out."""
    found = []
    for name, value in now.params.items():
        old = before.params.get(name)
        if (
            is_plumbing(name, value)
            or structure(old) == structure(value)
            or (_is_opaque(old) and _is_opaque(value))
        ):
            continue
        if not types.explain(name):
            found.append(_parameter(now.name, name, old, value))
    return _as_index(before, now, found)


def _as_index(before: Step, now: Step, found: list[Parameter]) -> list[Parameter]:
    """The start and end of a slice of one element, along one axis, are an index."""
    if [one.name for one in found] != ["start", "end"]:
        return found
    bounds = [
        zip(step.params["start_indices"], step.params["limit_indices"], strict=True) for step in (before, now)
    ]
    moved = [(old, new) for old, new in zip(*bounds, strict=False) if old != new]
    if len(moved) != 1 or any(end - start != 1 for start, end in moved[0]):
        return found
    (old, _), (new, _) = moved[0]
    return [Parameter("index", str(old), str(new), ((old, new),))]


def library_parameters(before: Step, now: Step, types: Types) -> list[Parameter] | None:
    """As :func:`plain_parameters`, looking into the functions of JAX's own that ``before`` and ``now`` call;
    None where these are built differently."""
    found = plain_parameters(before, now, types)
    old, new = jc.jaxprs_in(before.params), jc.jaxprs_in(now.params)
    if len(old) != len(new):
        return None
    for a, b in zip(old, new, strict=True):
        first, second = comparable_of_jaxpr(a), comparable_of_jaxpr(b)
        if [step.primitive for step in first.operations] != [step.primitive for step in second.operations]:
            return None
        for x, y in zip(first.operations, second.operations, strict=True):
            inside = library_parameters(x, y, types)
            if inside is None:
                return None
            found += [one for one in inside if one not in found]
    return found


def contexts_differ(before: Step, now: Step) -> bool:
    """Whether the operations in the functions that two operations call were traced under different
    configurations of JAX."""
    for a, b in zip(jc.jaxprs_in(before.params), jc.jaxprs_in(now.params), strict=False):
        for x, y in zip(comparable_of_jaxpr(a).operations, comparable_of_jaxpr(b).operations, strict=False):
            if x.operation.ctx != y.operation.ctx or contexts_differ(x, y):
                return True
    return False


def calls_users_function(step: Step) -> bool:
    """Whether an operation holds a function that the user wrote."""
    return any(is_users(jaxpr) for jaxpr in jc.jaxprs_in(step.params))


def holds_new_object(before: Step, now: Step) -> bool:
    """Whether the two differ in an object without content to compare alone: a callback made anew."""
    return any(
        _is_opaque(old := before.params.get(name))
        and _is_opaque(value)
        and structure(old) != structure(value)
        for name, value in now.params.items()
        if name not in ADDED_PARAMETERS
    )


def _is_opaque(value: Any) -> bool:
    """Whether a value has no content to show: Python tells it by its address."""
    if isinstance(value, str | bytes | bool | int | float | complex) or value is None or jc.is_jaxpr(value):
        return False
    return isinstance(structure(value), Pinned) or " at 0x" in repr(value)


def _parameter(operation: str, name: str, before: Any, now: Any) -> Parameter:
    word = "length" if operation == "arange" and name == "shape" else PARAMETERS_IN_WORDS.get(name, name)
    numbers = _numbers(before, now)
    if word in _SINGLE and numbers is not None and len(numbers) == 1:  # along one axis
        return Parameter(word, str(numbers[0][0]), str(numbers[0][1]), numbers)
    return Parameter(word, _text(before, word in _SINGLE), _text(now, word in _SINGLE), numbers)


def _text(value: Any, single: bool) -> str:
    if single and isinstance(value, tuple) and len(value) == 1:
        value = value[0]
    if hasattr(value, "name") and hasattr(value, "value"):  # an enumeration
        return str(value.name)
    text = str(value)
    return text if len(text) <= 60 else text[:59] + "…"


def _numbers(before: Any, now: Any) -> tuple[tuple[int, int], ...] | None:
    old, new = (value if isinstance(value, tuple) else (value,) for value in (before, now))
    if len(old) != len(new) or not all(type(one) is int for one in (*old, *new)):
        return None
    return tuple((a, b) for a, b in zip(old, new, strict=True) if a != b)
