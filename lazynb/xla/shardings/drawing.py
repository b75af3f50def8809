"""The parts of an array and the devices that have them, as a small drawing and as text."""

from __future__ import annotations

import html
import math

from lazynb.xla.shardings.tiling import Tiling

MOST = 64
"""Parts of a drawing: smaller ones would not be legible."""

_COLOURS = ("#a6cee3", "#fdd49e", "#b2df8a", "#cab2d6", "#fccde5", "#ffffb3", "#d9d9d9", "#8dd3c7")
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


def text_grid(tiling: Tiling) -> list[str]:
    """A line for each row of parts; no lines for too many."""
    if math.prod(tiling.counts) > MOST:
        return []
    cells = [[devices_text(devices) for devices in row] for row in grid_of(tiling)]
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
    if math.prod(tiling.counts) > MOST:
        return ""
    grid = grid_of(tiling)
    width, height = _WIDTH / len(grid[0]), max(_ROW, 36 // len(grid))
    boxes = []
    for row, line in enumerate(grid):
        for column, devices in enumerate(line):
            colour = _COLOURS[devices[0] % len(_COLOURS)] if devices else "none"
            x, y, text = column * width, row * height, html.escape(devices_text(devices))
            boxes.append(
                f'<rect x="{x:.4g}" y="{y}" width="{width:.4g}" height="{height}" '
                f'fill="{colour}" stroke="#555"/>'
                f'<text x="{x + width / 2:.4g}" y="{y + height / 2 + 3:.4g}" font-size="{_SMALL}" '
                f'text-anchor="middle" fill="#222">{text}</text>'
            )
    title = html.escape("\n".join(text_grid(tiling)))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height * len(grid)}" role="img">'
        f"<title>{title}</title>{''.join(boxes)}</svg>"
    )
