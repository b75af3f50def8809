"""What other ranks showed that is not what rank 0 showed."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import NamedTuple

_SHORT = 12  # lines of an output that is not folded
_STREAMS = {"stdout": "printed", "stderr": "wrote to stderr"}
_PROCESS = re.compile(
    r"0x[0-9a-f]{6,}"  # addresses in memory
    r"|(?<=ipykernel_)\d+"  # files named after the process
    r"|\d[\d.,]*\s?(?:ns|[µμu]s|ms|s|min|[kKMG]i?B)\b"  # times and sizes, which are measured
)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Told(NamedTuple):
    """What a rank showed in a cell.

    Attributes:
      streams: text of ``stdout`` and ``stderr``.
      shown: text of each object displayed; None for what is not compared.
    """

    streams: dict[str, str]
    shown: Sequence[str | None]


class Difference(NamedTuple):
    """An output that is not rank 0's.

    Attributes:
      ranks: those that have it.
      did: what they did, such as ``printed``.
      text: the output.
      unlike: whether rank 0 has another one there; it has none otherwise.
    """

    ranks: tuple[int, ...]
    did: str
    text: str
    unlike: bool

    @property
    def title(self) -> str:
        """``ranks 1, 3 printed, unlike rank 0 above:``"""
        return f"{ranks_named(self.ranks)} {self.did}{', unlike rank 0 above' if self.unlike else ''}:"


def ranks_named(ranks: Sequence[int]) -> str:
    """``rank 1``; ``ranks 0, 2``."""
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


def differences(told: Sequence[Told]) -> list[Difference]:
    """What ranks showed that rank 0 (the first) did not, each once with the ranks. A rank that shows nothing
    where rank 0 shows something is usual (``if rank == 0: print(loss)``) and not told. Times and sizes in
    memory with their units (``3.2 ms``), addresses (``0x7f...``) and the number of the process in names of
    files make no difference, because they are hardly ever equal.
    """
    found = []
    for stream, did in _STREAMS.items():
        texts = [one.streams.get(stream, "") for one in told]
        found += _grouped(did, texts, bool(texts[0].strip()))
    first = told[0].shown
    texts = ["", *(_other(first, one.shown) for one in told[1:])]
    return found + _grouped("showed", texts, bool(first))


def _other(first: Sequence[str | None], shown: Sequence[str | None]) -> str:
    """What was displayed that is not at the same place in ``first``."""
    padded = [*first, *[""] * len(shown)]
    return "\n".join(
        [
            text
            for text, own in zip(shown, padded)
            if text and own is not None and same_in_all(text) != same_in_all(own)
        ]
    )


def _grouped(did: str, texts: Sequence[str], unlike: bool) -> list[Difference]:
    ranks: dict[str, list[int]] = {}
    for rank, text in enumerate(texts[1:], 1):
        if text.strip() and same_in_all(text) != same_in_all(texts[0]):
            ranks.setdefault(same_in_all(text), []).append(rank)
    return [Difference(tuple(some), did, texts[some[0]].rstrip("\n"), unlike) for some in ranks.values()]


def same_in_all(text: str) -> str:
    """The text without what is another in each process."""
    return re.sub(r"[ \t]+", " ", _PROCESS.sub("0", text))


def as_text(found: Sequence[Difference]) -> str:
    """Each with its title, and what was shown indented."""
    lines = []
    for one in found:
        lines.append(one.title)
        lines += [f"  {line}" for line in _COLOUR.sub("", one.text).splitlines()]
    return "\n".join(lines)


def as_html(found: Sequence[Difference]) -> str:
    """Each to be opened at its title; a short one is open already, unless it is of ``stderr``."""
    return "".join(map(_folded, found))


def _folded(one: Difference) -> str:
    text = _COLOUR.sub("", one.text)
    is_open = one.did != _STREAMS["stderr"] and text.count("\n") < _SHORT
    return (
        f"<details{' open' * is_open}><summary>{html.escape(one.title)}</summary>"
        f"<pre>{html.escape(text)}</pre></details>"
    )
