"""Colours, fonts and measures of drawings, shared by DOT and SVG.

The hues are Okabe and Ito's ("Color Universal Design", 2008), which people of every colour vision can
distinguish. Boxes have a light fill and dark text, so one drawing is legible on light and dark pages: an
image cannot detect the background of its page.
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
    """The paint of a box.

    Arguments:
      kind: a key of ``PAINTS``.
      inputs: whether the box is a group of inputs; it gets the paint of an input.
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
"""Colours of fusion clusters: Okabe and Ito's and a grey; then the colours furthest from all before them.
Any two differ by at least 10 in CIEDE2000 for normal, protan, deutan and tritan vision (Machado, Oliveira and
Fernandes, 2009); no further colour would. Each cluster also shows its number."""

PATTERNS = 5
"""Patterns that make colours reusable: none, ``/``, ``-``, a half, ``x``. Look ``n`` of a cluster has colour
``n % len(CLUSTERS)`` and pattern ``n // len(CLUSTERS) % PATTERNS``."""

ADDED, CHANGED, REMOVED = "#56B4E9", "#E69F00", "#CC79A7"
"""Colours of a difference: blue, orange and purple. Each is shown with a sign (+, ~, −)."""

COMPILED_INPUT = Paint("#f3f4f6", "#8a8f98")  # for drawings that colour boxes by cluster
NOT_RUN = Paint("#f3f4f6", "#a8a8a8", dashed=True)  # an operation without a kernel


def tint(colour: str, share: float = 0.17) -> str:
    """``colour`` mixed with white, as a fill under dark text."""
    parts = [f"{round(255 - (255 - channel) * share):02x}" for channel in _channels(colour)]
    return "#" + "".join(parts)


def contrasting_ink(colour: str) -> str:
    """Black or white, whichever has more contrast on ``colour`` by WCAG 2's relative luminance."""
    red, green, blue = [(channel / 255) ** 2.2 for channel in _channels(colour)]
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return "#ffffff" if luminance < 0.179 else "#000000"  # at 0.179 both have a contrast of 4.6:1


def _channels(colour: str) -> list[int]:
    return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]


@dataclass(frozen=True, slots=True)
class Font:
    """A text style.

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
    """The width of ``text``, slightly overestimated because the reader's fonts are unknown."""
    return font.size * sum(_advance(char, font) for char in text)


def _advance(char: str, font: Font) -> float:
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
