"""The accelerator: recorded calls are remembered in C (lazynb/record/_fast.c), where that was built.

Without it :mod:`lazynb.record.fast.remembered` does the same in Python. The environment variable
``LAZYNB_PURE=1`` asks for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from lazynb import _jax as jc, source
from lazynb.landmarks import Landmark, landmarks
from lazynb.record.fast import remembered as pure
from lazynb.record.fast.built import loaded
from lazynb.record.fast.linearize import linearized_call
from lazynb.record.fast.recall import KINDS, Edge, opened, recall, waiting_elsewhere
from lazynb.record.numbers import Written
from lazynb.record.outside import borrowed, held_outside
from lazynb.record.pending import Pending
from lazynb.record.tensor import LazyTensor
from lazynb.record.trace import LazyTrace
from lazynb.record.trie import State

SOURCE = Path(__file__).parents[1] / "_fast.c"


def _loaded() -> tuple[Any, str | None]:
    """The accelerator and None, or None and why there is none."""
    return loaded("lazynb.record._fast", SOURCE, _parts())


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
        "landmarks": landmarks,
        "Landmark": Landmark,
        "Origin": source.Origin,
        "CallCounter": source.CallCounter,
        "borrowed": borrowed.addresses,
        "held_outside": held_outside.ids,
        "places": source.known_places,
        "here": source.here,
        "code_kind": source.code_kind,
        "Written": Written,
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


again: Callable[[Pending, Any, Sequence[Any], bool, FrameType | None], Any] | None = (
    None if _fast is None else _fast.again
)
"""Repeats a recorded call; None if that is Python's alone, see :mod:`lazynb.torch.dispatch.around`."""

LazyTrace.take_slots = staticmethod(pure.take_slots if _fast is None else _fast.take_slots)
LazyTrace.new_tensors = staticmethod(pure.new_tensors if _fast is None else _fast.new_tensors)


def describe() -> str:
    """``accelerated``, or that it is not and why."""
    return "accelerated" if _fast is not None else f"not accelerated: {why_not}"
