"""The chips that a program can be compiled for without having one, from the table ``chips.toml``."""

from __future__ import annotations

import dataclasses
import functools
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any


@dataclasses.dataclass(frozen=True, eq=False)  # there is one of each
class Chip:
    """One row of the table.

    Attributes:
      name: what the user writes, such as ``v5e``.
      title: what the user reads.
      platform: ``tpu`` or ``cuda``, as JAX's lowering names it.
      memory: bytes of the device's own memory.
      bandwidth: bytes a second to that memory.
      vmem: bytes of the vector memory on the chip, of each core of a TPU; None where none is published.
      peak: operations a second, by type of element as HLO writes it; ``tf32`` is for f32 at low precision.
      dimensions: of a slice of such chips; 0 where chips form no grid.
      device: what XLA must be told of a GPU, by its field of ``GpuDeviceInfoProto``.
    """

    name: str
    title: str
    platform: str
    memory: int
    bandwidth: int
    peak: Mapping[str, float]
    vmem: int | None = None
    dimensions: int = 0
    device: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def configuration(self) -> str:
        """XLA's description of a GPU (``GpuTargetConfigProto`` as text); empty for a TPU."""
        if not self.device:
            return ""
        own = dict(self.device)
        description, major = own.pop("description"), own.pop("major")
        fields = {**_EVERY_GPU, **own, "device_memory_size": self.memory, "memory_bandwidth": self.bandwidth}
        written = " ".join(f"{key}: {value}" for key, value in fields.items())
        return (
            f"gpu_device_info {{ {written} cuda_compute_capability {{ major: {major} }} }} "
            'runtime_version: { major: 12 minor: 8 patch: 0 } platform_name: "CUDA" '
            f'dnn_version_info {{ major: 9 minor: 7 }} device_description_str: "{description}"'
        )


_EVERY_GPU = {
    "threads_per_block_limit": 1024,
    "threads_per_warp": 32,
    "threads_per_core_limit": 2048,
    "shared_memory_per_block": 49_152,
    "registers_per_core_limit": 65_536,
    "registers_per_block_limit": 65_536,
    "block_dim_limit_x": 2_147_483_647,
    "block_dim_limit_y": 65_535,
    "block_dim_limit_z": 65_535,
}


@functools.cache
def chips() -> Mapping[str, Chip]:
    """All chips of the table, by name."""
    table = tomllib.loads((files(__package__) / "chips.toml").read_text(encoding="utf-8"))
    return {name: Chip(name, **row) for name, row in table.items()}
