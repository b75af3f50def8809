"""Targets: a chip, and how many of it. ``v5e``, ``v5e:4x4``, ``h100:8``, ``cpu``."""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from lazynb.errors import LazynbError
from lazynb.targets.chip import Chip, chips
from lazynb.targets.mesh import BadMesh, Layout, layout, layout_of


class UnknownTarget(LazynbError, ValueError):
    """There is no such chip, or no such number of them; the message says which there are."""


@dataclasses.dataclass(frozen=True)
class Target:
    """What a program is compiled for.

    Attributes:
      name: as the user writes it, in its shortest form: ``v5e:4x4``.
      chip: its kind.
      shape: a TPU's slice (``4x4``), or the hosts and the GPUs of each (``1x8``).
      layout: the mesh of all its devices; None for a program on one of them.
    """

    name: str
    chip: Chip
    shape: tuple[int, ...]
    layout: Layout | None = None

    def on_mesh(self, mesh: Any = None, shards: Any = None) -> Target:
        """The target with its devices as a mesh, see :func:`lazynb.targets.mesh.layout`.

        Raises:
          BadMesh: they do not fit each other or the target.
        """
        made = layout(mesh, shards)
        if made is not None and made.devices != self.devices:
            raise BadMesh(f"The mesh {made} has {made.devices} devices, and {self.name} has {self.devices}.")
        return dataclasses.replace(self, layout=made)

    def for_inputs(self, values: Sequence[Any], names: Mapping[int, tuple[str, ...]]) -> Target:
        """The target for a program that reads ``values``: without a mesh it takes the one that they lie on,
        if that has as many devices.

        Arguments:
          names: the user's names of arrays, by ``id``.

        Raises:
          BadMesh: the user says how an input lies that there is not.
        """
        if self.layout is None:
            return dataclasses.replace(self, layout=layout_of(values, self.devices))
        self.layout.check_inputs(values, [names.get(id(value), ()) for value in values])
        return self

    def with_types(self, types: Sequence[tuple[Any, Any]]) -> Target:
        """The target for a program that reads types in the place of arrays.

        Arguments:
          types: pairs of an array and of what stands for it.
        """
        if self.layout is None or not self.layout.trees:
            return self
        trees = tuple([tree.with_types(types) for tree in self.layout.trees])
        return dataclasses.replace(self, layout=dataclasses.replace(self.layout, trees=trees))

    @property
    def devices(self) -> int:
        """How many there are."""
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


def parse_all(text: str) -> list[Target | None]:
    """The targets that ``text`` names, by commas, each once.

    Raises:
      UnknownTarget: one of them is none, or it names none.
    """
    targets = list(dict.fromkeys(parse(one) for one in text.split(",") if one.strip()))
    if not targets:
        raise UnknownTarget(f"{text!r} names no chip. Write one or several, by commas: v5e, cpu,v5e,h100.")
    return targets


_WRITTEN = re.compile(r"([a-z0-9-]+)(?::(\d+(?:x\d+)*))?")


def parse(text: str | None) -> Target | None:
    """The target that ``text`` names; returns None for this machine (``cpu``, None).

    Raises:
      UnknownTarget: it names none.
    """
    if text is None or text.strip().lower() == "cpu":
        return None
    written = _WRITTEN.fullmatch(text.strip().lower())
    if written is None:
        raise UnknownTarget(f"{text!r} is no target. Write a chip, and how many: v5e, v5e:4x4, h100:8.")
    name, shape = written[1], written[2]
    chip = chips().get(name)
    if chip is None:
        raise UnknownTarget(f"There is no chip {name!r}{_alike(name)}. {_known()}")
    return _of(chip, tuple(map(int, shape.split("x"))) if shape else ())


def _of(chip: Chip, shape: tuple[int, ...]) -> Target:
    if 0 in shape:
        raise UnknownTarget(f"{chip.name}:{'x'.join(map(str, shape))} has no device.")
    if math.prod(shape) == 1:
        single = (1,) * (chip.dimensions or 2)
        return Target(chip.name, chip, single)
    if chip.platform == "cuda":
        return _gpus(chip, shape)
    if len(shape) != chip.dimensions:
        form = "x".join("4" * chip.dimensions)
        raise UnknownTarget(
            f"A slice of {chip.title} has {chip.dimensions} dimensions, such as {chip.name}:{form}; "
            f"{'x'.join(map(str, shape))} has {len(shape)}."
        )
    return Target(f"{chip.name}:{'x'.join(map(str, shape))}", chip, shape)


def _gpus(chip: Chip, shape: tuple[int, ...]) -> Target:
    if len(shape) > 2:
        raise UnknownTarget(
            f"Write how many {chip.title} there are ({chip.name}:8), or the hosts and the GPUs of each "
            f"({chip.name}:4x8)."
        )
    hosts, each = shape if len(shape) == 2 else (1, *shape)
    name = f"{chip.name}:{each}" if hosts == 1 else f"{chip.name}:{hosts}x{each}"
    return Target(name, chip, (hosts, each))


def _alike(name: str) -> str:
    close = difflib.get_close_matches(name, chips(), 1)
    return f" (did you mean {close[0]}?)" if close else ""


def _known() -> str:
    return f"There are {', '.join(chips())}, and cpu for this machine's own."
