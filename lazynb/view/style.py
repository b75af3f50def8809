"""Colours, fonts and measures of a drawing, shared by DOT and SVG.

The hues are Okabe and Ito's ("Color Universal Design", 2008), told apart by people of every colour vision. Boxes bring
their own light fill and dark text, so one drawing is legible on a white and on a dark page: an image inside a
notebook cannot ask which of them it stands on.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

SANS = "Inter, 'Segoe UI', 'Helvetica Neue', Helvetica, Arial, 'DejaVu Sans', sans-serif"
MONO = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"

INK = "#1b1f24"
SOFT_INK = "#57606a"
LINE = "#8a8f98"  # edges: at least 3:1 against both white and near-black
REGION = "#8a8f98"
CHIP = "#e8eaed"
OUTPUT_INK = "#00523c"
OUTPUT_FILL = "#c3e8dc"
OUTPUT_LINE = "#009e73"  # bluish green


@dataclass(frozen=True, slots=True)
class Paint:
    """Fill and outline of a box."""

    fill: str
    line: str
    dashed: bool = False


PAINTS = {
    "input": Paint("#dcecf8", "#0072b2"),  # blue
    "op": Paint("#ffffff", "#8a8f98"),
    "group": Paint("#fdf0d5", "#e69f00"),  # orange
    "dead": Paint("#eeeeee", "#a8a8a8", dashed=True),
}


def paint(kind: str, dead: bool, inputs: bool = False) -> Paint:
    """The paint of a box; joined inputs look like inputs."""
    if dead:
        return PAINTS["dead"]
    return PAINTS["input" if inputs else kind]


@dataclass(frozen=True, slots=True)
class Font:
    """One of the text styles. ``advance`` is the width of an average character in units of the size."""

    family: str
    size: float
    bold: bool = False
    advance: float = 0.56
    mono: bool = False


TITLE = Font(SANS, 13, bold=True, advance=0.6)
SHAPE = Font(MONO, 11, advance=0.605, mono=True)
NOTE = Font(SANS, 10.5)
SOURCE = Font(MONO, 10, advance=0.605, mono=True)

_NARROW = frozenset("ijltfr.,:;'|!()[] ")
_BROAD = frozenset("mwMW@%")


def width(text: str, font: Font) -> float:
    """How wide ``text`` will be, a little overestimated: the reader's fonts are not known here."""
    return font.size * sum(_advance(char, font) for char in text)


def _advance(char: str, font: Font) -> float:
    if ord(char) >= 0x300:
        if unicodedata.combining(char):
            return 0.0
        return 1.1 if unicodedata.east_asian_width(char) in "WF" else max(font.advance, 0.7)
    if font.mono:
        return font.advance
    if char in _NARROW:
        return font.advance * 0.62
    if char in _BROAD:
        return font.advance * 1.6
    return font.advance * (1.22 if char.isupper() else 1.0)
