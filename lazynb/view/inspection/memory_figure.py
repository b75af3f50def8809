"""The memory of a program as a drawing: bytes in use at each step, and when the largest values live."""

from __future__ import annotations

from collections.abc import Sequence

from lazynb.units import size
from lazynb.view import style
from lazynb.view.graph.svg_elements import escaped, rect, text
from lazynb.view.inspection.schema import Buffer, Memory
from lazynb.view.words import clip, plain, plural

ROWS = 24
"""Values that are shown, the largest."""

_WIDTH, _LEFT, _MARGIN, _ROW, _PROFILE = 760.0, 250.0, 14.0, 19.0, 84.0
_COLOURS = {"temp": "#E69F00", "argument": "#0072B2", "output": "#009E73", "constant": "#8C8C8C"}
_WORDS = {"temp": "temporary", "argument": "argument", "output": "result", "constant": "constant"}


def memory_svg(memory: Memory, title: str) -> str:
    """A stand-alone SVG document on white.

    Arguments:
      title: says of which program it is.
    """
    largest = sorted(memory["buffers"], key=lambda buffer: -buffer["bytes"])[:ROWS]
    shown = sorted(largest, key=lambda buffer: (buffer["start"], -buffer["bytes"]))
    steps = max(1, len(memory["in_use"]), len(memory["steps"]))
    top = _MARGIN + 54
    parts = [text(_MARGIN, _MARGIN + 13, title, style.TITLE)]
    parts.append(text(_MARGIN, _MARGIN + 32, _peak(memory, steps), style.NOTE, style.SOFT_INK))
    parts += _profile(memory["in_use"], top)
    top += _PROFILE + 18
    for at, buffer in enumerate(shown):
        parts.append(_row(buffer, top + at * _ROW, steps))
    foot = top + len(shown) * _ROW + 16
    parts += _legend(shown, len(memory["buffers"]) - len(shown), foot)
    height = foot + _MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {_WIDTH:.0f} {height:.0f}" role="img" aria-label="{escaped(title)}">'
    )
    ground = rect(0, 0, _WIDTH, height, 0, "#ffffff")
    return "\n".join([head, ground, *parts, "</svg>"])


def _peak(memory: Memory, steps: int) -> str:
    said = f"{plural(len(memory['buffers']), 'value')} over {plural(steps, 'step')}"
    if memory["peak_bytes"] is not None:
        said = f"{size(memory['peak_bytes'])} in use at the peak; {said}"
    at = memory["peak_step"]
    if at is not None and at < len(memory["steps"]):
        said += f"; the peak is at {clip(memory['steps'][at], 40)}"
    return said


def _x(step: float, steps: int) -> float:
    return _LEFT + (_WIDTH - _LEFT - _MARGIN) * step / steps


def _profile(use: Sequence[int], top: float) -> list[str]:
    """The outline of the bytes in use."""
    if not use:
        return []
    most = max(1, *use)
    low = top + _PROFILE
    heights = [low - (_PROFILE - 6) * value / most for value in use]
    way = "".join(
        f"{'L' if at else 'M'}{_x(at, len(use)):.1f},{y:.1f}H{_x(at + 1, len(use)):.1f}"
        for at, y in enumerate(heights)
    )
    area = f'<path d="{way}V{low:.1f}H{_LEFT:.1f}Z" fill="#dcecf8" stroke="none"/>'
    outline = f'<path d="{way}" fill="none" stroke="#0072b2" stroke-width="1.4"/>'
    words = text(_LEFT - 10, top + 12, "in use", style.NOTE, style.INK, "end")
    return [area, outline, words]


def _row(buffer: Buffer, y: float, steps: int) -> str:
    name = clip(plain(next(iter(buffer["variables"]), buffer["name"])), 26)
    left = _x(buffer["start"], steps)
    width = max(2.0, _x(buffer["end"] + 1, steps) - left)
    bar = rect(left, y + 3, min(width, _WIDTH - _MARGIN - left), _ROW - 7, 0, _COLOURS[buffer["kind"]])
    words = text(_MARGIN, y + 13, name, style.SHAPE)
    return words + text(_LEFT - 10, y + 13, size(buffer["bytes"]), style.NOTE, style.SOFT_INK, "end") + bar


def _legend(shown: Sequence[Buffer], left: int, y: float) -> list[str]:
    parts, x = [], _LEFT
    for kind in dict.fromkeys(buffer["kind"] for buffer in shown):
        parts.append(rect(x, y - 9, 10, 10, 0, _COLOURS[kind]))
        parts.append(text(x + 15, y, _WORDS[kind], style.NOTE))
        x += 30 + style.width(_WORDS[kind], style.NOTE)
    if left:
        parts.append(text(_MARGIN, y, f"and {plural(left, 'smaller value')}", style.NOTE, style.SOFT_INK))
    return parts
