"""Shapes as XLA prints them, ``f32[2,3]{1,0}`` or tuples in parentheses: sizes, memory spaces, tiles."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

# ---- Memory spaces of a TPU -----------------------------------------------------------------------------
# A layout names them by number: ``S(1)``.


class MemorySpace(NamedTuple):
    """A memory: its name, and a description."""

    name: str
    text: str


_KNOWN = {
    1: MemorySpace("VMEM", "the vector memory on the chip: what lies there crosses no bus to HBM"),
    2: MemorySpace("SMEM", "the scalar memory on the chip, as libtpu's report of memory names it"),
    5: MemorySpace("host", "the memory of the machine that the chip is in"),
}
"""1 and 5 (and 0, HBM) from https://openxla.org/xla/shapes; 2 from libtpu's ``memory-usage-report`` ("smem
(color=2)"). That report has no name for 6 ("color_6"), in which scalars were seen."""


HOST_SPACE = 5


def memory_space_of(space: int) -> MemorySpace:
    """Return the memory with a number: no name for 0 (the device's own), no text if undocumented."""
    if space == 0:
        return MemorySpace("", "")
    return _KNOWN.get(space, MemorySpace(f"memory {space}", ""))


_ARRAY = re.compile(r"\b([a-z]+\d*(?:e\d+m\d+\w*)?)\[([\d,<=]*)\](?:\{([\d,]*))?")
_BITS = re.compile(r"[a-z]+?(\d+)")
_SPECIAL_BITS = {"pred": 8, "token": 0, "opaque": 0, "c64": 64, "c128": 128, "bf16": 16}


def parse_arrays(shape: str) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    """Return the arrays of a shape or tuple: dtype, sizes, and dimensions from fastest to slowest in memory.
    A bounded size such as ``<=8`` counts as its bound."""
    return [(dtype, _integers(sizes), _integers(layout)) for dtype, sizes, layout in _ARRAY.findall(shape)]


def _integers(text: str) -> tuple[int, ...]:
    return tuple(int(number.lstrip("<=")) for number in text.split(",") if number)


def shape_bytes(shape: str) -> int:
    """Return the bytes of an array, or of all arrays of a tuple: ``shape_bytes("f32[2,3]{1,0}") == 24``."""
    return sum(math.ceil(math.prod(sizes) * bits(dtype) / 8) for dtype, sizes, _ in parse_arrays(shape))


def bits(dtype: str) -> int:
    """Return the bits of one element."""
    if dtype in _SPECIAL_BITS:
        return _SPECIAL_BITS[dtype]
    match = _BITS.match(dtype)
    return int(match[1]) if match else 0


def element_count(shape: str) -> int:
    """Return the number of elements of an array, or of the first array of a tuple."""
    return next((math.prod(sizes) for _, sizes, _ in parse_arrays(shape)), 0)


def rank(shape: str) -> int:
    """Return the number of dimensions that are not of size 1; for a tuple, the largest of its arrays."""
    return max((sum(size != 1 for size in sizes) for _, sizes, _ in parse_arrays(shape)), default=0)


def tuple_parts(shape: str) -> list[str]:
    """Return the shapes of a tuple's parts; empty for an array."""
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
    """Return the number of the memory that holds an array; 0 for the device's own."""
    match = _SPACE.search(shape)
    return int(match[1]) if match else 0


# ---- Tiled layouts --------------------------------------------------------------------------------------
# ``f32[100,3]{1,0:T(8,128)}``: tiles of 8 by 128 elements, so the array is padded to 104 by 128.
# ``T(8,128)(2,1)`` divides each tile again, into pieces of 2 by 1: two bfloat16 share a word.

_TILES = re.compile(r":[^}]*?T((?:\([\d,*]+\))+)")
_ELEMENT = re.compile(r"[:)]E\((\d+)\)")


def padded_bytes(shape: str) -> int | None:
    """Return the bytes of an array with the padding of its tiles; for a tuple, the sum of its parts.
    Without tiles, this is the size of the elements. None if the form of the tiles is unknown."""
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
    """``sizes``, slowest first, with the last ones split into tiles: tile counts, then tile sizes."""
    sizes = [1] * (len(tile) - len(sizes)) + sizes
    first = len(sizes) - len(tile)
    counts = [-(-size // own) for size, own in zip(sizes[first:], tile, strict=True)]
    return sizes[:first] + counts + tile


def padding(shape: str) -> float | None:
    """Return padded size / size of the elements: 1.0 without padding, None if unknown."""
    own, taken = shape_bytes(shape), padded_bytes(shape)
    return taken / own if own and taken is not None else None
