"""Plain text: text of users in which invisible characters are written out, so that it cannot deceive."""

from __future__ import annotations

import re
from typing import Any

# Control characters except tab and line feed; soft hyphens, joiners, marks of writing direction and other
# format characters; fillers; separators of lines and paragraphs; surrogates; code points that are no
# characters. The variation selectors are left out, because they belong to emoji.
_INVISIBLE = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\xad\\u034f\\u0600-\\u0605\\u061c\\u06dd\\u070f\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f"
    "\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ud800-\\udfff\\ufdd0-\\ufdef\\ufeff\\uffa0\\ufff0-\\ufffb\\ufffe\\uffff"
    "\\U0001bca0-\\U0001bca3\\U0001d173-\\U0001d17a\\U000e0000-\\U000e00ff]"
)


def plain(text: str) -> str:
    """``text`` with each invisible character in Python's notation, such as a backslash and ``u202e``."""
    if text.isascii() and text.isprintable():
        return text
    return _INVISIBLE.sub(_written_out, text)


def _written_out(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


def plain_data(data: Any) -> Any:
    """A copy of dictionaries, lists and strings with :func:`plain` strings; keys stay unchanged."""
    if type(data) is str:
        return plain(data)
    if isinstance(data, dict):
        return {key: plain_data(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [plain_data(value) for value in data]
    return data
