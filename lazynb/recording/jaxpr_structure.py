"""Structural keys of operation parameters, and the equations inside of an operation by position.

A cell that runs again makes new function objects and jaxprs with equal content, which must give equal keys.
So a jaxpr is compared by content (variables are numbered in order of appearance), and a number with its type,
because ``1``, ``1.0`` and ``True`` are equal in Python and differ in XLA. An object without comparable
content (a callback) is compared by identity.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np

from lazynb import jax_compat as jc
from lazynb.user_code.code_ownership import is_user_code


class ByIdentity:
    """The identity of an object without comparable content, kept alive so that its id stays unique."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByIdentity) and other.value is self.value


class HashedContent:
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
        if not isinstance(other, HashedContent):
            return False
        return self._hash == other._hash and self.parts == other.parts


# Each jaxpr is walked once; its entry lives as long as the jaxpr (JAX caches those of a jitted function). The
# second table is for content without the names of jitted functions and name scopes.
_Contents = weakref.WeakKeyDictionary[Any, HashedContent]
_contents: tuple[_Contents, _Contents] = weakref.WeakKeyDictionary(), weakref.WeakKeyDictionary()


def structure(value: Any, *, nameless: bool = False) -> Hashable:
    """Returns a hashable key that is equal for equal content. A value that cannot be compared counts by
    identity. ``nameless`` leaves out the names of jitted functions and name scopes."""
    kind = type(value)
    if value is None or kind is str or kind is bytes:
        return value
    if kind is bool or kind is int:
        return (kind, value)
    if kind is float or kind is complex:
        return (kind, repr(value))  # distinguishes -0.0 from 0.0, and makes NaN equal to itself
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
        return ByIdentity(value)
    return (kind, value)


def params_structure(primitive: Any, params: dict[str, Any], *, nameless: bool = False) -> Hashable:
    """Returns the key of an equation's parameters, without those used only by differentiation. ``nameless``
    leaves out the names of jitted functions and name scopes."""
    skip = jc.DIFFERENTIATION_PARAMS.get(primitive.name, ())
    if nameless and primitive.name in jc.JIT_PRIMITIVES:
        skip = (*skip, "name")
    return tuple(
        (name, structure(value, nameless=nameless)) for name, value in params.items() if name not in skip
    )


def jaxpr_content(jaxpr: Any, *, nameless: bool = False) -> HashedContent:
    """Returns a jaxpr's content: input avals, equations with numbered operands, outputs, constants."""
    contents = _contents[nameless]
    known = contents.get(jaxpr)
    if known is None:
        known = contents[jaxpr] = HashedContent(_jaxpr_key(jaxpr, nameless))
    return known


# Whether a jaxpr has derivative rules. One with rules is walked each time: an entry would keep it alive.
_has_rules: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()


def derivative_rules(params: dict[str, Any]) -> tuple[Hashable, ...]:
    """Returns the derivative rules in the jaxprs among ``params``, by identity.

    :func:`params_structure` leaves them out: equal operations compute equal values, but may differ in
    derivatives.
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
        rules += [ByIdentity(value) for name, value in eqn.params.items() if name in skipped]
        rules += derivative_rules(eqn.params)
    return rules


def _jaxpr_key(jaxpr: Any, nameless: bool) -> tuple[Hashable, ...]:
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    inputs = jc.jaxpr_inputs(jaxpr)
    numbers: dict[Any, int] = {var: number for number, var in enumerate(inputs)}
    parts: list[Hashable] = [
        tuple(var.aval for var in inputs),
        tuple(ByIdentity(const) for const in getattr(jaxpr, "consts", ())),
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
    return ("literal", literal.aval, ByIdentity(value))


# ---- Equations inside of an operation ----------------------------------------------------------------------
# A jitted function, a loop or a branch is one operation of the trace. An equation of the user's functions in
# it is identified by its position: the number of the jaxpr in the operation, the number of the equation in
# the jaxpr, and so on inwards. A library's jitted function (``jnp.where``) is not opened, because it has no
# line of the user's.

POSITION_SCOPE = "i{}.{}"
"""The name scope of an equation: the number of its jaxpr in the call, and its number in the jaxpr."""

Path = tuple[int, ...]
"""The position of an equation inside of an operation: two numbers for each enclosing call."""

_opened: weakref.WeakKeyDictionary[Any, HashedContent | None] = weakref.WeakKeyDictionary()


def user_function_key(primitive: Any, params: dict[str, Any]) -> Hashable:
    """Returns a key of the user's functions that an operation or equation calls; None if it calls none.

    Two keys are equal if the same inner equations are displayed.
    """
    if primitive.name not in jc.BODY_PRIMITIVES:
        return None
    bodies = tuple([_opened_in(jaxpr) for jaxpr in jc.jaxprs_in(params)])
    return bodies if any(body is not None for body in bodies) else None


def _opened_in(jaxpr: Any) -> HashedContent | None:
    """Returns the opened equations of ``jaxpr``; None without equations traced on a user's line."""
    if jaxpr not in _opened:
        calls = [eqn for eqn in jaxpr.eqns if eqn.primitive.name in jc.BODY_PRIMITIVES]
        inner = tuple([user_function_key(eqn.primitive, eqn.params) for eqn in calls])
        is_users = any(one is not None for one in inner) or _is_written(jaxpr)
        _opened[jaxpr] = HashedContent(inner) if is_users else None
    return _opened[jaxpr]


def _is_written(jaxpr: Any) -> bool:
    """Whether an equation was traced on a line of the user's. JAX traces its own functions once, and
    equations first traced in a backward pass have the traceback of the forward operation (JAX 0.12). So only
    user's lines within the function count."""
    own = jc.jax_function_of(jaxpr)
    for eqn in jaxpr.eqns:
        codes = [code for code, _ in jc.eqn_frames(eqn)]
        if own is not None:
            within = [number for number, code in enumerate(codes) if (code.co_name, code.co_filename) == own]
            del codes[within[-1] if within else 0 :]
        if any(map(is_user_code, codes)):
            return True
    return False


def with_position_scopes(primitive: Any, params: dict[str, Any]) -> dict[str, Any]:
    """Returns ``params`` with each inner equation under the name scope of its position.

    Positions are equal whenever the operation is recorded again, so the program's cache keys are too.
    """
    return _positioned(primitive, params, {})


def _positioned(primitive: Any, params: dict[str, Any], known: dict[tuple[int, int], Any]) -> dict[str, Any]:
    """As :func:`with_position_scopes`. A function called twice stays one, as JAX lowers it once: ``known``
    has the new jaxprs by ids and numbers of the old ones, which live as long as ``params``."""
    if user_function_key(primitive, params) is None:
        return params
    numbers: Iterator[int] = iter(range(len(jc.jaxprs_in(params))))

    def made(jaxpr: Any) -> Any:
        key = (id(jaxpr), next(numbers))
        if key not in known:
            known[key] = _with_positions(jaxpr, key[1], known)
        return known[key]

    return {name: jc.map_jaxprs(made, value) for name, value in params.items()}


def _with_positions(jaxpr: Any, number: int, known: dict[tuple[int, int], Any]) -> Any:
    eqns = []
    for place, eqn in enumerate(jaxpr.eqns):
        params = _positioned(eqn.primitive, eqn.params, known)
        eqns.append(jc.with_name_scope(eqn, POSITION_SCOPE.format(number, place), params))
    return jc.replace_eqns(jaxpr, eqns)
