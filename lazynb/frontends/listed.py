"""An array of a list of lazy tensors, as ``np.array`` makes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lazynb import _jax as jc
from lazynb.frontends import wide
from lazynb.frontends.leaves import holds, leaves, map_leaves, unplaced
from lazynb.frontends.mutable import MutableArray, wrap

_MOST = 256  # elements, as slices in ``np.apply_along_axis``: each is an operation of its own
_OPTIONS = frozenset(("dtype", "copy"))


def array_of(plain: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The array of the list ``args[0]``, which can be written to, as NumPy's can.

    Returns None if NumPy must make it: of another type than JAX's, of very many elements, or an error.

    Arguments:
      plain: NumPy's function.
    """
    if not kwargs.keys() <= _OPTIONS or kwargs.get("copy", True) is False:
        return None
    items, *options = args
    elements = list(leaves(items))
    if len(elements) > _MOST or not all(map(_can_be_taken, elements)):
        return None
    try:
        answer = plain(map_leaves(_stand_in, items), *options, **kwargs)
        items = unplaced(map_leaves(lambda leaf: getattr(leaf, "value", leaf), items))
    except Exception:
        return None  # NumPy raises it of the values too, or an array is on another device
    dtype = answer.dtype
    if not holds(dtype) or not all([_becomes(element, dtype) for element in elements]):
        return None
    with wide.mode_for(dtype):
        return wrap(_stacked(items, dtype))


def _can_be_taken(element: Any) -> bool:
    if isinstance(element, jc.Tracer):
        return False
    if isinstance(element, jax.Array):
        return isinstance(element.dtype, np.dtype)
    plain = element.__class__ in (bool, int, float, complex)
    return plain or isinstance(element, MutableArray | np.generic) or element.__class__ is np.ndarray


def _stand_in(element: Any) -> Any:
    """What NumPy is asked with in place of ``element``."""
    if isinstance(element, jax.Array | MutableArray):
        return np.zeros(element.shape, element.dtype)
    return element


def _becomes(element: Any, dtype: Any) -> bool:
    """Whether JAX casts ``element`` to ``dtype`` as NumPy does: not floats to integers out of their range."""
    return not hasattr(element, "dtype") or np.can_cast(element.dtype, dtype, "same_kind")


def _stacked(items: Any, dtype: Any) -> Any:
    if isinstance(items, list | tuple):
        return jnp.stack([_stacked(item, dtype) for item in items])
    return items.astype(dtype) if isinstance(items, jax.Array) else jnp.asarray(np.asarray(items, dtype))
