"""Chips to compile for, and targets (a chip and how many): ``v5e``, ``v5e:4x4``, ``h100:8``, ``cpu``."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from lazynb.errors import LazynbError
from lazynb.xla.targets.target_mesh import BadMesh, MeshLayout, layout_of_arrays, mesh_layout

# ---- Chips, from the table ``chips.toml`` ------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)  # one object per chip
class Chip:
    """One chip of the table.

    Attributes:
      name: its name for the user, such as ``v5e``.
      title: its full name.
      platform: ``tpu`` or ``cuda``, as in JAX's lowering.
      memory: bytes of device memory.
      bandwidth: bytes per second to that memory.
      vmem: bytes of vector memory (VMEM) of each TPU core; None where none is published.
      peak: operations per second, by element type as in HLO; ``tf32`` is for products of f32 at low
        precision, ``f64 tensor`` for products of f64 on tensor cores.
      dimensions: of a slice of such chips; 0 where chips form no grid.
      device: XLA's description of a GPU, by field of ``GpuDeviceInfoProto``.
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


class UnknownTarget(LazynbError, ValueError):
    """The chip, or this number of chips, does not exist; the message lists those that do."""


@dataclasses.dataclass(frozen=True)
class Target:
    """The chips that a program is compiled for.

    Attributes:
      name: in its shortest form: ``v5e:4x4``.
      chip: the kind of chip.
      shape: a TPU slice (``4x4``), or hosts and GPUs per host (``1x8``).
      layout: the mesh of all its devices; None for a program on one of them.
    """

    name: str
    chip: Chip
    shape: tuple[int, ...]
    layout: MeshLayout | None = None

    def on_mesh(self, mesh: Any = None, shards: Any = None) -> Target:
        """The target with its devices as a mesh, see :func:`lazynb.xla.targets.target_mesh.mesh_layout`.
        Raises BadMesh if mesh and shardings do not fit each other or the target."""
        made = mesh_layout(mesh, shards)
        if made is not None and made.devices != self.devices:
            raise BadMesh(f"The mesh {made} has {made.devices} devices, and {self.name} has {self.devices}.")
        return dataclasses.replace(self, layout=made)

    def for_inputs(self, values: Sequence[Any], names: Mapping[int, tuple[str, ...]]) -> Target:
        """The target for a program that reads ``values``. Without a mesh it takes the mesh of ``values``, if
        that has as many devices. Raises BadMesh if a sharding is given for an input that does not exist.

        Arguments:
          names: the user's names of arrays, by ``id``.
        """
        if self.layout is None:
            return dataclasses.replace(self, layout=layout_of_arrays(values, self.devices))
        self.layout.check_inputs(values, [names.get(id(value), ()) for value in values])
        return self

    def with_types(self, types: Sequence[tuple[Any, Any]]) -> Target:
        """The target for a program that reads types in the place of arrays.

        Arguments:
          types: pairs of an array and the type that replaces it.
        """
        if self.layout is None or not self.layout.trees:
            return self
        trees = tuple([tree.with_types(types) for tree in self.layout.trees])
        return dataclasses.replace(self, layout=dataclasses.replace(self.layout, trees=trees))

    @property
    def devices(self) -> int:
        return math.prod(self.shape)

    @property
    def title(self) -> str:
        """``TPU v5e``, ``16 TPU v5e (4x4)``, ``8 NVIDIA H100 (SXM)``; without a mesh ``one of 16 ...``."""
        if self.devices == 1:
            return self.chip.title
        which = "" if self.layout is not None else "one of "
        if self.chip.platform == "cuda" and self.shape[0] == 1:
            return f"{which}{self.devices} {self.chip.title}"
        return f"{which}{self.devices} {self.chip.title} ({'x'.join(map(str, self.shape))})"


def parse_targets(text: str) -> list[Target | None]:
    """Parses the targets in ``text``, separated by commas, without duplicates. Raises UnknownTarget if one of
    them does not exist, or ``text`` names none."""
    targets = list(dict.fromkeys(parse_target(one) for one in text.split(",") if one.strip()))
    if not targets:
        raise UnknownTarget(f"{text!r} names no chip. Write one or several, by commas: v5e, cpu,v5e,h100.")
    return targets


_WRITTEN = re.compile(r"([a-z0-9-]+)(?::(\d+(?:x\d+)*))?")


def parse_target(text: str | None) -> Target | None:
    """Parses a target; returns None for this machine (``cpu``, None). Raises UnknownTarget if there is
    none."""
    if text is None or text.strip().lower() == "cpu":
        return None
    written = _WRITTEN.fullmatch(text.strip().lower())
    if written is None:
        raise UnknownTarget(f"{text!r} is no target. Write a chip, and how many: v5e, v5e:4x4, h100:8.")
    name, shape = written[1], written[2]
    chip = chips().get(name)
    if chip is None:
        raise UnknownTarget(f"There is no chip {name!r}{_suggestion(name)}. {_known_chips()}")
    return _target(chip, tuple(map(int, shape.split("x"))) if shape else ())


def _target(chip: Chip, shape: tuple[int, ...]) -> Target:
    if 0 in shape:
        raise UnknownTarget(f"{chip.name}:{'x'.join(map(str, shape))} has no device.")
    if math.prod(shape) == 1:
        single = (1,) * (chip.dimensions or 2)
        return Target(chip.name, chip, single)
    if chip.platform == "cuda":
        return _gpu_target(chip, shape)
    if len(shape) != chip.dimensions:
        form = "x".join("4" * chip.dimensions)
        raise UnknownTarget(
            f"A slice of {chip.title} has {chip.dimensions} dimensions, such as {chip.name}:{form}; "
            f"{'x'.join(map(str, shape))} has {len(shape)}."
        )
    return Target(f"{chip.name}:{'x'.join(map(str, shape))}", chip, shape)


def _gpu_target(chip: Chip, shape: tuple[int, ...]) -> Target:
    if len(shape) > 2:
        raise UnknownTarget(
            f"Write how many {chip.title} there are ({chip.name}:8), or the hosts and the GPUs of each "
            f"({chip.name}:4x8)."
        )
    hosts, each = shape if len(shape) == 2 else (1, *shape)
    name = f"{chip.name}:{each}" if hosts == 1 else f"{chip.name}:{hosts}x{each}"
    return Target(name, chip, (hosts, each))


def _suggestion(name: str) -> str:
    close = difflib.get_close_matches(name, chips(), 1)
    return f" (did you mean {close[0]}?)" if close else ""


def _known_chips() -> str:
    return f"There are {', '.join(chips())}, and cpu for this machine's own."
