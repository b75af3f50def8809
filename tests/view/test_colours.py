"""Looks of clusters: told apart by every eye, and never the same beside each other."""

from __future__ import annotations

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from lazynb.report import drawing_style
from lazynb.report.graph.graph_view import Highlight, chip_width, chips_of, cluster_chip
from lazynb.report.inspection.inspection_data import inspection
from lazynb.report.inspection.inspection_figures import pattern_css
from lazynb.report.inspection.inspection_html import to_html
from lazynb.report.inspection.inspection_index import GREY, LOOKS, assign_looks

# What a colour is to an eye without one kind of cones (Machado, Oliveira and Fernandes, 2009, severity 1), on
# linear RGB.
EYES = {
    "normal": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}  # fmt: skip
XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]])  # fmt: skip


def lab(colours, eye):
    """CIELAB of colours such as ``#0072B2`` as an eye sees them: (n, 3)."""
    rgb = np.array([[int(one[at : at + 2], 16) / 255 for at in (1, 3, 5)] for one in colours])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(linear @ np.array(EYES[eye]).T, 0, 1)
    xyz = seen @ XYZ.T / [0.95047, 1, 1.08883]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], -1)


def apart(first, second):
    """CIEDE2000 of two arrays of CIELAB (Sharma, Wu and Dalal, 2005)."""
    (l1, a1, b1), (l2, a2, b2) = np.moveaxis(first, -1, 0), np.moveaxis(second, -1, 0)
    mean = (np.hypot(a1, b1) + np.hypot(a2, b2)) / 2
    stretch = 1.5 - 0.5 * np.sqrt(mean**7 / (mean**7 + 25.0**7))
    c1, c2 = np.hypot(stretch * a1, b1), np.hypot(stretch * a2, b2)
    h1, h2 = np.degrees(np.arctan2(b1, stretch * a1)), np.degrees(np.arctan2(b2, stretch * a2))
    turn = np.where(c1 * c2 == 0, 0, (h2 - h1 + 180) % 360 - 180)
    hue = (h1 + turn / 2) % 360
    light, chroma = (l1 + l2) / 2 - 50, (c1 + c2) / 2
    t = 1 - 0.17 * cos(hue - 30) + 0.24 * cos(2 * hue) + 0.32 * cos(3 * hue + 6) - 0.2 * cos(4 * hue - 63)
    dl = (l2 - l1) / (1 + 0.015 * light**2 / np.sqrt(20 + light**2))
    dc = (c2 - c1) / (1 + 0.045 * chroma)
    dh = 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn) / 2) / (1 + 0.015 * chroma * t)
    blue = 60 * np.exp(-(((hue - 275) / 25) ** 2))
    rotation = -2 * np.sqrt(chroma**7 / (chroma**7 + 25.0**7)) * np.sin(np.radians(blue))
    return np.sqrt(dl**2 + dc**2 + dh**2 + rotation * dc * dh)


def cos(degrees):
    return np.cos(np.radians(degrees))


def test_the_colour_distance_equals_published_values():
    """Pairs 1, 7, 17 and 25 of Sharma, Wu and Dalal's table."""
    pairs = np.array(
        [
            [[50, 2.6772, -79.7751], [50, 0, -82.7485]],
            [[50, 0, 0], [50, -1, 2]],
            [[50, 2.5, 0], [73, 25, -18]],
            [[60.2574, -34.0099, 36.2677], [60.4626, -34.1751, 39.4387]],
        ]
    )
    assert apart(pairs[:, 0], pairs[:, 1]) == pytest.approx([2.0425, 2.3669, 27.1492, 1.2644], abs=2e-4)


@pytest.mark.parametrize("eye", EYES)
def test_every_eye_tells_the_colours_apart(eye):
    seen = lab(drawing_style.CLUSTERS, eye)
    distances = apart(seen[:, None], seen[None]) + 100 * np.eye(len(seen))
    assert distances.min() >= 10


def test_each_kernel_has_a_look_of_its_own_while_there_are_enough():
    assert len(LOOKS) == 65
    found = assign_looks([False] * 65, [(0, other) for other in range(1, 65)])
    assert found == list(LOOKS)
    chips = [cluster_chip("", look) for look in found]
    assert len({(chip.colour, chip.pattern) for chip in chips}) == 65
    assert all(chip.pattern == 0 for chip in chips[: len(drawing_style.CLUSTERS) - 1]), "patterns come last"


@pytest.mark.parametrize("seed", range(20))
def test_neighbouring_kernels_never_share_a_look(seed):
    """Random ones, and kernels that all others read from or write to."""
    chance = random.Random(seed)
    count = chance.randint(66, 400)
    hubs = chance.sample(range(count), 3)
    pairs = [(hub, other) for hub in hubs for other in range(count) if other != hub]
    pairs += [(chance.randrange(count), chance.randrange(count)) for _ in range(count)]
    found = assign_looks([False] * count, pairs)
    assert all(found[a] != found[b] for a, b in pairs if a != b)
    assert all(a != b for a, b in zip(found, found[1:])) and set(found) <= set(LOOKS)


def test_loops_are_grey_and_differ_from_the_next():
    found = assign_looks([True, False, True, True, False], [])
    greys = [found[0], found[2], found[3]]
    assert len(set(greys)) == 3 and all(look % len(drawing_style.CLUSTERS) == GREY for look in greys)
    assert {found[1], found[4]}.isdisjoint(greys)


def test_a_pattern_has_room_beside_the_number():
    plain, other = cluster_chip("c1", 0), cluster_chip("c1", len(drawing_style.CLUSTERS))
    assert plain.colour == other.colour and chip_width(other) > chip_width(plain)
    assert pattern_css(plain) == "" and "gradient" in pattern_css(other)
    assert (
        len(
            {
                pattern_css(cluster_chip("", n * len(drawing_style.CLUSTERS)))
                for n in range(drawing_style.PATTERNS)
            }
        )
        == 5
    )
    assert chips_of(Highlight((other, other)), chip_width(other) * 2 + 14) == [other, other]


def test_kernels_of_one_cell_never_look_the_same(clean):
    """Thirty products, more than there are colours, as the inspector and the stored form have them."""
    with lazynb.lazy():
        y, w = jnp.ones((8, 8)), jnp.ones((8, 8))
        for _ in range(30):
            y = jax.nn.relu(y @ w)
        made = lazynb.compile(y)
        data = inspection(made)
    kernels = [one for one in data["clusters"] if one["kind"] not in ("control", "transfer")]
    assert len(drawing_style.CLUSTERS) < len(kernels) <= 65
    assert len({one["colour"] for one in kernels}) == len(kernels)
    assert to_html(data, made.snapshot).count("background-image:") > 0
