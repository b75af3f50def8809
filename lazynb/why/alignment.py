"""Lays two programs side by side: which operation of one is which of the other.

A longest common subsequence (Myers 1986, "An O(ND) difference algorithm") of operations that agree in all,
then between those of ones that agree in name and source line, then in name. What is left over was added,
removed or replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from lazynb.why.comparable import Comparable, Step, Value

MAX_DIFFERENCES = 300
"""Differences looked for at one level: two traces with more have little in common, and only what is unique in
both is paired."""

Pairs = list[tuple[int, int]]


def common(first: Sequence[Hashable], second: Sequence[Hashable]) -> Pairs:
    """Positions of a longest common subsequence. Time: length times differences, at most
    :data:`MAX_DIFFERENCES`."""
    front = 0
    while front < min(len(first), len(second)) and first[front] == second[front]:
        front += 1
    back = 0
    while back < min(len(first), len(second)) - front and first[-1 - back] == second[-1 - back]:
        back += 1
    pairs = [(n, n) for n in range(front)]
    a, b = first[front : len(first) - back], second[front : len(second) - back]
    if a and b:
        found = _myers(a, b)
        pairs += [(i + front, j + front) for i, j in (found if found is not None else _unique(a, b))]
    return pairs + [(len(first) - n, len(second) - n) for n in range(back, 0, -1)]


def _myers(a: Sequence[Hashable], b: Sequence[Hashable]) -> Pairs | None:
    """A longest common subsequence; None where there are more than :data:`MAX_DIFFERENCES` differences."""
    furthest = {1: 0}
    history: list[dict[int, int]] = []
    for differences in range(min(len(a) + len(b), MAX_DIFFERENCES) + 1):
        history.append(dict(furthest))
        for k in range(-differences, differences + 1, 2):
            down = k == -differences or (k != differences and furthest[k - 1] < furthest[k + 1])
            x = furthest[k + 1] if down else furthest[k - 1] + 1
            y = x - k
            while x < len(a) and y < len(b) and a[x] == b[y]:
                x, y = x + 1, y + 1
            furthest[k] = x
            if x >= len(a) and y >= len(b):
                return _walk_back(history, len(a), len(b))
    return None


def _walk_back(history: Sequence[dict[int, int]], x: int, y: int) -> Pairs:
    pairs: Pairs = []
    for differences in range(len(history) - 1, -1, -1):
        furthest, k = history[differences], x - y
        down = k == -differences or (k != differences and furthest[k - 1] < furthest[k + 1])
        before = k + 1 if down else k - 1
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
    """What stands once in both, as far as it is in order."""
    places = [{key: n for n, key in enumerate(keys)} for keys in (a, b)]
    counts: list[dict[Hashable, int]] = []
    for keys in (a, b):
        count: dict[Hashable, int] = {}
        for key in keys:
            count[key] = count.get(key, 0) + 1
        counts.append(count)
    pairs: Pairs = []
    for n, key in enumerate(a):
        if counts[0][key] == 1 and counts[1].get(key) == 1 and (not pairs or places[1][key] > pairs[-1][1]):
            pairs.append((n, places[1][key]))
    return pairs


class Alignment:
    """Which step of ``before`` is which of ``now``.

    Arguments:
      by_position: the inputs are arguments of functions.
      sources: lines of the code behind the two programs.

    Attributes:
      old: by number of a step of ``now``, that of ``before``.
      new: the reverse.
    """

    def __init__(
        self,
        before: Comparable,
        now: Comparable,
        *,
        by_position: bool = False,
        sources: tuple[set[str], set[str]] | None = None,
    ):
        self.before, self.now = before, now
        self._sources = sources
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

    def _join(self, before: Step, now: Step) -> None:
        self.old[now.number], self.new[before.number] = before.number, now.number

    # ---- operations ----------------------------------------------------------------------------------------

    def _operations(self) -> None:
        same = _Same()
        levels: list[Callable[[Comparable, Step], Hashable]] = [
            lambda form, step: (same.number(step), form.text(step)),
            lambda form, step: (step.name, form.text(step)),
            lambda form, step: step.name,
        ]
        gaps = [(self.before.operations, self.now.operations)]
        for level, key in enumerate(levels):
            left: list[tuple[list[Step], list[Step]]] = []
            for a, b in gaps:
                pairs = common([key(self.before, step) for step in a], [key(self.now, step) for step in b])
                if level == 2:
                    pairs = [(i, j) for i, j in pairs if self._may_be(a[i], b[j])]
                for i, j in pairs:
                    self._join(a[i], b[j])
                left += _between(a, b, pairs)
            gaps = left
        self._gaps = gaps

    def _replaced(self) -> None:
        """In what is left between two pairs, an operation takes the place of one that had the same operands,
        or that stood on the same line."""
        for a, b in self._gaps:
            left = [step for step in a if step.number not in self.new]
            for step in b:
                if step.number in self.old:
                    continue
                found = next(
                    (
                        other
                        for other in left
                        if self._same_array_operands(other, step) and self._may_be(other, step)
                    ),
                    None,
                )
                if found is not None:
                    left.remove(found)
                    self._join(found, step)

    def _may_be(self, before: Step, now: Step) -> bool:
        """Whether the line of ``before`` may have become that of ``now``: not where either stands unchanged
        in both sources."""
        old, new = self.before.text(before), self.now.text(now)
        return old == new or self._sources is None or not (old in self._sources[1] or new in self._sources[0])

    def _same_array_operands(self, before: Step, now: Step) -> bool:
        """Whether both take the same arrays (numbers may differ), and at least one."""
        old = [value for value in before.operands if not _is_plain(self.before, value)]
        new = [value for value in now.operands if not _is_plain(self.now, value)]
        return bool(new) and len(old) == len(new) and all(map(self.same_value, old, new))

    def _moved(self) -> None:
        """What was left over on both sides, is the same and stood on the same line, changed places."""
        left = [step for step in self.before.operations if step.number not in self.new and step.needed]
        if not left:
            return
        for step in self.now.operations:
            if step.number in self.old or not step.needed:
                continue
            found = next(
                (
                    other
                    for other in left
                    if other.same_operation(step)
                    and self.before.text(other) == self.now.text(step)
                    and len(other.operands) == len(step.operands)
                ),
                None,
            )
            if found is not None:
                left.remove(found)
                self._join(found, step)

    # ---- inputs --------------------------------------------------------------------------------------------

    def _inputs(self, by_position: bool) -> None:
        """An input corresponds to that of the same name, else to what the same operation takes at the same
        place."""
        before, now = self.before, self.now
        named = {step.name: step for step in before.steps if not step.is_operation and step.name}
        for step in now.steps:
            if not step.is_operation and step.name in named:
                self._join_inputs(named[step.name], step)
        if by_position:
            given = [
                [step for step in form.steps if not step.is_operation and step.operation is None]
                for form in (before, now)
            ]
            if len(given[0]) == len(given[1]):
                for old, new in zip(*given, strict=True):
                    self._join(old, new)
        for step in now.operations:
            match = self.old.get(step.number)
            if match is None or not step.needed:
                continue
            for (a, _), (b, _) in zip(before.steps[match].operands, step.operands, strict=False):
                self._join_inputs(before.steps[a], now.steps[b])

    def _join_inputs(self, old: Step, new: Step) -> None:
        if not (old.is_operation or new.is_operation or old.number in self.new or new.number in self.old):
            self._join(old, new)


def _is_plain(form: Comparable, value: Value) -> bool:
    """Whether a value is a number of the program's own."""
    step = form.steps[value[0]]
    return not step.is_operation and step.scalar is not None


class _Same:
    """Numbers operations so that the same ones have the same number."""

    def __init__(self) -> None:
        self._by_id: dict[int, int] = {}
        self._by_content: dict[Hashable, int] = {}

    def number(self, step: Step) -> int:
        known = self._by_id.get(id(step.operation))
        if known is None:
            known = self._by_id[id(step.operation)] = self._by_content.setdefault(
                step.content, len(self._by_content)
            )
        return known


def _between(a: Sequence[Step], b: Sequence[Step], pairs: Pairs) -> list[tuple[list[Step], list[Step]]]:
    """What lies between the pairs, where both sides have something."""
    gaps, i, j = [], 0, 0
    for x, y in [*pairs, (len(a), len(b))]:
        if x > i and y > j:
            gaps.append((list(a[i:x]), list(b[j:y])))
        i, j = x + 1, y + 1
    return gaps
