"""The pairing of operations and lines of two sides, and the record of one difference with its reasons.

Operations are aligned by :mod:`lazynb.compare.matching`, which also explains recompilations.
"""

from __future__ import annotations

import dataclasses
import difflib
import sys
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from typing import Literal, NamedTuple

from lazynb.compare.differences.compilation_side import CompilationSide, KernelFigures, Line
from lazynb.compare.matching import Alignment, common_subsequence
from lazynb.compare.program_graph import ProgramGraph, ProgramStep
from lazynb.running.record_table import plural


class LinePair(NamedTuple):
    """A line on both sides; None on a side that lacks it."""

    before: Line | None
    now: Line | None

    @property
    def shown(self) -> Line:
        """The current line, or the old line if it no longer exists."""
        line = self.now or self.before
        assert line is not None
        return line

    @property
    def is_rewritten(self) -> bool:
        """Whether both sides have the line, with different texts."""
        return self.before is not None and self.now is not None and self.before.text != self.now.text


@dataclasses.dataclass(slots=True, eq=False)
class _Step(ProgramStep):
    """A node of an inspection, as a step for the alignment."""

    made_of: Hashable = None

    @property
    def content(self) -> Hashable:
        """Key that is equal for steps that apply the same operation, as far as the inspection records it."""
        return self.made_of


class _Recorded(ProgramGraph):
    """The nodes of a side as a program graph for the alignment."""

    def __init__(self, side: CompilationSide):
        steps = [_step(side, number) for number in range(len(side.nodes))]
        super().__init__(steps, [], {})
        known = [line for line in side.lines if line is not None]
        self._texts = {(line.label, line.number): line.text for line in known}


def _step(side: CompilationSide, number: int) -> _Step:
    node, line = side.nodes[number], side.lines[number]
    is_operation = node["kind"] == "op"
    return _Step(
        number,
        sys.intern(node["primitive"] or node["name"]) if is_operation else None,
        {},
        node["name"] if is_operation else next(iter(node["names"]), ""),
        tuple(node["names"]),
        tuple([(operand, result) for operand, result in node["operands"]]),
        tuple(node["avals"]),
        scalar=None if is_operation else node["value"],
        needed=not node["dead"],
        operation=object() if is_operation else None,
        line=(line.label, line.number) if line is not None else None,
        made_of=(node["name"], tuple(node["avals"])),
    )


class CompilationMatch:
    """The paired operations and lines of two sides, ``before`` and ``now``.

    Attributes:
      now_of, before_of: node of one side → its partner on the other side.
    """

    def __init__(self, before: CompilationSide, now: CompilationSide):
        self.before, self.now = before, now
        if _key(before) <= _key(now):
            self._written, self.now_of, self.before_of = _aligned(before, now)
        else:  # several alignments can be equally good; the order of the sides must not decide
            (new, old), self.before_of, self.now_of = _aligned(now, before)
            self._written = old, new

    def __repr__(self) -> str:
        return f"CompilationMatch({plural(len(self.now_of), 'paired operation')})"

    @cached_property
    def _pairs(self) -> tuple[dict[Line, LinePair], dict[Line, LinePair]]:
        """The pair of each line of either side. Lines that share most operations are paired first."""
        votes: Counter[tuple[Line, Line]] = Counter()
        for old, new in self.now_of.items():
            a, b = self.before.lines[old], self.now.lines[new]
            if a is not None and b is not None:
                votes[a, b] += 1
        ranked = sorted(votes.items(), key=lambda vote: (-vote[1], vote[0][0].text != vote[0][1].text))
        first: dict[Line, LinePair] = {}
        second: dict[Line, LinePair] = {}
        for (a, b), _ in ranked:
            if a not in first and b not in second:
                first[a] = second[b] = LinePair(a, b)
        at = {key: line for line, key in self._written[1].items()}
        for a, key in self._written[0].items():
            if a not in first and at[key] not in second:
                first[a] = second[at[key]] = LinePair(a, at[key])
        return first, second

    def of_before(self, line: Line) -> LinePair:
        """The pair of a line of the first side."""
        return self._pairs[0].get(line) or LinePair(line, None)

    def of_now(self, line: Line) -> LinePair:
        """The pair of a line of the second side."""
        return self._pairs[1].get(line) or LinePair(None, line)

    def lines_of(self, before: frozenset[int], now: frozenset[int]) -> tuple[LinePair, ...]:
        """The lines of nodes of both sides, in program order."""
        old = [self.before.lines[node] for node in sorted(before)]
        new = [self.now.lines[node] for node in sorted(now)]
        pairs = [self.of_now(line) for line in new if line is not None]
        pairs += [self.of_before(line) for line in old if line is not None]
        return tuple(sorted(dict.fromkeys(pairs), key=_order))


def _key(side: CompilationSide) -> tuple[int, list[str], list[str]]:
    """Sort key for the two sides."""
    texts = [line.text if line is not None else "" for line in side.lines]
    return len(side.nodes), [node["name"] for node in side.nodes], texts


def _aligned(
    first: CompilationSide, second: CompilationSide
) -> tuple[tuple[_Keys, _Keys], dict[int, int], dict[int, int]]:
    """Keys of lines that correspond by text, and the partners of the operations of each side."""
    written = written_lines(first, second)

    def statement(side: int, step: ProgramStep) -> str:
        """Key that is equal for operations of lines that correspond by text."""
        line = (first, second)[side].lines[step.number]
        return "" if line is None else written[side].get(line, line.text)

    alignment = Alignment(_Recorded(first), _Recorded(second), key=statement)
    return written, dict(alignment.new), dict(alignment.old)


_Keys = dict[Line, str]


def written_lines(before: CompilationSide, now: CompilationSide) -> tuple[dict[Line, str], dict[Line, str]]:
    """Pairs lines by text, unchanged or edited: for each side, line → key, equal within a pair."""
    first, second = _in_order(before), _in_order(now)
    pairs = common_subsequence([line.text for line in first], [line.text for line in second])
    edited: list[tuple[int, int]] = []
    a = b = 0
    for x, y in [*pairs, (len(first), len(second))]:
        edited += _edited(first, second, range(a, x), range(b, y))
        a, b = x + 1, y + 1
    old: dict[Line, str] = {}
    new: dict[Line, str] = {}
    for x, y in [*pairs, *edited]:
        old[first[x]] = new[second[y]] = f"line {x} {first[x].text}"
    return old, new


def _in_order(side: CompilationSide) -> list[Line]:
    lines = {line for line in side.lines if line is not None}
    return sorted(lines, key=lambda line: (line.cell or 0, line.source or 0, line.number))


def _edited(
    first: Sequence[Line], second: Sequence[Line], old: range, new: range
) -> Iterator[tuple[int, int]]:
    """Pairs edited lines of a gap: all in order if the counts are equal, otherwise lines of similar text."""
    if len(old) == len(new):
        yield from zip(old, new, strict=True)
        return
    left = iter(new)
    for x in old:
        rest = list(left)
        found = next((y for y in rest if _alike(first[x].text, second[y].text)), None)
        left = iter(rest if found is None else rest[rest.index(found) + 1 :])
        if found is not None:
            yield x, found


def _alike(a: str, b: str) -> bool:
    return difflib.SequenceMatcher(None, a, b, autojunk=False).ratio() >= _ALIKE


_ALIKE = 0.6


def _order(pair: LinePair) -> tuple[int, int, int]:
    line = pair.shown
    return line.cell or 0, line.source or 0, line.number


# ---- A difference and its reasons -------------------------------------------------------------------------

Kind = Literal["kernels", "kernel", "memory", "donation", "time", "operations", "lowering"]


@dataclasses.dataclass(frozen=True)
class Reason:
    """A reason why one side has more kernels.

    Attributes:
      text: a phrase in the user's words.
      label: the evidence, one of lazynb's labels.
      is_now: whether it applies to the second side; otherwise it applies to the first.
      said: the compiler's own words; empty if the compiler was not queried.
      verdict: the result of an experiment; empty if there was none.
    """

    text: str
    label: str
    is_now: bool
    said: str = ""
    verdict: str = ""


@dataclasses.dataclass(frozen=True)
class CompilationChange:
    """One difference.

    Attributes:
      kind: ``kernels``: the number of kernels or the division of work among them changed; ``kernel``: the
        cost or the library of one kernel changed; ``memory``: the peak changed; ``donation``: the donation of
        an argument changed; ``time``: a kernel's time changed by more than noise; ``operations``: the user's
        program changed; ``lowering``: JAX lowers the same operations to different HLO.
      lines: the lines of both sides that it concerns; empty for the whole program.
      text: the difference, a sentence without its subject.
      reasons: the most likely first; empty if none is known.
      before, now: the figures of its kernels; None if it does not concern kernels.
      amount: change of the main figure: seconds for ``time``, bytes for kernels and memory.
    """

    kind: Kind
    lines: tuple[LinePair, ...]
    text: str
    reasons: tuple[Reason, ...] = ()
    before: KernelFigures | None = None
    now: KernelFigures | None = None
    amount: float = 0.0

    @property
    def rank(self) -> tuple[float, ...]:
        """Sort key; the most important change comes first."""
        return _RANKS[self.kind], -abs(self.amount), -self._kernels, -self._flops

    @property
    def _kernels(self) -> int:
        if self.before is None or self.now is None:
            return 0
        return abs(self.now.kernels - self.before.kernels)

    @property
    def _flops(self) -> float:
        if self.before is None or self.now is None:
            return 0.0
        return abs((self.now.flops or 0.0) - (self.before.flops or 0.0))


_RANKS = {"kernels": 0, "kernel": 0, "memory": 1, "donation": 2, "time": 3, "operations": 4, "lowering": 5}
