"""What a value is, as plain data that two processes can compare: the same for equal values, lazy or not."""

from __future__ import annotations

import zlib
from typing import Any

import jax
import numpy as np

Seen = tuple[Any, ...]

_SHOWN = 16


def seen(value: Any) -> Seen:
    """What ``value`` is. Reads arrays; what raises when it is read says so."""
    if isinstance(value, jax.Array):
        return _array(value)
    if isinstance(value, np.ndarray):
        return ("numpy", str(value.dtype), value.shape, *_content(value))
    if isinstance(value, np.generic):
        return ("numpy scalar", str(value.dtype), repr(value.item()))
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, *[seen(one) for one in value])
    if isinstance(value, dict):
        return ("dict", *[(key, seen(one)) for key, one in value.items()])
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return (type(value).__name__, repr(value))
    return ("object",)


def _array(value: Any) -> Seen:
    try:
        if value.is_deleted():
            return ("deleted array", str(value.dtype), value.shape)
        read = np.asarray(value)
        return (
            "array",
            str(value.dtype),
            value.shape,
            "weak" if value.weak_type else "strong",
            "committed" if value.committed else "free",
            *_content(read),
        )
    except Exception as error:
        return ("raises", type(error).__name__)


def _content(values: np.ndarray) -> tuple[Any, ...]:
    """The values where they are few, else the first of them and a checksum. One NaN is like another."""
    flat = np.ascontiguousarray(values).reshape(-1)
    head = str(flat[:_SHOWN].tolist())
    if flat.size <= _SHOWN:
        return (head,)
    if np.issubdtype(flat.dtype, np.floating):
        flat = np.where(np.isnan(flat), np.array(np.nan, flat.dtype), flat)
    return (head, zlib.crc32(flat.tobytes()))


def reads(value: Any) -> str:
    """A finding's words for what was seen."""
    text = " ".join(map(str, value))
    return text if len(text) < 160 else text[:157] + "..."
