"""What the devices of a mesh say to each other, beside a reading of the HLO that shares no code with it."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

import lazynb
from lazynb.report.inspection.inspection_data import inspection
from lazynb.report.inspection.inspection_text import to_text
from lazynb.xla.sharding.replica_groups import (
    axes_of,
    axes_of_pairs,
    groups_of_axes,
    replica_groups,
    source_target_pairs,
)

pytestmark = pytest.mark.xdist_group("collectives")
MESH = ("data", "model"), (2, 4)
BOTH = {(0, 1, 2, 3), (4, 5, 6, 7)}
PAIRS = {(0, 1), (2, 3), (4, 5), (6, 7)}
HALVES = {(0, 4), (1, 5), (2, 6), (3, 7)}


@pytest.mark.parametrize(
    "text, groups, axes",
    [
        ("replica_groups={{0,1,2,3},{4,5,6,7}}", BOTH, ("model",)),
        ("replica_groups=[2,4]<=[8]", BOTH, ("model",)),
        ("replica_groups=[4,2]<=[2,4]T(1,0)", HALVES, ("data",)),
        ("replica_groups=mesh['a'=2,'b'=1,'c'=4] {'c'}", BOTH, ("model",)),
        ("replica_groups=mesh['a'=2,'b'=1,'c'=4] {'a'}", HALVES, ("data",)),
        ("replica_groups={}", {tuple(range(8))}, ("data", "model")),
        ("replica_groups={{0,1},{2,3},{4,5},{6,7}}", PAIRS, None),
        ("replica_groups=mesh['a'=2,'b'=4] {'b':(2)2}, channel_id=1", PAIRS, None),
        ("replica_groups=mesh['a'=4,'b'=2], device_ids=([2,2,2]T(0,2,1)) {'a':(2)2}", PAIRS, None),
        ("replica_groups=mesh['a'=8] {'a':(1)2}", HALVES, ("data",)),
        ("replica_groups=mesh['a'=8], device_ids=(0,4,1,5,2,6,3,7) {'a':(4)2}", HALVES, ("data",)),
    ],
)
def test_each_replica_groups_notation_gives_its_groups_and_axes(text, groups, axes):
    found = replica_groups(f"%r = f32[] all-reduce(%x), {text}, to_apply=%add", 8)
    assert found == frozenset(groups) and axes_of(found, *MESH) == axes


@pytest.mark.parametrize(
    "text",
    [
        "",
        "replica_groups=mesh['a'=8], device_ids=(as before) {'a'}",
        "replica_groups=mesh['a'=8] {'b'}",
        "replica_groups=mesh['a'=8] {'a':(3)2}",
        "replica_groups=mesh['a'=8] {all}",
    ],
)
def test_an_unknown_replica_groups_notation_gives_none(text):
    assert replica_groups(f"%r = f32[] all-reduce(%x), {text}", 8) is None


def test_the_fewest_mesh_axes_of_a_group_are_found():
    assert axes_of(groups_of_axes(["a", "c"], ["a", "b", "c"], [2, 1, 2]), ["a", "b", "c"], [2, 1, 2]) == (
        "a",
        "c",
    )


def test_the_mesh_axes_of_a_collective_permute_are_found():
    text = "%p = f32[4] collective-permute(%x), source_target_pairs={{0,4},{4,0},{1,5},{5,1}}"
    assert axes_of_pairs(source_target_pairs(text), *MESH) == ("data",)
    assert axes_of_pairs(source_target_pairs("source_target_pairs={{0,1},{1,2}}"), *MESH) == ("model",)
    assert axes_of_pairs([(0, 9)], *MESH) is None and axes_of_pairs([], *MESH) is None


# ---- programs ----------------------------------------------------------------------------------------------


def placed(*spec, shape=(8, 8)):
    mesh = jax.make_mesh((2,), ("model",), axis_types=(AxisType.Auto,))
    return jax.device_put(jnp.ones(shape), NamedSharding(mesh, P(*spec)))


def columns_then_rows(x, w1, w2):
    h = jnp.tanh(x @ w1)
    return h @ w2


def total(x, w1, w2):
    y = jnp.sin(w1)
    return y.sum()


def nothing_to_say(x, w1, w2):
    return jnp.tanh(x @ w1)


def a_maximum(x, w1, w2):
    return jnp.max(w2 * 2, axis=0)


def plain_collectives(text):
    """Kind, bytes of the operands (of an all-gather of the result), and size of the group, by line."""
    found = []
    for line in text.splitlines():
        match = re.match(r"\s+(?:ROOT )?%\S+ = (\S+) (all-\w+|reduce-scatter|collective-permute)\(", line)
        if match:
            dims = re.match(r"f32\[([\d,]*)\]", match[1])[1]
            size = 4
            for dim in filter(None, dims.split(",")):
                size *= int(dim)
            found.append((match[2], size))
    return found


def said(compilation):
    return to_text(inspection(compilation, live=False))


@pytest.mark.parametrize(
    "function, line, why",
    [
        (columns_then_rows, "return h @ w2", "`matmul` reduces a dimension that is sharded on `model`"),
        (total, "return y.sum()", "`reduce_sum` reduces a dimension that is sharded on `model`"),
        (a_maximum, "return jnp.max(w2 * 2, axis=0)", "reduces a dimension that is sharded on `model`"),
        (nothing_to_say, None, None),
    ],
)
def test_each_collective_is_attributed_to_its_line_and_reason(function, line, why):
    x, w1, w2 = placed(None, None), placed(None, "model"), placed("model", None)
    compilation = lazynb.compile(function, x, w1, w2)
    found = compilation.collectives
    assert [(one.kind, one.bytes) for one in found] == plain_collectives(compilation.traces[0].text)
    if line is None:
        assert not found and "What the devices say" not in said(compilation)
        return
    [one] = found
    assert [place.text for place in one.places] == [line] and why in one.why and not one.is_asked
    assert (one.among, one.axes, one.moved, one.executions) == (2, ("model",), one.bytes, 1)
    assert one.direction == "forward" and why in repr(found) and "What the devices say" in said(compilation)
