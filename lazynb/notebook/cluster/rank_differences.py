"""Differences between ranks: outputs unlike rank 0's, and the trace breaks of all ranks in one table."""

from __future__ import annotations

import dataclasses
import html
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lazynb.running.break_log import TraceBreak
from lazynb.running.record_table import SHOWN, Records, plural
from lazynb.user_code.source_lines import Place
from lazynb.user_code.text_format import duration

# ---- Outputs that differ from rank 0's ---------------------------------------------------------------------

_SHORT = 12  # lines; longer outputs are folded
_STREAMS = {"stdout": "printed", "stderr": "wrote to stderr"}
_PROCESS = re.compile(
    r"0x[0-9a-f]{6,}"  # addresses in memory
    r"|(?<=ipykernel_)\d+"  # files named after the process
    r"|\d[\d.,]*\s?(?:ns|[µμu]s|ms|s|min|[kKMG]i?B)\b"  # times and sizes, which are measured
)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class RankOutput(NamedTuple):
    """The outputs of a cell on one rank.

    Attributes:
      streams: text of ``stdout`` and ``stderr``.
      shown: text of each displayed object; None if it is not compared.
    """

    streams: dict[str, str]
    shown: Sequence[str | None]


class Difference(NamedTuple):
    """An output that differs from rank 0's.

    Attributes:
      ranks: the ranks with this output.
      did: a verb for the title, such as ``printed``.
      text: the output.
      rank0_differs: True if rank 0 has another output, False if it has none.
    """

    ranks: tuple[int, ...]
    did: str
    text: str
    rank0_differs: bool

    @property
    def title(self) -> str:
        """``ranks 1, 3 printed, unlike rank 0 above:``"""
        return f"{ranks_named(self.ranks)} {self.did}{', unlike rank 0 above' if self.rank0_differs else ''}:"


def ranks_named(ranks: Sequence[int]) -> str:
    """``rank 1``; ``ranks 0, 2``."""
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


def differences(told: Sequence[RankOutput]) -> list[Difference]:
    """Outputs that differ from those of rank 0 (the first), each once with its ranks.

    A missing output is not a difference, because ``if rank == 0: print(loss)`` is common. Times and memory
    sizes with units (``3.2 ms``), addresses (``0x7f...``) and process ids in file names are ignored, because
    they are rarely equal.
    """
    found = []
    for stream, did in _STREAMS.items():
        texts = [one.streams.get(stream, "") for one in told]
        found += _grouped(did, texts, bool(texts[0].strip()))
    first = told[0].shown
    texts = ["", *(_other(first, one.shown) for one in told[1:])]
    return found + _grouped("showed", texts, bool(first))


def _other(first: Sequence[str | None], shown: Sequence[str | None]) -> str:
    """The displayed objects that differ from the one at the same position in ``first``."""
    padded = [*first, *[""] * len(shown)]
    return "\n".join(
        [
            text
            for text, own in zip(shown, padded)
            if text and own is not None and without_process_details(text) != without_process_details(own)
        ]
    )


def _grouped(did: str, texts: Sequence[str], unlike: bool) -> list[Difference]:
    ranks: dict[str, list[int]] = {}
    for rank, text in enumerate(texts[1:], 1):
        if text.strip() and without_process_details(text) != without_process_details(texts[0]):
            ranks.setdefault(without_process_details(text), []).append(rank)
    return [Difference(tuple(some), did, texts[some[0]].rstrip("\n"), unlike) for some in ranks.values()]


def without_process_details(text: str) -> str:
    """The text without details that differ between processes: addresses, process ids, times and sizes."""
    return re.sub(r"[ \t]+", " ", _PROCESS.sub("0", text))


def as_text(found: Sequence[Difference]) -> str:
    """The differences as text: each title, and the output indented."""
    lines = []
    for one in found:
        lines.append(one.title)
        lines += [f"  {line}" for line in _COLOUR.sub("", one.text).splitlines()]
    return "\n".join(lines)


def as_html(found: Sequence[Difference]) -> str:
    """The differences as foldable sections. Short ones are open, except those of ``stderr``."""
    return "".join(map(_folded, found))


def _folded(one: Difference) -> str:
    text = _COLOUR.sub("", one.text)
    is_open = one.did != _STREAMS["stderr"] and text.count("\n") < _SHORT
    return (
        f"<details{' open' * is_open}><summary>{html.escape(one.title)}</summary>"
        f"<pre>{html.escape(text)}</pre></details>"
    )


@dataclasses.dataclass(frozen=True)
class HostBreak:
    """A trace break on some or all hosts.

    Attributes:
      code, kind, location, detail, hint: see :class:`lazynb.running.break_log.TraceBreak`.
      hosts: numbers of the hosts with this break.
      count: by host, how often it occurred.
      ops: by host, number of operations that it ran.
      seconds: by host, its cost in seconds.
      everywhere: whether it occurred on all hosts, equally often.
      gone_since: run of the cell since which it occurred on no host; None while it occurs on some host.
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
    """Trace breaks of several hosts, as a table with a row for each line and kind. Breaks that differ between
    hosts come first; in each group the costliest come first.

    Arguments:
      by_host: by host, its trace breaks.
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
        """The table rows, without the columns ``asked by`` and ``now`` if they are empty in all rows."""
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
    """One number if all are equal; otherwise each number with its host."""
    if len(set(numbers.values())) == 1:
        return f"{next(iter(numbers.values())):,}"
    return ", ".join(f"{number:,} (host {host})" for host, number in numbers.items())


def _span(seconds: Mapping[int, float]) -> str:
    least, most = duration(min(seconds.values())), duration(max(seconds.values()))
    return most if least == most else f"{least} to {most}"
