"""What users call operations."""

from __future__ import annotations

from lazynb._jax.names import JITTED_NAMES


def plain_name(name: str) -> str:
    """The name of an operation as users know it, such as ``where`` for ``_where``."""
    name = JITTED_NAMES.get(name, name)
    return name.strip("_").replace("<lambda>", "lambda") or name
