"""Structural keys of the parameters of operations.

A cell that runs again makes new function objects and new jaxprs with the same content, and they must give the
same key. So a jaxpr enters by its content (variables are numbered in order of appearance). A number enters
with its type, because ``1``, ``1.0`` and ``True`` are equal in Python and differ in XLA. An object without
content to compare (a callback) enters by its identity.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable
from typing import Any

import numpy as np

from lazynb import _jax as jc


class Pinned:
    """The identity of an object without comparable content.

    It keeps the object alive, so that no other object gets its address.
    """

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
        if self is other:
            return True
        if not isinstance(other, Content):
            return False
        return self._hash == other._hash and self.parts == other.parts


# Each jaxpr is walked once: its entry lives as long as the jaxpr (JAX caches those of a jitted function).
# The second table is for content without the names of jitted functions and of name scopes.
_Contents = weakref.WeakKeyDictionary[Any, Content]
_contents: tuple[_Contents, _Contents] = weakref.WeakKeyDictionary(), weakref.WeakKeyDictionary()


def structure(value: Any, *, nameless: bool = False) -> Hashable:
    """A hashable key that is equal for equal content.

    Raises nothing: a value that cannot be compared enters by its identity.

    Arguments:
      nameless: leave out what jitted functions and name scopes are called.
    """
    kind = type(value)
    if value is None or kind is str or kind is bytes:
        return value
    if kind is bool or kind is int:
        return (kind, value)
    if kind is float or kind is complex:
        return (kind, repr(value))  # keeps -0.0 from 0.0, and NaN equal to itself
    if isinstance(value, tuple | list):
        return (kind, *[structure(each, nameless=nameless) for each in value])
    if isinstance(value, dict):
        return (kind, *((structure(k), structure(v, nameless=nameless)) for k, v in value.items()))
    if jc.is_jaxpr(value):
        return jaxpr_content(value, nameless=nameless)
    if jc.is_host_array(value):
        return (kind, value.dtype.str, value.shape, np.asarray(value).tobytes())
    try:
        hash(value)
    except TypeError:
        return Pinned(value)
    return (kind, value)


def params_structure(primitive: Any, params: dict[str, Any], *, nameless: bool = False) -> Hashable:
    """The key of an equation's parameters, without those that only differentiation needs.

    Arguments:
      nameless: leave out what jitted functions and name scopes are called.
    """
    skip = jc.DIFFERENTIATION_PARAMS.get(primitive.name, ())
    if nameless and primitive.name in jc.JIT_PRIMITIVES:
        skip = (*skip, "name")
    return tuple(
        (name, structure(value, nameless=nameless)) for name, value in params.items() if name not in skip
    )


def jaxpr_content(jaxpr: Any, *, nameless: bool = False) -> Content:
    """The content of a jaxpr: types of its inputs, equations with numbered operands, outputs, constants."""
    contents = _contents[nameless]
    known = contents.get(jaxpr)
    if known is None:
        known = contents[jaxpr] = Content(_walk(jaxpr, nameless))
    return known


# Whether a jaxpr has derivative rules. If it has, it is walked each time, because a rule may refer to the
# jaxpr and would keep it alive if it were kept here.
_has_rules: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()


def derivative_rules(params: dict[str, Any]) -> tuple[Hashable, ...]:
    """The parameters that :func:`params_structure` leaves out in the jaxprs among ``params``, by identity.

    Equal operations compute the same values, but their derivatives may differ.
    """
    rules: list[Hashable] = []
    for jaxpr in jc.jaxprs_in(params):
        if _has_rules.get(jaxpr, True):
            inner = _rules_in(jaxpr)
            _has_rules[jaxpr] = bool(inner)
            rules += inner
    return tuple(rules)


def _rules_in(jaxpr: Any) -> list[Hashable]:
    rules: list[Hashable] = []
    for eqn in jaxpr.eqns:
        skipped = jc.DIFFERENTIATION_PARAMS.get(eqn.primitive.name, ())
        rules += [Pinned(value) for name, value in eqn.params.items() if name in skipped]
        rules += derivative_rules(eqn.params)
    return rules


def _walk(jaxpr: Any, nameless: bool) -> tuple[Hashable, ...]:
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
                params_structure(eqn.primitive, eqn.params, nameless=nameless),
                operands,
                tuple(var.aval for var in eqn.outvars),
                eqn.ctx,
                "" if nameless else str(eqn.source_info.name_stack),
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
