"""The public names of NumPy functions, and of the JAX functions with the same names."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from lazynb.frontends.numpy.function_rules import METADATA_FUNCTIONS, OUTPUT_FUNCTIONS

Function = Any  # NumPy functions, which have their Python implementation as ``_implementation``


def _named() -> dict[Function, tuple[str, Any, str]]:
    """Maps each NumPy function to its public name, and to the module and name of the JAX function."""
    names: dict[Any, tuple[str, Any, str]] = {}
    own: Any
    for prefix, own, other in (
        ("np.", np, jnp),
        ("np.linalg.", np.linalg, jnp.linalg),
        ("np.fft.", np.fft, jnp.fft),
        ("np.lib.stride_tricks.", np.lib.stride_tricks, None),
        ("np.emath.", np.emath, None),
    ):
        for name, function in sorted(vars(own).items()):  # ``dir`` would list lazy submodules too
            if name.startswith("_") or not hasattr(function, "_implementation"):
                continue
            plain = str(function.__name__)
            if getattr(own, plain, None) is not function:
                plain = name  # this module exports the function under another name
            if function not in names:
                names[function] = prefix + plain, other, plain
    return names


NAMES = _named()
METADATA_IMPLEMENTATIONS = frozenset(
    function for function, (name, _, _) in NAMES.items() if name in METADATA_FUNCTIONS
)
OUTPUT_IMPLEMENTATIONS = frozenset(
    function for function, (name, _, _) in NAMES.items() if name in OUTPUT_FUNCTIONS
)


def name_of(function: Function) -> str:
    """The public name of ``function``."""
    if function in NAMES:
        return NAMES[function][0]
    name = getattr(function, "__qualname__", str(function))
    module = str(getattr(function, "__module__", None) or "")
    return f"{module}.{name}".replace("numpy.", "np.", 1) if module.startswith("numpy") else name
