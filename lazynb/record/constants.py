"""Constants in the jaxprs of an operation: a pending one gets its value before the operation is recorded.

A function with a custom derivative may close over an array. In ``scan`` or ``cond`` under ``jax.grad`` JAX
makes it a constant of a jaxpr that is a parameter of the operation, and not an input. Some of JAX's functions
(``lax.composite``) trace their argument and refuse it if it closes over a tracer. A pending array is a
tracer, so these functions get its value too.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from typing import Any

import jax

from lazynb import _jax as jc
from lazynb.record.stand_in import stand_in
from lazynb.record.tensor import LazyTensor

_holders: dict[Any, bool] = {}  # by primitive, whether its parameters hold jaxprs
# By jaxpr, the jaxpr to use in its place. None means the same one, because it must not keep itself alive.
_settled: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def settled(primitive: Any, params: dict[str, Any]) -> dict[str, Any]:
    """``params``, in whose jaxprs each pending constant has its value."""
    holds = _holders.get(primitive)
    if holds is None:
        holds = _holders[primitive] = bool(jc.jaxprs_in(params))
    return _settle_params(params, primitive.name) if holds else params


def _settle_params(params: dict[str, Any], name: str) -> dict[str, Any]:
    changed = {}
    for key, value in params.items():
        if jc.jaxprs_of(value):
            settled_value = _settle(value, name)
            if settled_value is not value:
                changed[key] = settled_value
    return dict(params, **changed) if changed else params


def _settle(value: Any, name: str) -> Any:
    """``value``, a jaxpr or several, with the values of pending constants; the same object if none is."""
    if not jc.is_jaxpr(value):
        return _settle_several(value, name)
    if value not in _settled:
        changed = _settle_jaxpr(value, name)
        _settled[value] = None if changed is value else changed
    return _settled[value] or value


def _settle_several(values: Any, name: str) -> Any:
    items = [_settle(item, name) if jc.is_jaxpr(item) else item for item in values]
    if all(new is old for new, old in zip(items, values)):
        return values
    return tuple(items) if type(values) is tuple else items


def _settle_jaxpr(jaxpr: Any, name: str) -> Any:
    eqns, consts, changed = [], [], False
    for eqn in jaxpr.eqns:
        params = _settle_params(eqn.params, name)
        if params is eqn.params:
            eqns.append(eqn)
        else:
            eqns.append(eqn.replace(params=params))
            changed = True
    for const in jc.constants(jaxpr):
        if isinstance(const, LazyTensor):
            consts.append(const._force("static", f"a constant of {name}"))
            changed = True
        else:
            consts.append(const)
    return jc.with_content(jaxpr, eqns, consts) if changed else jaxpr


# ---- functions that must not close over a tracer -----------------------------------------------------------


class _Here(threading.local):
    refusing = False  # whether one of JAX's functions that refuse tracers is running in this thread


_here = _Here()


def _refusing(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def call(*args: Any, **kwargs: Any) -> Any:
        before, _here.refusing = _here.refusing, True
        try:
            return plain(*args, **kwargs)
        finally:
            _here.refusing = before

    return call


def _taken(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def new_const(trace: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        if _here.refusing and isinstance(value, LazyTensor):
            value = value._force("static", "a constant of a function that may close over no tracer")
        return plain(trace, value, *args, **kwargs)

    return new_const


def _attributed(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def decorate(*given: Any, **more: Any) -> Any:
        call = plain(*given, **more)

        @functools.wraps(call)
        def attributed(*args: Any, **attributes: Any) -> Any:
            return call(*args, **jax.tree.map(_attribute, attributes))

        return attributed

    return decorate


def _attribute(leaf: Any) -> Any:
    return leaf._force("static", "an attribute of a composite") if isinstance(leaf, LazyTensor) else leaf


def _checked(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def check(argument: Any) -> Any:
        """Calls JAX's check without the pending arrays: like any array, they need not be differentiated."""
        return plain([leaf for leaf in jax.tree.leaves(argument) if not isinstance(leaf, LazyTensor)])

    return check


def substitutes() -> list[tuple[Any, dict[str, Any]]]:
    """The substitutes for JAX's own functions while some thread is lazy."""
    (owner, name), (module, check) = jc.constant_taken, jc.refusal_of_static
    composite = jax.lax.composite
    return [
        (owner, {name: _taken(getattr(owner, name))}),
        (module, {check: _checked(getattr(module, check))}),
        (jax.lax, {"composite": stand_in(_attributed(composite), composite, jax.lax, "composite")}),
        *[(owner, {name: _attributed(getattr(owner, name))}) for owner, name in jc.attributed],
        *[(owner, {name: _refusing(getattr(owner, name))}) for owner, name in jc.refusing_constants],
    ]
