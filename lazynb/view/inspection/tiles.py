"""Drawings of how values lie on devices, as HTML without scripts and as text."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from lazynb.view.inspection.schema import Inspection, Layout
from lazynb.view.words import clip, plain, plural
from lazynb.xla.shardings.drawing import INK, text_cells

_DRAWN, _NAMED, _TEXTS = 24, 6, 6
_CELL = f"border:1px solid #555;color:{INK};padding:1px 8px;text-align:center;min-width:22px"
_FIGURE = "display:inline-block;vertical-align:top;margin:6px 18px 6px 0;max-width:420px"


def drawings_html(data: Inspection) -> str:
    """Where shardings change, and each way in which values lie with its drawing."""
    changes = "".join(f"<div>{_text(line)}</div>" for line in change_lines(data))
    layouts = data["layouts"]
    drawn = zip(layouts[:_DRAWN], _names(data), strict=False)
    figures = "".join(_figure(layout, names) for layout, names in drawn)
    left = len(layouts) - _DRAWN
    more = f"<div>{plural(left, 'other way')} not drawn</div>" if left > 0 else ""
    return f"{changes}<div>{figures}</div>{more}"


def _figure(layout: Layout, names: list[str]) -> str:
    rows = "".join(
        '<tr style="background:none">'
        + "".join(f'<td style="{_CELL};background:{colour}">{_text(devices)}</td>' for devices, colour in row)
        + "</tr>"
        for row in layout["cells"]
    )
    drawing = f'<table style="border-collapse:collapse;margin:2px 0;font-size:11px">{rows}</table>'
    return (
        f'<div style="{_FIGURE}"><div>{_text(", ".join(names))}</div>'
        f'<div style="opacity:0.75">{_text(layout["text"])}</div>{drawing if rows else ""}</div>'
    )


def drawings_text(data: Inspection) -> Iterator[str]:
    """Where shardings change, and each drawing once, with the first of what lies so."""
    changes = list(change_lines(data))
    if changes:
        yield "Where a sharding changes:"
        yield from (f"  {line}" for line in changes)
    shown: list[list[str]] = []
    for layout, names in zip(data["layouts"], _names(data), strict=True):
        lines = text_cells([[devices for devices, _ in row] for row in layout["cells"]])
        if lines in shown or not lines or len(shown) == _TEXTS:
            continue
        shown.append(lines)
        yield f"  {', '.join(names)}: {layout['text']}"
        yield from (f"    {line}" for line in lines)


def change_lines(data: Inspection) -> Iterator[str]:
    """``tanh (cell 7, line 2): P('data', 'model') → P('data', None): all-gather on model (...)``"""
    for one in data["reshardings"]:
        node = data["nodes"][one["node"]]
        where = f" ({node['place']['label']})" if node["place"] is not None else ""
        yield f"{_name(data, one['node'])}{where}: {one['text']}"


def _names(data: Inspection) -> list[list[str]]:
    """By way of lying, the first values that lie so."""
    found: list[list[str]] = [[] for _ in data["layouts"]]
    for tile in data["tiles"]:
        found[tile["layout"]].append(_name(data, tile["node"]))
    return [
        [*list(dict.fromkeys(names))[:_NAMED], *(["..."] if len(set(names)) > _NAMED else [])]
        for names in found
    ]


def _name(data: Inspection, node: int) -> str:
    names = data["nodes"][node]["names"]
    return clip(names[0] if names else data["nodes"][node]["name"], 30)


def _text(text: str) -> str:
    return escape(plain(text))
