"""Structural identity of what parameterises an operation.

Re-running a cell makes new function objects and new jaxprs with the same content: they must give the same
key. So jaxprs enter by content (variables numbered in order of appearance), numbers with their type (``1``,
``1.0`` and ``True`` are equal to Python and differ to XLA), and only what has no content to compare (a
callback) by identity.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable
from typing import Any

import numpy as np

from lazynb import _jax as jc


class Pinned:
    """Identity of an object without comparable content; keeps it alive, so that its address is not used
    again."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pinned) and other.value is self.value


class Content:
    """The content of a jaxpr, hashed once."""

    __slots__ = ("__weakref__", "_hash", "parts")

    def __init__(self, parts: tuple[Hashable, ...]):
        self.parts = parts
        self._hash = hash(parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Content) and self._hash == other._hash and self.parts == other.parts
        )


# Jaxprs are walked once: the memo lives as long as the jaxpr (JAX caches those of a jitted function).
_contents: weakref.WeakKeyDictionary[Any, Content] = weakref.WeakKeyDictionary()


def structure(value: Any) -> Hashable:
    """A hashable key that is equal for equal content.

    Raises nothing: what cannot be compared enters by identity.
    """
    kind = type(value)
    if value is None or kind is str or kind is bytes:
        return value
    if kind is bool or kind is int:
        return (kind, value)
    if kind is float or kind is complex:
        return (kind, repr(value))  # keeps -0.0 from 0.0, and NaN equal to itself
    if isinstance(value, tuple | list):
        return (kind, *map(structure, value))
    if isinstance(value, dict):
        return (kind, *((structure(k), structure(v)) for k, v in value.items()))
    if jc.is_jaxpr(value):
        return jaxpr_content(value)
    if jc.is_host_array(value):
        return (kind, value.dtype.str, value.shape, np.asarray(value).tobytes())
    try:
        hash(value)
    except TypeError:
        return Pinned(value)
    return (kind, value)


def params_structure(primitive: Any, params: dict[str, Any]) -> Hashable:
    """Key of an equation's parameters, without those that serve differentiation only."""
    skip = jc.DIFFERENTIATION_PARAMS.get(primitive.name, ())
    return tuple((name, structure(value)) for name, value in params.items() if name not in skip)


def jaxpr_content(jaxpr: Any) -> Content:
    """Content of a jaxpr: types of its inputs, equations with numbered operands, outputs, constants."""
    known = _contents.get(jaxpr)
    if known is None:
        known = _contents[jaxpr] = Content(_walk(jaxpr))
    return known


# Whether a jaxpr holds any: only where it does is it walked each time. What is found must not be kept with
# the jaxpr: it may hold on to it.
_has_rules: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()


def derivative_rules(params: dict[str, Any]) -> tuple[Hashable, ...]:
    """What :func:`params_structure` leaves out inside of the jaxprs among ``params``, by identity: operations
    that are equal compute the same, and may have other derivatives."""
    found: list[Hashable] = []
    for jaxpr in jc.jaxprs_in(params):
        if _has_rules.get(jaxpr, True):
            rules = _rules_in(jaxpr)
            _has_rules[jaxpr] = bool(rules)
            found += rules
    return tuple(found)


def _rules_in(jaxpr: Any) -> list[Hashable]:
    found: list[Hashable] = []
    for eqn in jaxpr.eqns:
        skipped = jc.DIFFERENTIATION_PARAMS.get(eqn.primitive.name, ())
        found += [Pinned(value) for name, value in eqn.params.items() if name in skipped]
        found += derivative_rules(eqn.params)
    return found


def _walk(jaxpr: Any) -> tuple[Hashable, ...]:
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    inputs = jc.jaxpr_inputs(jaxpr)
    numbers: dict[Any, int] = {var: number for number, var in enumerate(inputs)}
    parts: list[Hashable] = [
        tuple(var.aval for var in inputs),
        tuple(Pinned(const) for const in getattr(jaxpr, "consts", ())),
    ]

    def atom(value: Any) -> Hashable:
        if isinstance(value, jc.Literal):
            return _literal(value)
        return numbers[value]

    for eqn in inner.eqns:
        operands = tuple(map(atom, eqn.invars))
        for var in eqn.outvars:
            numbers[var] = len(numbers)
        parts.append(
            (
                eqn.primitive,
                params_structure(eqn.primitive, eqn.params),
                operands,
                tuple(var.aval for var in eqn.outvars),
                eqn.ctx,
                str(eqn.source_info.name_stack),
            )
        )
    parts.append(tuple(map(atom, inner.outvars)))
    return tuple(parts)


def _literal(literal: Any) -> Hashable:
    value = literal.val
    if np.ndim(value) == 0 and not hasattr(value, "sharding"):
        array = np.asarray(value)
        return ("literal", literal.aval, array.dtype.str, array.tobytes())
    return ("literal", literal.aval, Pinned(value))
