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
from lazynb.record.fast.operators import remembered
from lazynb.record.tensor import LazyTensor

MODULES = (jax.numpy, jax.numpy.linalg, jax.nn, jax.lax, jax.random)
"""Where users call from. JAX's own code calls the functions behind these names, which stay as they are."""

# What is left as it is. They return no arrays, take functions, read files or print, or refuse to work in
# place.
_LEFT = frozenset(
    """apply_along_axis apply_over_axes array_repr array_str broadcast_shapes can_cast einsum_path
    fill_diagonal from_dlpack frombuffer fromfile fromfunction fromiter frompyfunc fromstring get_printoptions
    iscomplexobj isdtype isrealobj isscalar issubdtype iterable load mask_indices ndim piecewise place
    printoptions promote_types put result_type save savez set_printoptions shape size vectorize cond switch
    while_loop fori_loop scan map associative_scan reduce custom_root custom_linear_solve composite key
    PRNGKey key_data wrap_key_data clone""".split()
)

# What libraries compare with ``is``: JAX knows the reducer of ``reduce_window(x, -inf, lax.max, ...)`` by it,
# Optax a loss's default ``reduce_fn=jnp.mean``. These keep their identity; ``lazynb.numpy`` and the methods
# of arrays have remembered forms.
_COMPARED = frozenset("""mean sum max min prod all any std var amax amin""".split())
PLACED = frozenset(("full", "full_like"))
"""Functions of ``jax.lax`` that :mod:`lazynb.record.array_creation` stands in for."""
_MONOIDS = frozenset("""add mul max min bitwise_and bitwise_or bitwise_xor""".split())

# These record every number of one type alike: their arguments are arguments of a jitted function or an
# elementwise primitive.
_ALIKE = frozenset(
    """add subtract multiply divide true_divide floor_divide remainder mod fmod maximum minimum fmax fmin
    where equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor bitwise_and
    bitwise_or bitwise_xor arctan2 atan2 hypot copysign logaddexp logaddexp2 nextafter heaviside
    clip""".split()
)

_PJIT = type(jax.numpy.sin)


class _Ufunc(jax.numpy.ufunc):  # type: ignore[misc,valid-type]
    """A ``jax.numpy`` ufunc whose calls are remembered; its methods (``reduce``, ``at``, ...) are JAX's."""

    __module__ = jax.numpy.ufunc.__module__  # what a ufunc itself says as well

    def __init__(self, plain: Any, name: str):
        self.__dict__.update(
            plain.__dict__, _lazynb_call=remembered(f"ufunc.{name}", plain, name in _ALIKE, 1)
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
    if name in _LEFT or name.startswith("_"):
        return None
    if type(plain) is jax.numpy.ufunc:
        return _Ufunc(plain, name)
    if not isinstance(plain, types.FunctionType | _PJIT):
        return None
    call: Callable[..., Any] = remembered(f"{plain.__module__}.{name}", plain, name in _ALIKE)
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
                if name not in (_MONOIDS | PLACED if module is jax.lax else _COMPARED)
            },
        )
        for module in MODULES
    ]
