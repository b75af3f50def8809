"""Roofline: measured peak of this machine, compiler estimates, and time bounds of kernels on other chips."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from lazynb import jax_compat as jc
from lazynb.user_code import text_format
from lazynb.xla.cost.kernel_cost import Cost, kernel_costs
from lazynb.xla.hlo.clusters import Cluster, Value
from lazynb.xla.hlo.module import Module
from lazynb.xla.hlo.opcodes import OpcodeKind, opcodes_of
from lazynb.xla.hlo.shapes import memory_space, parse_arrays, shape_bytes, tuple_parts
from lazynb.xla.targets.target_chip import Chip

# ---- Estimates by the chip's compiler -------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated time of one execution of a kernel.

    Attributes:
      cycles: of the chip's clock.
      source: of the estimate.
    """

    cycles: int
    source: str = "estimated by the chip's own compiler"


_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')


def estimates(module: Module, names: Sequence[str]) -> dict[str, Estimate]:
    """Return the estimates that the optimised ``module`` states for the kernels ``names``.
    Only the TPU compiler writes them, for fusions."""
    found = {}
    for name in names:
        match = _CYCLES.search(module.by_name[name].text)
        if match is not None and int(match[1]):
            found[name] = Estimate(int(match[1]))
    return found


@dataclasses.dataclass(frozen=True, slots=True)
class MachinePeak:
    """Measured peak of a device. A figure that could not be measured is None.

    Attributes:
      flops: float32 operations a second, of a matrix product.
      bandwidth: bytes a second, of a sum over arrays larger than the last cache.
      text: how they were measured.
      cache: bytes of the largest processor cache, from the system; None if unknown or not a CPU.
    """

    flops: float | None
    bandwidth: float | None
    text: str
    cache: int | None = None


def measured_peak(device: Any = None) -> MachinePeak:
    """Measure the peak of ``device`` (a ``jax.Device``; the default device if None), once per process.
    It takes about a second and runs at once in lazy mode too. Neither lazynb's records nor a persistent
    compilation cache contain it."""
    with _lock:
        return _measured(jc.default_device() if device is None else device)


_lock = threading.Lock()
SECONDS = 0.3
"""Duration of each of the two measurements."""
FIRST_SIZE, LARGEST_SIZE = 1024, 16384
"""Rows of the matrices: doubled until one product takes at least LEAST_SECONDS."""
LEAST_SECONDS = 0.004
MIN_ARRAY, MAX_ARRAY = 64 << 20, 1 << 30
"""Bytes of an array for the bandwidth measurement."""


@functools.cache
def _measured(device: Any) -> MachinePeak:
    with _default_jax_settings():
        flops, size = _none_if_it_fails(lambda: _matmul_rate(device))
        bandwidth, length = _none_if_it_fails(lambda: _triad_bandwidth(device))
    product = "no operations a second: the product did not run"
    if flops:
        product = f"float32 product of two {size}x{size} matrices"
    triad = "no bandwidth: the sum did not run"
    if bandwidth:
        triad = f"a + 0.5 * b over arrays of {text_format.size(length)}, two read and one written"
    where = f"{_name(device)}, JAX {jax.__version__}"
    cache = (_last_cache() or None) if device.platform == "cpu" else None
    text = f"measured here ({where}), best of several runs: {product}; {triad}"
    return MachinePeak(flops, bandwidth, text, cache)


def _name(device: Any) -> str:
    if device.platform != "cpu":
        return str(device.device_kind)
    if hasattr(os, "sched_getaffinity"):
        threads: int | None = len(os.sched_getaffinity(0))
    else:
        threads = os.cpu_count()
    return f"{device.device_kind}, {threads} threads"


@contextlib.contextmanager
def _default_jax_settings() -> Iterator[None]:
    """Runs its body at once, compiled, in 32-bit mode and without cache, with any user settings."""
    with (
        jc.settings_preserved(),
        jc.set_current_trace(jc.eval_trace),
        jc.running_settings(False),
        jc.no_cache(),
    ):
        yield


def _none_if_it_fails(measure: Callable[[], tuple[float, int]]) -> tuple[float | None, int]:
    """The result of ``measure``; ``(None, 0)`` if the device cannot run it, for example out of memory."""
    try:
        return measure()
    except (RuntimeError, MemoryError):
        return None, 0


def _fastest_run(run: Callable[[], Any], seconds: float = SECONDS) -> float:
    """Seconds of the fastest of at least three runs, after one warm-up run that touches the memory."""
    jax.block_until_ready(run())
    times: list[float] = []
    while len(times) < 3 or sum(times) < seconds:
        start = time.perf_counter()
        jax.block_until_ready(run())
        times.append(time.perf_counter() - start)
    return min(times)


def _matmul_rate(device: Any) -> tuple[float, int]:
    size = FIRST_SIZE
    run = _product(size, device)
    while _fastest_run(run, 0.0) < LEAST_SECONDS and size < LARGEST_SIZE:
        size *= 2
        run = _product(size, device)
    return 2 * size**3 / _fastest_run(run), size


def _product(size: int, device: Any) -> Callable[[], Any]:
    matrix = jax.device_put(np.full((size, size), 1 / size, np.float32), device)
    product = jax.jit(lambda x: x @ x).lower(matrix).compile()
    return lambda: product(matrix)


def _triad_bandwidth(device: Any) -> tuple[float, int]:
    """Bytes a second and bytes of one array.
    The result overwrites the first operand: with fresh memory, the time that the operating system takes to
    provide it would be measured too."""
    length = MAX_ARRAY // 4
    if device.platform == "cpu":
        length = min(max(MIN_ARRAY, 2 * _last_cache()), MAX_ARRAY)
    array = np.ones(length // 4, np.float32)
    held, other = [jax.device_put(array, device)], jax.device_put(array * 1e-3, device)
    triad = jax.jit(lambda a, b: a + 0.5 * b, donate_argnums=0).lower(held[0], other).compile()

    def run() -> Any:
        held[0] = triad(held[0], other)
        return held[0]

    return 3 * length / _fastest_run(run), length


def _last_cache() -> int:
    sizes = [0]
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        with contextlib.suppress(OSError, ValueError):
            text = path.read_text().strip()
            sizes.append(int(text.rstrip("KMG")) << _SHIFTS.get(text[-1], 0))
    return max(sizes)


_SHIFTS = {"K": 10, "M": 20, "G": 30}


# ---- Time bounds on other chips -------------------------------------------------------------------------
# From published figures of the chip, without measurements.


@dataclasses.dataclass(frozen=True, slots=True)
class RooflineBound:
    """Lower bound of the time of one execution of a kernel.

    Attributes:
      seconds: the larger of memory time and arithmetic time.
      limit: ``memory`` or ``arithmetic``: the larger of the two.
      moved: bytes that it reads and writes in the chip's own memory, each array as a whole.
      matrix: operations of its matrix products and convolutions; None if unknown.
      peak: the published rate, operations a second, of the dtype that it multiplies, else the highest.
    """

    seconds: float
    limit: str
    moved: int
    matrix: float | None
    peak: float


def bounds_of(
    module: Module, clusters: Sequence[Cluster], costs: Mapping[str, Cost], chip: Chip
) -> dict[str, RooflineBound]:
    """Return, by cluster, the lower bound of its time; control clusters have none.
    The start of a transfer takes its reads and the end its writes."""
    products = _matmuls_of_clusters(module, clusters)
    figures = kernel_costs(module, [name for names in products.values() for name in names])
    bounds = {}
    for cluster in clusters:
        if cluster.kind != "control":
            own = {name: figures[name] for name in products[cluster.name]}
            bounds[cluster.name] = _bound(module, cluster, costs.get(cluster.name), own, chip)
    return bounds


def _bound(
    module: Module, cluster: Cluster, cost: Cost | None, products: Mapping[str, Cost], chip: Chip
) -> RooflineBound:
    bytes_ = bytes_moved(cluster)
    in_memory = bytes_ / chip.bandwidth
    rates = {name: peak_of(chip, _operand_type(module, name)) for name in products}
    flops = (cost.flops or 0.0) if cost is not None else 0.0
    multiplying = sum((each.flops or 0.0) / rates[name] for name, each in products.items())
    computing = max(multiplying, flops / max(chip.peak.values()))
    return RooflineBound(
        seconds=max(in_memory, computing),
        limit="arithmetic" if computing > in_memory else "memory",
        moved=bytes_,
        matrix=_matmul_flops(cluster, products),
        peak=max(rates.values(), default=max(chip.peak.values())),
    )


def _matmul_flops(cluster: Cluster, products: Mapping[str, Cost]) -> float | None:
    """Operations in matrix products; None if a library runs them or XLA's analysis has no figure."""
    figures = [each.flops for each in products.values()]
    if cluster.kind == "library" or None in figures:
        return None
    return sum(filter(None, figures))


def bytes_moved(cluster: Cluster) -> int:
    """Return the bytes that a cluster reads and writes in the device's own memory, each array as a whole."""
    values: list[Value] = []
    if not cluster.opcode.endswith(("-done", "-update")):  # the start has already read the array
        values += cluster.inputs
    if not cluster.opcode.endswith("-start"):  # the end writes the array
        values += cluster.outputs
    return sum(map(sum, map(_in_memory, values)))


def bytes_written(cluster: Cluster) -> list[int]:
    """Return the bytes of each array that a cluster writes in the device's own memory."""
    return [size for value in cluster.outputs for size in _in_memory(value)]


def _in_memory(value: Value) -> list[int]:
    """Bytes of the arrays of ``value`` in the device's own memory, without on-chip memories."""
    arrays_ = tuple_parts(value.shape) or [value.shape]
    return [shape_bytes(array) for array in arrays_ if memory_space(array) == 0]


def peak_of(chip: Chip, dtype: str) -> float:
    """Return the highest published rate of ``chip`` for matrix products of ``dtype``, in operations a second.
    For a dtype without rate it is the chip's highest: a bound, not an estimate."""
    if dtype.startswith(("f8", "f4")):
        dtype = dtype[:2]
    rates = [chip.peak[name] for name in _PRODUCT_RATES.get(dtype, (dtype,)) if name in chip.peak]
    return max(rates) if rates else max(chip.peak.values())


_PRODUCT_RATES = {"f32": ("f32", "tf32"), "f64": ("f64", "f64 tensor"), "u8": ("s8",), "u4": ("s4",)}


def _matmuls_of_clusters(module: Module, clusters: Sequence[Cluster]) -> dict[str, list[str]]:
    return {
        cluster.name: [name for name in cluster.instructions if module.by_name[name].opcode in _PRODUCTS]
        for cluster in clusters
    }


def _operand_type(module: Module, name: str) -> str:
    instruction = module.by_name[name]
    operand = module.computations[instruction.computation].instructions[instruction.operands[0]]
    return next((dtype for dtype, _, _ in parse_arrays(operand.shape)), "")


_PRODUCTS = opcodes_of(OpcodeKind.PRODUCT)
