"""The accelerator: recorded calls are remembered in C (lazynb/record/_fast.c), where that was built.

Without it :mod:`lazynb.record.fast.remembered` does the same in Python. The environment variable
``LAZYNB_PURE=1`` asks for that.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import platform
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lazynb import _jax as jc, source
from lazynb.record.fast import remembered as pure
from lazynb.record.fast.linearize import linearized_call
from lazynb.record.fast.recall import KINDS, Edge, opened, recall, waiting_elsewhere
from lazynb.record.outside import borrowed, held_outside
from lazynb.record.pending import Pending
from lazynb.record.tensor import LazyTensor
from lazynb.record.trace import LazyTrace
from lazynb.record.trie import State

SOURCE = Path(__file__).parents[1] / "_fast.c"
"""The source, where lazynb is used from a checkout; an installed package has none."""


def digest(source: bytes) -> str:
    """What the accelerator that was built from ``source`` has as its ``source_digest``; a name in C."""
    return "d" + hashlib.sha256(source.replace(b"\r\n", b"\n")).hexdigest()[:16]


def _loaded() -> tuple[Any, str | None]:
    """The accelerator and None, or None and why there is none."""
    if os.environ.get("LAZYNB_PURE", "0") not in ("", "0"):
        return None, "LAZYNB_PURE is set"
    if platform.python_implementation() != "CPython":
        return None, f"it is for CPython, and this is {platform.python_implementation()}"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return None, "this Python has no GIL, and it relies on that"
    try:
        fast = importlib.import_module("lazynb.record._fast")
    except ModuleNotFoundError:
        return None, "it was not built: with a C compiler, installing lazynb from its sources builds it"
    except ImportError as error:
        return None, f"it cannot be loaded: {error}"
    if SOURCE.is_file() and fast.source_digest != digest(SOURCE.read_bytes()):
        return (
            None,
            f"it was built from another {SOURCE.name}: install this checkout again (pip install -e .)",
        )
    try:
        fast.configure(_parts())
    except (KeyError, TypeError) as error:
        return None, f"it does not fit this version of JAX or lazynb: {error}"
    return fast, None


def _parts() -> dict[str, Any]:
    """What the accelerator works with, by the names that it asks for."""
    return {
        "LazyTensor": LazyTensor,
        "Pending": Pending,
        "State": State,
        "Edge": Edge,
        "Changes": type(jc.changes),
        "LazyTrace": LazyTrace,
        "LinearizeTrace": jc.LinearizeTrace,
        "ArrayImpl": jc.ArrayImpl,
        "dtype": np.dtype,
        "KINDS": KINDS,
        "ambient": jc.ambient,
        "changes": jc.changes,
        "scopes": jc.scopes,
        "opened": opened,
        "waiting_elsewhere": waiting_elsewhere,
        "recall": recall,
        "linearized_call": linearized_call,
        "make_current": pure.make_current,
        "is_user_code": source.is_user_code,
        "borrowed": borrowed.addresses,
        "held_outside": held_outside.ids,
        "places": source.known_places,
        "here": source.here,
        "code_kind": source.code_kind,
    }


_fast, why_not = _loaded()
"""The accelerator, or None and the reason in words."""


def remembered(
    name: str, plain: Callable[..., Any], scalars_alike: bool, between: int = 0
) -> Callable[..., Any]:
    """See :func:`lazynb.record.fast.remembered.remembered`."""
    if _fast is None:
        return pure.remembered(name, plain, scalars_alike, between)
    call: Callable[..., Any] = _fast.Call(name, plain, scalars_alike, between)
    return call


def binary(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    """See :func:`lazynb.record.fast.remembered.binary`."""
    if _fast is None:
        return pure.binary(name, plain)
    call: Callable[..., Any] = _fast.Call(name, plain, True, pair=True)
    return call


here: Callable[[int], source.Spot] = source.here if _fast is None else _fast.here


def hand_over(parts: dict[str, Any]) -> Callable[..., Any] | None:
    """The function that runs a trace that ran before; None if that is Python's alone.

    Arguments:
      parts: what it works with.
    """
    if _fast is None:
        return None
    _fast.configure_hand_over(parts)
    run: Callable[..., Any] = _fast.hand_over
    return run


LazyTrace.take_slots = staticmethod(pure.take_slots if _fast is None else _fast.take_slots)
LazyTrace.new_tensors = staticmethod(pure.new_tensors if _fast is None else _fast.new_tensors)


def describe() -> str:
    """``accelerated``, or that it is not and why."""
    return "accelerated" if _fast is not None else f"not accelerated: {why_not}"
