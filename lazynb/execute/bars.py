"""Bars of a timeline: characters for a terminal, images that a notebook shows though nobody trusts it."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lazynb.units import short_duration


class Look(NamedTuple):
    """How a part is shown: its name, its character in text, its colour (Okabe and Ito's, and a grey)."""

    name: str
    sign: str
    colour: str


LOOKS = (
    Look("recording", "░", "#56b4e9"),
    Look("compiling", "█", "#e69f00"),
    Look("running", "▓", "#009e73"),
    Look("waiting", "▒", "#cc79a7"),
    Look("Python", "·", "#8a8f98"),
)


def present(parts: Sequence[float]) -> list[tuple[Look, float]]:
    """Each of the five parts that took anything, with how it is shown."""
    return [(look, part) for look, part in zip(LOOKS, parts, strict=True) if part > 0]


def words(parts: Sequence[float]) -> str:
    """``'compiling 41 ms, running 1.2 ms'``; parts that took nothing are left out."""
    return ", ".join(f"{look.name} {short_duration(part)}" for look, part in present(parts))


def legend(parts: Sequence[float]) -> str:
    """As :func:`words`, with the sign of each part."""
    return ", ".join(f"{look.sign} {look.name} {short_duration(part)}" for look, part in present(parts))


def text_bar(parts: Sequence[float], whole: float, width: int) -> str:
    """A bar of characters; ``width`` of them stand for ``whole``. What took anything has at least one."""
    total = sum(parts)
    if whole <= 0 or total <= 0:
        return ""
    length = max(round(width * total / whole), 1)
    return "".join(look.sign * count for look, count in zip(LOOKS, _shared(parts, length), strict=True))


def _shared(parts: Sequence[float], length: int) -> list[int]:
    """``length`` characters shared out among the parts, rounded so that the sum is right."""
    total, shares, at, before = sum(parts), [], 0.0, 0
    for part in parts:
        at += part
        after = round(length * at / total)
        shares.append(after - before)
        before = after
    return shares


def text_strip(strip: Iterable[Sequence[float]]) -> str:
    """A character for each stretch of time: that of the part with most of it."""
    return "".join(LOOKS[parts.index(max(parts))].sign for parts in strip)


def image_bar(parts: Sequence[float], whole: float, width: int = 160, height: int = 10) -> str:
    """A bar as an image in HTML; ``width`` pixels stand for ``whole``."""
    if whole <= 0 or sum(parts) <= 0:
        return ""
    at, pieces = 0.0, ""
    scale = width / whole
    for look, part in present(parts):
        pieces += _rectangle(at * scale, 0, part * scale, height, look.colour)
        at += part
    return _image(pieces, width, height, words(parts))


def image_strip(strip: Sequence[Sequence[float]], told: str, height: int = 28) -> str:
    """The stretches of time beside each other as an image in HTML, each a column of its parts."""
    pieces = ""
    for column, parts in enumerate(strip):
        shares, top = present(parts), 0.0
        total = sum(part for _, part in shares)
        for look, part in shares:
            size = height * part / total
            pieces += _rectangle(column * _COLUMN, top, _COLUMN + 0.3, size, look.colour)
            top += size
    return _image(pieces, len(strip) * _COLUMN, height, told)


_COLUMN = 6  # pixels of a stretch


def swatch(look: Look) -> str:
    """The colour of a part, as a small image."""
    return _image(_rectangle(0, 0, 10, 10, look.colour), 10, 10, "")


def _rectangle(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x:.4g}" y="{y:.4g}" width="{width:.4g}" height="{height:.4g}" fill="{colour}"/>'


def _image(pieces: str, width: float, height: float, told: str) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}">'
    data = base64.b64encode(f"{head}{pieces}</svg>".encode()).decode()
    text = html.escape(told, quote=True)
    size = f'width="{width:g}" height="{height:g}"'
    return f'<img alt="{text}" title="{text}" {size} src="data:image/svg+xml;base64,{data}">'
