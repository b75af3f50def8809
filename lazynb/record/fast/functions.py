"""The functions of ``jax.numpy`` and its like, each remembering what recording gave (see
:mod:`lazynb.record.fast.recall`)."""

from __future__ import annotations

import functools
import pkgutil
import types
from collections.abc import Callable
from typing import Any

import jax

from lazynb import _jax as jc
from lazynb._jax.names import COMPARED_BY_IDENTITY, MONOIDS, NOT_REMEMBERED, NUMBERS_ALIKE, PLACED
from lazynb.record.fast.operators import remembered
from lazynb.record.tensor import LazyTensor

MODULES = (jax.numpy, jax.numpy.linalg, jax.nn, jax.lax, jax.random)
"""Where users call from. JAX's own code calls the functions behind these names, which stay as they are."""

# What libraries compare with ``is`` keeps its identity: JAX knows the reducer of ``reduce_window(x, -inf,
# lax.max, ...)`` by it, Optax a loss's default ``reduce_fn=jnp.mean``. ``lazynb.numpy`` and the methods of
# arrays have remembered forms. :mod:`lazynb.record.array_creation` stands in for those that are placed.
_KEPT_IN_LAX = MONOIDS | PLACED

_PJIT = type(jax.numpy.sin)


class _Ufunc(jax.numpy.ufunc):  # type: ignore[misc,valid-type]
    """A ``jax.numpy`` ufunc whose calls are remembered; its methods (``reduce``, ``at``, ...) are JAX's."""

    __module__ = jax.numpy.ufunc.__module__  # what a ufunc itself says as well

    def __init__(self, plain: Any, name: str):
        self.__dict__.update(
            plain.__dict__, _lazynb_call=remembered(f"ufunc.{name}", plain, name in NUMBERS_ALIKE, 1)
        )

    @functools.wraps(jax.numpy.ufunc.__call__)
    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        return self._lazynb_call(*args, **kwargs)  # type: ignore[attr-defined]

    def __reduce__(self) -> Any:
        return pkgutil.resolve_name, (f"jax.numpy:{self.__name__}",)  # type: ignore[attr-defined]


class StandIn(functools.partial[Any]):
    """What stands in for a function of JAX's. Whoever got hold of it while a thread was lazy has it for good:
    it pickles as the name under which JAX's own is found, and a copy is itself, as of any function. (pickle
    writes down a plain function only as long as it is what is found under its name; a partial costs a call
    next to nothing, and has no frame.)"""

    def __reduce__(self) -> Any:
        return pkgutil.resolve_name, (f"{self.__module__}:{self.__qualname__}",)  # type: ignore[attr-defined]

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        # ``lower`` and ``trace`` are no attributes of its own: what wraps a function takes those over, and
        # ``jax.jit(jax.grad(jnp.sin)).lower`` would be sin's.
        return getattr(vars(self).get("__wrapped__"), name)

    def __copy__(self) -> StandIn:
        return self

    def __deepcopy__(self, memo: Any) -> StandIn:
        return self

    def __repr__(self) -> str:
        return repr(self.__wrapped__)  # type: ignore[attr-defined]


def _asarray(call: Callable[..., Any]) -> Callable[..., Any]:
    """Under ``grad`` and ``vmap``, an array that is what is asked for already stays itself: libraries convert
    each operand, and JAX would differentiate each of these conversions."""

    def asarray(a: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        if isinstance(a, jc.Tracer) and not args and not kwargs and not isinstance(a, LazyTensor):
            aval = a.aval
            if (
                isinstance(aval, jc.ShapedArray)
                and (dtype is None or (dtype == aval.dtype and not aval.weak_type))
                and (isinstance(jc.innermost(a), jax.Array))
            ):  # a number becomes an array
                return a
        return call(a, dtype, *args, **kwargs)

    return asarray


_BY_HAND: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {"asarray": _asarray}


def substitute(module: types.ModuleType, name: str, plain: Any) -> Any:
    """What stands in for ``plain``, the function ``name`` of ``module``; None where it is left as it is."""
    if name in NOT_REMEMBERED or name.startswith("_"):
        return None
    if type(plain) is jax.numpy.ufunc:
        return _Ufunc(plain, name)
    if not isinstance(plain, types.FunctionType | _PJIT):
        return None
    call: Callable[..., Any] = remembered(f"{plain.__module__}.{name}", plain, name in NUMBERS_ALIKE)
    call = _BY_HAND.get(name, lambda call: call)(call)
    functools.update_wrapper(call, plain)
    call = functools.update_wrapper(StandIn(call), plain)
    call.__module__, call.__qualname__ = module.__name__, name  # where pickle finds it, while lazy and later
    return call


@functools.cache
def remembered_names() -> dict[str, dict[str, Any]]:
    """By module and name, the functions with a memory."""
    found: dict[str, dict[str, Any]] = {}
    known: dict[int, Any] = {}  # one function under two names stays one function
    for module in MODULES:
        names = found[module.__name__] = {}
        for name, plain in vars(module).items():
            if id(plain) not in known:
                known[id(plain)] = substitute(module, name, plain)
            if known[id(plain)] is not None:
                names[name] = known[id(plain)]
    return found


def substitutes() -> list[tuple[Any, dict[str, Any]]]:
    """For each of :data:`MODULES`, the names that change while a thread is lazy."""
    return [
        (
            module,
            {
                name: function
                for name, function in remembered_names()[module.__name__].items()
                if name not in (_KEPT_IN_LAX if module is jax.lax else COMPARED_BY_IDENTITY)
            },
        )
        for module in MODULES
    ]
