"""``np.array`` of lists of lazy tensors, and the array API namespace of :class:`MutableArray`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lazynb import jax_compat as jc
from lazynb.frontends.numpy import numpy_arguments
from lazynb.frontends.numpy.mutable_array import MutableArray, mutable, wrap
from lazynb.frontends.numpy.numpy_arguments import is_jax_dtype, leaves, map_leaves, uncommitted

_MOST = 256  # elements: ``np.apply_along_axis`` records one operation for each slice
_OPTIONS = frozenset(("dtype", "copy"))


def array_from_list(plain: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Stacks the list ``args[0]`` into a :class:`MutableArray`, as ``np.array`` would.

    Arguments:
      plain: NumPy's function.

    Returns:
      None if NumPy must make the array: JAX lacks the dtype, the list is too long, or NumPy would raise.
    """
    if not kwargs.keys() <= _OPTIONS or kwargs.get("copy", True) is False:
        return None
    items, *options = args
    elements = list(leaves(items))
    if len(elements) > _MOST or not all(map(_is_supported_element, elements)):
        return None
    try:
        answer = plain(map_leaves(_stand_in, items), *options, **kwargs)
        items = uncommitted(map_leaves(lambda leaf: getattr(leaf, "value", leaf), items))
    except Exception:
        return None  # NumPy raises for the real values too, or an array is on another device
    dtype = answer.dtype
    if not is_jax_dtype(dtype) or not all([_casts_like_numpy(element, dtype) for element in elements]):
        return None
    with numpy_arguments.x64_for_dtype(dtype):
        return wrap(_stacked(items, dtype))


def _is_supported_element(element: Any) -> bool:
    if isinstance(element, jc.Tracer):
        return False
    if isinstance(element, jax.Array):
        return isinstance(element.dtype, np.dtype)
    plain = type(element) in (bool, int, float, complex)
    return plain or isinstance(element, MutableArray | np.generic) or type(element) is np.ndarray


def _stand_in(element: Any) -> Any:
    if isinstance(element, jax.Array | MutableArray):
        return np.zeros(element.shape, element.dtype)
    return element


def _casts_like_numpy(element: Any, dtype: Any) -> bool:
    """Whether JAX casts ``element`` to ``dtype`` as NumPy does. Floats out of the integer range differ."""
    return not hasattr(element, "dtype") or np.can_cast(element.dtype, dtype, "same_kind")


def _stacked(items: Any, dtype: Any) -> Any:
    if isinstance(items, list | tuple):
        return jnp.stack([_stacked(item, dtype) for item in items])
    return items.astype(dtype) if isinstance(items, jax.Array) else jnp.asarray(np.asarray(items, dtype))


# ---- Array API namespace: NumPy's functions, returning MutableArray ----------------------------------------

_DEVICE = "cpu"  # NumPy's only device


def _creation_function(name: str) -> Callable[..., Any]:
    """NumPy's function ``name``; its result is a :class:`MutableArray` if JAX has the dtype."""
    function = getattr(np, name)

    def make(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("device", None)
        array = function(*args, **kwargs)
        if isinstance(array, np.ndarray) and is_jax_dtype(array.dtype):
            return mutable(array)
        return array

    make.__name__ = make.__qualname__ = name
    make.__doc__ = function.__doc__
    return make


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Any:
    """Converts ``obj`` to a :class:`MutableArray`; returns ``obj`` itself if it is one.

    Raises:
      ValueError: ``copy=False``, but a copy is needed.
    """
    if isinstance(obj, MutableArray):
        if dtype is not None:
            return obj.astype(dtype, copy=bool(copy))
        return obj.copy() if copy else obj
    if isinstance(obj, jax.Array):
        if copy is False:
            raise ValueError("Unable to avoid copy while creating an array as requested.")
        whole = wrap(obj)
        return whole if dtype is None else whole.astype(dtype, copy=False)
    if isinstance(obj, list | tuple) and any(isinstance(item, MutableArray | jax.Array) for item in obj):
        stacked = mutable(np.stack([asarray(item) for item in obj]))
        return stacked if dtype is None else stacked.astype(dtype)
    array = np.asarray(obj, dtype=dtype, copy=copy)
    return mutable(array) if is_jax_dtype(array.dtype) else array


_CREATION_FUNCTIONS = {
    name: _creation_function(name)
    for name in "arange empty eye full linspace ones zeros tri from_dlpack".split()
}


def __getattr__(name: str) -> Any:
    if name in _CREATION_FUNCTIONS:
        return _CREATION_FUNCTIONS[name]
    return getattr(np, name)


def __dir__() -> list[str]:
    return dir(np)
