"""The functions of ``jax.numpy`` and its like, each remembering what recording gave (see
:mod:`lazynb.record.fast.recall`)."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import jax

from lazynb import _jax_compat as jc
from lazynb.record.fast.operators import remembered
from lazynb.record.stand_in import JITTED, stand_in
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

# What a memory saves nothing on (``python -m benchmarks.substitution``). The shapes of the results depend on
# values, so each call runs what is pending; or no arrays are returned, but shapes, dtypes or tokens; or
# functions are taken; or the name of an axis is needed, which only a transformation has: nothing is recalled.
_NOT_FASTER = frozenset(
    """argwhere flatnonzero nonzero unique unique_all unique_counts unique_inverse unique_values union1d
    intersect1d setdiff1d setxor1d extract compress trim_zeros
    conv_dimension_numbers conv_general_permutations conv_general_shape_tuple conv_shape_tuple
    conv_transpose_shape_tuple reduce_window_shape_tuple padtype_to_pads dtype after_all create_token
    shape_as_value key_dtype key_impl get_scaled_dot_general_config
    platform_dependent reduce_window scatter_apply
    all_gather all_to_all axis_index axis_size pbroadcast pcast pmax pmean pmin ppermute precv psend pshuffle
    psum psum_scatter pswapaxes ragged_all_to_all""".split()
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


# ``asarray`` saves nothing on an array (0.7 times JAX's own); it is here for what it does under ``grad``.
_BY_HAND: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {"asarray": _asarray}


def substitute(module: types.ModuleType, name: str, plain: Any) -> Any:
    """What stands in for ``plain``, the function ``name`` of ``module``; None where it is left as it is."""
    if name in _LEFT or name in _NOT_FASTER or name.startswith("_"):
        return None
    if not isinstance(plain, types.FunctionType | JITTED):
        return None
    call: Callable[..., Any] = remembered(f"{plain.__module__}.{name}", plain, name in _ALIKE)
    call = _BY_HAND.get(name, lambda call: call)(call)
    functools.update_wrapper(call, plain)
    return stand_in(call, plain, module, name)


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


def _remembering_ufuncs() -> Callable[..., Any]:
    """What stands in for the ``__call__`` of ``jax.numpy``'s ufuncs, which themselves stay as they are."""
    own = jax.numpy.ufunc.__call__
    calls = {
        id(ufunc): remembered(f"ufunc.{name}", types.MethodType(own, ufunc), name in _ALIKE, 1)
        for name, ufunc in vars(jax.numpy).items()
        if type(ufunc) is jax.numpy.ufunc
    }
    find = calls.get

    @functools.wraps(own)
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = find(id(self))
        return own(self, *args, **kwargs) if call is None else call(*args, **kwargs)

    return __call__


def substitutes() -> list[tuple[Any, dict[str, Any]]]:
    """The names that change while a thread is lazy, in each of :data:`MODULES` and in the class of ufuncs."""
    return [
        (jax.numpy.ufunc, {"__call__": _remembering_ufuncs()}),
        *_of_modules(),
    ]


def _of_modules() -> list[tuple[Any, dict[str, Any]]]:
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
