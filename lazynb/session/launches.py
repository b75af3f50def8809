"""The kernel launches: how many kernels the programs that ran consist of, by their optimised HLO."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

from lazynb.execute.executable import Executable
from lazynb.source import Place
from lazynb.xla.clusters import find_clusters
from lazynb.xla.hlo.module import parse


@dataclasses.dataclass(frozen=True, slots=True)
class Launched:
    """A program that ran.

    Attributes:
      location: the user's line of its last operation.
      operations: recorded operations in it.
      kernels: kernels of one run, one inside a loop that XLA kept (``scan``, ``while_loop``) counted once;
        None if XLA gives no HLO.
      runs: how often it ran.
    """

    location: Place
    operations: int
    kernels: int | None
    runs: int


@dataclasses.dataclass(frozen=True, slots=True)
class Launches:
    """The programs that ran, the most launches first.

    Attributes:
      programs: each program.
      total: kernels launched, as far as XLA tells.
      unknown: how many of the programs it gives no HLO of.
    """

    programs: tuple[Launched, ...]

    @property
    def total(self) -> int:
        return sum(map(_count, self.programs))

    @property
    def unknown(self) -> int:
        return sum(program.kernels is None for program in self.programs)


def _count(program: Launched) -> int:
    """Kernels that a program launched, 0 if that is not known."""
    return (program.kernels or 0) * program.runs


class Counter:
    """Counts runs by program while they happen, and kernels when somebody asks. Keeps at most :data:`KEPT`
    programs alive."""

    def __init__(self) -> None:
        self._runs: collections.OrderedDict[Executable, int] = collections.OrderedDict()
        self._dropped: list[Launched] = []

    def note(self, executable: Executable) -> None:
        """Another run of ``executable``."""
        self._runs[executable] = self._runs.get(executable, 0) + 1
        if len(self._runs) > KEPT:
            self._dropped.append(_launched(*self._runs.popitem(last=False)))

    def launches(self) -> Launches:
        """What ran so far."""
        kept = [_launched(executable, runs) for executable, runs in self._runs.items()]
        return Launches(tuple(sorted([*self._dropped, *kept], key=_count, reverse=True)))


KEPT = 1_000


def _launched(executable: Executable, runs: int) -> Launched:
    return Launched(executable.place, executable.operations, kernels_of(executable.compiled), runs)


def kernels_of(compiled: Any) -> int | None:
    """Kernels in JAX's compiled object; returns None if the backend gives no HLO."""
    try:
        text = compiled.as_text()
    except Exception:  # each backend has its own error for "no HLO"
        return None
    if not text:
        return None
    return sum(cluster.is_kernel for cluster in find_clusters(parse(text)))
