"""Formats of durations, sizes, counts, places and lists for display."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from lazynb.user_code.source_lines import Place

# ---- Invisible characters -------------------------------------------------------------------------------

# Text of the user in which invisible characters are written out, so that it cannot deceive: control
# characters except tab and line feed; soft hyphens, joiners, marks of writing direction and other format
# characters; fillers; separators of lines and paragraphs; surrogates; noncharacters. Variation selectors are
# left out, because they belong to emoji.
_INVISIBLE = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\xad\\u034f\\u0600-\\u0605\\u061c\\u06dd\\u070f\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f"
    "\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ud800-\\udfff\\ufdd0-\\ufdef\\ufeff\\uffa0\\ufff0-\\ufffb\\ufffe\\uffff"
    "\\U0001bca0-\\U0001bca3\\U0001d173-\\U0001d17a\\U000e0000-\\U000e00ff]"
)


def escape_invisible(text: str) -> str:
    """``text`` with invisible characters as Python escape sequences, such as ``u202e`` after a backslash."""
    if text.isascii() and text.isprintable():
        return text
    return _INVISIBLE.sub(_written_out, text)


def _written_out(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


def escape_invisible_in(data: Any) -> Any:
    """A copy of dictionaries, lists and strings with escaped strings; keys stay unchanged."""
    if type(data) is str:
        return escape_invisible(data)
    if isinstance(data, dict):
        return {key: escape_invisible_in(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [escape_invisible_in(value) for value in data]
    return data


_BYTES = ("B", "KiB", "MiB", "GiB", "TiB")
_THOUSANDS = ("", "k", "M", "G", "T")
_LISTED_LINES = 4


def duration(seconds: float) -> str:
    """``1.20 ms`` or ``3.40 s``, with two decimals for a table column; empty for 0."""
    if not seconds:
        return ""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1000:.2f} ms"


def short_duration(seconds: float) -> str:
    """``'71 ms'``, ``'12 µs'``, ``'1.2 s'``."""
    if seconds >= 1:
        return f"{seconds:.1f} s"
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds * 1e6:.3g} µs"


def compact_duration(seconds: float) -> str:
    """``0.0123 ms`` or ``3.4 s``: three significant digits, and no unit below a millisecond."""
    if seconds >= 1:
        return f"{seconds:.3g} s"
    return f"{seconds * 1e3:.3g} ms"


def duration_range(first: float, last: float, between: str = "–") -> str:
    """Two durations (in seconds) with one unit: ``'1.2–1.4 ms'``."""
    return f"{first * 1e3:.3g}{between}{last * 1e3:.3g} ms"


def size(count: float | None) -> str:
    """A size in bytes, short: ``'64 KiB'``; empty if it is not known."""
    if count is None:
        return ""
    return _scaled(count, 1024, _BYTES)


def size_difference(before: float, now: float) -> str:
    """Two sizes with a visible difference: ``'2 MiB instead of 1 MiB'``, ``'1 MiB, 4 B more than
    before'``."""
    if size(now) != size(before):
        return f"{size(now)} instead of {size(before)}"
    return f"{size(now)}, {size(abs(now - before))} {'more' if now > before else 'less'} than before"


def parse_size(text: str) -> int:
    """The bytes of ``'64 MiB'``, ``'1.5 GB'`` or ``'4096'``.

    Raises:
      ValueError: ``text`` is not a valid size.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no size: write 4096, 64 MiB or 1.5 GB")
    power = " KMGT".index((found[2] or " ").upper())
    return round(float(found[1]) * (1024 if found[3] else 1000) ** power)


_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([KkMGT]?)(i?)B)?")


def number(count: float | None) -> str:
    """A count, short: ``'2.1 M'``; empty if it is not known."""
    if count is None:
        return ""
    return _scaled(count, 1000, _THOUSANDS).rstrip()


def _scaled(count: float, step: int, units: tuple[str, ...]) -> str:
    scale = 0
    while abs(count) >= step and scale < len(units) - 1:
        count /= step
        scale += 1
    if scale == 0 or count >= 99.5:
        text = f"{count:.0f}"
    else:
        text = f"{count:.1f}".removesuffix(".0")
    return f"{text} {units[scale]}"


def line_range(places: Iterable[Place | None]) -> str:
    """A group of places: ``'cell 4, lines 2–5'``, or the first and the last of several files or cells."""
    known = [place for place in places if place is not None]
    if not known:
        return ""
    first, last = known[0], known[-1]
    if any((place.file, place.cell) != (first.file, first.cell) for place in known):
        return first.label if last.label == first.label else f"{first.label} … {last.label}"
    low, high = min(place.line for place in known), max(place.line for place in known)
    if low == high:
        return first.label
    if first.cell is not None:
        return f"cell {first.cell}, lines {low}–{high}"
    return f"{first.label.rpartition(':')[0]}:{low}–{high}"


def join_words(words: Sequence[str]) -> str:
    """``'a'``, ``'a and b'``, ``'a, b and c'``."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def abbreviated_list(words: Sequence[str], most: int = 5) -> str:
    """``'a, b and c'``; for more than ``most`` words ``'a, b, c and 7 more'``."""
    if len(words) > most:
        words = [*words[: most - 1], f"{len(words) - most + 1:,} more"]
    return join_words(words) if words else ""


def listed_lines(places: Iterable[tuple[int | None, str, int]]) -> str:
    """``'cell 4, lines 2, 3, 5'``; for several cells or files the one with most lines, and the number of
    others.

    Arguments:
      places: for each place the cell (None in a file), the label (``cell 4, line 2`` or ``train.py:17``), the
        line.
    """
    lines_of: dict[tuple[int | None, str], list[int]] = {}
    for cell, label, line in places:
        file = label.rpartition(":")[0]
        lines_of.setdefault((cell, file), []).append(line)
    if not lines_of:
        return ""
    (cell, file), lines = max(lines_of.items(), key=lambda item: len(item[1]))
    phrase = _lines_of_one_source(cell, file, sorted(set(lines)))
    others = len(lines_of) - 1
    if others:
        phrase += f" and {others} more place{_plural_s(others)}"
    return phrase


def _lines_of_one_source(cell: int | None, file: str, lines: list[int]) -> str:
    listed = ", ".join(map(str, lines[:_LISTED_LINES]))
    if len(lines) > _LISTED_LINES:
        listed += f" … {lines[-1]}"
    if cell is None:
        return f"{file}:{listed}"
    return f"cell {cell}, line{_plural_s(len(lines))} {listed}"


def _plural_s(count: int) -> str:
    return "s" if count > 1 else ""
