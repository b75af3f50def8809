"""The shapes that XLA prints: ``f32[2,3]{1,0}``, tuples in parentheses."""

from __future__ import annotations

import math
import re

_ARRAY = re.compile(r"\b([a-z]+\d*(?:e\d+m\d+\w*)?)\[([\d,<=]*)\](?:\{([\d,]*))?")
_BITS = re.compile(r"[a-z]+?(\d+)")
_ODD_BITS = {"pred": 8, "token": 0, "opaque": 0, "c64": 64, "c128": 128, "bf16": 16}


def arrays(shape: str) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    """The arrays of a shape, of a tuple all: element type, sizes, and dimensions from the fastest to the
    slowest in memory.

    A bounded size such as ``<=8`` counts as its bound.
    """
    return [(dtype, _integers(sizes), _integers(layout)) for dtype, sizes, layout in _ARRAY.findall(shape)]


def _integers(text: str) -> tuple[int, ...]:
    return tuple(int(number.lstrip("<=")) for number in text.split(",") if number)


def shape_bytes(shape: str) -> int:
    """Bytes of an array or of all arrays of a tuple: ``shape_bytes("f32[2,3]{1,0}") == 24``."""
    return sum(math.ceil(math.prod(sizes) * bits(dtype) / 8) for dtype, sizes, _ in arrays(shape))


def bits(dtype: str) -> int:
    """Bits of an element."""
    if dtype in _ODD_BITS:
        return _ODD_BITS[dtype]
    match = _BITS.match(dtype)
    return int(match[1]) if match else 0


def elements(shape: str) -> int:
    """Elements of an array; of the first array of a tuple."""
    return next((math.prod(sizes) for _, sizes, _ in arrays(shape)), 0)


def rank(shape: str) -> int:
    """Dimensions of an array without those of size 1; of a tuple, the most that one of its arrays has."""
    return max((sum(size != 1 for size in sizes) for _, sizes, _ in arrays(shape)), default=0)


def parts(shape: str) -> list[str]:
    """The shapes that the shape of a tuple consists of; empty for that of an array."""
    if not shape.startswith("("):
        return []
    shapes, depth, start = [], 0, 1
    for at, sign in enumerate(shape):
        depth += (sign in "([{") - (sign in ")]}")
        if depth == 0 or (depth == 1 and sign == ","):
            shapes.append(re.sub(r"/\*.*?\*/", "", shape[start:at]).strip())
            start = at + 1
    return list(filter(None, shapes))


_SPACE = re.compile(r"S\((\d+)\)\}")


def memory_space(shape: str) -> int:
    """The memory that an array lies in, by XLA's number of it: 0 for the device's own."""
    match = _SPACE.search(shape)
    return int(match[1]) if match else 0
