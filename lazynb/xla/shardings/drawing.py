"""The parts of an array and the devices that have them, as a small drawing and as text."""

from __future__ import annotations

import colorsys
import html
import math

from lazynb.xla.shardings.tiling import Tiling

MOST = 64
"""Parts of a drawing: smaller ones would not be legible."""

INK = "#1b1f24"  # of the numbers, on every colour of a part
_TURN = 137.508 / 360  # the golden angle: hues that follow each other are far apart
_WIDTH, _ROW, _SMALL = 132, 18, 9  # pixels


def grid_of(tiling: Tiling) -> list[list[tuple[int, ...]]]:
    """The devices of each part: rows along the first dimension that is cut, columns along all others."""
    cut = [axis for axis, count in enumerate(tiling.counts) if count > 1]
    first = cut[:1] if len(cut) > 1 or cut == [0] else []
    others = [axis for axis in cut if axis not in first]
    rows = math.prod(tiling.counts[axis] for axis in first)
    columns = math.prod(tiling.counts[axis] for axis in others)
    grid: list[list[list[int]]] = [[[] for _ in range(columns)] for _ in range(rows)]
    for device, part in enumerate(tiling.parts):
        column = 0
        for axis in others:
            column = column * tiling.counts[axis] + part[axis]
        grid[part[first[0]] if first else 0][column].append(device)
    return [[tuple(devices) for devices in row] for row in grid]


def coloured_cells(tiling: Tiling) -> list[list[tuple[str, str]]]:
    """The devices of each part as text, with a colour of its own; empty for too many."""
    if math.prod(tiling.counts) > MOST:
        return []
    return [
        [(devices_text(devices), _colour(row, column, len(line))) for column, devices in enumerate(line)]
        for row, line in enumerate(grid_of(tiling))
    ]


def _colour(row: int, column: int, columns: int) -> str:
    """A light colour; parts beside each other differ in lightness too, for those who see no hues."""
    hue = (row * columns + column) * _TURN % 1
    lightness = 0.88 if (row + column) % 2 else 0.76
    return "#" + "".join(f"{round(255 * one):02x}" for one in colorsys.hls_to_rgb(hue, lightness, 0.65))


def text_grid(tiling: Tiling) -> list[str]:
    """A line for each row of parts; no lines for too many."""
    return text_cells([[text for text, _ in row] for row in coloured_cells(tiling)])


def text_cells(cells: list[list[str]]) -> list[str]:
    """The texts in boxes."""
    if not cells:
        return []
    width = max(len(cell) for row in cells for cell in row)
    edge = "+".join(["", *["-" * (width + 2)] * len(cells[0]), ""])
    lines = [edge]
    for row in cells:
        lines += ["|".join(["", *[f" {cell:^{width}} " for cell in row], ""]), edge]
    return lines


def devices_text(devices: tuple[int, ...]) -> str:
    """``0-3``, ``0,4``: the numbers of some devices."""
    spans: list[list[int]] = []
    for device in devices:
        if spans and device == spans[-1][1] + 1:
            spans[-1][1] = device
        else:
            spans.append([device, device])
    text = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
    return text if len(spans) <= _SMALL else f"{len(devices)} devices"


def svg(tiling: Tiling) -> str:
    """A rectangle for each part, with the devices that have it; empty for too many."""
    cells = coloured_cells(tiling)
    if not cells:
        return ""
    width, height = _WIDTH / len(cells[0]), max(_ROW, 36 // len(cells))
    boxes = []
    for row, line in enumerate(cells):
        for column, (devices, colour) in enumerate(line):
            x, y = column * width, row * height
            boxes.append(
                f'<rect x="{x:.4g}" y="{y}" width="{width:.4g}" height="{height}" '
                f'fill="{colour}" stroke="#555"/>'
                f'<text x="{x + width / 2:.4g}" y="{y + height / 2 + 3:.4g}" font-size="{_SMALL}" '
                f'text-anchor="middle" fill="{INK}">{html.escape(devices)}</text>'
            )
    title = html.escape("\n".join(text_grid(tiling)))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height * len(cells)}" role="img">'
        f"<title>{title}</title>{''.join(boxes)}</svg>"
    )
