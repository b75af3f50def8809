"""Functions of ``jax.numpy`` and similar modules, and methods of arrays, with replay.

See :mod:`lazynb.recording.replay.call_replay`.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import jax

from lazynb import jax_compat as jc
from lazynb.jax_compat.jax_names import (
    COMPARED_BY_IDENTITY,
    DEVICE_FILL_FUNCTIONS,
    MONOIDS,
    NOT_REPLAYED,
    NOT_WORTH_REPLAYING,
    VALUE_INDEPENDENT_SCALARS,
)
from lazynb.jax_compat.substitutes import JITTED, DormantSubstitutes, substitute_for
from lazynb.recording.lazy_blocks import patches
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.lazy_trace import LazyTrace
from lazynb.recording.replay.native_replay import replaying_function, replaying_operator

MODULES = (jax.numpy, jax.numpy.linalg, jax.nn, jax.lax, jax.random)
"""The modules whose functions users call. JAX's own code does not call them under these names."""

# Functions that libraries compare with ``is`` keep their identity. JAX compares the reducer of
# ``reduce_window(x, -inf, lax.max, ...)``, and Optax a loss's default ``reduce_fn=jnp.mean``.
# ``lazynb.numpy`` and the methods of arrays have them with replay.
# :mod:`lazynb.recording.function_substitutes` has substitutes for those with a sharding.
_KEPT_IN_LAX = MONOIDS | DEVICE_FILL_FUNCTIONS


def _asarray(call: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps ``jnp.asarray``, which returns an array of the right dtype unchanged under ``grad`` and ``vmap``.
    Libraries convert each operand, and JAX would differentiate each conversion."""

    def asarray(a: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        alone = not args and not kwargs
        if alone and isinstance(a, jc.Tracer) and _has_dtype(a, dtype):
            return a
        return call(a, dtype, *args, **kwargs)

    return asarray


def _has_dtype(tracer: Any, dtype: Any) -> bool:
    """Whether ``tracer`` stands for an array of ``dtype`` (None fits each), not for a Python number."""
    aval = tracer.aval
    if not isinstance(aval, jc.ShapedArray):
        return False
    if dtype is not None and not (dtype == aval.dtype and not aval.weak_type):
        return False
    return isinstance(jc.innermost_primal(tracer), jax.Array)


# Replay of ``asarray`` of an array saves nothing (0.7 times JAX's speed): it is substituted only for
# ``grad``.
_SPECIAL_WRAPPERS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {"asarray": _asarray}


def _is_replayed(module: types.ModuleType, name: str, plain: Any) -> bool:
    """Whether ``plain``, the function ``name`` of ``module``, is replayed."""
    if name in NOT_REPLAYED or name.startswith("_"):
        return False
    worth = NOT_WORTH_REPLAYING.isdisjoint((name, f"{module.__name__}.{name}"))
    return worth and isinstance(plain, types.FunctionType | JITTED)


def _replaying(name: str, plain: Any, called: Callable[..., Any], between: int = 0) -> Callable[..., Any]:
    """Returns ``called``, which does the same as the function ``plain`` with the name ``name``, with
    replay."""
    alike = name in VALUE_INDEPENDENT_SCALARS
    return replaying_function(f"{plain.__module__}.{name}", called, alike, between)


def substitute(module: types.ModuleType, name: str, plain: Any) -> Any:
    """Returns the substitute for ``plain``, the function ``name`` of ``module``, or None."""
    if not _is_replayed(module, name, plain):
        return None
    call = _replaying(name, plain, plain)
    call = _SPECIAL_WRAPPERS.get(name, lambda call: call)(call)
    functools.update_wrapper(call, plain)
    return substitute_for(call, plain, module, name)


@functools.cache
def replayed_functions() -> dict[str, dict[str, Any]]:
    """Returns the functions with replay, by module and name."""
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


# JAX's code calls these with arrays of its own. A replayed call would make inputs of them.
_CONVERSIONS = ("array", "asarray")


def function_codes(rest: DormantSubstitutes) -> list[jc.FunctionCode]:
    """Returns the codes with which the functions themselves are replayed, for code that holds them."""
    codes: dict[int, jc.FunctionCode] = {}
    for module in MODULES:
        for name, plain in replayed_functions()[module.__name__].items():
            own = plain.__wrapped__
            entered = jc.python_function(own) if name not in _CONVERSIONS else None
            if entered is not None and id(own) not in codes:
                replaying = functools.partial(_replaying, name, own, between=1)
                codes[id(own)] = jc.FunctionCode(own, entered, replaying, LazyTrace, rest)
    return list(codes.values())


def _ufunc_call_substitute() -> Callable[..., Any]:
    """Returns the substitute for ``__call__`` of ``jax.numpy``'s ufuncs; the ufunc objects stay the same."""
    own = patches.rest.count_calls(jax.numpy.ufunc.__call__)
    calls = {
        id(ufunc): replaying_function(
            f"ufunc.{name}", types.MethodType(own, ufunc), name in VALUE_INDEPENDENT_SCALARS, 1
        )
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
    """Returns the names substituted while a thread is lazy, by module of :data:`MODULES` and ufunc class."""
    pairs: list[tuple[Any, dict[str, Any]]] = [(jax.numpy.ufunc, {"__call__": _ufunc_call_substitute()})]
    for module in MODULES:
        kept = _KEPT_IN_LAX if module is jax.lax else COMPARED_BY_IDENTITY
        functions = replayed_functions()[module.__name__]
        pairs.append((module, {name: functions[name] for name in functions if name not in kept}))
    return pairs


# ---- Operators and methods of arrays -----------------------------------------------------------------------

# JAX records these alike for all numbers of a type. For others (powers, indices) the value may matter.
_VALUE_INDEPENDENT = frozenset(
    """add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod and rand or ror xor rxor
                      lshift rlshift rshift rrshift eq ne lt le gt ge""".split()
)
_OTHER = frozenset("neg pos abs invert matmul rmatmul pow rpow divmod rdivmod round getitem".split())

_METHODS = frozenset(
    """all any argmax argmin argpartition argsort astype clip conj conjugate cumprod cumsum diagonal dot max
    mean min nonzero prod ptp ravel repeat reshape round sort squeeze std sum swapaxes take trace transpose
    var""".split()
)


def _named(function: Callable[..., Any], name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    functools.update_wrapper(function, plain)
    function.__name__ = name
    function.__qualname__ = f"Array.{name}"
    return function


def _table() -> dict[str, tuple[Callable[..., Any], bool]]:
    """Returns JAX's operators and methods with replay by name, and whether all numbers of a type are
    alike."""
    table: dict[str, tuple[Callable[..., Any], bool]] = {}
    for name, plain in jc.array_operators.items():
        if name in _VALUE_INDEPENDENT or name in _OTHER:
            table[f"__{name}__"] = (plain, name in _VALUE_INDEPENDENT)
    for name, plain in jc.array_methods.items():
        if name in _METHODS:
            table[name] = (plain, False)
    return table


def install() -> None:
    """Gives LazyTensor its operators and methods."""
    for name, (plain, alike) in _table().items():
        function = replaying_operator(name, plain) if alike else replaying_function(name, plain, False)
        setattr(LazyTensor, name, _named(function, name, plain))


Counted = Callable[[Callable[..., Any]], Callable[..., Any]]


def linearize_tracer_methods(counted: Counted) -> dict[str, Callable[..., Any]]:
    """Returns the operators and methods of values under ``jax.grad`` while a thread is lazy.

    A call without replay uses the method of JAX's tracer, which depends on its type: a reference
    (``jax.new_ref``) is no array, and ``ref[...]`` reads it.

    Arguments:
      counted: returns the form of JAX's method that must be called.
    """
    return {
        name: _named(replaying_function(name, counted(getattr(jc.Tracer, name)), alike), name, plain)
        for name, (plain, alike) in _table().items()
    }


def array_methods(counted: Counted) -> dict[str, Callable[..., Any]]:
    """Returns the operators and methods of concrete arrays while a thread is lazy.

    An operator with a concrete array on the left must be recorded too. Only lazy threads use replay.

    Arguments:
      counted: returns the form of JAX's method that must be called.
    """
    methods, functions = vars(jc.ArrayImpl), {}
    for name, (_, alike) in _table().items():
        if name in methods:
            function = replaying_function(f"array.{name}", counted(methods[name]), alike)
            functions[name] = _named(function, name, methods[name])
    return functions


# ---- Indexed updates ---------------------------------------------------------------------------------------

# Of these methods of ``x.at[index]``, all but the last two record numbers of one type alike.
_UPDATES = "set add subtract multiply mul divide min max power get".split()


def index_update_methods(counted: Counted) -> dict[str, Callable[..., Any]]:
    """Returns the methods of ``x.at[index]`` while a thread is lazy; the index is compared by value.

    Arguments:
      counted: returns the form of JAX's method that must be called.
    """
    methods = vars(jc.IndexUpdate)
    return {
        name: _named(_index_update(name, counted(methods[name])), name, methods[name]) for name in _UPDATES
    }


def _index_update(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    def called(array: Any, index: tuple[Any], *args: Any, **kwargs: Any) -> Any:
        if args and type(jc.trace_state.value) is LazyTrace and jc.can_hold_number(array, args[0]):
            args = (jc.typed_like(array, args[0]), *args[1:])  # JAX would make an array of it
        return plain(jc.IndexUpdate(array, *index), *args, **kwargs)

    # A tuple, because the parts of one are compared by value.
    call = replaying_function(f"at.{name}", called, name not in ("power", "get"), 1)

    def method(
        *args: Any, **kwargs: Any
    ) -> Any:  # ``literal_numbers`` reads the user's numbers from ``args``
        update = args[0]
        return call(update.array, (update.index,), *args[1:], **kwargs)

    return method
