"""The namespace of the array API standard for arrays that can be written to: NumPy's, making such arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from lazynb.frontends.leaves import holds
from lazynb.frontends.mutable import MutableArray, mutable, wrap

_DEVICE = "cpu"  # NumPy's only one


def _made(name: str) -> Callable[..., Any]:
    """NumPy's function, its array one that can be written to where JAX can hold its type."""
    function = getattr(np, name)

    def make(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("device", None)
        array = function(*args, **kwargs)
        if isinstance(array, np.ndarray) and holds(array.dtype):
            return mutable(array)
        return array

    make.__name__ = make.__qualname__ = name
    make.__doc__ = function.__doc__
    return make


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Any:
    """``obj`` as an array that can be written to: itself if it is one already.

    Raises:
      ValueError: ``copy=False`` and a copy is needed.
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
    return mutable(array) if holds(array.dtype) else array


_MAKE = {name: _made(name) for name in "arange empty eye full linspace ones zeros tri from_dlpack".split()}


def __getattr__(name: str) -> Any:
    if name in _MAKE:
        return _MAKE[name]
    return getattr(np, name)


def __dir__() -> list[str]:
    return dir(np)
