"""Lazy tensors that functions close over: operands of jaxprs where possible, otherwise constants.

JAX makes a constant of a closed-over array, and a program depends on the values of its constants; of a tracer
it makes an operand. So a lazy tensor enters a jaxpr as a tracer, see :class:`ClosureTracer`.

Some constants remain. A function with a custom derivative may close over an array: in ``scan`` or ``cond``
under ``jax.grad`` JAX makes it a constant of a jaxpr parameter. Such a constant is computed before the
operation is recorded.
"""

from __future__ import annotations

import weakref
from typing import Any

from lazynb import jax_compat as jc
from lazynb.recording.lazy_tensor import LazyTensor


class ClosureTracer(jc.Tracer):
    """A tracer for a lazy tensor, while JAX traces a function that closes over it.

    As an operand it is unwrapped to the tensor.
    """

    __slots__ = ("tensor",)

    def __init__(self, tensor: LazyTensor):
        super().__init__(tensor._trace, tensor.aval)
        self.tensor = tensor

    def full_lower(self) -> LazyTensor:
        # JAX lowers the operands of a jitted function that runs at once.
        return self.tensor


def unwrap_closure_tracer(value: Any) -> Any:
    """Returns the lazy tensor of a ClosureTracer, or any other value unchanged."""
    return value.tensor if type(value) is ClosureTracer else value


jc.register_closure_tracer_type(ClosureTracer, unwrap_closure_tracer)
jc.register_constant_type(
    ClosureTracer, lambda lifted: lifted.tensor._force("static", "a constant of a compiled function")
)


# ---- Constants that remain in jaxprs -----------------------------------------------------------------------

_holders: dict[Any, bool] = {}  # by primitive, whether its parameters contain jaxprs
# By jaxpr, the jaxpr to use instead. None means the same one, which an entry would keep alive.
_settled: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def resolve_params(primitive: Any, params: dict[str, Any]) -> dict[str, Any]:
    """Returns ``params`` with the pending constants of its jaxprs computed."""
    holds = _holders.get(primitive)
    if holds is None:
        holds = _holders[primitive] = bool(jc.jaxprs_in(params))
    return _resolve_params(params, primitive.name) if holds else params


def _resolve_params(params: dict[str, Any], name: str) -> dict[str, Any]:
    changed = {}
    for key, value in params.items():
        settled_value = jc.map_jaxprs(lambda jaxpr: _resolve(jaxpr, name), value)
        if settled_value is not value:
            changed[key] = settled_value
    return dict(params, **changed) if changed else params


def _resolve(jaxpr: Any, name: str) -> Any:
    """Returns ``jaxpr`` with pending constants computed; the same object if there are none."""
    if jaxpr not in _settled:
        changed = _resolve_jaxpr(jaxpr, name)
        _settled[jaxpr] = None if changed is jaxpr else changed
    return _settled[jaxpr] or jaxpr


def _resolve_jaxpr(jaxpr: Any, name: str) -> Any:
    eqns, consts, changed = [], [], False
    for eqn in jaxpr.eqns:
        params = _resolve_params(eqn.params, name)
        if params is eqn.params:
            eqns.append(eqn)
        else:
            eqns.append(eqn.replace(params=params))
            changed = True
    for const in jc.constants(jaxpr):
        const = unwrap_closure_tracer(const)
        if isinstance(const, LazyTensor):
            consts.append(const._force("static", f"a constant of {name}"))
            changed = True
        else:
            consts.append(const)
    return jc.replace_contents(jaxpr, eqns, consts) if changed else jaxpr
