"""Short forms."""

from __future__ import annotations

import pytest

from lazynb.report import short_text


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
    assert short_text.short_aval(aval) == short


def test_short_avals_counts_equal_and_further_types() -> None:
    assert short_text.short_avals(["int32[]"] * 3) == "3 × i32"
    assert short_text.short_avals(["int32[]", "bool[]", "bool[2]"]) == "i32, bool +1 more"
    assert short_text.short_avals([]) == ""


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
    assert short_text.module_path(scope) == path


def test_plain_keeps_text_and_escapes_control_characters() -> None:
    assert short_text.escape_invisible("naïve 変数 🎉\n") == "naïve 変数 🎉\n"
    assert short_text.escape_invisible("\x1b[31m\x00\ud800") == "\\x1b[31m\\x00\\ud800"
    assert (
        short_text.escape_invisible("a\u202eb\u2066c\u200f\u061c\u200b\U000e0041")
        == "a\\u202eb\\u2066c\\u200f\\u061c\\u200b\\U000e0041"
    )
    assert short_text.escape_invisible("❤️ שלום") == "❤️ שלום", "letters are written in their own direction"


def test_clip_shortens_text_to_one_line() -> None:
    assert short_text.clip("a\n  b", 10) == "a b"
    assert short_text.clip("abcdef", 4) == "abc…"
