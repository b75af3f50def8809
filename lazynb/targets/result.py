"""What the worker is asked, and what it answers."""

from __future__ import annotations

import dataclasses
from typing import Any

from lazynb._jax import Lowering


@dataclasses.dataclass(frozen=True)
class Question:
    """A compilation.

    Attributes:
      topology: JAX's name of the devices, such as ``v5e:4x4``; hosts and devices of GPUs.
      platform: ``tpu`` or ``cuda``.
      configuration: XLA's description of a GPU; empty for a TPU.
      is_single: whether that is one chip; a host has four of them else.
      mesh: sizes of the axes of the mesh that the program runs on; empty for one device.
      lowering: the program.
      options: of the compiler.
    """

    topology: str
    platform: str
    configuration: str
    is_single: bool
    mesh: tuple[int, ...]
    lowering: Lowering
    options: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a compiler made of a program.

    Attributes:
      text: optimised HLO.
      memory: XLA's memory analysis by its names, in bytes for each device.
      cost: XLA's cost analysis by its names; None if the compiler gives none.
      seconds: of the compilation alone.
    """

    text: str
    memory: dict[str, int]
    cost: dict[str, float] | None
    seconds: float


@dataclasses.dataclass(frozen=True)
class CostQuestion:
    """A cost analysis: XLA's own may end the process on another chip's HLO.

    Attributes:
      texts: modules of HLO.
    """

    texts: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class CostAnswer:
    """What XLA says that modules cost.

    Attributes:
      figures: of each, by XLA's names; None if there is no such analysis; a sentence if it cannot be read.
    """

    figures: tuple[dict[str, float] | str | None, ...]


@dataclasses.dataclass(frozen=True)
class Refused:
    """The compiler raised an error.

    Attributes:
      kind: the class of the error.
      message: its text.
      at: ``topology``, ``mesh`` or ``compile``.
    """

    kind: str
    message: str
    at: str
