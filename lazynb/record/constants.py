"""Lazy tensors in jaxprs: operands where JAX can make one, otherwise constants.

JAX makes a constant of an array that a function closes over, and a program depends on the values of its
constants. It makes an operand of a tracer. So a lazy tensor enters a jaxpr as a tracer, see :class:`Lifted`.

Some constants stay. A function with a custom derivative may close over an array: in ``scan`` or ``cond``
under ``jax.grad`` JAX makes it a constant of a jaxpr that is a parameter of the operation. Such a constant
gets its value before the operation is recorded.
"""

from __future__ import annotations

import weakref
from typing import Any

from lazynb import _jax as jc
from lazynb.record.tensor import LazyTensor


class Lifted(jc.Tracer):
    """A lazy tensor, as a tracer, while JAX traces a function that closes over it.

    As an operand it is the tensor again.
    """

    __slots__ = ("tensor",)

    def __init__(self, tensor: LazyTensor):
        super().__init__(tensor._trace, tensor.aval)
        self.tensor = tensor

    def full_lower(self) -> LazyTensor:
        # JAX lowers the operands of a jitted function that runs at once.
        return self.tensor


def tensor_of(value: Any) -> Any:
    """The lazy tensor that ``value`` stands for; any other value is given as it is."""
    return value.tensor if value.__class__ is Lifted else value


jc.register_lifted_type(Lifted, tensor_of)
jc.register_constant_type(
    Lifted, lambda lifted: lifted.tensor._force("static", "a constant of what is compiled")
)


# ---- constants that stay -----------------------------------------------------------------------------------

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
        const = tensor_of(const)
        if isinstance(const, LazyTensor):
            consts.append(const._force("static", f"a constant of {name}"))
            changed = True
        else:
            consts.append(const)
    return jc.with_content(jaxpr, eqns, consts) if changed else jaxpr
