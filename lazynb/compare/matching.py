"""The alignment of two programs: pairs each operation of one with its counterpart in the other.

The first pass takes a longest common subsequence (Myers 1986, "An O(ND) difference algorithm") of operations
that are equal in everything. Between these pairs, the second pass matches name and source line, and the third
matches the name. The remaining operations were added, removed or replaced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from functools import partial

from lazynb.compare.program_graph import ProgramGraph, ProgramStep, Value

MAX_DIFFERENCES = 300
"""Limit on the differences of one level. Two traces with more have little in common, and only keys that occur
once in both are paired."""

Pairs = list[tuple[int, int]]
Gaps = list[tuple[Sequence[ProgramStep], Sequence[ProgramStep]]]
"""Unpaired steps of both programs that lie between the same two pairs."""


def common_subsequence(first: Sequence[Hashable], second: Sequence[Hashable]) -> Pairs:
    """Positions of a longest common subsequence. Time: length × differences (≤ :data:`MAX_DIFFERENCES`)."""
    front = 0
    while front < min(len(first), len(second)) and first[front] == second[front]:
        front += 1
    back = 0
    while back < min(len(first), len(second)) - front and first[-1 - back] == second[-1 - back]:
        back += 1
    pairs = [(n, n) for n in range(front)]
    a, b = first[front : len(first) - back], second[front : len(second) - back]
    if a and b:
        between = _myers(a, b)
        if between is None:
            between = _unique(a, b)
        pairs += [(i + front, j + front) for i, j in between]
    return pairs + [(len(first) - n, len(second) - n) for n in range(back, 0, -1)]


def _myers(a: Sequence[Hashable], b: Sequence[Hashable]) -> Pairs | None:
    """A longest common subsequence; None if there are more than :data:`MAX_DIFFERENCES` differences."""
    furthest = {1: 0}
    history: list[dict[int, int]] = []
    for differences in range(min(len(a) + len(b), MAX_DIFFERENCES) + 1):
        history.append(dict(furthest))
        for k in range(-differences, differences + 1, 2):
            if _is_down(furthest, differences, k):
                x = furthest[k + 1]
            else:
                x = furthest[k - 1] + 1
            y = x - k
            while x < len(a) and y < len(b) and a[x] == b[y]:
                x, y = x + 1, y + 1
            furthest[k] = x
            if x >= len(a) and y >= len(b):
                return _walk_back(history, len(a), len(b))
    return None


def _is_down(furthest: dict[int, int], differences: int, k: int) -> bool:
    """Whether the furthest path to diagonal ``k`` comes from diagonal ``k + 1``."""
    return k == -differences or (k != differences and furthest[k - 1] < furthest[k + 1])


def _walk_back(history: Sequence[dict[int, int]], x: int, y: int) -> Pairs:
    pairs: Pairs = []
    for differences in range(len(history) - 1, -1, -1):
        furthest, k = history[differences], x - y
        before = k + 1 if _is_down(furthest, differences, k) else k - 1
        from_x = furthest[before]
        from_y = from_x - before
        while x > max(from_x, 0) and y > max(from_y, 0):
            x, y = x - 1, y - 1
            pairs.append((x, y))
        if differences:
            x, y = from_x, from_y
    pairs.reverse()
    return pairs


def _unique(a: Sequence[Hashable], b: Sequence[Hashable]) -> Pairs:
    """Pairs the keys that occur exactly once in both, as far as their order agrees."""
    first, second = Counter(a), Counter(b)
    positions = {key: n for n, key in enumerate(b)}
    pairs: Pairs = []
    last = -1
    for n, key in enumerate(a):
        if first[key] == 1 and second[key] == 1 and positions[key] > last:
            last = positions[key]
            pairs.append((n, last))
    return pairs


class Alignment:
    """Pairs the steps of two programs, ``before`` and ``now``.

    Arguments:
      by_position: whether to pair inputs by position, because they are function arguments.
      sources: lines of the source code of the two programs.
      key: takes program number (0 or 1) and step; equal for corresponding statements. Default: line text.

    Attributes:
      old: number of a step of ``now`` → number of its partner in ``before``.
      new: the reverse mapping.
      key: as given.
    """

    def __init__(
        self,
        before: ProgramGraph,
        now: ProgramGraph,
        *,
        by_position: bool = False,
        sources: tuple[set[str], set[str]] | None = None,
        key: Callable[[int, ProgramStep], str] | None = None,
    ):
        self.before, self.now = before, now
        self._sources = sources
        self.key = key or (lambda side, step: (before, now)[side].text(step))
        self.old: dict[int, int] = {}
        self.new: dict[int, int] = {}
        self._operations()
        self._inputs(by_position)
        self._replaced()
        self._moved()
        self._inputs(by_position)

    def same_value(self, before: Value, now: Value) -> bool:
        """Whether the two values correspond."""
        return before[1] == now[1] and self.old.get(now[0]) == before[0]

    def same_values(self, before: Sequence[Value], now: Sequence[Value]) -> bool:
        """Whether both sequences have equal length and values at equal positions correspond."""
        return len(before) == len(now) and all(map(self.same_value, before, now))

    def _join(self, before: ProgramStep, now: ProgramStep) -> None:
        self.old[now.number], self.new[before.number] = before.number, now.number

    # ---- Operations ----------------------------------------------------------------------------------------

    def _operations(self) -> None:
        same = _OperationNumbers()
        gaps: Gaps = [(self.before.operations, self.now.operations)]
        gaps = self._pair(gaps, lambda side, step: (same.number(step), self.key(side, step)))
        gaps = self._pair(gaps, lambda side, step: (step.name, self.key(side, step)))
        self._gaps = self._pair(gaps, lambda side, step: step.name, self._lines_may_match)

    def _pair(
        self,
        gaps: Gaps,
        key: Callable[[int, ProgramStep], Hashable],
        may_be: Callable[[ProgramStep, ProgramStep], bool] = lambda before, now: True,
    ) -> Gaps:
        """Pairs steps with equal keys in each gap and returns the remaining gaps."""
        left: Gaps = []
        for a, b in gaps:
            pairs = common_subsequence([key(0, step) for step in a], [key(1, step) for step in b])
            pairs = [(i, j) for i, j in pairs if may_be(a[i], b[j])]
            for i, j in pairs:
                self._join(a[i], b[j])
            left += _between(a, b, pairs)
        return left

    def _replaced(self) -> None:
        """Pairs operations in the same gap that have the same operands: one replaced the other."""
        for a, b in self._gaps:
            left = [step for step in a if step.number not in self.new]
            self._join_first(
                left,
                b,
                lambda step: tuple(_arrays(self.before, step)),
                self._partners_of_arrays,
                self._lines_may_match,
            )

    def _lines_may_match(self, before: ProgramStep, now: ProgramStep) -> bool:
        """Whether the line of ``before`` may have become that of ``now``: each is in one source only."""
        if self._sources is None or self.key(0, before) == self.key(1, now):
            return True
        old, new = self.before.text(before), self.now.text(now)
        return old not in self._sources[1] and new not in self._sources[0]

    def _partners_of_arrays(self, step: ProgramStep) -> Hashable:
        """The values of ``before`` that correspond to the arrays that ``step`` reads; None if it reads
        none."""
        arrays = _arrays(self.now, step)
        return tuple([(self.old.get(number), result) for number, result in arrays]) if arrays else None

    def _moved(self) -> None:
        """Pairs leftover equal operations on the same line: they changed places."""
        left = [step for step in self.before.operations if step.number not in self.new and step.needed]
        if left:
            steps = [step for step in self.now.operations if step.needed]
            same = _OperationNumbers()

            def key(side: int, step: ProgramStep) -> Hashable:
                return same.number(step), self.key(side, step), len(step.operands)

            self._join_first(left, steps, partial(key, 0), partial(key, 1))

    def _join_first(
        self,
        left: Sequence[ProgramStep],
        steps: Sequence[ProgramStep],
        key_before: Callable[[ProgramStep], Hashable],
        key_now: Callable[[ProgramStep], Hashable],
        may_be: Callable[[ProgramStep, ProgramStep], bool] = lambda before, now: True,
    ) -> None:
        """Joins each unpaired step of ``steps`` with the first step in ``left`` of equal key that may be its
        partner."""
        by_key: dict[Hashable, list[ProgramStep]] = {}
        for step in left:
            by_key.setdefault(key_before(step), []).append(step)
        for step in steps:
            if step.number in self.old:
                continue
            alike = by_key.get(key_now(step), [])
            for place, other in enumerate(alike):
                if may_be(other, step):
                    del alike[place]
                    self._join(other, step)
                    break

    # ---- Inputs --------------------------------------------------------------------------------------------

    def _inputs(self, by_position: bool) -> None:
        """Pairs inputs of the same name, then inputs that a paired operation reads at the same position."""
        self._inputs_by_name()
        if by_position:
            self._arguments()
        self._inputs_by_use()

    def _inputs_by_name(self) -> None:
        named = {step.name: step for step in self.before.inputs if step.name}
        for step in self.now.inputs:
            if step.name in named:
                self._join_inputs(named[step.name], step)

    def _arguments(self) -> None:
        """Pairs the arguments of two functions if their counts are equal. Literals are not arguments."""
        before = [step for step in self.before.inputs if step.operation is None]
        now = [step for step in self.now.inputs if step.operation is None]
        if len(before) == len(now):
            for old, new in zip(before, now, strict=True):
                self._join(old, new)

    def _inputs_by_use(self) -> None:
        before, now = self.before, self.now
        for step in now.operations:
            match = self.old.get(step.number)
            if match is None or not step.needed:
                continue
            for (a, _), (b, _) in zip(before.steps[match].operands, step.operands, strict=False):
                self._join_inputs(before.steps[a], now.steps[b])

    def _join_inputs(self, old: ProgramStep, new: ProgramStep) -> None:
        if not (old.is_operation or new.is_operation or old.number in self.new or new.number in self.old):
            self._join(old, new)


def _arrays(program: ProgramGraph, step: ProgramStep) -> list[Value]:
    """The operands of ``step``, without numbers that are part of the program."""
    return [value for value in step.operands if not _is_plain(program.steps[value[0]])]


def _is_plain(step: ProgramStep) -> bool:
    """Whether a step is a number that is part of the program."""
    return not step.is_operation and step.scalar is not None


class _OperationNumbers:
    """Numbers operations; equal operations get equal numbers."""

    def __init__(self) -> None:
        self._by_id: dict[int, int] = {}
        self._by_content: dict[Hashable, int] = {}

    def number(self, step: ProgramStep) -> int:
        number = self._by_id.get(id(step.operation))
        if number is None:
            number = self._by_content.setdefault(step.content, len(self._by_content))
            self._by_id[id(step.operation)] = number
        return number


def _between(a: Sequence[ProgramStep], b: Sequence[ProgramStep], pairs: Pairs) -> Gaps:
    """The stretches between pairs in which both sides have steps."""
    gaps: Gaps = []
    i, j = 0, 0
    for x, y in [*pairs, (len(a), len(b))]:
        if x > i and y > j:
            gaps.append((list(a[i:x]), list(b[j:y])))
        i, j = x + 1, y + 1
    return gaps
