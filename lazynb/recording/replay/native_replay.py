"""The accelerator: loads the C modules, and replays recorded calls in C (lazynb/recording/_fast.c).

Without the C module, or with the environment variable ``LAZYNB_PURE=1``,
:mod:`lazynb.recording.replay.python_replay` does the same in Python.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import platform
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from lazynb import jax_compat as jc
from lazynb.recording.external_arrays import held_outside, shared_memory
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.lazy_trace import LazyTrace
from lazynb.recording.pending_trace import PendingTrace
from lazynb.recording.python_numbers import LiteralConverter
from lazynb.recording.replay import python_replay as pure
from lazynb.recording.replay.call_replay import open_trace_for, replay, slot_if_pending_elsewhere
from lazynb.recording.replay.linearize_cache import linearized_call
from lazynb.recording.replay.replay_edge import NUMBER_KINDS, ReplayEdge
from lazynb.recording.trie import State
from lazynb.user_code.call_stack import (
    CachedCallStack,
    CallCounter,
    cached_call_stacks,
    current_position,
    known_places,
)
from lazynb.user_code.code_ownership import code_kind
from lazynb.user_code.source_lines import CodePosition, Origin

# ---- Loading of the C modules ------------------------------------------------------------------------------
# An install from source builds them if there is a C compiler. ``LAZYNB_PURE=1`` selects the Python versions.

SHARED_HEADER = Path(__file__).parents[2] / "_native.h"
"""The header that all C modules include."""


def source_digest(*sources: bytes) -> str:
    """Returns the ``source_digest``, a C identifier, of a module built from ``sources``."""
    return "d" + hashlib.sha256(b"".join(sources).replace(b"\r\n", b"\n")).hexdigest()[:16]


def load_extension(name: str, source: Path, parts: dict[str, Any]) -> tuple[Any, str | None]:
    """Returns the module and None, or None and the reason why it is missing.

    Arguments:
      source: its C source in a checkout; an installed package has none.
      parts: the objects that the module uses, by name.
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
    if source.is_file() and module.source_digest != source_digest(
        SHARED_HEADER.read_bytes(), source.read_bytes()
    ):
        return (
            None,
            f"it was built from another {source.name}: install this checkout again (pip install -e .)",
        )
    try:
        module.configure(parts)
    except (KeyError, TypeError) as error:
        return None, f"it does not fit this version of JAX or lazynb: {error}"
    return module, None


SOURCE = Path(__file__).parents[1] / "_fast.c"


def _loaded() -> tuple[Any, str | None]:
    return load_extension("lazynb.recording._fast", SOURCE, _configuration())


def _configuration() -> dict[str, Any]:
    """The objects that the accelerator uses, by name."""
    return {
        "LazyTensor": LazyTensor,
        "Pending": PendingTrace,
        "State": State,
        "Edge": ReplayEdge,
        "Changes": type(jc.config_changes),
        "LazyTrace": LazyTrace,
        "LinearizeTrace": jc.LinearizeTrace,
        "ArrayImpl": jc.ArrayImpl,
        "dtype": np.dtype,
        "KINDS": NUMBER_KINDS,
        "ambient": jc.trace_state,
        "changes": jc.config_changes,
        "scopes": jc.source_context,
        "opened": open_trace_for,
        "waiting_elsewhere": slot_if_pending_elsewhere,
        "recall": replay,
        "linearized_call": linearized_call,
        "make_current": pure.make_current,
        "landmarks": cached_call_stacks,
        "Landmark": CachedCallStack,
        "Origin": Origin,
        "CallCounter": CallCounter,
        "borrowed": shared_memory.addresses,
        "held_outside": held_outside.ids,
        "places": known_places,
        "here": current_position,
        "code_kind": code_kind,
        "Written": LiteralConverter,
    }


_fast, unavailable_reason = _loaded()
"""The accelerator, or None and the reason as text."""


def replaying_function(
    name: str, plain: Callable[..., Any], scalars_alike: bool, between: int = 0
) -> Callable[..., Any]:
    """See :func:`lazynb.recording.replay.python_replay.replaying_function`."""
    if _fast is None:
        return pure.replaying_function(name, plain, scalars_alike, between)
    call: Callable[..., Any] = _fast.Call(name, plain, scalars_alike, between)
    return call


def replaying_operator(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    """See :func:`lazynb.recording.replay.python_replay.replaying_operator`."""
    if _fast is None:
        return pure.replaying_operator(name, plain)
    call: Callable[..., Any] = _fast.Call(name, plain, True, pair=True)
    return call


here: Callable[[int], CodePosition] = current_position if _fast is None else _fast.here


def configure_program_run(parts: dict[str, Any]) -> Callable[..., Any] | None:
    """Returns the C function that repeats the run of a trace with these ``parts``; None without the
    accelerator."""
    if _fast is None:
        return None
    _fast.configure_hand_over(parts)
    run: Callable[..., Any] = _fast.hand_over
    return run


repeat_call: Callable[[PendingTrace, Any, Sequence[Any], bool, FrameType | None], Any] | None = (
    None if _fast is None else _fast.again
)
"""Repeats a recorded call; None without the accelerator, see
:mod:`lazynb.frontends.torch.dispatch.replay_context`."""

LazyTrace.in_hook = staticmethod(pure.in_hook if _fast is None else _fast.in_hook)
LazyTrace.take_slots = staticmethod(pure.take_slots if _fast is None else _fast.take_slots)
LazyTrace.new_tensors = staticmethod(pure.new_tensors if _fast is None else _fast.new_tensors)


def describe() -> str:
    """Returns ``accelerated``, or ``not accelerated`` with the reason."""
    return "accelerated" if _fast is not None else f"not accelerated: {unavailable_reason}"
