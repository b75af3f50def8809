"""Lazy tensors that traced functions close over: each enters the jaxpr as a tracer, and not as a constant.

See :class:`lazynb.record.constants.Lifted`. Some of JAX's functions (``lax.composite``) refuse a function
that closes over a tracer. For them it is a constant.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import jax

from lazynb import _jax as jc
from lazynb.record.constants import Lifted, tensor_of
from lazynb.record.stand_in import stand_in
from lazynb.record.tensor import LazyTensor
from lazynb.record.trace import thread_trace


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
        tensor = tensor_of(value)
        if tensor.__class__ is not LazyTensor or _stays_constant(trace):
            return plain(trace, tensor, *args, **kwargs)
        known = jc.constants_by_id(trace)
        taken = known.get(id(tensor))
        if taken is None:
            taken = known[id(tensor)] = plain(trace, Lifted(tensor), *args, **kwargs)
        return taken

    return new_const


def _stays_constant(trace: Any) -> bool:
    """Whether a lazy tensor that ``trace`` takes is a constant, as any array is."""
    return _here.refusing or jc.is_linear(trace) or thread_trace().stray


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


def substitutes() -> list[tuple[Any, dict[str, Any]]]:
    """The substitutes for JAX's own functions while some thread is lazy."""
    owner, name = jc.constant_taken
    composite = jax.lax.composite
    return [
        (owner, {name: _taken(getattr(owner, name))}),
        (jax.lax, {"composite": stand_in(_attributed(composite), composite, jax.lax, "composite")}),
        *[(owner, {name: _attributed(getattr(owner, name))}) for owner, name in jc.attributed],
        *[(owner, {name: _refusing(getattr(owner, name))}) for owner, name in jc.refusing_constants],
    ]
