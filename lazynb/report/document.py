"""Escaped text and sentences as HTML, for the reports."""

from __future__ import annotations

from html import escape

from lazynb.user_code.text_format import escape_invisible


def sentence_html(text: str) -> str:
    """A sentence as HTML; text in backticks becomes ``<code>``."""
    parts = escaped(text).split("`")
    if len(parts) % 2 == 0:
        return escaped(text)
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))


def escaped(text: str) -> str:
    """``text`` with HTML and invisible characters escaped."""
    return escape(escape_invisible(text))
