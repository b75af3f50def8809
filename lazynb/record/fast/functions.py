"""The functions of ``jax.numpy`` and similar modules, with a memory of their calls.

The memory is that of :mod:`lazynb.record.fast.recall`.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import jax

from lazynb import _jax as jc
from lazynb._jax.names import COMPARED_BY_IDENTITY, MONOIDS, NOT_FASTER, NOT_REMEMBERED, NUMBERS_ALIKE, PLACED
from lazynb.record.blocks import patches
from lazynb.record.fast.accelerator import remembered
from lazynb.record.stand_in import JITTED, stand_in

MODULES = (jax.numpy, jax.numpy.linalg, jax.nn, jax.lax, jax.random)
"""The modules whose functions users call. JAX's own code does not call them under these names."""

# Functions that libraries compare with ``is`` keep their identity. JAX does so with the reducer of
# ``reduce_window(x, -inf, lax.max, ...)``, and Optax with a loss's default ``reduce_fn=jnp.mean``.
# ``lazynb.numpy`` and the methods of arrays have remembered forms of them.
# :mod:`lazynb.record.array_creation` has the substitutes for those that are placed.
_KEPT_IN_LAX = MONOIDS | PLACED


def _asarray(call: Callable[..., Any]) -> Callable[..., Any]:
    """``jnp.asarray``, which returns an array of the right type unchanged under ``grad`` and ``vmap``.

    Libraries convert each operand, and JAX would differentiate each of these conversions.
    """

    def asarray(a: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        alone = not args and not kwargs
        if alone and isinstance(a, jc.Tracer) and _has_dtype(a, dtype):
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


# ``asarray`` saves nothing on an array (0.7 times JAX's own). It has a substitute for ``grad``.
_BY_HAND: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {"asarray": _asarray}


def substitute(module: types.ModuleType, name: str, plain: Any) -> Any:
    """The substitute for ``plain``, the function ``name`` of ``module``; returns None if it has none."""
    if (
        name in NOT_REMEMBERED
        or name.startswith("_")
        or not NOT_FASTER.isdisjoint((name, f"{module.__name__}.{name}"))
    ):
        return None
    if not isinstance(plain, types.FunctionType | JITTED):
        return None
    call: Callable[..., Any] = remembered(f"{plain.__module__}.{name}", plain, name in NUMBERS_ALIKE)
    call = _BY_HAND.get(name, lambda call: call)(call)
    functools.update_wrapper(call, plain)
    return stand_in(call, plain, module, name)


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


def _remembering_ufuncs() -> Callable[..., Any]:
    """The substitute for the ``__call__`` of ``jax.numpy``'s ufuncs, which themselves stay as they are."""
    own = patches.rest.counted(jax.numpy.ufunc.__call__)
    calls = {
        id(ufunc): remembered(f"ufunc.{name}", types.MethodType(own, ufunc), name in NUMBERS_ALIKE, 1)
        for name, ufunc in vars(jax.numpy).items()
        if type(ufunc) is jax.numpy.ufunc
    }
    find = calls.get

    @functools.wraps(jax.numpy.ufunc.__call__)
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = find(id(self))
        return own(self, *args, **kwargs) if call is None else call(*args, **kwargs)

    return __call__


def substitutes() -> list[tuple[Any, dict[str, Any]]]:
    """The names that change while a thread is lazy, in each of :data:`MODULES` and in the class of ufuncs."""
    pairs: list[tuple[Any, dict[str, Any]]] = [(jax.numpy.ufunc, {"__call__": _remembering_ufuncs()})]
    for module in MODULES:
        kept = _KEPT_IN_LAX if module is jax.lax else COMPARED_BY_IDENTITY
        functions = remembered_names()[module.__name__]
        pairs.append((module, {name: functions[name] for name in functions if name not in kept}))
    return pairs
