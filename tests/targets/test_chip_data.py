"""What the inspector is told of a program for another chip."""

from __future__ import annotations

import re
from importlib.resources import files

import jax.numpy as jnp
import pytest

import lazynb
from lazynb.notebook.line_marks import CellIndex, kernel_lines
from lazynb.report.inspection.inspection_data import inspection
from lazynb.report.inspection.inspection_figures import line_chips
from lazynb.report.inspection.inspection_phrases import counts, headline, is_kernel
from lazynb.xla.cost.roofline import bounds_of, bytes_moved
from lazynb.xla.hlo.clusters import find_clusters
from lazynb.xla.hlo.module import parse as parse_hlo
from lazynb.xla.targets.target_chip import parse_target
from targets.programs import PROGRAMS

TRANSFERS = """HloModule m

%fused (p: f32[256,128], q: f32[128,64]) -> f32[256,64] {
  %p = f32[256,128]{1,0:T(8,128)S(1)} parameter(0)
  %q = f32[128,64]{1,0:T(8,128)} parameter(1)
  ROOT %dot = f32[256,64]{1,0:T(8,128)} dot(%p, %q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

%sum (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %add = f32[] add(%x, %y)
}

ENTRY %main (a: f32[256,128], b: f32[128,64], s: f32[]) -> (f32[256,64], f32[]) {
  %a = f32[256,128]{1,0:T(8,128)} parameter(0)
  %b = f32[128,64]{1,0:T(8,128)} parameter(1)
  %s = f32[]{:T(128)} parameter(2)
  %copy.1 = f32[]{:T(128)S(6)} copy(%s)
  %negate = f32[]{:T(128)S(6)} negate(%copy.1)
  %copy-start = (f32[256,128]{1,0:T(8,128)S(1)}, f32[256,128]{1,0:T(8,128)}, u32[]{:S(2)}) copy-start(%a)
  %copy-done = f32[256,128]{1,0:T(8,128)S(1)} copy-done(%copy-start)
  %fusion = f32[256,64]{1,0:T(8,128)} fusion(%copy-done, %b), kind=kOutput, calls=%fused
  %copy.2 = f32[256,64]{0,1:T(8,128)} copy(%fusion)
  %all-reduce-start = f32[]{:T(128)S(6)} all-reduce-start(%negate), to_apply=%sum
  %all-reduce-done = f32[]{:T(128)} all-reduce-done(%all-reduce-start)
  ROOT %tuple = (f32[256,64]{0,1:T(8,128)}, f32[]{:T(128)}) tuple(%copy.2, %all-reduce-done)
}
"""


def test_transfers_are_not_counted_as_kernels():
    """Kernels by hand: negate, the product, the change of layout, the sum over devices."""
    clusters = {cluster.name: cluster for cluster in find_clusters(parse_hlo(TRANSFERS))}
    kernels = [name for name, cluster in clusters.items() if cluster.is_kernel]
    assert kernels == ["negate", "fusion", "copy.2", "all-reduce-start"]
    begun = [name for name, cluster in clusters.items() if cluster.is_transfer_start]
    assert begun == ["copy.1", "copy-start"]


def test_only_bytes_of_device_memory_are_counted_as_moved():
    """A transfer's start reads HBM, its end writes VMEM; the product reads one operand there."""
    clusters = {cluster.name: cluster for cluster in find_clusters(parse_hlo(TRANSFERS))}
    assert bytes_moved(clusters["copy-start"]) == 256 * 128 * 4
    assert bytes_moved(clusters["copy-done"]) == 0
    assert bytes_moved(clusters["fusion"]) == 128 * 64 * 4 + 256 * 64 * 4
    assert bytes_moved(clusters["copy.1"]) == 4


def test_the_lower_bound_of_a_product_follows_from_its_operations_and_bytes():
    module = parse_hlo(TRANSFERS)
    clusters = [cluster for cluster in find_clusters(module) if cluster.name == "fusion"]
    chip = parse_target("v5e").chip
    bound = bounds_of(module, clusters, {}, chip)["fusion"]
    operations = 2 * 256 * 128 * 64
    assert bound.matrix == operations
    assert bound.limit == "memory"
    assert bound.seconds == pytest.approx((128 * 64 + 256 * 64) * 4 / chip.bandwidth)


GPUS = ["a100", "a100-40", "h100", "h200", "b200"]


@pytest.mark.parametrize(
    ("dtype", "rates"),
    [
        ("f64", [19.5, 19.5, 67, 67, 37]),  # on tensor cores: NVIDIA's data sheets
        ("f32", [156, 156, 495, 495, 1100]),
        ("bf16", [312, 312, 989, 989, 2250]),
        ("s8", [624, 624, 1979, 1979, 4500]),
        ("u8", [624, 624, 1979, 1979, 4500]),
        ("f8e4m3fn", [624 * 2, 624 * 2, 1979, 1979, 4500]),  # no rate on A100: its highest, of s4
        ("f4e2m1fn", [624 * 2, 624 * 2, 1979, 1979, 9000]),
    ],
)
def test_products_are_bounded_by_the_rate_of_their_type(dtype, rates):
    module = parse_hlo(TRANSFERS.replace("f32[", f"{dtype}["))
    clusters = [cluster for cluster in find_clusters(module) if cluster.name == "fusion"]
    for name, rate in zip(GPUS, rates, strict=True):
        assert bounds_of(module, clusters, {}, parse_target(name).chip)["fusion"].peak == rate * 1e12


@pytest.mark.parametrize("name", GPUS)
def test_published_rates_follow_from_the_cores_of_the_gpu(name):
    """Clock times units: the data sheets round, and XLA's description of the chip has both."""
    chip = parse_target(name).chip
    cores = chip.device["core_count"] * chip.device["fpus_per_core"] * chip.device["clock_rate_ghz"] * 1e9
    assert chip.peak["f32"] == pytest.approx(2 * cores, rel=0.02)
    assert chip.peak["f64"] == pytest.approx(cores, rel=0.02)
    assert chip.peak["f64 tensor"] == pytest.approx(cores if name == "b200" else 2 * cores, rel=0.02)


def test_each_figure_of_a_chip_has_its_source_beside_it():
    text = (files("lazynb.xla.targets") / "chips.toml").read_text()
    figures = [line for line in text.splitlines() if re.search(r"=.*\d", line) and line[0] != "#"]
    figures = [line for line in figures if not line.startswith(("title", "dimensions"))]
    assert len(figures) > 70
    assert [line for line in figures if "# " not in line] == []


@pytest.mark.parametrize("target", ["v5e", "h100"])
def test_the_chip_is_in_the_inspection(target, needs):
    needs(target)
    with lazynb.lazy():
        x = jnp.ones((256, 512), jnp.bfloat16)
        y = jnp.tanh(x) @ jnp.exp(x).T
        compilation = lazynb.compile(y, target=target)
    data = inspection(compilation)
    chip = parse_target(target).chip
    assert data["chip"]["memory"] == chip.memory
    assert data["chip"]["peaks"][0][1] == max(chip.peak.values())
    assert not data["ran"] and data["machine"] is None
    products = [one["at_least"]["matrix"] for one in data["clusters"] if one["at_least"]]
    assert sum(filter(None, products)) == 2 * 256 * 256 * 512
    kernels, transfers = counts(data)
    assert f"{kernels} kernel" in headline(data) and (" transfer" in headline(data)) == (transfers > 0)
    memory = data["programs"][0]["memory"]
    assert memory["peak_bytes"] <= memory["allocated_bytes"]
    if target == "v5e":
        assert {space["name"] for space in memory["elsewhere"]} >= {"VMEM"}
        assert any(one["cycles"] for one in data["clusters"])
    assert f"of {'16 GiB' if target == 'v5e' else '79.1 GiB'}" in compilation._repr_mimebundle_()["text/html"]


def test_transfers_are_no_kernels_in_any_view(needs):
    """Of two slices, one runs as a transfer to VMEM, and the other on what another transfer brought there:
    the fates, the lines' chips and marks, the counts and the code tell of the same two kernels."""
    with lazynb.lazy():
        compilation = lazynb.compile(PROGRAMS["slices"](), target=needs("v5e"))
    data = inspection(compilation)
    kernels = {cluster["id"] for cluster in data["clusters"] if is_kernel(cluster)}
    assert counts(data) == (2, 2) and len(kernels) == 2
    assert [data["clusters"][id_]["opcode"] for id_ in sorted(kernels)] == ["slice", "subtract"]
    told = {fate["kind"]: fate for fate in data["fates"] if fate["clusters"]}
    assert told.keys() == {"own kernel", "transfer"}
    assert not kernels & set(told["transfer"]["clusters"]) and "no kernel" in told["transfer"]["text"]
    assert all((cluster["code"] is not None) == (cluster["id"] in kernels) for cluster in data["clusters"])
    labels = {cluster["label"] for cluster in data["clusters"] if cluster["id"] in kernels}
    assert {chip[0] for chips in line_chips(data).values() for chip in chips} == labels
    lines = [line for lines in kernel_lines(OneCell(), data).values() for line in lines.values()]
    assert {kernel["id"] for found, _ in lines for kernel in found} == kernels
    assert any("no kernel: a transfer" in phrase for _, phrases in lines for phrase in phrases)


class OneCell(CellIndex):
    """Takes the lines of every file for one cell's."""

    def of(self, file):
        return "cell"
