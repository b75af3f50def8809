"""Short forms."""

from __future__ import annotations

import pytest

from lazynb.view import words


@pytest.mark.parametrize(
    ("aval", "short"),
    [
        ("float32[128,64]", "f32[128,64]"),
        ("bfloat16[2]", "bf16[2]"),
        ("uint8[3]", "u8[3]"),
        ("int32[]", "i32"),
        ("complex64[1]", "c64[1]"),
        ("bool[2]", "bool[2]"),
        ("key<fry>[]", "key<fry>"),
    ],
)
def test_short_aval_abbreviates_the_dtype(aval: str, short: str) -> None:
    assert words.short_aval(aval) == short


def test_short_avals_counts_equal_and_further_types() -> None:
    assert words.short_avals(["int32[]"] * 3) == "3 × i32"
    assert words.short_avals(["int32[]", "bool[]", "bool[2]"]) == "i32, bool +1 more"
    assert words.short_avals([]) == ""


@pytest.mark.parametrize(
    ("scope", "path"),
    [
        ("MLP/Dense_0", "MLP/Dense_0"),
        ("jvp(MLP)/Dense_0", "MLP/Dense_0"),
        ("transpose(jvp(MLP))/Dense_0", "MLP/Dense_0 (backward)"),
        ("block(3)", "block(3)"),
    ],
)
def test_module_strips_transformations_from_a_scope(scope: str, path: str) -> None:
    assert words.module(scope) == path


def test_plain_keeps_text_and_escapes_control_characters() -> None:
    assert words.plain("naïve 変数 🎉\n") == "naïve 変数 🎉\n"
    assert words.plain("\x1b[31m\x00\ud800") == "\\x1b[31m\\x00\\ud800"
    assert (
        words.plain("a\u202eb\u2066c\u200f\u061c\u200b\U000e0041")
        == "a\\u202eb\\u2066c\\u200f\\u061c\\u200b\\U000e0041"
    )
    assert words.plain("❤️ שלום") == "❤️ שלום", "letters are written in their own direction"


def test_clip_shortens_text_to_one_line() -> None:
    assert words.clip("a\n  b", 10) == "a b"
    assert words.clip("abcdef", 4) == "abc…"
