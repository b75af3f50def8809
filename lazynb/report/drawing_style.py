"""The style of a drawing: colours, fonts and measures, shared by DOT and SVG.

The hues are Okabe and Ito's ("Color Universal Design", 2008), which people of every colour vision can tell
apart. Boxes bring their own light fill and dark text, so that one drawing is legible on a white and on a dark
page: an image in a notebook cannot ask which of them it stands on.
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
    """The paint of a box of some kind.

    Arguments:
      inputs: the box joins inputs, and looks like one.
    """
    if dead:
        return PAINTS["dead"]
    if inputs:
        return PAINTS["input"]
    return PAINTS[kind]


CLUSTERS = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#6E6E6E",
    "#882211", "#663366", "#3322CC", "#8877FF", "#005544", "#BBBB88",
)  # fmt: skip
"""Colours of fusion clusters: Okabe and Ito's and a grey; then those that are furthest from all before them.
Any two differ by 10 or more in CIEDE2000, to normal, protan, deutan and tritan eyes (Machado, Oliveira and
Fernandes, 2009): more colours would not. Each cluster shows its number too."""

PATTERNS = 5
"""Where the colours are used up they come again with a pattern: none, ``/``, ``-``, a half, ``x``. Look ``n``
of a cluster has colour ``n % len(CLUSTERS)`` and pattern ``n // len(CLUSTERS) % PATTERNS``."""

ADDED, CHANGED, REMOVED = "#56B4E9", "#E69F00", "#CC79A7"
"""Colours of a difference: blue, orange and purple. A sign (+, ~, −) stands with each."""

COMPILED_INPUT = Paint("#f3f4f6", "#8a8f98")  # where colours stand for clusters, inputs have none
NOT_RUN = Paint("#f3f4f6", "#a8a8a8", dashed=True)  # an operation for which nothing runs


def tint(colour: str, share: float = 0.17) -> str:
    """``colour`` thinned with white, as a fill under dark text."""
    parts = [f"{round(255 - (255 - channel) * share):02x}" for channel in _channels(colour)]
    return "#" + "".join(parts)


def contrasting_ink(colour: str) -> str:
    """Black or white: the one that is easier to read on ``colour`` (by WCAG 2's relative luminance)."""
    red, green, blue = [(channel / 255) ** 2.2 for channel in _channels(colour)]
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return "#ffffff" if luminance < 0.179 else "#000000"  # there both stand out by 4.6:1


def _channels(colour: str) -> list[int]:
    """Red, green and blue of ``colour``, from 0 to 255."""
    return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]


@dataclass(frozen=True, slots=True)
class Font:
    """One of the text styles.

    Attributes:
      advance: width of an average character, in units of the size.
    """

    family: str
    size: float
    bold: bool = False
    advance: float = 0.56
    mono: bool = False


TITLE = Font(SANS, 13, bold=True, advance=0.65)
SHAPE = Font(MONO, 11, advance=0.605, mono=True)
NOTE = Font(SANS, 10.5)
SOURCE = Font(MONO, 10, advance=0.605, mono=True)
CHIP_TEXT = Font(SANS, 10, bold=True, advance=0.6)

_NARROW = frozenset("ijltfr.,:;'|!()[] ")
_BROAD = frozenset("mwMW@%")


def width(text: str, font: Font) -> float:
    """The width of ``text``, a little overestimated: the reader's fonts are not known here."""
    return font.size * sum(_advance(char, font) for char in text)


def _advance(char: str, font: Font) -> float:
    """The width of a character, in units of the font's size."""
    if ord(char) >= 0x300:
        return _advance_beyond_latin(char, font)
    if font.mono:
        return font.advance
    if char in _NARROW:
        return font.advance * 0.62
    if char in _BROAD:
        return font.advance * 1.6
    if char.isupper():
        return font.advance * 1.22
    return font.advance


def _advance_beyond_latin(char: str, font: Font) -> float:
    if unicodedata.combining(char):
        return 0.0
    if unicodedata.east_asian_width(char) in "WF":
        return 1.1
    return max(font.advance, 0.7)
