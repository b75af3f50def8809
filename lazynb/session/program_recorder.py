"""The programs that ran for a while, each once, to be measured and saved."""

from __future__ import annotations

from typing import Any

from lazynb.execute.observers import Observer, Ran
from lazynb.record.snapshot.names import names_of, user_namespace
from lazynb.record.snapshot.trace_summary import Names
from lazynb.xla.compilation import Compilation
from lazynb.xla.gathering import Gathering

_PROGRAMS = 64
_OPERATIONS = 20_000


class ProgramRecorder(Observer):
    """Notes each program when it first runs, and how often it runs.

    Attributes:
      left_out: how many programs were too many to be noted.
    """

    def __init__(self) -> None:
        self._runs: dict[int, int] = {}  # by the id of the executable, which is kept alive
        self._noted: dict[int, Gathering] = {}
        self._executables: list[Any] = []
        self._operations = 0
        self.left_out = 0

    def ran(self, event: Ran) -> None:
        executable = event.run.binding.executable
        key = id(executable)
        self._runs[key] = self._runs.get(key, 0) + 1
        if self._runs[key] > 1:
            return
        self._executables.append(executable)
        if len(self._noted) >= _PROGRAMS or self._operations > _OPERATIONS:
            self.left_out += 1
            return
        self._operations += len(event.pending)
        gathering = self._noted[key] = Gathering()
        gathering.describe(event.pending, _names())
        gathering.add(event.pending, event.tensors, event.run.binding, event.run.miss is not None)

    def compilations(self) -> list[Compilation]:
        """One for each program, in the order in which they first ran."""
        return [
            gathering.compilation(runs=[self._runs[key]], unlisted=0)
            for key, gathering in self._noted.items()
        ]


def _names() -> Names:
    try:
        return names_of(user_namespace())
    except Exception:  # one of the user's containers
        return {}
