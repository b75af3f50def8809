"""How values lie on devices: HLO's annotations beside JAX's shardings, the table and its drawing."""

from __future__ import annotations

import dataclasses
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec as P

import lazynb
from lazynb.report.inspection.inspection_data import inspection
from lazynb.report.inspection.inspection_html import to_html
from lazynb.report.inspection.inspection_text import to_text
from lazynb.report.inspection.sharding_data import reshardings
from lazynb.running.record_table import Records
from lazynb.xla.sharding.collectives import Collective
from lazynb.xla.sharding.tile_assignment import (
    INK,
    MAX_PARTS,
    TileAssignment,
    coloured_cells,
    parse_sharding,
    replicated,
    sharding_annotations,
    sharding_svg,
    text_grid,
    tile_assignment_of,
)
from lazynb.xla.sharding.value_shardings import spec_text

pytestmark = pytest.mark.xdist_group("collectives")
GRID = ("data", "model"), (2, 4)


@pytest.mark.parametrize(
    "text, rank, counts, spec",
    [
        ("{devices=[8,1]<=[8]}", 2, (8, 1), P(("data", "model"), None)),
        ("{devices=[8,1]<=[2,4]T(1,0)}", 2, (8, 1), P(("model", "data"), None)),
        ("{devices=[2,1,4]<=[8] last_tile_dim_replicate}", 2, (2, 1), P("data", None)),
        ("{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}", 2, (1, 4), P(None, "model")),
        ("{devices=[4,2]0,4,1,5,2,6,3,7}", 2, (4, 2), P("model", "data")),
        ("{replicated}", 1, (1,), P(None)),
        ("{mesh[], replicated}", 0, (), P()),
        ("{mesh['data'=2,'model'=4], [{'model'}, {'data'}]}", 2, (4, 2), P("model", "data")),
        ("{mesh['data'=2,'model'=4], [{'model','data'}, {}]}", 2, (8, 1), P(("model", "data"), None)),
        ("{mesh['data'=2,'model'=4], [{}, {}], replicated={'data'}}", 2, (1, 1), P(None, None)),
        ("{mesh['data'=2,'model'=4], [{'model':(1)2}]}", 1, (2,), None),
        ("{mesh['a'=8], device_ids=([2,4]T(1,0)), [{'a'}]}", 1, (8,), P(("model", "data"))),
    ],
)
def test_sharding_annotations_are_parsed_into_counts_and_specs(text, rank, counts, spec):
    tiling = parse_sharding(text, rank, 8)
    assert tiling.counts == counts and tiling.spec(*GRID) == spec


@pytest.mark.parametrize(
    "text",
    [
        "{manual}",
        "{maximal device=3}",
        "{devices=[2,2,2]<=[8] last_tile_dims={manual}}",
        "{devices=[2,2]<=[4]}",
        "{mesh['data'=2,'model'=4], manual}",
        "{mesh['data'=2,'model'=4], [{'data'}, {}], unreduced={'model'}}",
        "{mesh['data'=2,'model'=4], [{'data'}]}",
        "{mesh['data'=2,'model'=4], [{'other'}, {}]}",
        "{something new}",
    ],
)
def test_an_unknown_annotation_gives_none(text):
    assert parse_sharding(text, 2, 8) is None


def test_an_annotation_is_found_in_a_line():
    line = "%a = (s32[], f32[8]) while(%b), sharding={{mesh[], replicated}, {devices=[8]<=[8]}}, metadata={}"
    assert sharding_annotations(line) == ["{mesh[], replicated}", "{devices=[8]<=[8]}"]
    assert sharding_annotations('%a = f32[8] add(%b), frontend_attributes={xla.sdy.sharding="{x}"}') == []


def test_tilings_of_jax_shardings_have_the_same_spec_and_tile():
    if len(jax.devices()) < 2:
        pytest.skip("one device")
    mesh = jax.make_mesh((2,), ("model",), axis_types=(AxisType.Auto,))
    for spec in (P("model", None), P(None, "model"), P(None, None)):
        tiling = tile_assignment_of(NamedSharding(mesh, spec), (4, 6))
        assert tiling.spec(("model",), (2,)) == spec
        assert tiling.tile((4, 6)) == NamedSharding(mesh, spec).shard_shape((4, 6))
    assert (
        tile_assignment_of(NamedSharding(mesh, P("model")), (3,)) is None
        and tile_assignment_of(None, (3,)) is None
    )


def test_every_partition_spec_round_trips_through_its_annotation():
    """Of each way to lay an array on a mesh, XLA's text gives the axes that JAX was told."""
    mesh = AbstractMesh((2, 4), ("data", "model"))
    for first, second in itertools.product(
        (None, "data", "model", ("data", "model"), ("model", "data")), repeat=2
    ):
        named = [axis for part in (first, second) for axis in (part if isinstance(part, tuple) else (part,))]
        if len(set(named) - {None}) < len([axis for axis in named if axis]):
            continue
        text = str(NamedSharding(mesh, P(first, second))._to_xla_hlo_sharding(2))
        assert parse_sharding(text, 2, 8).spec(*GRID) == P(first, second), text


def test_tilings_are_drawn_as_text_and_svg():
    tiling = parse_sharding("{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}", 2, 8)
    assert text_grid(tiling)[1] == "| 0,4 | 1,5 | 2,6 | 3,7 |"
    assert sharding_svg(tiling).count("<rect") == 4 and ">2,6</text>" in sharding_svg(tiling)
    assert text_grid(replicated(3, 8))[1] == "| 0-7 |"
    rows = TileAssignment((2, 2, 2), tuple(itertools.product(range(2), repeat=3)))
    assert text_grid(rows)[1::2] == ["| 0 | 1 | 2 | 3 |", "| 4 | 5 | 6 | 7 |"]
    many = TileAssignment((MAX_PARTS + 1,), tuple((n,) for n in range(MAX_PARTS + 1)))
    assert text_grid(many) == [] and sharding_svg(many) == ""


@pytest.mark.parametrize("counts", [(8, 8), (4, 4), (1, 13), (64,), (2, 4, 8)])
def test_each_part_has_a_colour_of_its_own_on_which_its_number_can_be_read(counts):
    tiling = TileAssignment(counts, tuple(itertools.product(*map(range, counts))))
    cells = [cell for row in coloured_cells(tiling) for cell in row]
    colours = [colour for _, colour in cells]
    assert len(cells) == math.prod(counts) == len(set(colours))
    assert all(_contrast(INK, colour) > 4.5 for colour in colours)


def _contrast(one: str, other: str) -> float:
    """By WCAG 2."""
    low, high = sorted(map(_luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize(
    "before, after, shape, sent",
    [
        (P("data", "model"), P("data", None), (4, 8), True),
        (P("data", None), P("data", "model"), (4, 8), False),
        (P(None, None), P("model", "data"), (4, 8), False),
        (P("data", None), P(None, "data"), (4, 8), True),
        (P(("data", "model"), None), P("data", None), (8, 8), True),
        (P("data", None), P(("data", "model"), None), (8, 8), False),
        (P("data", None), P(("model", "data"), None), (8, 8), True),
    ],
)
def test_nothing_is_sent_where_each_device_has_its_part_already(before, after, shape, sent):
    mesh = AbstractMesh((2, 4), ("data", "model"))
    old, new = (
        parse_sharding(str(NamedSharding(mesh, spec)._to_xla_hlo_sharding(2)), 2, 8)
        for spec in (before, after)
    )
    assert old.holds(new, shape) is not sent


def test_only_existing_parts_of_an_uneven_array_are_compared():
    rows = TileAssignment((4, 1), tuple((n, 0) for n in range(4)))
    halves = TileAssignment((2, 1), ((0, 0), (0, 0), (1, 0), (1, 0)))
    assert halves.holds(rows, (8, 1)) and halves.holds(rows, (3, 1))
    # rows of two: the first half of six has no whole second part
    assert not halves.holds(rows, (6, 1))


def test_shardings_of_a_program_on_two_devices_are_listed():
    mesh = jax.make_mesh((2,), ("model",), axis_types=(AxisType.Auto,))
    x = jax.device_put(np.ones((4, 6), np.float32), NamedSharding(mesh, P("model")))

    def turned(x):
        y = jnp.sin(x)
        return jax.lax.with_sharding_constraint(y, NamedSharding(mesh, P(None, "model")))

    found = lazynb.compile(turned, x).shardings
    assert [(one.spec, one.tile, one.copies, one.bytes, one.total) for one in found] == [
        ("P('model', None)", (2, 6), 1, 48, 96),
        ("P(None, 'model')", (4, 3), 1, 48, 96),
        ("P(None, 'model')", (4, 3), 1, 48, 96),
    ]
    assert [(one.before, one.is_sent) for one in found] == [
        ("", False),
        ("P('model', None)", True),
        ("", False),
    ]
    assert "bytes per device" in repr(found) and found._repr_html_().count("<svg") == 3
    assert "| 0 | 1 |" in str(found[1]) and found.to_dicts()[1]["mesh"] == "model=2"


def test_a_program_on_one_device_has_no_shardings():
    found = lazynb.compile(jnp.sin, jnp.ones(3)).shardings
    assert not found and "one device" in repr(found)
    assert spec_text(P("a", None)) == "P('a', None)"


def test_figures_are_labelled_per_device():
    mesh = jax.make_mesh((2,), ("model",), axis_types=(AxisType.Auto,))
    x = jax.device_put(np.ones((64, 64), np.float32), NamedSharding(mesh, P("model")))
    compilation = lazynb.compile(lambda x: jnp.tanh(x) @ x.T, x)
    data = inspection(compilation, live=False)
    text, page = to_text(data), to_html(data, compilation.snapshot)
    assert data["programs"][0]["devices"] == 2 and data["shardings"]["rows"]
    assert (
        "Bytes, FLOPs and memory are per device, on 2 devices; measured times" in text
        and "How values lie" in text
    )
    assert "on each device; on all 2 together FLOPs" in page and "FLOPs per device" in page
    assert "on each device; on all 2 together FLOPs" in text
    assert "How values lie on the devices" in page and "per device, " in page
    alone = lazynb.compile(jnp.tanh, np.ones((4, 4), np.float32))
    assert "per device" not in to_text(inspection(alone, live=False))


def _two_rows() -> jax.Array:
    mesh = jax.make_mesh((2,), ("model",), axis_types=(AxisType.Auto,))
    return jax.device_put(np.ones((4, 6), np.float32), NamedSharding(mesh, P("model")))


def test_a_change_of_sharding_is_reported_with_its_collective():
    x = _two_rows()
    mesh = x.sharding.mesh

    def turned(x):
        y = jnp.sin(x) + 1
        return jax.lax.with_sharding_constraint(y, NamedSharding(mesh, P(None, "model"))) * 2

    compilation = lazynb.compile(turned, x)
    data = inspection(compilation)
    (changed,) = [one for one in data["reshardings"] if "→" in one["text"]]
    assert changed["sent"] and changed["text"].startswith(
        "P('model', None) → P(None, 'model'): all-to-all on"
    )
    assert "from the code, row 1 of Collectives" in changed["text"]
    assert changed["node"] in data["collectives"]["nodes"][0]
    assert data["collectives"]["rows"][0][data["collectives"]["columns"].index("collective")] == "all-to-all"


def test_a_change_of_sharding_without_communication_says_so():
    one = lazynb.compile(lambda x: jnp.sin(x), _two_rows()).shardings[0]
    none = Records[Collective]([], "")
    for is_sent, words in [
        (False, "each device has its part already"),
        (True, "no collective is known to be for it"),
    ]:
        changed = dataclasses.replace(one, before="P(None, None)", is_sent=is_sent)
        (told,) = reshardings([changed], none)
        assert told["sent"] is is_sent and told["text"].startswith("P(None, None) → P('model', None): ")
        assert told["text"].endswith(words)


def test_each_distinct_layout_is_drawn_once_in_html_and_text():
    compilation = lazynb.compile(lambda x, y: jnp.tanh(x) * x @ y, _two_rows(), np.ones((6, 2), np.float32))
    data = inspection(compilation)
    ways = [layout["text"] for layout in data["layouts"]]
    assert ways[0].startswith(
        "f32[4,6] as P('model', None) over model=2: 2×6 on each of 2 devices; copies: 1; 48 B"
    )
    assert len(ways) == len(set(ways)) < len(data["tiles"])
    page, text = to_html(data, compilation.snapshot), to_text(data)
    colour = data["layouts"][0]["cells"][1][0][1]
    assert f"background:{colour}" in page and ">1</td>" in page and "<svg" not in page
    assert "\n    | 0 |\n    +---+\n    | 1 |\n" in text and ways[0] in text
