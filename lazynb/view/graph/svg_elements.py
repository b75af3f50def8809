"""The elements that drawings are made of, as SVG."""

from __future__ import annotations

from html import escape

from lazynb.view import style
from lazynb.view.style import Font
from lazynb.view.words import plain


def rect(x: float, y: float, w: float, h: float, radius: float, fill: str, more: str = "") -> str:
    """A rectangle.

    Arguments:
      radius: of its corners.
      more: attributes.
    """
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" rx="{radius:.1f}" '
        f'fill="{fill}" {more}/>'
    )


def text(
    x: float, y: float, said: str, font: Font, fill: str = style.INK, anchor: str = "start", more: str = ""
) -> str:
    """A line of text.

    Arguments:
      more: elements after what is said.
    """
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} {font_of(font)} fill="{fill}" xml:space="preserve">{escaped(said)}{more}</text>'


def font_of(font: Font) -> str:
    """The attributes of text in a font."""
    weight = 600 if font.bold else 400
    return f'font-family="{font.family}" font-size="{font.size}" font-weight="{weight}"'


def escaped(said: str) -> str:
    """What is said, as the text of an element or an attribute."""
    return escape(plain(said))
