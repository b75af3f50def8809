"""What names a target, and what is said of what names none."""

from __future__ import annotations

import pytest

from lazynb.xla.targets.compiler_packages import target_table
from lazynb.xla.targets.target_chip import UnknownTarget, chips, parse_target, parse_targets


@pytest.mark.parametrize(
    "text, name, shape, title",
    [
        ("v5e", "v5e", (1, 1), "TPU v5e"),
        (" V5E ", "v5e", (1, 1), "TPU v5e"),
        ("v5e:1x1", "v5e", (1, 1), "TPU v5e"),
        ("v5e:4x4", "v5e:4x4", (4, 4), "one of 16 TPU v5e (4x4)"),
        ("v5p:2x2x1", "v5p:2x2x1", (2, 2, 1), "one of 4 TPU v5p (2x2x1)"),
        ("h100", "h100", (1, 1), "NVIDIA H100 (SXM)"),
        ("h100:8", "h100:8", (1, 8), "one of 8 NVIDIA H100 (SXM)"),
        ("h100:4x8", "h100:4x8", (4, 8), "one of 32 NVIDIA H100 (SXM) (4x8)"),
        ("h100:1x8", "h100:8", (1, 8), "one of 8 NVIDIA H100 (SXM)"),
    ],
)
def test_target_names_are_parsed_into_chip_shape_and_title(text, name, shape, title):
    target = parse_target(text)
    assert (target.name, target.shape, target.title) == (name, shape, title)
    assert parse_target(target.name) == target


@pytest.mark.parametrize("text", [None, "cpu", " CPU"])
def test_cpu_and_none_mean_this_machine(text):
    assert parse_target(text) is None


@pytest.mark.parametrize(
    "text, words",
    [
        ("h9000", ["no chip 'h9000'", "did you mean h", "v5e"]),
        ("h10", ["did you mean h100?"]),
        ("v5e:4x4x4", ["TPU v5e has 2 dimensions", "v5e:4x4"]),
        ("v5p:4", ["3 dimensions", "v5p:4x4x4"]),
        ("v5e:0x4", ["no device"]),
        ("h100:2x2x2", ["h100:8", "h100:4x8"]),
        ("v5e:", ["is no target"]),
        ("v5e:4*4", ["is no target", "v5e:4x4"]),
        ("", ["is no target"]),
    ],
)
def test_an_unknown_target_is_refused_with_suggestions(text, words):
    with pytest.raises(UnknownTarget) as raised:
        parse_target(text)
    assert isinstance(raised.value, ValueError)
    for word in words:
        assert word in str(raised.value)


def test_a_list_of_targets_is_parsed_without_duplicates():
    assert parse_targets("cpu, v5e,h100:8,v5e") == [None, parse_target("v5e"), parse_target("h100:8")]


@pytest.mark.parametrize("text", ["", " ", ",", " , "])
def test_an_empty_list_is_refused(text):
    with pytest.raises(UnknownTarget, match="names no chip"):
        parse_targets(text)


def test_the_devices_of_a_mesh_are_all_of_them():
    assert parse_target("v5e:4x4").on_mesh("data=16").title == "16 TPU v5e (4x4)"


def test_the_list_has_each_chip_and_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("LAZYNB_COMPILERS", str(tmp_path))
    text = repr(target_table())
    for chip in chips().values():
        assert chip.title in text
    assert "lazynb targets install tpu" in text and "lazynb targets install gpu" in text
    assert [one["compiler"] for one in target_table().to_dicts()] == [""] * len(chips())


@pytest.mark.parametrize("name", sorted(chips()))
def test_the_figures_of_each_chip_are_of_a_plausible_magnitude(name):
    """Bytes, bytes a second, operations a second: a slip of a power of ten is found."""
    chip = chips()[name]
    assert 1e10 < chip.memory < 1e12
    assert 1e11 < chip.bandwidth < 2e13
    assert all(1e12 < peak < 1e16 for peak in chip.peak.values())
    assert (chip.platform == "cuda") == bool(chip.configuration)
