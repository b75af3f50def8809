"""The trace breaks of all processes of a cluster, a row for each line and kind."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from lazynb.execute.breaks import TraceBreak
from lazynb.execute.records import SHOWN, Records, plural
from lazynb.source import Place
from lazynb.units import duration


@dataclasses.dataclass(frozen=True)
class HostBreak:
    """A trace break of some hosts or all.

    Attributes:
      code, kind, location, detail, hint: see :class:`lazynb.execute.breaks.TraceBreak`.
      hosts: the numbers of those that have it.
      count: number of times, by the number of the host.
      ops: operations that it ran, by the number of the host.
      seconds: what it cost, by the number of the host.
      everywhere: whether all hosts have it, equally often.
      gone_since: the run of a cell since which it has come on no host; None while it comes on one.
    """

    code: str
    kind: str
    location: Place
    detail: str
    hint: str
    hosts: tuple[int, ...]
    count: dict[int, int]
    ops: dict[int, int]
    seconds: dict[int, float]
    everywhere: bool
    gone_since: int | None


class MergedBreaks(Records[HostBreak]):
    """Trace breaks of several hosts; displays as a table. Those that not all hosts have alike come first, the
    costliest first among each.

    Arguments:
      by_host: the breaks of each host.
      hosts: number of hosts.
    """

    def __init__(self, by_host: Mapping[int, Sequence[TraceBreak]], hosts: int):
        groups: dict[tuple[str, str, str, int, str], dict[int, list[TraceBreak]]] = {}
        for host, breaks in sorted(by_host.items()):
            for one in breaks:
                place = one.location
                key = (one.kind, one.detail, place.file if place.cell is None else "", place.line, place.text)
                groups.setdefault(key, {}).setdefault(host, []).append(one)
        records = [_merged(group, hosts) for group in groups.values()]
        records.sort(key=lambda one: (one.gone_since is not None, one.everywhere, -max(one.seconds.values())))
        self.hosts = hosts
        super().__init__(records, f"no trace breaks on {plural(hosts, 'host')}", self._row, ranked=True)

    def rows(self, limit: int = SHOWN) -> list[dict[str, str]]:
        """As for any records, without the columns that are empty in all."""
        rows = super().rows(limit)
        empty = [column for column in ("asked by", "now") if not any(row[column] for row in rows)]
        return [{name: cell for name, cell in row.items() if name not in empty} for row in rows]

    def _row(self, record: HostBreak) -> dict[str, str]:
        every = len(record.hosts) == self.hosts
        named = ", ".join(map(str, record.hosts))
        return {
            "hosts": f"all {self.hosts}" if every else f"only {named}",
            "code": record.code,
            "kind": record.kind,
            "line": record.location.in_full,
            "asked by": record.detail,
            "now": f"gone since run {record.gone_since}" if record.gone_since is not None else "",
            "times": _each(record.count),
            "operations": _each(record.ops),
            "time": _span(record.seconds),
            "instead": record.hint,
        }


def _merged(group: Mapping[int, Sequence[TraceBreak]], hosts: int) -> HostBreak:
    first = next(iter(group.values()))[0]
    count = {host: sum(one.count for one in some) for host, some in group.items()}
    return HostBreak(
        first.code,
        first.kind,
        first.location,
        first.detail,
        first.hint,
        tuple(group),
        count,
        {host: sum(one.ops for one in some) for host, some in group.items()},
        {host: sum(one.seconds for one in some) for host, some in group.items()},
        len(group) == hosts and len(set(count.values())) == 1,
        _gone([one.gone_since for some in group.values() for one in some]),
    )


def _gone(since: Sequence[int | None]) -> int | None:
    runs = [run for run in since if run is not None]
    return max(runs) if len(runs) == len(since) else None


def _each(numbers: Mapping[int, int]) -> str:
    """One number where all are equal; else each with its host."""
    if len(set(numbers.values())) == 1:
        return f"{next(iter(numbers.values())):,}"
    return ", ".join(f"{number:,} (host {host})" for host, number in numbers.items())


def _span(seconds: Mapping[int, float]) -> str:
    """The least and the most."""
    least, most = duration(min(seconds.values())), duration(max(seconds.values()))
    return most if least == most else f"{least} to {most}"
