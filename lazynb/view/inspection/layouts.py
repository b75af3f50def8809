"""How the values of a graph lie on several devices: each way once, drawn, and where the graph changes it."""

from __future__ import annotations

from collections.abc import Sequence

from lazynb.execute.records import Records
from lazynb.units import size
from lazynb.view.inspection.schema import Layout, Resharding, Tile
from lazynb.view.inspection.tables import ROWS
from lazynb.view.words import short_aval
from lazynb.xla.collectives.collective import Collective
from lazynb.xla.hlo.opcodes import Trait, opcodes_of
from lazynb.xla.shardings.drawing import coloured_cells
from lazynb.xla.shardings.value_sharding import ValueSharding

_SUMS = opcodes_of(Trait.COMBINES)


def layouts(shardings: Sequence[ValueSharding]) -> tuple[list[Layout], list[Tile]]:
    """The ways in which values lie, and which value lies in which of them."""
    numbers: dict[tuple[object, ...], int] = {}
    found: list[Layout] = []
    tiles: list[Tile] = []
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
    """The operations whose result lies otherwise than what they read, and those for which XLA moves what they
    read; in the order of the graph.

    A sum over a dimension that is sharded is none: it computes something.
    """
    moves = _moves_of(collectives)
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


def _moves_of(collectives: Records[Collective]) -> dict[int, list[str]]:
    """By node, the collectives that bring it values that lie on other devices."""
    left_out = len(collectives) - len(collectives.shown(ROWS))
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
