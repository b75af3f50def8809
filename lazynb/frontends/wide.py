"""NumPy's 64-bit types in JAX's 32-bit mode: what has such types is recorded in 64-bit mode.

JAX's own functions and operators would make 32 bits of such values outside of that mode. So results are
arrays with NumPy's operators (:mod:`lazynb.frontends.mutable`), and become 32-bit ones where JAX takes
them.
"""

from __future__ import annotations

import contextlib
from typing import Any

import jax
import numpy as np

from lazynb.frontends.leaves import is_wide, leaves

_NARROWER = {
    np.dtype(np.int64): np.dtype(np.int32),
    np.dtype(np.uint64): np.dtype(np.uint32),
    np.dtype(np.float64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.complex64),
}
_PLAIN = contextlib.nullcontext()


def is_beyond(dtype: Any) -> bool:
    """Whether ``dtype`` is a 64-bit type, and JAX is in 32-bit mode."""
    return dtype in _NARROWER and not is_wide()


def has_beyond(tree: Any) -> bool:
    """Whether an array of such a type is in ``tree``, or a stand-in for one."""
    return any(is_beyond(getattr(leaf, "dtype", None)) for leaf in leaves(tree))


def allowed(is_needed: bool = True) -> Any:
    """64-bit mode in a ``with`` block, if it ``is_needed``."""
    return jax.enable_x64(True) if is_needed else _PLAIN


def mode_for(dtype: Any) -> Any:
    """The mode in a ``with`` block in which ``dtype`` stays."""
    return allowed(is_beyond(dtype))


def narrowed(array: Any) -> Any:
    """``array`` as JAX takes NumPy's arrays in the present mode."""
    return array.astype(_NARROWER[array.dtype]) if is_beyond(array.dtype) else array
