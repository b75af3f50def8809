"""Shardings as plain data, and their drawings as HTML and text: distinct layouts, and reshardings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from lazynb.report.inspection.session_tables import MAX_ROWS
from lazynb.report.short_text import clip, short_aval
from lazynb.running.record_table import Records, plural
from lazynb.user_code.text_format import escape_invisible, size
from lazynb.xla.hlo.opcodes import Trait, opcodes_of
from lazynb.xla.inspection_schema import Inspection, Layout, Resharding, ValueLayout
from lazynb.xla.sharding.collectives import Collective
from lazynb.xla.sharding.tile_assignment import INK, boxed_cells, coloured_cells
from lazynb.xla.sharding.value_shardings import ValueSharding

_SUMS = opcodes_of(Trait.COMBINES)


def layouts(shardings: Sequence[ValueSharding]) -> tuple[list[Layout], list[ValueLayout]]:
    """The distinct layouts of values on devices, and the layout of each value."""
    numbers: dict[tuple[object, ...], int] = {}
    found: list[Layout] = []
    tiles: list[ValueLayout] = []
    for one in shardings:
        way = (one.dtype, one.shape, one.parts, one.mesh)
        if way not in numbers:
            numbers[way] = len(found)
            found.append({"text": layout_words(one), "cells": coloured_cells(one.tiling)})
        tiles.append({"node": one.node, "result": one.result, "layout": numbers[way]})
    return found, tiles


def layout_words(one: ValueSharding) -> str:
    """``f32[64,256] as P('data', None) over data=2 × model=4: 32×256 on each of 8 devices; copies: 4...``"""
    whole = short_aval(f"{one.dtype}[{','.join(map(str, one.shape))}]")
    spec = f" as {one.spec}" if one.spec else ""
    mesh = f" over {one.mesh.replace(', ', ' × ')}" if one.mesh else ""
    part = "all of it" if one.tile == one.shape else "×".join(map(str, one.tile))
    words = f"{whole}{spec}{mesh}: {part} on each of {len(one.parts):,} devices; copies: {one.copies:,}"
    if one.bytes is None:
        return words
    return f"{words}; {size(one.bytes)} per device, {size(one.total)} in total"


def reshardings(shardings: Sequence[ValueSharding], collectives: Records[Collective]) -> list[Resharding]:
    """The operations that change a sharding, or need operands from other devices, in graph order.

    Excludes collectives that sum over a sharded dimension, because they compute a value.
    """
    moves = _collectives_by_reader(collectives)
    changed = {one.node: one for one in reversed(shardings) if one.before}
    found: list[Resharding] = []
    for node in sorted({*changed, *moves}):
        one, by = changed.get(node), ", ".join(moves.get(node, ()))
        if one is None:
            found.append({"node": node, "text": f"for it: {by}", "sent": True})
            continue
        cost = by or "no collective is known to be for it"
        if not by and not one.is_sent:
            cost = "nothing is sent, each device has its part already"
        is_sent = one.is_sent or bool(by)
        found.append(
            {"node": node, "text": f"{one.before} → {one.spec or 'no axes'}: {cost}", "sent": is_sent}
        )
    return found


def _collectives_by_reader(collectives: Records[Collective]) -> dict[int, list[str]]:
    """By node, the collectives that bring it operands from other devices."""
    left_out = len(collectives) - len(collectives.shown(MAX_ROWS))
    moves: dict[int, list[str]] = {}
    for number, one in enumerate(collectives, 1 - left_out):
        if one.kind in _SUMS:
            continue
        row = f", row {number} of Collectives" if number > 0 else ""
        axes = f" on {' and '.join(one.axes)}" if one.axes else ""
        known = "from the code" if one.is_asked else "rule inferred"
        for node in one.needed_by:
            moves.setdefault(node, []).append(f"{one.kind}{axes} ({known}{row})")
    return moves


# ---- Drawings of layouts -----------------------------------------------------------------------------------
# HTML without scripts, and text.

_DRAWN, _NAMED, _TEXTS = 24, 6, 6
_CELL = f"border:1px solid #555;color:{INK};padding:1px 8px;text-align:center;min-width:22px"
_FIGURE = "display:inline-block;vertical-align:top;margin:6px 18px 6px 0;max-width:420px"


def drawings_html(data: Inspection) -> str:
    """The reshardings, and the drawing of each layout."""
    changes = "".join(f"<div>{_text(line)}</div>" for line in resharding_lines(data))
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
    """The reshardings, and each distinct drawing with the values of the first layout that has it."""
    changes = list(resharding_lines(data))
    if changes:
        yield "Where a sharding changes:"
        yield from (f"  {line}" for line in changes)
    shown: list[list[str]] = []
    for layout, names in zip(data["layouts"], _names(data), strict=True):
        lines = boxed_cells([[devices for devices, _ in row] for row in layout["cells"]])
        if lines in shown or not lines or len(shown) == _TEXTS:
            continue
        shown.append(lines)
        yield f"  {', '.join(names)}: {layout['text']}"
        yield from (f"    {line}" for line in lines)


def resharding_lines(data: Inspection) -> Iterator[str]:
    """``tanh (cell 7, line 2): P('data', 'model') → P('data', None): all-gather on model (...)``"""
    for one in data["reshardings"]:
        node = data["nodes"][one["node"]]
        where = f" ({node['place']['label']})" if node["place"] is not None else ""
        yield f"{_name(data, one['node'])}{where}: {one['text']}"


def _names(data: Inspection) -> list[list[str]]:
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
    return escape(escape_invisible(text))
