"""Tiled layouts: what padding costs."""

from __future__ import annotations

import pytest

from lazynb.xla.hlo.shapes import padded_bytes, padding

# The elements of the filled array, by hand.
CASES = [
    ("f32[100,3]{1,0:T(8,128)}", 104 * 128 * 4),
    ("f32[100,3]{0,1:T(4,128)}", 4 * 128 * 4),  # the first dimension runs fastest
    ("bf16[512,300]{0,1:T(8,128)(2,1)}", 304 * 512 * 2),
    ("bf16[512]{0:T(512)(128)(2,1)S(1)}", 512 * 2),
    ("bf16[513]{0:T(512)(128)(2,1)}", 1024 * 2),
    ("bf16[3,100]{1,0:T(4,128)(2,1)}", 4 * 128 * 2),
    ("f32[]{:T(128)}", 128 * 4),
    ("bf16[]{:T(256)S(6)}", 256 * 2),
    ("pred[5,7,9]{2,1,0:T(8,128)(4,1)}", 5 * 8 * 128),
    ("s8[33,130]{1,0:T(32,128)(4,1)}", 64 * 256),
    ("s4[16,128]{1,0:T(8,128)E(4)}", 16 * 128 // 2),
    ("f32[2,3]{1,0}", 24),
    ("f32[2,3]", 24),
    ("f32[0,3]{1,0:T(8,128)}", 0),
    ("(f32[8,1]{1,0:T(8,128)}, s32[]{:T(128)})", 8 * 128 * 4 + 512),
    ("f32[8,1]{1,0:T(*,128)}", None),
]


@pytest.mark.parametrize(("shape", "taken"), CASES)
def test_padded_bytes_include_the_padding_of_tiles(shape, taken):
    assert padded_bytes(shape) == taken


def test_padding_is_the_ratio_of_padded_to_plain_size():
    assert padding("f32[100,3]{1,0:T(8,128)}") == pytest.approx(44.37, abs=0.01)
    assert padding("f32[1024,3]{1,0:T(8,128)}") == pytest.approx(42.67, abs=0.01)
    assert padding("f32[128,128]{1,0:T(8,128)}") == 1
    assert padding("f32[0]{0:T(128)}") is None
