"""Errors of a cell that several processes ran: shown once, with the ranks that had them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lazynb.errors import HostMissingError, HostsDifferError, LazynbError
from lazynb.notebook.cluster.differing import ranks_named, same_in_all

_BY_KIND = (HostMissingError.__name__, HostsDifferError.__name__)
"""Errors of which the text says which host raised it."""


class Failure(NamedTuple):
    """An error in a process.

    Attributes:
      name: of its class.
      text: its message.
      traceback: as that process shows it.
    """

    name: str
    text: str
    traceback: Sequence[str]


class RanksError(LazynbError):
    """A cell raised an error on ranks of the cluster. It displays as the error does there.

    Attributes:
      failures: the error of each rank that had one, a :class:`Failure`.
      count: number of ranks.
    """

    def __init__(self, failures: Mapping[int, Failure], count: int):
        self.failures, self.count = dict(failures), count
        super().__init__("; ".join(map(self._line, _groups(failures))))

    def _line(self, ranks: tuple[int, ...]) -> str:
        one = self.failures[ranks[0]]
        return f"{one.name} on {_named(ranks, self.count)}: {one.text}"

    def _render_traceback_(self) -> list[str]:
        return rendered(self.failures, self.count)


class RanksInterrupted(KeyboardInterrupt):
    """An interrupt that reached the ranks of the cluster. Attributes as of :class:`RanksError`."""

    def __init__(self, failures: Mapping[int, Failure], count: int, silent: Sequence[int] = ()):
        self.failures, self.count = dict(failures), count
        self.silent = tuple(silent)
        super().__init__(_unanswered(silent))

    def _render_traceback_(self) -> list[str]:
        lines = rendered(self.failures, self.count)
        return [*lines, *([_unanswered(self.silent)] if self.silent else [])]


def _unanswered(ranks: Sequence[int]) -> str:
    if not ranks:
        return "interrupted on all ranks"
    verb = "does" if len(ranks) == 1 else "do"
    return (
        f"{ranks_named(ranks)} {verb} not answer an interrupt and may still run the cell; "
        "%lazy cluster off ends all processes"
    )


def rendered(failures: Mapping[int, Failure], count: int) -> list[str]:
    """Parts of a traceback: each error once, with the ranks that had it; one that others followed first."""
    parts = []
    for number, ranks in enumerate(_groups(failures)):
        one = failures[ranks[0]]
        if number == 0:
            parts += [f"On {_named(ranks, count)}:", *one.traceback]
        else:
            parts.append(f"On {_named(ranks, count)}: {one.name}: {one.text}")
    return parts


def _named(ranks: Sequence[int], count: int) -> str:
    return f"all {count} ranks" if len(ranks) == count > 1 else f"{ranks_named(ranks)} of {count}"


def _groups(failures: Mapping[int, Failure]) -> list[tuple[int, ...]]:
    """The ranks of each error. What a rank raised because another one did not come stands last."""
    groups: dict[Any, list[int]] = {}
    for rank, one in sorted(failures.items()):
        text = "" if one.name in _BY_KIND else same_in_all(one.text)
        groups.setdefault((one.name, text), []).append(rank)
    order = sorted(groups, key=lambda key: (_rank_of(key[0]), groups[key]))
    return [tuple(groups[key]) for key in order]


def _rank_of(name: str) -> int:
    """How late an error of this name stands."""
    return {HostMissingError.__name__: 1, "KeyboardInterrupt": 2}.get(name, 0)
