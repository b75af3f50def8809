"""The substitutes for functions of JAX's that users call by their names."""

from __future__ import annotations

import functools
import pkgutil
import types
from collections.abc import Callable
from typing import Any

import jax

JITTED: Any = type(jax.numpy.sin)
"""The type of JAX's own jitted functions."""


class StandIn(functools.partial[Any]):
    """The substitute for a function of JAX's.

    Code that took it while a thread was lazy keeps it for good. So it is equal to JAX's own function and has
    its hash, it pickles as the name of JAX's own, and its copy is itself, as for any function. Only as a
    static argument of a jitted function it is another one, because JAX compares the types of static arguments
    before their values. The jitted function is then traced once for each of the two.

    It is a partial because pickle refuses a plain function that its name does not lead to. A partial adds
    almost no time to a call, and no frame. A function of JAX's leaves ``==`` to the other operand.
    """

    def __eq__(self, other: object) -> Any:
        own = other.__wrapped__ if isinstance(other, StandIn) else other  # type: ignore[attr-defined]
        return self.__wrapped__ is own or NotImplemented  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self.__wrapped__)  # type: ignore[attr-defined]

    def __reduce__(self) -> Any:
        return pkgutil.resolve_name, (f"{self.__module__}:{self.__qualname__}",)  # type: ignore[attr-defined]

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        # ``lower`` and ``trace`` are not set on the object, because a wrapper of a function copies its
        # attributes: ``jax.jit(jax.grad(jnp.sin)).lower`` would be that of sin.
        return getattr(vars(self).get("__wrapped__"), name)

    def __copy__(self) -> StandIn:
        return self

    def __deepcopy__(self, memo: Any) -> StandIn:
        return self

    def __repr__(self) -> str:
        return repr(self.__wrapped__)  # type: ignore[attr-defined]


def _of_own(name: str) -> property:
    return property(lambda stand_in: getattr(stand_in.__wrapped__, name))


class JittedStandIn(StandIn):
    """The substitute for a jitted function of JAX's: to ``isinstance`` it is one (``jax.stages.Wrapped``)."""

    clear_cache, eval_shape = _of_own("clear_cache"), _of_own("eval_shape")
    lower, trace = _of_own("lower"), _of_own("trace")


def stand_in(call: Callable[..., Any], plain: Any, module: types.ModuleType, name: str) -> StandIn:
    """``call`` as the substitute for ``plain``, the function ``name`` of ``module``."""
    kind = JittedStandIn if isinstance(plain, JITTED) else StandIn
    function = kind(call)
    functools.update_wrapper(function, plain)
    vars(function).update(__module__=module.__name__, __qualname__=name)  # where pickle finds it, also later
    return function
