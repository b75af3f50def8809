"""The shapes that XLA prints: ``f32[2,3]{1,0}``, tuples in parentheses."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

# ---- The memories of a TPU by XLA's number of them, the ``S(1)`` of a layout ------------------------------


class MemorySpace(NamedTuple):
    """A memory: its name, and in words what it is."""

    name: str
    text: str


_KNOWN = {
    1: MemorySpace("VMEM", "the vector memory on the chip: what lies there crosses no bus to HBM"),
    2: MemorySpace("SMEM", "the scalar memory on the chip, as libtpu's report of memory names it"),
    5: MemorySpace("host", "the memory of the machine that the chip is in"),
}
"""1 and 5 (and 0, HBM) as https://openxla.org/xla/shapes says; 2 as libtpu's ``memory-usage-report`` names
it ("smem (color=2)"). It has no name for 6, in which single numbers were seen ("color_6")."""


def memory_space_of(space: int) -> MemorySpace:
    """The memory of that number; without a name if nobody says what it is, and for the device's own."""
    if space == 0:
        return MemorySpace("", "")
    return _KNOWN.get(space, MemorySpace(f"memory {space}", ""))


_ARRAY = re.compile(r"\b([a-z]+\d*(?:e\d+m\d+\w*)?)\[([\d,<=]*)\](?:\{([\d,]*))?")
_BITS = re.compile(r"[a-z]+?(\d+)")
_SPECIAL_BITS = {"pred": 8, "token": 0, "opaque": 0, "c64": 64, "c128": 128, "bf16": 16}


def parse_arrays(shape: str) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    """The arrays of a shape, of a tuple all: element type, sizes, and dimensions from the fastest to the
    slowest in memory.

    A bounded size such as ``<=8`` counts as its bound.
    """
    return [(dtype, _integers(sizes), _integers(layout)) for dtype, sizes, layout in _ARRAY.findall(shape)]


def _integers(text: str) -> tuple[int, ...]:
    return tuple(int(number.lstrip("<=")) for number in text.split(",") if number)


def shape_bytes(shape: str) -> int:
    """Bytes of an array or of all arrays of a tuple: ``shape_bytes("f32[2,3]{1,0}") == 24``."""
    return sum(math.ceil(math.prod(sizes) * bits(dtype) / 8) for dtype, sizes, _ in parse_arrays(shape))


def bits(dtype: str) -> int:
    """Bits of an element."""
    if dtype in _SPECIAL_BITS:
        return _SPECIAL_BITS[dtype]
    match = _BITS.match(dtype)
    return int(match[1]) if match else 0


def element_count(shape: str) -> int:
    """Elements of an array; of the first array of a tuple."""
    return next((math.prod(sizes) for _, sizes, _ in parse_arrays(shape)), 0)


def rank(shape: str) -> int:
    """Dimensions of an array without those of size 1; of a tuple, the most that one of its arrays has."""
    return max((sum(size != 1 for size in sizes) for _, sizes, _ in parse_arrays(shape)), default=0)


def tuple_parts(shape: str) -> list[str]:
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


# ---- Tiled layouts: what an array takes in memory when each of its last dimensions is filled up to whole
# tiles
# ``f32[100,3]{1,0:T(8,128)}``: the array is cut into tiles of 8 by 128 elements, so that it takes 104 by 128.
# ``T(8,128)(2,1)`` cuts each tile once more, into pieces of 2 by 1: that is how two bfloat16 share a word.

_TILES = re.compile(r":[^}]*?T((?:\([\d,*]+\))+)")
_ELEMENT = re.compile(r"[:)]E\((\d+)\)")


def padded_bytes(shape: str) -> int | None:
    """Bytes that an array takes with what fills its tiles; of a tuple, those of its parts.

    An array without tiles takes what its elements take. None if its tiles are of a form that is not known.
    """
    if inner := tuple_parts(shape):
        sizes = [padded_bytes(part) for part in inner]
        return None if None in sizes else sum(filter(None, sizes))
    tiles = _TILES.search(shape)
    if tiles is None:
        return shape_bytes(shape)
    if "*" in tiles[1]:
        return None
    [(dtype, sizes_, layout)] = parse_arrays(shape)
    physical = [sizes_[dimension] for dimension in reversed(layout)] or [1]
    for tile in re.findall(r"\(([\d,]+)\)", tiles[1]):
        physical = _tiled(physical, [int(size) for size in tile.split(",")])
    width = _ELEMENT.search(shape)
    return math.ceil(math.prod(physical) * (int(width[1]) if width else bits(dtype)) / 8)


def _tiled(sizes: list[int], tile: list[int]) -> list[int]:
    """``sizes``, from the slowest dimension, with the last ones cut into tiles: how many, and their sizes."""
    sizes = [1] * (len(tile) - len(sizes)) + sizes
    first = len(sizes) - len(tile)
    counts = [-(-size // own) for size, own in zip(sizes[first:], tile, strict=True)]
    return sizes[:first] + counts + tile


def padding(shape: str) -> float | None:
    """How many times its elements' size an array takes: 1.0 without padding. None if that is not known."""
    own, taken = shape_bytes(shape), padded_bytes(shape)
    return taken / own if own and taken is not None else None
