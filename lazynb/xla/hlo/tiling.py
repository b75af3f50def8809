"""Tiled layouts: what an array takes in memory when each of its last dimensions is filled up to whole tiles.

``f32[100,3]{1,0:T(8,128)}``: the array is cut into tiles of 8 by 128 elements, so that it takes 104 by 128.
``T(8,128)(2,1)`` cuts each tile once more, into pieces of 2 by 1: that is how two bfloat16 share a word.
"""

from __future__ import annotations

import math
import re

from lazynb.xla.hlo.shapes import arrays, bits, parts, shape_bytes

_TILES = re.compile(r":[^}]*?T((?:\([\d,*]+\))+)")
_ELEMENT = re.compile(r"[:)]E\((\d+)\)")


def padded_bytes(shape: str) -> int | None:
    """Bytes that an array takes with what fills its tiles; of a tuple, those of its parts.

    An array without tiles takes what its elements take. None if its tiles are of a form that is not known.
    """
    if inner := parts(shape):
        sizes = [padded_bytes(part) for part in inner]
        return None if None in sizes else sum(filter(None, sizes))
    tiles = _TILES.search(shape)
    if tiles is None:
        return shape_bytes(shape)
    if "*" in tiles[1]:
        return None
    [(dtype, sizes_, layout)] = arrays(shape)
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
