"""``jax.numpy`` with functions that remember their recorded calls: ``import lazynb.numpy as jnp``.

While a thread is lazy, ``jax.numpy`` itself has these functions, except for a few reductions that libraries
compare with ``is``. Unmodified code need not import this module. The names are those of the installed JAX;
:mod:`lazynb.recording.replay.array_functions` lists the functions that stay unchanged, and the reasons.
Outside lazy mode each function is the function of JAX.

:func:`mutable` copies an array into a :class:`MutableArray`, which supports in-place writes like a
``numpy.ndarray``.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as _plain

from lazynb.frontends.numpy.mutable_array import MutableArray as MutableArray, mutable as mutable
from lazynb.recording import function_substitutes as _ambient  # noqa: F401
from lazynb.recording.replay.array_functions import replayed_functions as _remembered_names

_substitutes = _remembered_names()["jax.numpy"]


def __getattr__(name: str) -> Any:
    if name in _substitutes:
        return _substitutes[name]
    try:
        return getattr(_plain, name)
    except AttributeError:
        raise AttributeError(
            f"module 'lazynb.numpy' has no attribute {name!r}, as jax.numpy has none"
        ) from None


def __dir__() -> list[str]:
    return [*dir(_plain), "MutableArray", "mutable"]
