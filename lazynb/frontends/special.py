"""Ufuncs of ``scipy.special`` that ``jax.scipy.special`` computes to the same accuracy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_SAME = frozenset("erf erfc expit log_ndtr ndtr xlogy xlog1py entr".split())


def form(name: str) -> Callable[..., Any] | None:
    """JAX's function for SciPy's ufunc ``name``."""
    import jax.scipy.special

    return getattr(jax.scipy.special, name, None) if name in _SAME else None
