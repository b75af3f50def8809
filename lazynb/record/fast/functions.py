"""The functions of ``jax.numpy`` and similar modules, with a memory of their calls.

The memory is that of :mod:`lazynb.record.fast.recall`.
"""

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
"""The modules whose functions users call. JAX's own code does not call them under these names."""

# Functions that libraries compare with ``is`` keep their identity. JAX does so with the reducer of
# ``reduce_window(x, -inf, lax.max, ...)``, and Optax with a loss's default ``reduce_fn=jnp.mean``.
# ``lazynb.numpy`` and the methods of arrays have remembered forms of them.
# :mod:`lazynb.record.array_creation` has the substitutes for those that are placed.
_KEPT_IN_LAX = MONOIDS | PLACED


_PJIT = type(jax.numpy.sin)


class _Ufunc(jax.numpy.ufunc):  # type: ignore[misc,valid-type]
    """A ``jax.numpy`` ufunc whose calls are remembered; its methods (``reduce``, ``at``, ...) are JAX's."""

    __module__ = jax.numpy.ufunc.__module__  # the same as for a ufunc itself

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
    """The substitute for a function of JAX's.

    Code that took it while a thread was lazy keeps it for good. So it pickles as the name of JAX's own
    function, and its copy is itself, as for any function. It is a partial because pickle refuses a plain
    function that its name does not lead to. A partial adds almost no time to a call, and no frame.
    """

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


def _asarray(call: Callable[..., Any]) -> Callable[..., Any]:
    """``jnp.asarray``, which returns an array of the right type unchanged under ``grad`` and ``vmap``.

    Libraries convert each operand, and JAX would differentiate each of these conversions.
    """

    def asarray(a: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        alone = not args and not kwargs
        if alone and isinstance(a, jc.Tracer) and not isinstance(a, LazyTensor) and _has_dtype(a, dtype):
            return a
        return call(a, dtype, *args, **kwargs)

    return asarray


def _has_dtype(tracer: Any, dtype: Any) -> bool:
    """Whether ``tracer`` stands for an array of ``dtype`` (None fits each), and not for a Python number."""
    aval = tracer.aval
    if not isinstance(aval, jc.ShapedArray):
        return False
    if dtype is not None and not (dtype == aval.dtype and not aval.weak_type):
        return False
    return isinstance(jc.innermost(tracer), jax.Array)


_BY_HAND: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {"asarray": _asarray}


def substitute(module: types.ModuleType, name: str, plain: Any) -> Any:
    """The substitute for ``plain``, the function ``name`` of ``module``; returns None if it has none."""
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
    call.__module__, call.__qualname__ = module.__name__, name  # the name by which pickle finds it
    return call


@functools.cache
def remembered_names() -> dict[str, dict[str, Any]]:
    """The functions with a memory, by module and name."""
    functions: dict[str, dict[str, Any]] = {}
    known: dict[int, Any] = {}  # a function with two names has one substitute
    for module in MODULES:
        names = functions[module.__name__] = {}
        for name, plain in vars(module).items():
            if id(plain) not in known:
                known[id(plain)] = substitute(module, name, plain)
            if known[id(plain)] is not None:
                names[name] = known[id(plain)]
    return functions


def substitutes() -> list[tuple[Any, dict[str, Any]]]:
    """The substitutes for each of :data:`MODULES` while some thread is lazy."""
    pairs = []
    for module in MODULES:
        kept = _KEPT_IN_LAX if module is jax.lax else COMPARED_BY_IDENTITY
        functions = remembered_names()[module.__name__]
        pairs.append((module, {name: functions[name] for name in functions if name not in kept}))
    return pairs
