"""The form of the table: programs over eight devices, and the collectives that a person expects of each."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable

import jax
import numpy as np
from jax import shard_map
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

DEVICES = np.array(jax.devices())
LINE = Mesh(DEVICES, ("x",), axis_types=(AxisType.Auto,))
GRID = Mesh(DEVICES.reshape(2, 4), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
EXPLICIT = Mesh(DEVICES.reshape(2, 4), ("data", "model"), axis_types=(AxisType.Explicit,) * 2)


@dataclasses.dataclass(frozen=True)
class Array:
    """An argument: its shape, and how it lies on a mesh."""

    shape: tuple[int, ...]
    mesh: Mesh
    spec: P
    dtype: type = np.float32

    def make(self):
        values = np.arange(math.prod(self.shape)).reshape(self.shape) % 7
        return jax.device_put(values.astype(self.dtype), NamedSharding(self.mesh, self.spec))


def line(shape, *spec, dtype=np.float32):
    return Array(shape, LINE, P(*spec), dtype)


def grid(shape, *spec, dtype=np.float32):
    return Array(shape, GRID, P(*spec), dtype)


def explicit(shape, *spec):
    return Array(shape, EXPLICIT, P(*spec))


@dataclasses.dataclass(frozen=True)
class Said:
    """A collective as a person expects it.

    Attributes:
      kind: of XLA's.
      axes: of the mesh, by name, separated by spaces.
      line: a part of the text of the line that is named.
      by: ``code`` if the user asks for it, ``rule`` if the partitioner puts it in.
      direction: ``forward`` or ``backward``.
      times: how often it runs; None if nobody knows.
      why: a part of the reason.
    """

    kind: str
    axes: str
    line: str
    by: str = "rule"
    direction: str = "forward"
    times: int | None = 1
    why: str = ""


@dataclasses.dataclass(frozen=True)
class Program:
    """A function, its arguments, and what it makes devices say to each other.

    Attributes:
      others: the direction of collectives that are not told; empty if all are.
    """

    function: Callable
    args: tuple[Array, ...]
    said: tuple[Said, ...]
    others: str = ""

    @property
    def name(self):
        return self.function.__name__


PROGRAMS: list[Program] = []


def program(*args, said=(), others=""):
    def add(function):
        PROGRAMS.append(Program(function, args, said, others))
        return function

    return add


def mapped(mesh, ins, outs):
    return functools.partial(shard_map, mesh=mesh, in_specs=ins, out_specs=outs, check_vma=False)
