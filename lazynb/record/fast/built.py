"""What is built from C at the install, where a compiler was there: loaded if it is and fits.

The environment variable ``LAZYNB_PURE=1`` asks for the Python that does the same.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import platform
import sysconfig
from pathlib import Path
from typing import Any

SHARED = Path(__file__).parents[2] / "_native.h"
"""What all modules include."""


def digest(*sources: bytes) -> str:
    """What a module that was built from ``sources`` has as its ``source_digest``; a name in C."""
    return "d" + hashlib.sha256(b"".join(sources).replace(b"\r\n", b"\n")).hexdigest()[:16]


def loaded(name: str, source: Path, parts: dict[str, Any]) -> tuple[Any, str | None]:
    """The module and None, or None and why there is none.

    Arguments:
      source: its source, where lazynb is used from a checkout; an installed package has none.
      parts: what it works with, by the names that it asks for.
    """
    if os.environ.get("LAZYNB_PURE", "0") not in ("", "0"):
        return None, "LAZYNB_PURE is set"
    if platform.python_implementation() != "CPython":
        return None, f"it is for CPython, and this is {platform.python_implementation()}"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return None, "this Python has no GIL, and it relies on that"
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError:
        return None, "it was not built: with a C compiler, installing lazynb from its sources builds it"
    except ImportError as error:
        return None, f"it cannot be loaded: {error}"
    if source.is_file() and module.source_digest != digest(SHARED.read_bytes(), source.read_bytes()):
        return (
            None,
            f"it was built from another {source.name}: install this checkout again (pip install -e .)",
        )
    try:
        module.configure(parts)
    except (KeyError, TypeError) as error:
        return None, f"it does not fit this version of JAX or lazynb: {error}"
    return module, None
